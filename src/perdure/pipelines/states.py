"""States: what the scheduler of one pipeline knows; frozen data, changed only by perdure.pipelines.scheduling.

What of it has to outlive a worker stands in the store: `next_run_at`, `wake_at`, the pending events, the pause, the run
that blocks. `dirty` and `queued` live in memory and are found again from those (`scheduling.recover`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal

from perdure.errors import InvalidValue
from perdure.pipelines.cadence import Cadence, Interval, read_cadence
from perdure.pipelines.policy import PipelinePolicy

FailedStatus = Literal[
    "paused:transient", "paused:approval", "paused:reconciliation", "failed:logic", "failed:internal", "crashed"
]


@dataclass(frozen=True)
class Producer:
    """A producer: runs when its time has come, or when it is queued."""

    name: str
    every: Interval | None = None
    cron: str | None = None
    timezone: str = "UTC"
    next_run_at: datetime | None = None
    queued: bool = False

    def __post_init__(self) -> None:
        if self.next_run_at is not None:
            aware(self.next_run_at, f"next_run_at of producer {self.name!r}")

    @property
    def cadence(self) -> Cadence | None:
        """What it is declared with; None runs only when somebody asks. `InvalidValue` naming it."""
        if self.every is None and self.cron is None:
            return None
        try:
            return read_cadence(self.every, self.cron, self.timezone)
        except InvalidValue as error:
            raise InvalidValue(f"producer {self.name!r}: {error}") from error

    def after(self, now: datetime) -> datetime | None:
        """Its next time, if a run ends now."""
        return self.cadence.after(now) if self.cadence else None

    def has_fired(self, now: datetime, running_since: datetime | None = None) -> bool:
        """Whether its time has come; while it runs, whether it has come again.

        An interval is counted from the end of a run, so it cannot.
        """
        if running_since is None:
            return has_come(self.next_run_at, now)
        return self.cron is not None and has_come(self.after(running_since), now)

    def is_due(self, now: datetime) -> bool:
        """Whether it is to run."""
        return self.queued or has_come(self.next_run_at, now)


@dataclass(frozen=True)
class Consumer:
    """A consumer: runs when it is dirty (there may be new events), queued, or to be woken."""

    name: str
    topics: tuple[str, ...] = ()
    dirty: bool = False
    queued: bool = False
    wake_at: datetime | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "topics", (self.topics,) if isinstance(self.topics, str) else tuple(self.topics))
        if self.wake_at is not None:
            aware(self.wake_at, f"wake_at of consumer {self.name!r}")

    def is_due(self, now: datetime) -> bool:
        """Whether it is to run."""
        return self.dirty or self.queued or has_come(self.wake_at, now)


Handler = Producer | Consumer


@dataclass(frozen=True)
class Blocked:
    """A run that could not go on, and with it the whole pipeline (L8).

    From `retry_at` on there is another attempt; None: not before somebody says so (`scheduling.retry`, a deploy).
    """

    handler: str
    run: str | None
    status: str
    attempt: int = 1
    since: datetime | None = None
    retry_at: datetime | None = None


@dataclass(frozen=True)
class State:
    """One pipeline, as its scheduler sees it. `pending` is the oldest pending event of each topic that has one."""

    producers: tuple[Producer, ...] = ()
    consumers: tuple[Consumer, ...] = ()
    pending: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
    active: str | None = None  # the handler that runs now
    active_run: str | None = None
    active_since: datetime | None = None
    blocked: Blocked | None = None  # by the system
    paused: bool = False  # by a person: neither overwrites the other
    in_a_row: int = 0  # consumer runs since a producer ran last
    policy: PipelinePolicy = field(default_factory=PipelinePolicy)

    def __post_init__(self) -> None:
        object.__setattr__(self, "producers", tuple(self.producers))
        object.__setattr__(self, "consumers", tuple(self.consumers))
        given: dict[str, datetime | None] = {**self.pending}
        pending = {topic: moment for topic, moment in given.items() if moment is not None}
        for topic, moment in pending.items():
            aware(moment, f"the oldest pending event of topic {topic!r}")
        object.__setattr__(self, "pending", MappingProxyType(pending))

    def __hash__(self) -> int:
        return hash((self.producers, self.consumers, frozenset(self.pending.items()), self.active, self.blocked))

    def __reduce__(self) -> tuple[Any, ...]:
        values = [getattr(self, name) for name in self.__dataclass_fields__]
        return type(self), tuple(dict(self.pending) if value is self.pending else value for value in values)

    @property
    def handlers(self) -> tuple[Handler, ...]:
        """Producers, then consumers."""
        return (*self.producers, *self.consumers)

    def oldest(self, topics: Iterable[str]) -> datetime | None:
        """When the oldest pending event of these topics was published."""
        return min((self.pending[topic] for topic in topics if topic in self.pending), default=None)


def has_come(moment: datetime | None, now: datetime) -> bool:
    """Whether there is such a moment, and it is not in the future."""
    return moment is not None and moment <= now


def aware(moment: object, what: str = "now") -> datetime:
    """A moment with a time zone. `InvalidValue`."""
    if not isinstance(moment, datetime):
        raise InvalidValue(f"{what} is a datetime, not {type(moment).__name__}")
    if moment.utcoffset() is None:
        raise InvalidValue(f"{what} has no time zone: give an aware datetime, such as datetime.now(UTC)")
    return moment
