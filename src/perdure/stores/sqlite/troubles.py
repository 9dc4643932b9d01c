"""Troubles: what SQLite and the operating system say, in words that help; each with the file and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import TypeVar

import apsw

from perdure.errors import InternalError, InvalidValue, PerdureError, StoreCorrupt, StoreError, StoreUnavailable

T = TypeVar("T")
PROTOCOL_TRIES = 5
PROTOCOL_WAIT_SECONDS = 0.05
AGAIN = "Nothing of this call was written; it may be tried again"


def patiently(call: Callable[[], T]) -> T:
    """What this gives, which has written nothing yet when SQLite gives up finding its place in the log.

    It does so after ten seconds at most, and asks no busy handler: where many open and close a file on a busy machine,
    or one is stopped while it does, that is no reason to fail.
    """
    for _ in range(PROTOCOL_TRIES - 1):
        try:
            return call()
        except apsw.ProtocolError:
            Event().wait(PROTOCOL_WAIT_SECONDS)
    return call()


def trouble(path: str, error: apsw.Error) -> StoreError:
    """What to raise for an error of SQLite."""
    if isinstance(error, apsw.FullError):
        return StoreUnavailable(f"the disk is full: {path} cannot grow. {AGAIN} once there is room")
    if isinstance(error, (apsw.BusyError, apsw.LockedError, apsw.ProtocolError)):
        return StoreUnavailable(
            f"another process has kept {path} locked for too long ({error}). {AGAIN}; if it goes on, look for a "
            "program that has the file open in a transaction"
        )
    if isinstance(error, apsw.ReadOnlyError):
        return StoreUnavailable(f"{path} may not be written: make the file and its folder writable. {AGAIN}")
    if isinstance(error, apsw.NotADBError):
        return StoreUnavailable(f"{path} is no SQLite database: name another file, or restore it from a backup")
    if isinstance(error, apsw.CorruptError):
        return StoreCorrupt(f"{path} is damaged: {error}. `perdure doctor` lists what is; a backup has it whole")
    if isinstance(error, apsw.SQLError) and str(error).startswith("no such "):
        return StoreCorrupt(
            f"{path} is damaged: {error}, as if another program had changed it. `perdure doctor` lists what is; "
            "a backup has it whole"
        )
    if isinstance(error, apsw.CantOpenError):
        return StoreUnavailable(f"{path} cannot be opened ({error}): see that its folder exists and may be written")
    return StoreUnavailable(f"{path} cannot be read or written now: {error}. {AGAIN} once that is mended")


def refusal(error: Exception) -> PerdureError:
    """What to answer for an error that a transition raised, of which nothing has been written."""
    if isinstance(error, PerdureError):
        return error
    if isinstance(error, apsw.ConstraintError):
        return StoreCorrupt(f"the store is damaged: a row is in the way ({error}). `perdure doctor` names it")
    if isinstance(error, (OverflowError, UnicodeEncodeError)):
        return InvalidValue(f"a value cannot be stored: {error}. Nothing was written")
    failure = InternalError(f"the store failed with {type(error).__name__}: {error}. Nothing was written")
    failure.__cause__ = error
    return failure
