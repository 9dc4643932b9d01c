"""Declaring: a pipeline, its topics, producers and consumers, as programs write them.

    mail = Pipeline("mail-to-sheet")
    inbox = mail.topic("inbox", Email)

    @mail.producer(every="5m", publishes=[inbox])
    async def poll(ctx: ProducerContext, cursor: str | None) -> str | None: ...

    @mail.consumer(inbox)
    class ToSheet:
        async def prepare(self, ctx: PrepareContext, state: None) -> Prepared: ...

Nothing is refused here but what is no declaration at all: perdure.pipelines.validation looks at the whole when it is
deployed, and names the line (L2). perdure.pipelines.digest tells a changed one from the same.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, TypeVar

from perdure.define.retry import Duration
from perdure.define.signatures import Signature, local_names, signature_of
from perdure.errors import NotFound, UsageError
from perdure.model.ids import check_id
from perdure.pipelines.policy import PipelinePolicy
from perdure.pipelines.stages import Prepares, ProducerContext
from perdure.pipelines.states import Consumer, Producer, State
from perdure.pipelines.topics import Topic

S = TypeVar("S")
T = TypeVar("T")
C = TypeVar("C", bound=Prepares)

Repair = Callable[[Any], Awaitable[Any]]
STAGE_METHODS = ("prepare", "mutate", "reconcile", "next")


@dataclass(frozen=True)
class DeclaredProducer:
    """A producer, as it was declared, and the line where."""

    name: str
    fn: Callable[..., Any]
    every: Duration | None
    cron: str | None
    timezone: str
    publishes: tuple[Any, ...]
    timeout: Duration | None
    source: str
    near: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False, repr=False)  # for its annotations

    @cached_property
    def signature(self) -> Signature:
        """Of the function, without its context."""
        return _signature(self.fn, self, hidden=1)

    @property
    def state_type(self) -> Any:
        """The type that its state is read as."""
        return (*self.signature.reads(), Any)[0]


@dataclass(frozen=True)
class DeclaredConsumer:
    """A consumer, as it was declared, and the line where."""

    name: str
    handler: Any  # the class
    topics: tuple[Any, ...]
    publishes: tuple[Any, ...]
    timeout: Duration | None
    source: str
    near: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False, repr=False)  # for its annotations

    def has(self, stage: str) -> bool:
        """Whether its class has a method for this stage."""
        return getattr(self.handler, stage, None) is not None

    @cached_property
    def state_type(self) -> Any:
        """The type that its state is read as."""
        return (*_signature(self.handler.prepare, self, hidden=2).reads(), Any)[0]

    @cached_property
    def result_type(self) -> Any:
        """The type that the result of its mutation is read as."""
        return _signature(self.handler.mutate, self, hidden=2).returns() if self.has("mutate") else Any


Declared = DeclaredProducer | DeclaredConsumer


class ProducerDecorator(Protocol):
    """`@pipeline.producer(…)`: declares a function, and gives it back."""

    def __call__(
        self, fn: Callable[[ProducerContext, S], Coroutine[Any, Any, S]], /
    ) -> Callable[[ProducerContext, S], Coroutine[Any, Any, S]]: ...


class ConsumerDecorator(Protocol):
    """`@pipeline.consumer(…)`: declares a class, and gives it back."""

    def __call__(self, cls: type[C], /) -> type[C]: ...


class Pipeline:
    """Producers, consumers, and the topics between them. One handler of a pipeline runs at a time (L6).

    `on_logic_error` is asked when a handler has failed by a mistake of its code: it is given the run, and may return a
    new function or class for the handler.
    """

    def __init__(self, name: str, on_logic_error: Repair | None = None) -> None:
        self.name = check_id(name, "the name of a pipeline")
        self.on_logic_error = on_logic_error
        self.source = _source()
        self.topics: list[Topic[Any]] = []
        self.producers: list[DeclaredProducer] = []
        self.consumers: list[DeclaredConsumer] = []

    def __repr__(self) -> str:
        return f"<pipeline {self.name}>"

    def topic(self, name: str, type: type[T]) -> Topic[T]:
        """Declare a topic, whose payloads are of this type."""
        topic = Topic(self.name, check_id(name, "the name of a topic"), type, _source())
        self.topics.append(topic)
        return topic

    def producer(
        self,
        *,
        every: Duration | None = None,
        cron: str | None = None,
        timezone: str = "UTC",
        publishes: Iterable[Topic[Any]] = (),
        timeout: Duration | None = None,
        name: str | None = None,
    ) -> ProducerDecorator:
        """Declare a producer: an `async def` of a context and its state, which returns its new state."""
        source = _source()

        def declare(fn: Any) -> Any:
            if not callable(fn) or isinstance(fn, type):
                raise UsageError(f"{source}: @producer declares a function, not {_what(fn)}")
            named, topics, near = name or getattr(fn, "__name__", ""), _listed(publishes), local_names(fn, 2)
            self.producers.append(DeclaredProducer(named, fn, every, cron, timezone, topics, timeout, source, near))
            return fn

        return declare

    def consumer(
        self,
        *topics: Topic[Any],
        publishes: Iterable[Topic[Any]] = (),
        timeout: Duration | None = None,
        name: str | None = None,
    ) -> ConsumerDecorator:
        """Declare a consumer of these topics: a class with `prepare`, and where needed the other stages."""
        source = _source()

        def declare(cls: Any) -> Any:
            if not isinstance(cls, type):
                raise UsageError(f"{source}: @consumer declares a class with `async def prepare`, not {_what(cls)}")
            near: dict[str, Any] = {}
            for stage in STAGE_METHODS:
                near.update(local_names(getattr(cls, stage, None), 2))
            named, onward = name or cls.__name__, _listed(publishes)
            self.consumers.append(DeclaredConsumer(named, cls, topics, onward, timeout, source, near))
            return cls

        return declare

    @property
    def handlers(self) -> tuple[Declared, ...]:
        """Producers, then consumers."""
        return (*self.producers, *self.consumers)

    def repaired(self, handler: str, new: Callable[..., Any]) -> Pipeline:
        """The same pipeline with other code for one handler (L8). `NotFound`; it is not validated here."""
        if handler not in {one.name for one in self.handlers}:
            raise NotFound(f"pipeline {self.name!r} has no handler {handler!r}")
        other = Pipeline(self.name, self.on_logic_error)
        other.source, other.topics = self.source, list(self.topics)
        other.producers = [replace(one, fn=new) if one.name == handler else one for one in self.producers]
        other.consumers = [replace(one, handler=new) if one.name == handler else one for one in self.consumers]
        return other

    def scheduled(self, policy: PipelinePolicy) -> State:
        """What its scheduler begins with, before the store is asked."""
        producers = tuple(Producer(one.name, one.every, one.cron, one.timezone) for one in self.producers)
        consumers = tuple(Consumer(one.name, tuple(topic.name for topic in one.topics)) for one in self.consumers)
        return State(producers, consumers, policy=policy)


def _signature(fn: Callable[..., Any], declared: Declared, *, hidden: int) -> Signature:
    return replace(signature_of(fn, declared.name, hidden=hidden), local_names=declared.near)


def _listed(publishes: Any) -> tuple[Any, ...]:
    """What was given, one by one; validation looks at each."""
    return tuple(publishes) if hasattr(publishes, "__iter__") and type(publishes) is not str else (publishes,)


def _source() -> str:
    """The line of the program that called the caller of this."""
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _what(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else f"{type(value).__name__} {value!r:.80}"
