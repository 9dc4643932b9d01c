"""Performing: what an activity can ask about the attempt in which it runs.

The engine sets `CURRENT` around each attempt; the functions below are public names.
"""

from __future__ import annotations

from contextvars import ContextVar
from datetime import datetime
from typing import Any, Protocol, TypeVar, overload

from perdure import codec
from perdure.errors import UsageError

T = TypeVar("T")


class Performance(Protocol):
    """The attempt that runs, as the engine puts it into `CURRENT`."""

    details: bytes | None  # of the last heartbeat

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
        """What the outside knows this activity by."""
        return self.key

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


def _current(call: str) -> Performance:
    current = CURRENT.get()
    if current is None:
        raise UsageError(
            f"{call}() was called outside an activity that an engine runs. "
            "Nothing was written; in a test of the function alone, leave the call out or put a fake in its place"
        )
    return current
