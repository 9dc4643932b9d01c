"""Stages: what a handler is given in each of them, and what it hands on (L3).

A producer, and `next`, publish; `prepare` peeks and reads; `mutate` does at most one mutation. Each context offers what
its stage allows, and the host refuses the rest as a logic error. The host implements these protocols.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, overload

from perdure import codec
from perdure.define.starting import Start0, Start1, Start2, Start3
from perdure.pipelines.topics import Event, Topic

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True)
class Prepared:
    """What `prepare` decides: which events to reserve, what to do with them, and when to look again at the latest.

    `data` comes back as plain JSON values in the later stages, which may run in another process; `read` gives it its
    type. `wake_at` is an aware datetime or ISO text, and is clamped by the host (L5).
    """

    reserve: Mapping[Topic[Any], Collection[str]] = field(default_factory=dict[Topic[Any], Collection[str]])
    data: Any = None
    wake_at: datetime | str | None = None

    def read(self, type: type[T]) -> T:
        """`data` as this type. `InvalidValue` naming what does not fit."""
        return codec.decode(codec.encode(self.data, "data"), type, "data")


@dataclass(frozen=True)
class Outcome:
    """What became of the mutation: `none` where there was none, `skipped` where a person has given it up."""

    status: Literal["none", "success", "skipped"] = "none"
    result: Any = None


class Timed(Protocol):
    """Knows the time of the host, which in tests may be virtual."""

    @property
    def now(self) -> datetime:
        """What time it is, in UTC."""
        ...


class Publishing(Timed, Protocol):
    """Publishes events, which appear when the run is committed."""

    async def publish(self, topic: Topic[T], payload: T, *, message_id: str | None = None) -> None:
        """Publish an event. Without a message id it has one that a retry of this run gives again."""
        ...


class ProducerContext(Publishing, Protocol):
    """What a producer may do: read the outside, and publish."""


class PrepareContext(Timed, Protocol):
    """What `prepare` may do: peek, and read the outside."""

    async def peek(self, topic: Topic[T], *, limit: int = 100) -> list[Event[T]]:
        """Pending events of a topic, the oldest first."""
        ...


class ReconcileContext(Timed, Protocol):
    """What `reconcile` may do: read the outside."""

    @property
    def key(self) -> str:
        """The key under which the mutation was tried."""
        ...


class MutateContext(Timed, Protocol):
    """What `mutate` may do: one mutation."""

    @property
    def key(self) -> str:
        """The idempotency key of the mutation: the same along a retry chain until an outcome is failure."""
        ...

    @overload
    async def perform(self, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def perform(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    async def perform(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Do the mutation: at most once in a run, and written down as in flight before it begins."""
        ...


class NextContext(Publishing, Protocol):
    """What `next` may do: publish, and start workflows. Both are committed with the run."""

    @overload
    async def start(self, workflow: Start0[Any], /, *, id: str | None = None) -> None: ...
    @overload
    async def start(self, workflow: Start1[A, Any], a: A, /, *, id: str | None = None) -> None: ...
    @overload
    async def start(self, workflow: Start2[A, B, Any], a: A, b: B, /, *, id: str | None = None) -> None: ...
    @overload
    async def start(self, workflow: Start3[A, B, C, Any], a: A, b: B, c: C, /, *, id: str | None = None) -> None: ...
    async def start(self, workflow: Any, /, *args: Any, id: str | None = None) -> None:
        """Start a workflow when the run is committed."""
        ...


class Prepares(Protocol):
    """The one stage that every consumer has."""

    async def prepare(self, ctx: Any, state: Any, /) -> Prepared:
        """Look at what is pending, and decide."""
        ...
