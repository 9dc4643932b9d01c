"""Transactions: what a transactional activity writes, in one with its answer (E5); nobody else writes meanwhile.

The writer's connection is handed over from the first statement to the end: the thread that has it does what the
activity asks, one after the other, and what waits for it goes on afterwards. An authorizer keeps the activity's
statements to its own tables, and a limit keeps it from holding up everybody else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any

import apsw

from perdure.errors import InvalidValue, PerdureError, TransactionFailed, TransactionTimeout, UsageError
from perdure.stores.port import Params
from perdure.stores.records import Report
from perdure.stores.sqlite import migrations, tasks
from perdure.stores.sqlite.groups import Writer
from perdure.stores.sqlite.troubles import refusal, trouble

STEPS_BETWEEN_LOOKS = 20_000  # of SQLite's virtual machine: a fraction of a millisecond
FATAL = (
    apsw.FullError,
    apsw.IOError,
    apsw.CantOpenError,
    apsw.ReadOnlyError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.NoMemError,
    apsw.BusyError,
)
Work = Callable[["Transaction"], Any]
Orders = SimpleQueue[tuple[Work, "Future[Any]"]]


class Transaction:
    """perdure.stores.port.OpenTransaction. Its methods may be called in any thread, and never wait."""

    def __init__(self, writer: Writer, path: str, seconds: float) -> None:
        self._writer = writer
        self._path = path
        self.seconds = seconds
        self._guard = Guard()
        self._orders: Orders = SimpleQueue()
        self._lock = Lock()
        self._late_at = 0.0
        self.began = False
        self.over: PerdureError | None = None  # why nothing more can be done in it
        self.on_order: Callable[[], object] | None = None  # where no thread waits for orders

    def execute(self, sql: str, params: Params) -> Future[list[tuple[Any, ...]]]:
        return self._order(lambda self: self._execute(sql, params))

    def commit(self, report: Report) -> Future[bool]:
        return self._order(lambda self: self._commit(report))

    def roll_back(self) -> Future[None]:
        return self._order(lambda self: self.end(TransactionFailed("the transaction was rolled back")))

    def _order(self, work: Work) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            if self.over is not None:
                future.set_exception(self.over)
                return future
            self._orders.put((work, future))
        if self.on_order is not None:
            self.on_order()
        return future

    # --- where the connection is ------------------------------------------------------------------

    def serve(self) -> None:
        """Begin, and do what is asked until the end or the limit. On the writer's thread."""
        self.begin()
        while self.over is None:
            try:
                work, future = self._orders.get(timeout=max(0.0, self._late_at - self._writer.clock.monotonic()))
            except Empty:
                self.time_out()
            else:
                self._do(work, future)

    def serve_waiting(self) -> None:
        """Do what has been asked so far, where the connection has no thread."""
        if not self.began:
            self.begin()
        while self.over is None and not self._orders.empty():
            self._do(*self._orders.get())

    def begin(self) -> None:
        """Take the write lock; whoever else has it is waited for."""
        self.began = True
        try:
            access = self._writer.begin()
        except Exception as error:
            self._close(trouble(self._path, error) if isinstance(error, apsw.Error) else refusal(error))
            return
        self._late_at = self._writer.clock.monotonic() + self.seconds
        access.connection.authorizer = self._guard
        access.connection.set_progress_handler(self._is_late, STEPS_BETWEEN_LOOKS)

    def time_out(self) -> None:
        """It has held up everybody else for too long."""
        self.end(_too_long(self.seconds))

    def end(self, why: PerdureError) -> None:
        """Take everything back."""
        self._let_go()
        self._writer.end(commit=False)
        self._close(why)

    def _do(self, work: Work, future: Future[Any]) -> None:
        try:
            future.set_result(work(self))
        except Exception as error:
            future.set_exception(error)

    def _execute(self, sql: str, params: Params) -> list[tuple[Any, ...]]:
        access = self._writer.access
        self._guard.refused = ""
        cursor: Any = access.connection.cursor()
        try:
            return cursor.execute(sql, params).fetchall()
        except apsw.AuthError as error:
            raise UsageError(self._guard.words(sql)) from error
        except apsw.InterruptError:
            self.time_out()
            raise _too_long(self.seconds) from None
        except apsw.Error as error:
            if isinstance(error, FATAL) or not access.connection.in_transaction:
                self.end(trouble(self._path, error))
                assert self.over is not None
                raise self.over from error
            if "VACUUM" in str(error):
                raise UsageError(self._guard.words(sql, "VACUUM")) from error
            raise TransactionFailed(f"SQLite refused {_short(sql)}: {error}") from error
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidValue(f"{_short(sql)} cannot be executed with these parameters: {error}") from error

    def _commit(self, report: Report) -> bool:
        """Write what it came to beside what it wrote; False, and nothing, if it is not this worker's any more."""
        self._let_go()
        access = self._writer.access
        try:
            access.now_us = self._writer.clock.now_us()
            is_ours = tasks.report(access, report)
            self._writer.end(commit=is_ours)
        except Exception as error:
            self._writer.end(commit=False)
            self._close(trouble(self._path, error) if isinstance(error, apsw.Error) else refusal(error))
            assert self.over is not None
            raise self.over from error
        self._close(TransactionFailed("the transaction has ended"))
        return is_ours

    def _let_go(self) -> None:
        connection = self._writer.access.connection
        connection.set_progress_handler(None)
        connection.authorizer = None

    def _close(self, why: PerdureError) -> None:
        with self._lock:
            self.over = why
        while not self._orders.empty():
            self._orders.get()[1].set_exception(why)

    def _is_late(self) -> bool:
        return self._writer.clock.monotonic() > self._late_at


class Guard:
    """The authorizer: an activity's statements reach its own tables, and end or begin no transaction."""

    def __init__(self) -> None:
        self._tables = our_tables()
        self.refused = ""

    def __call__(self, operation: int, first: str | None, second: str | None, *_: str | None) -> int:
        """Asked for whatever a statement would do."""
        if operation in NEVER:
            self.refused = NEVER[operation]
        elif operation in ON_FIRST and (first or "").lower() in self._tables:
            self.refused = f"what touches Perdure's own table `{first}`"
        elif operation in ON_SECOND and (second or "").lower() in self._tables:
            self.refused = f"what touches Perdure's own table `{second}`"
        else:
            return apsw.SQLITE_OK
        return apsw.SQLITE_DENY

    def words(self, sql: str, refused: str | None = None) -> str:
        """Why a statement was refused."""
        return (
            f"{_short(sql)}: a transactional activity may not use {refused or self.refused}. Its transaction begins "
            "with its first statement and ends when it returns; this statement did nothing"
        )


NEVER = {
    apsw.SQLITE_TRANSACTION: "BEGIN, COMMIT or ROLLBACK",
    apsw.SQLITE_SAVEPOINT: "SAVEPOINT",
    apsw.SQLITE_ATTACH: "ATTACH or VACUUM",
    apsw.SQLITE_DETACH: "DETACH",
    apsw.SQLITE_PRAGMA: "PRAGMA",
    apsw.SQLITE_CREATE_TEMP_INDEX: "what is temporary",
    apsw.SQLITE_CREATE_TEMP_TABLE: "what is temporary",
    apsw.SQLITE_CREATE_TEMP_TRIGGER: "what is temporary",
    apsw.SQLITE_CREATE_TEMP_VIEW: "what is temporary",
}
ON_FIRST = frozenset(
    {
        apsw.SQLITE_READ,
        apsw.SQLITE_INSERT,
        apsw.SQLITE_UPDATE,
        apsw.SQLITE_DELETE,
        apsw.SQLITE_ANALYZE,
        apsw.SQLITE_CREATE_TABLE,
        apsw.SQLITE_CREATE_VIEW,
        apsw.SQLITE_CREATE_VTABLE,
        apsw.SQLITE_DROP_TABLE,
        apsw.SQLITE_DROP_VIEW,
        apsw.SQLITE_DROP_VTABLE,
    }
)
ON_SECOND = frozenset(
    {
        apsw.SQLITE_ALTER_TABLE,
        apsw.SQLITE_CREATE_INDEX,
        apsw.SQLITE_CREATE_TRIGGER,
        apsw.SQLITE_DROP_INDEX,
        apsw.SQLITE_DROP_TRIGGER,
    }
)


@cache
def our_tables() -> frozenset[str]:
    """The names of all tables that the migrations make, and of the one that lists them."""
    scripts = "\n".join(migrations.script(number) for number in range(1, migrations.NEWEST + 1))
    return frozenset({"migrations", *re.findall(r"^create table (\w+)", scripts, re.MULTILINE)})


def _too_long(seconds: float) -> TransactionTimeout:
    return TransactionTimeout(
        f"the transaction of this activity held the write lock for more than {seconds:.3g} s, a third of the lease: it "
        "was rolled back, and nothing of it is written. Do what takes long before the first statement"
    )


def _short(sql: str) -> str:
    text = " ".join(sql.split())
    return f"`{text}`" if len(text) <= 80 else f"`{text[:77]}...`"
