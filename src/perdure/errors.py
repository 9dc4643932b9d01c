"""Every error that Perdure raises.

The tree::

    PerdureError
    ├── UsageError               your call is wrong; nothing was written
    │   ├── NotFound             nothing has that name or id
    │   ├── AlreadyExists        that name or id is taken
    │   ├── InvalidValue         a value cannot be used, stored or read
    │   ├── Rejected             an update was refused
    │   ├── RunClosed            the run has ended
    │   ├── BadLog               a choice log is not one
    │   └── NothingEnabled       a policy was asked to choose from nothing
    ├── NondeterminismError      code and history disagree; the turn was dropped
    │   ├── Divergence           other branches can run than the log says
    │   └── ReplayExhausted      the log ended before the run did
    ├── SchedulerViolation       workflow code did what it may not do; the turn was dropped
    │   ├── GuardViolation       it reached for clock, randomness, files, sockets, threads
    │   └── TurnTimeout          it did not give control back in time
    ├── OperationFailed          what a workflow asked for did not work (`.failure` says why)
    │   ├── ActivityFailed
    │   ├── ChildFailed
    │   ├── ExternalFailed       a signal or cancellation sent to another run
    │   └── PromiseRejected
    ├── QueryFailed              the handler of a query raised (`.failure` says why)
    ├── UpdateFailed             the handler of an update raised (`.failure` says why)
    ├── RunEnded                 a run ended without a value (`.failure` says why)
    │   ├── RunFailed
    │   ├── RunCancelled
    │   ├── RunTerminated
    │   └── RunTimedOut
    ├── StoreError               the store could not do it
    │   ├── StoreUnavailable     try again: it cannot be reached, is full, or may not be written
    │   │   └── StoreNotOpen     a wrong call (a UsageError too): before `async with`, or after it
    │   ├── LeaseLost            another worker holds this run now; drop the turn
    │   └── StoreCorrupt         what is stored is not what was written
    ├── TransactionFailed        a transactional activity's statement or transaction; nothing of it is written
    │   └── TransactionTimeout   it held the write lock for too long
    ├── ApplicationError         raise it yourself, to steer retries
    └── InternalError            our bug; please report it

Everything else in the package may import this module; it imports nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error as data: what history keeps of an exception, and what crosses processes."""

    type: str
    message: str = ""
    details: Any = None
    retryable: bool = True
    cause: Failure | None = None
    traceback: str | None = None

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


class PerdureError(Exception):
    """The root of the tree. Catch this for "anything that Perdure raises"."""


# --- your call is wrong; nothing was written ------------------------------------------------


class UsageError(PerdureError):
    """This call cannot be done. Nothing was written; mend the call."""


class NotFound(UsageError):
    """Nothing has that name or id. Nothing was written."""


class AlreadyExists(UsageError):
    """That name or id is taken. Nothing was written."""


class InvalidValue(UsageError):
    """A value cannot be used, stored or read; the message names the path inside it. Nothing was written."""


class Rejected(UsageError):
    """An update was refused by its validator, or nothing handles it. Nothing was written."""


class RunClosed(UsageError):
    """The run has ended and takes no more messages. Nothing was written."""


class BadLog(UsageError):
    """A choice log is damaged: `entry` is the number of the bad entry, `reason` what is wrong with it."""

    def __init__(self, entry: int, reason: str) -> None:
        super().__init__(f"entry {entry} of the choice log: {reason}")
        self.entry = entry
        self.reason = reason


class NothingEnabled(UsageError):
    """A policy was asked to choose, and there was nothing to choose from."""


# --- code and history disagree; the turn was dropped, the run is not failed -------------------


class NondeterminismError(PerdureError):
    """Code and history disagree. Nothing was committed; the run is parked, not failed.

    The message shows both sides. The parts: `turn`, `recorded` and `now` (commands, or None where
    that side has none), `field` (the first that differs), `cause` (the likely one).
    """

    def __init__(
        self,
        message: str,
        *,
        turn: int | None = None,
        recorded: Any = None,
        now: Any = None,
        field: str | None = None,
        cause: str | None = None,
    ) -> None:
        super().__init__(message)
        self.turn = turn
        self.recorded = recorded
        self.now = now
        self.field = field
        self.cause = cause


class Divergence(NondeterminismError):
    """What can run now is not what could run when the choice was recorded."""

    def __init__(self, expected: Sequence[Any], actual: Sequence[Any], step: int) -> None:
        shown = [" ".join(str(action) for action in side) or "nothing" for side in (expected, actual)]
        super().__init__(
            f"the recorded schedule does not fit at step {step}: recorded, these could run: {shown[0]}; "
            f"now, these can: {shown[1]}. The workflow has changed since the schedule was recorded"
        )
        self.expected = expected
        self.actual = actual
        self.step = step


class ReplayExhausted(NondeterminismError):
    """The recorded schedule has ended, and the workflow goes on."""

    def __init__(self, step: int) -> None:
        super().__init__(
            f"the recorded schedule ends before step {step}, and the workflow goes on. "
            "It does more now than when the schedule was recorded"
        )
        self.step = step


# --- workflow code did what it may not do; the turn was dropped -------------------------------


class SchedulerViolation(PerdureError):
    """A workflow call was made where none is allowed. Nothing was emitted; mend the workflow code."""


class GuardViolation(SchedulerViolation):
    """Workflow code reached for something that replay cannot repeat. The message names the replacement."""


class TurnTimeout(SchedulerViolation):
    """A turn did not give control back within its limit. The message holds its stack."""


# --- what a workflow asked for did not work ---------------------------------------------------


class OperationFailed(PerdureError):
    """What a workflow asked for did not work: `failure` says why."""

    def __init__(self, message: str, failure: Failure) -> None:
        super().__init__(message)
        self.failure = failure


class ActivityFailed(OperationFailed):
    """An activity failed for good: its retries are used up, or it may not be retried."""


class ChildFailed(OperationFailed):
    """A child run failed, was cancelled or was terminated."""


class ExternalFailed(OperationFailed):
    """A signal or a cancellation could not be delivered to another run."""


class PromiseRejected(OperationFailed):
    """The outside rejected a promise."""


# --- what was asked of a run did not work -----------------------------------------------------


class QueryFailed(PerdureError):
    """A query was not answered: its handler raised, or nobody is there who can answer. Nothing was written.

    `failure` says why.
    """

    def __init__(self, message: str, failure: Failure) -> None:
        super().__init__(message)
        self.failure = failure


class UpdateFailed(PerdureError):
    """The handler of an update raised after the update was accepted: `failure` says what."""

    def __init__(self, message: str, failure: Failure) -> None:
        super().__init__(message)
        self.failure = failure


# --- how a run ended --------------------------------------------------------------------------


class RunEnded(PerdureError):
    """A run ended without a value: `failure` says why."""

    def __init__(self, message: str, failure: Failure) -> None:
        super().__init__(message)
        self.failure = failure


class RunFailed(RunEnded):
    """Its workflow raised."""


class RunCancelled(RunEnded):
    """It was asked to cancel, and did."""


class RunTerminated(RunEnded):
    """It was ended from outside, without asking it."""


class RunTimedOut(RunEnded):
    """It took longer than its time limit."""


# --- the store could not do it ----------------------------------------------------------------


class StoreError(PerdureError):
    """The store could not do it. What was not acknowledged may or may not have been written."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or written now. Nothing was written; try again once that is mended."""


class StoreNotOpen(StoreUnavailable, UsageError):
    """An engine, client or store is used before it is opened, or after it is closed: use it within `async with`."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"the store {url} is not open: use an engine or client within `async with`, and make a new one afterwards"
        )


class LeaseLost(StoreError):
    """Another worker holds this run now. Nothing was written; drop the turn, do not retry."""


class StoreCorrupt(StoreError):
    """What is stored is not what was written: the message names it. Only the run that it belongs to is stopped."""


# --- within a transactional activity ----------------------------------------------------------


class TransactionFailed(PerdureError):
    """A statement of a transactional activity was refused by the database, or its transaction is over.

    After a refused statement the transaction goes on, if the activity does. The cause is the database's own error.
    """


class TransactionTimeout(TransactionFailed):
    """A transactional activity held the write lock for more than a third of the lease. It was rolled back."""


class ApplicationError(PerdureError):
    """Raise it in an activity or a workflow to say how the failure is to be treated.

    `type` is the name that retry policies and callers see, `details` any encodable value,
    `retryable` whether another attempt makes sense.
    """

    def __init__(
        self, message: str = "", *, type: str | None = None, details: Any = None, retryable: bool = False
    ) -> None:
        super().__init__(message)
        self.message = message
        self.type = type or "ApplicationError"
        self.details = details
        self.retryable = retryable


class InternalError(PerdureError):
    """This is a bug in Perdure, not in your code. Please report it with the message and the traceback."""
