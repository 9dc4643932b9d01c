"""Access: one connection within one transaction, and the moment at which it happens; what every transition works on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import apsw
import msgspec

from perdure.errors import PerdureError, StoreCorrupt
from perdure.stores.sqlite.troubles import refusal

Value = int | float | str | bytes | None
Row = tuple[Value, ...]
T = TypeVar("T")

to_json = msgspec.json.encode


class Unreadable(StoreCorrupt):
    """A text in the store is no UTF-8."""

    def __init__(self, error: UnicodeDecodeError) -> None:
        super().__init__(f"the store is damaged: it holds a text that is none ({error}). `perdure doctor` names it")


class HalfDone(Exception):
    """A transition was refused after it had written: its group is done again, with savepoints."""


class Access:
    """A connection and the time. Transitions check first and write then, so what they refuse has nearly never written.

    So a group needs no savepoints, which cost more than they are worth, unless one turns out to be needed.
    """

    __slots__ = ("_cursor", "careful", "connection", "now_us", "states", "undo")

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.now_us = 0
        self.careful = False
        self.states: dict[int, Row] = {}  # rows of states that this connection has written last, as far as it knows
        self.undo: list[Callable[[], object]] = []  # what to do outside, should all this not be committed
        self._cursor: Any = connection.cursor()

    def row(self, sql: str, *values: Value) -> Row | None:
        """The first row."""
        try:
            return self._cursor.execute(sql, values).fetchone()
        except UnicodeDecodeError as error:
            raise Unreadable(error) from None

    def rows(self, sql: str, *values: Value) -> list[Row]:
        try:
            return self._cursor.execute(sql, values).fetchall()
        except UnicodeDecodeError as error:
            raise Unreadable(error) from None

    def each(self, sql: str) -> Iterator[Row]:
        """All rows, one at a time, while other statements go on."""
        cursor: Any = self.connection.cursor()
        yield from cursor.execute(sql)

    def number(self, sql: str, *values: Value) -> int | None:
        """The first column of the first row, which is a whole number."""
        row = self.row(sql, *values)
        return None if row is None else int_of(row[0])

    def numbers(self, sql: str, *values: Value) -> list[int]:
        return [number for row in self.rows(sql, *values) if (number := int_of(row[0])) is not None]

    def texts(self, sql: str, *values: Value) -> list[str]:
        return [row[0] for row in self.rows(sql, *values) if isinstance(row[0], str)]

    def write(self, sql: str, *values: Value) -> None:
        self._cursor.execute(sql, values)

    def write_row(self, sql: str, values: Row) -> None:
        self._cursor.execute(sql, values)

    def write_many(self, sql: str, rows: Sequence[Row]) -> None:
        if len(rows) == 1:
            self._cursor.execute(sql, rows[0])
        elif rows:
            self._cursor.executemany(sql, rows)

    def write_script(self, statements: str) -> None:
        """Several statements, none with parameters."""
        self._cursor.execute(statements).fetchall()

    def alone(self, call: Callable[[], T]) -> T | PerdureError:
        """What this call gives, or is refused with; a refusal has written nothing. `HalfDone`, `apsw.Error`."""
        if self.careful:
            return self._within_savepoint(call)
        before = self.connection.total_changes()
        try:
            return call()
        except (HalfDone, apsw.Error) as error:
            if not isinstance(error, apsw.ConstraintError):
                raise
            raise HalfDone from error
        except Exception as error:
            if self.connection.total_changes() != before:
                raise HalfDone from error
            return refusal(error)

    def _within_savepoint(self, call: Callable[[], T]) -> T | PerdureError:
        self._cursor.execute("savepoint alone")
        try:
            given: T | PerdureError = call()
        except Exception as error:
            if isinstance(error, apsw.Error) and not isinstance(error, apsw.ConstraintError):
                raise
            self._cursor.execute("rollback to alone")
            self.states.clear()
            given = refusal(error)
        self._cursor.execute("release alone")
        return given


def int_of(value: Value) -> int | None:
    """What stands in a column of whole numbers; a value of another type is damage, found by its row's seal."""
    return value if isinstance(value, int) else None


def json_of(values: Iterable[str | int]) -> str:
    """A list of values as one parameter, for json_each."""
    return to_json(list(values)).decode()
