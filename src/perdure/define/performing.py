"""Performing: what an activity can ask about the attempt in which it runs.

The engine sets `CURRENT` around each attempt; the functions below are public names.
"""

from __future__ import annotations

from contextvars import ContextVar
from datetime import datetime
from typing import Any, NoReturn, Protocol, TypeVar, overload

from perdure import codec
from perdure.define.transacting import Transaction
from perdure.errors import UsageError

T = TypeVar("T")
TOKEN_SEPARATOR = "."


class CompletesLater(BaseException):
    """How `complete_later` leaves a function. No Exception, so that nobody takes it for a failure."""


class Performance(Protocol):
    """The attempt that runs, as the engine puts it into `CURRENT`."""

    details: bytes | None  # of the last heartbeat

    def transaction(self) -> Transaction:
        """What it writes with. `UsageError` if it is not transactional."""
        ...

    @property
    def is_transactional(self) -> bool:
        """Whether what it writes and its result are one transaction."""
        ...

    @property
    def why_not_later(self) -> str | None:
        """Where it runs that the outside may not complete it; None if it may."""
        ...

    @property
    def cancelled(self) -> bool: ...

    def info(self) -> ActivityInfo: ...

    def beat(self, details: bytes | None) -> None:
        """Pass a heartbeat on; `CancelledError` if the attempt shall stop."""
        ...


class ActivityInfo:
    """The attempt in which an activity runs. `key` is the idempotency key: the same on every attempt.

    `deadline` is when the first of its time limits is over, None where it has none.
    """

    __slots__ = ("_performance", "attempt", "deadline", "key", "name", "run_id", "workflow_id")

    def __init__(
        self,
        performance: Performance,
        *,
        name: str,
        attempt: int,
        key: str,
        run: tuple[str, str],
        deadline: datetime | None,
    ) -> None:
        self.name = name
        self.attempt = attempt
        self.key = key
        self.workflow_id, self.run_id = run
        self.deadline = deadline
        self._performance = performance

    @property
    def token(self) -> str:
        """What the outside completes this activity by (`complete_later`)."""
        return f"{self.run_id}{TOKEN_SEPARATOR}{self.key}"

    @property
    def cancelled(self) -> bool:
        """Whether it was asked to stop: by its workflow, by a time limit, or because the worker stops."""
        return self._performance.cancelled

    def __repr__(self) -> str:
        return f"<attempt {self.attempt} of activity {self.name} of run {self.workflow_id}>"


CURRENT: ContextVar[Performance | None] = ContextVar("perdure_activity", default=None)


def activity_info() -> ActivityInfo:
    """The attempt that runs now. `UsageError` outside an activity."""
    return _current("activity_info").info()


def heartbeat(details: object = None) -> None:
    """Say that the activity is alive, with details that the next attempt can read (`last_heartbeat`).

    Raises `asyncio.CancelledError` if the activity shall stop. `UsageError` outside an activity.
    """
    current = _current("heartbeat")
    if details is None:
        current.beat(None)
        return
    encoded = bytes(codec.encode(details, "heartbeat details"))
    current.beat(encoded)
    current.details = encoded


@overload
def last_heartbeat() -> Any: ...
@overload
def last_heartbeat(type: type[T]) -> T | None: ...
def last_heartbeat(type: Any = Any) -> Any:
    """The details of the last heartbeat that had any, of an earlier attempt as well; None if there was none."""
    details = _current("last_heartbeat").details
    return None if details is None else codec.decode(details, type, "heartbeat details")


def complete_later() -> NoReturn:
    """Return to the engine, and leave the activity open: the outside completes it, by `activity_info().token`.

    Its time limits go on. `UsageError` outside an activity.
    """
    why_not = _current("complete_later").why_not_later
    if why_not is not None:
        raise UsageError(f"complete_later() was called in {why_not}")
    raise CompletesLater


def transaction() -> Transaction:
    """The transaction of an activity with `effect="transactional"`. `UsageError` in any other one, and outside."""
    return _current("transaction").transaction()


def refuse_in_transaction(what: str) -> None:
    """`UsageError` within a transactional activity: what the engine writes cannot be part of its transaction."""
    current = CURRENT.get()
    if current is not None and current.is_transactional:
        raise UsageError(
            f"{what} within a transactional activity would wait for its own transaction, or outlive it if that fails. "
            "Nothing was written; do it in the workflow, with what the activity returns"
        )


def _current(call: str) -> Performance:
    current = CURRENT.get()
    if current is None:
        raise UsageError(
            f"{call}() was called outside an activity that an engine runs. "
            "Nothing was written; in a test of the function alone, leave the call out or put a fake in its place"
        )
    return current
