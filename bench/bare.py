"""The yardstick of the disk: what single durable commits cost on SQLite with nothing around it.

Measured in the same run as everything that is compared with it: only the ratios count.
"""

from __future__ import annotations

import time
from typing import Any

import apsw

BODY = "x" * 300
FULL = 2
WARM_UP = 1_200  # commits, after which the log has been gone round once: it is overwritten from then on, not extended


class Bare:
    """One writer, one connection, WAL, synchronous FULL, one row for each commit."""

    def __init__(self, path: str) -> None:
        self._connection: Any = apsw.Connection(path)
        connection = self._connection
        if connection.pragma("journal_mode", "wal") != "wal":
            raise AssertionError("this file system has no WAL")
        connection.pragma("synchronous", "full")
        if connection.pragma("synchronous") != FULL:
            raise AssertionError("what is not flushed is no yardstick")
        connection.execute("create table floor_rows (id integer primary key, body text not null)")
        self.commit(WARM_UP)

    def commit(self, count: int) -> float:
        """Commit so often; commits a second."""
        began = time.perf_counter()
        for _ in range(count):
            self._connection.execute("insert into floor_rows (body) values (?)", (BODY,))
        return count / (time.perf_counter() - began)

    def close(self) -> None:
        """It is not needed any more."""
        self._connection.close()
