"""The store in one SQLite file: opened, closed, verified; and told when somebody else writes to it.

START HERE. A call of the port (sides) is a transition (one module for each table) that queues up for a connection
(lines) and is made in one transaction with all that waits (groups). Rows are sealed and verified (rows).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import Any

import apsw

from perdure.clock import Clock
from perdure.errors import StoreUnavailable
from perdure.stores.port import OpenTransaction
from perdure.stores.records import Damage
from perdure.stores.sqlite import intruders, sql
from perdure.stores.sqlite.access import Access
from perdure.stores.sqlite.bells import Bell
from perdure.stores.sqlite.changes import Notices, neighbours
from perdure.stores.sqlite.groups import Reader, Writer
from perdure.stores.sqlite.lines import Gate, StraightLine, ThreadLine, in_thread, resolve
from perdure.stores.sqlite.locks import LeaseLocks
from perdure.stores.sqlite.opening import open_reader, open_writer
from perdure.stores.sqlite.part import Lines
from perdure.stores.sqlite.pipeline_sides import SqliteEvents, SqliteHandlerRuns, SqlitePipelines
from perdure.stores.sqlite.sides import (
    SqliteLeases,
    SqliteMessages,
    SqlitePrompt,
    SqliteQuestions,
    SqliteRuns,
    SqliteTasks,
    SqliteTurns,
)
from perdure.stores.sqlite.transactions import Transaction
from perdure.stores.sqlite.troubles import patiently, trouble
from perdure.stores.sqlite.verify import verify
from perdure.stores.sqlite.writing import WritingLine


class SqliteStore(
    SqliteRuns,
    SqliteMessages,
    SqliteTurns,
    SqlitePrompt,
    SqliteTasks,
    SqliteLeases,
    SqliteQuestions,
    SqlitePipelines,
    SqliteHandlerRuns,
    SqliteEvents,
):
    """perdure.stores.port.Store in a file, which several processes may use. Its leases end with it at the latest.

    Without `threads` everything happens on the calling thread, and changes by other processes are not noticed.
    """

    def __init__(self, path: str | os.PathLike[str], clock: Clock, *, threads: bool = True, vfs: str | None = None):
        self.url = f"sqlite:///{os.fspath(path)}"
        self.others_possible = True
        self._path = os.path.realpath(path)
        self._clock = clock
        self._threads = threads
        self._vfs = vfs
        self._locks = LeaseLocks(self._path)
        self._notices = Notices()
        self._connections: list[apsw.Connection] = []
        self._version: Callable[[], object] = lambda: None  # of what others have written
        self._seen: object = None
        self._writer: Writer | None = None
        self._bell: Bell | None = None

    # --- opening and closing ----------------------------------------------------------------

    async def open(self) -> None:
        if self._lines is None:
            await self._away(self._connect)
            self._lines = self._draw_lines()
            intruders.guard(self._path)
            if not self._threads:
                neighbours.join(self._path, self._notices)
            self._watch()

    async def close(self) -> None:
        lines, self._lines = self._lines, None
        if lines is None:
            return
        for line in (lines.writing, lines.reading, lines.scanning):
            await line.stop()
        if self._bell is not None:
            self._bell.close()
        if not self._threads:
            neighbours.leave(self._path, self._notices)
        await self._away(self._disconnect)
        intruders.unguard(self._path)

    async def _away(self, work: Callable[[], Any]) -> None:
        """Do this on a thread, unless there shall be none."""
        if self._threads:
            await in_thread(work)
        else:
            work()

    def _connect(self) -> None:
        writer = open_writer(self._path, self._vfs)
        self._connections = [writer]
        cursor: Any = writer.cursor()
        self._version = lambda: cursor.execute("pragma data_version").fetchall()  # to its end: it would go on reading
        try:
            for scans in (False, True) if self._threads else ():
                self._connections.append(open_reader(self._path, self._vfs, plans_anew=scans))
            self._seen = patiently(self._version)
        except (StoreUnavailable, apsw.Error) as error:
            self._disconnect()
            raise trouble(self._path, error) if isinstance(error, apsw.Error) else error from None

    def _disconnect(self) -> None:
        for connection in reversed(self._connections):
            with suppress(apsw.Error):  # no room to tidy up in: the log has it all, and the next one finds it there
                connection.close()
        self._connections.clear()
        self._locks.let_go()

    def _draw_lines(self) -> Lines:
        writing, *reading = self._connections
        writer = Writer(self._path, writing, self._clock, partial(neighbours.tell, self._path, self._notices))
        readers = [Reader(self._path, connection, self._clock) for connection in reading or [writing]]
        self._writer = writer
        if not self._threads:
            lock, gate = Lock(), Gate()
            straight = StraightLine(readers[0].run, lock, gate)
            return Lines(StraightLine(writer.run_and_tidy, lock, gate), straight, straight)
        self._bell = bell = Bell(resolve)
        return Lines(
            WritingLine("perdure-sqlite-writer", writer, self._clock.monotonic, bell),
            ThreadLine("perdure-sqlite-reader", readers[0].run, self._clock.monotonic, bell),
            ThreadLine("perdure-sqlite-scanner", readers[1].run, self._clock.monotonic, bell),
        )

    # --- transactional activities ------------------------------------------------------------

    def begin_transaction(self, seconds: float) -> OpenTransaction:
        writer = self._writer
        assert writer is not None
        transaction = Transaction(writer, self._path, seconds)
        self._opened().writing.hold(transaction)
        return transaction

    # --- changes ----------------------------------------------------------------------------

    def on_change(self, call: Callable[[], object]) -> Callable[[], None]:
        self._notices.add(call)
        self._watch()
        return partial(self._forget, call)

    def _forget(self, call: Callable[[], object]) -> None:
        self._notices.remove(call)
        self._watch()

    def _watch(self) -> None:
        if self._lines is not None and isinstance(self._lines.writing, WritingLine):
            self._lines.writing.tick(self._look if self._notices else None)

    def _look(self) -> None:
        """See whether another connection has written. On the writer's thread, as only its connection can tell."""
        try:
            seen = self._version()
        except apsw.Error:
            return  # the next call says what is wrong
        if seen != self._seen:
            self._seen = seen
            self._notices.tell()

    # --- for people -------------------------------------------------------------------------

    async def verify(self) -> list[Damage]:
        return await self._scan(verify)

    async def counts(self) -> Mapping[str, Any]:
        return await self._scan(_counts)


def _counts(access: Access) -> dict[str, Any]:
    row = access.row(sql.COUNTS)
    assert row is not None
    of_runs = ("runs", "turns", "messages", "tasks", "leases", "questions")
    return dict(zip((*of_runs, "pipelines", "handler_runs", "events"), row, strict=True))
