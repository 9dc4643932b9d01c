"""Streams: tables read row by row to be verified, and what is found damaged on the way (E9).

In:  verify and pipeline_verify. Rows are read with their texts as bytes, so that one that is no text hides no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from perdure.errors import StoreCorrupt
from perdure.stores.records import Damage
from perdure.stores.sqlite.access import Access, Row
from perdure.stores.sqlite.rows import DamagedRow, key_of

Read = Callable[[Row], Any]
BLOB = b"\xfe"  # what no text begins with
READABLE = {  # how a column is read that may hold texts
    "TEXT": "cast({column} as blob)",
    "ANY": (
        "case typeof({column}) when 'text' then cast({column} as blob)"
        " when 'blob' then cast(x'fe' || {column} as blob) else {column} end"
    ),
}


def read_all(table: str, rows: list[Row], read: Read, run_id: str | None) -> tuple[list[Any], list[Damage]]:
    """These rows, None for one that is damaged; and the damages."""
    whole: list[Any] = []
    found: list[Damage] = []
    for row in rows:
        value, damages = read_one(table, row, read, run_id)
        found += damages
        whole.append(value)
    return whole, found


def read_one(table: str, row: Row, read: Read, run_id: str | None = None) -> tuple[Any, list[Damage]]:
    """This row, or its damage."""
    try:
        return read(row), []
    except StoreCorrupt as error:
        return None, [damage_of(table, key_of(row[0]), error, run_id)]


def damage_of(table: str, row: str, error: StoreCorrupt, run_id: str | None = None) -> Damage:
    """What an error says."""
    if isinstance(error, DamagedRow):
        found = error.damage
        return found if found.run_id else Damage(found.table, found.row, found.problem, run_id)
    return Damage(table=table, row=row, problem=str(error), run_id=run_id)


class Stream:
    """The rows of a table in the order of what they belong to."""

    def __init__(self, access: Access, table: str, order: str, key_at: int = 0, key_bits: int = 0) -> None:
        """`order`: of the rows; `key_at`: the column that says what they belong to, without its last `key_bits`."""
        self._key_at = key_at
        self._key_bits = key_bits
        columns = access.rows(f"pragma table_info({table})")
        self._texts = [at for at, column in enumerate(columns) if column[2] in READABLE]
        chosen = [READABLE.get(str(column[2]), "{column}").format(column=column[1]) for column in columns]
        self._rows = access.each(f"select {', '.join(chosen)} from {table} order by {order}")
        self._next = next(self._rows, None)

    @property
    def key(self) -> int | None:
        """What the next row belongs to; None at the end."""
        key = None if self._next is None else self._next[self._key_at]
        return key >> self._key_bits if isinstance(key, int) else None

    def take(self, key: int) -> Iterator[Row]:
        """The rows that belong to this one."""
        while self._next is not None and self.key == key:
            yield self._readable(self._next)
            self._next = next(self._rows, None)

    def rest(self) -> Iterator[Row]:
        """All that are left."""
        while self._next is not None:
            yield self._readable(self._next)
            self._next = next(self._rows, None)

    def _readable(self, row: Row) -> Row:
        """The row with its texts; what is no text stays as bytes, and fits no seal."""
        values = list(row)
        for at in self._texts:
            value = values[at]
            if isinstance(value, bytes):
                values[at] = _text(value)
        return tuple(values)


def _text(value: bytes) -> str | bytes:
    if value.startswith(BLOB):
        return value[len(BLOB) :]
    try:
        return value.decode()
    except UnicodeDecodeError:
        return b"\xff" + value  # base64 of this is no text that was ever there
