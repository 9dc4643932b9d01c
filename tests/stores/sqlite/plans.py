"""How SQLite goes about a statement, on a file with something in every table."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw

from tests.stores.sqlite.files import fill, with_store


@contextmanager
def filled(folder: Path) -> Generator[apsw.Connection]:
    """A connection to such a file."""
    path = folder / "store.db"
    with_store(path, fill, threads=False)
    with closing(apsw.Connection(str(path))) as connection:
        yield connection


def plan(connection: apsw.Connection, statement: str) -> list[str]:
    """The steps in which SQLite goes about a statement."""
    cursor: Any = connection.cursor()
    asked = {int(number) for number in re.findall(r"\?(\d+)", statement)}
    values = [None] * (max(asked) if asked else statement.count("?"))
    return [row[3] for row in cursor.execute(f"explain query plan {statement}", values)]
