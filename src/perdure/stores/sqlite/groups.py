"""Groups: many calls in one transaction, each of them whole or not at all, and the error of each in its place.

A group is written first without savepoints, since what is refused has nearly never written anything; where one has,
the group is taken back and done again with them. Where SQLite itself fails, each call is tried by itself, so that a
damaged page stops only those who need it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import apsw

from perdure.clock import Clock
from perdure.errors import PerdureError, StoreUnavailable
from perdure.stores.sqlite.access import Access, HalfDone
from perdure.stores.sqlite.opening import wait_for_others
from perdure.stores.sqlite.troubles import patiently, refusal, trouble

Transition = Callable[..., Any]
BUSY_TRIES = 3
LOG_PAGES_MAX = 1000


class Call:
    """A transition to be made, and what came of it: a value or an error."""

    __slots__ = ("outcome", "values", "work")

    def __init__(self, work: Transition, values: tuple[Any, ...]) -> None:
        self.work = work
        self.values = values
        self.outcome: Any = None


class Writer:
    """The connection that writes. `after_commit` is told of each group that has changed anything."""

    def __init__(
        self, path: str, connection: apsw.Connection, clock: Clock, after_commit: Callable[[], object]
    ) -> None:
        self.access = Access(connection)
        self._path = path
        self._file = _identity(path)
        self.clock = clock
        self._after_commit = after_commit
        self.log_is_long = False  # it is to be copied into the file, when nobody waits for an answer
        self._waits = True  # for another connection that is writing
        connection.set_wal_hook(self._logged)
        connection.set_busy_handler(lambda tries: self._waits and wait_for_others(tries))

    def begin(self) -> Access:
        """A transaction that its caller ends."""
        self.refuse_vanished()
        access = self.access
        access.careful = False
        patiently(lambda: access.write("begin immediate"))
        access.now_us = self.clock.now_us()
        return access

    def end(self, *, commit: bool) -> None:
        """Make it durable, or take it back."""
        if not commit:
            self._take_back()
            return
        self.access.write("commit")
        self.access.undo.clear()
        self._after_commit()

    def run(self, calls: Sequence[Call]) -> None:
        """Make these transitions, durably."""
        try:
            self.refuse_vanished()
            try:
                self._transact(calls, careful=False)
            except HalfDone:
                self._transact(calls, careful=True)
        except apsw.Error as error:
            if len(calls) == 1 or isinstance(error, apsw.BusyError):
                _refuse_all(calls, trouble(self._path, error))
            else:
                for call in calls:
                    self.run([call])
        except PerdureError as error:
            _refuse_all(calls, error)

    def run_and_tidy(self, calls: Sequence[Call]) -> None:
        """Make them where no thread will tidy up later."""
        self.run(calls)
        if self.log_is_long:
            self.shorten_log()

    def run_now(self, call: Call) -> bool:
        """Make one transition without waiting for anybody; False, and nothing is written, if it is not that simple.

        The caller has seen that the file is still there.
        """
        access = self.access
        self._waits = False
        try:
            access.careful = False
            access.write("begin immediate")
            self._make((call,))
        except (apsw.Error, PerdureError, HalfDone):
            return False
        finally:
            self._waits = True
        return not isinstance(call.outcome, Exception)

    def shorten_log(self) -> None:
        """Copy the log into the file, as far as no reader needs it. If that fails, a later one copies it."""
        self.log_is_long = False
        with suppress(apsw.Error):
            self.access.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def _logged(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self.log_is_long = pages >= LOG_PAGES_MAX
        return apsw.SQLITE_OK

    def _transact(self, calls: Sequence[Call], *, careful: bool) -> None:
        access = self.access
        access.careful = careful and len(calls) > 0
        patiently(lambda: access.write("begin immediate"))
        self._make(calls)

    def _make(self, calls: Sequence[Call]) -> None:
        """Make them, and commit."""
        access = self.access
        try:
            access.now_us = self.clock.now_us()
            before = access.connection.total_changes()
            for call in calls:
                call.outcome = access.alone(partial(call.work, access, *call.values))
            changed = access.connection.total_changes() != before
            access.write("commit")
        except BaseException:
            self._take_back()
            raise
        access.undo.clear()
        if changed:
            self._after_commit()

    def _take_back(self) -> None:
        access = self.access
        access.states.clear()
        if access.connection.in_transaction:
            access.write("rollback")
        for undo in access.undo:
            undo()
        access.undo.clear()

    def refuse_vanished(self) -> None:
        """`StoreUnavailable` if the file is not where it was."""
        if _identity(self._path) != self._file:
            raise StoreUnavailable(
                f"{self._path} has been removed or replaced while it was open, and nothing more is written to it: "
                "put it back and start anew"
            )


class Reader:
    """A connection that only reads; each group sees one state of the store."""

    def __init__(self, path: str, connection: apsw.Connection, clock: Clock) -> None:
        self.access = Access(connection)
        self._path = path
        self._clock = clock

    def run(self, calls: Sequence[Call]) -> None:
        """Make these transitions, none of which writes."""
        for last in (False,) * BUSY_TRIES + (True,):
            try:
                patiently(lambda: self._read(calls))
                return
            except apsw.Error as error:
                if last or not isinstance(error, apsw.BusyError):
                    _refuse_all(calls, trouble(self._path, error))
                    return

    def _read(self, calls: Sequence[Call]) -> None:
        access = self.access
        access.now_us = self._clock.now_us()
        access.write("begin")
        try:
            for call in calls:
                try:
                    call.outcome = call.work(access, *call.values)
                except (apsw.BusyError, apsw.ProtocolError):
                    raise
                except apsw.Error as error:
                    call.outcome = trouble(self._path, error)
                except Exception as error:
                    call.outcome = refusal(error)
        finally:
            if access.connection.in_transaction:
                access.write("rollback")


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _refuse_all(calls: Sequence[Call], error: PerdureError) -> None:
    for call in calls:
        call.outcome = error
