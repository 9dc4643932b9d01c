"""Contexts: the one object that a handler is given, which allows in each stage what belongs there (L3).

In:  a `Desk`, by which the host peeks, writes and calls for it.
Out: what the handler has published and started, for the commit; what became of its mutation; what it did wrong.

Whatever else a handler tries is a mistake in its code: refused at the call, and remembered, so that code which
swallows the error does not come through with it. The same holds for what its mutation raises.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from perdure import codec
from perdure.clock import moment_of
from perdure.errors import InvalidValue, UsageError
from perdure.model.ids import check_id
from perdure.pipelines.topics import Event, Topic
from perdure.stores.pipeline_records import NewEvent, StoredEvent
from perdure.stores.records import Start

HandlerStage = Literal["producer", "prepare", "mutate", "reconcile", "next"]
Operation = Literal["publish", "start", "peek", "perform"]

ALLOWED: Mapping[HandlerStage, frozenset[Operation]] = {
    "producer": frozenset({"publish"}),
    "prepare": frozenset({"peek"}),
    "mutate": frozenset({"perform"}),
    "reconcile": frozenset(),
    "next": frozenset({"publish", "start"}),
}


class Desk(Protocol):
    """What the host does for a handler."""

    @property
    def now(self) -> datetime:
        """What time it is, in UTC."""
        ...

    async def peek(self, topic: str, limit: int) -> Sequence[StoredEvent]:
        """Pending events, the oldest first."""
        ...

    async def begin_mutation(self, what: str) -> None:
        """Write it into the ledger as in flight."""
        ...

    async def call(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run a function, plain or async, or an activity, within its time."""
        ...

    async def end_mutation(self, result: bytes) -> None:
        """Write its result, with stage mutated."""
        ...

    def to_start(self, workflow: Any, args: tuple[Any, ...], id: str | None) -> Start:
        """The start of a workflow, its arguments checked. `UsageError`."""
        ...


@dataclass(frozen=True)
class Place:
    """Where a context stands: the stage, the key of the run, and the topics that its handler may use."""

    stage: HandlerStage
    handler: str
    key: str
    topics: tuple[Topic[Any], ...] = ()
    publishes: tuple[Topic[Any], ...] = ()
    causes: tuple[str, ...] = ()  # of what it publishes
    result_type: Any = Any


@dataclass
class Doings:
    """What a handler has done."""

    published: list[NewEvent] = field(default_factory=list[NewEvent])
    started: list[Start] = field(default_factory=list[Start])
    peeked: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    violation: UsageError | None = None
    performed: bool = False
    mutation_error: BaseException | None = None


class HandlerContext:
    """Implements every context of perdure.pipelines.stages; which of it works depends on the stage."""

    def __init__(self, place: Place, desk: Desk) -> None:
        self._place = place
        self._desk = desk
        self._over = False
        self.doings = Doings()

    @property
    def key(self) -> str:
        """The idempotency key of this run's mutation."""
        return self._place.key

    @property
    def now(self) -> datetime:
        """What time it is by the host's clock, in UTC."""
        return self._desk.now

    async def publish(self, topic: Topic[Any], payload: Any, *, message_id: str | None = None) -> None:
        """Publish an event with the commit."""
        self._allow("publish")
        self._know(topic, self._place.publishes, "publishes=[…]")
        if message_id is None:
            message_id = f"{self._place.key}/{len(self.doings.published)}"
        check_id(message_id, "message_id")
        encoded = bytes(codec.encode(payload, f"payload of {message_id!r} for topic {topic.name!r}"))
        codec.decode(encoded, topic.type, f"payload of {message_id!r} for topic {topic.name!r}")
        event = NewEvent(topic=topic.name, message_id=message_id, payload=encoded, causes=self._place.causes)
        self.doings.published.append(event)

    async def start(self, workflow: Any, /, *args: Any, id: str | None = None) -> None:
        """Start a workflow with the commit."""
        self._allow("start")
        id = None if id is None else check_id(id, "the id of a workflow")
        self.doings.started.append(self._desk.to_start(workflow, args, id))

    async def peek(self, topic: Topic[Any], *, limit: int = 100) -> list[Event[Any]]:
        """Pending events of a topic, the oldest first."""
        self._allow("peek")
        self._know(topic, self._place.topics, "@consumer(…)")
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise self._refused(f"limit is {limit!r}: ask for at least one event")
        stored = await self._desk.peek(topic.name, limit)
        self.doings.peeked.setdefault(topic.name, set()).update(one.facts.message_id for one in stored)
        return [_event(one, topic) for one in stored]

    async def perform(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Do the mutation: in flight in the ledger before it, its result with stage mutated after it."""
        self._allow("perform")
        if self.doings.performed:
            raise self._refused("a run performs one mutation: this is the second; give it a topic and a consumer")
        self.doings.performed = True
        await self._desk.begin_mutation(getattr(fn, "__name__", type(fn).__name__))
        try:
            result = await self._desk.call(fn, args, kwargs)
        except BaseException as error:
            self.doings.mutation_error = error
            raise
        encoded = bytes(codec.encode(result, "the result of the mutation"))
        await self._desk.end_mutation(encoded)
        return read_result(encoded, self._place.result_type)

    def close(self) -> Doings:
        """The handler has returned: what it has done. Nothing works any more, whoever has kept the context."""
        self._over = True
        return self.doings

    def _allow(self, operation: Operation) -> None:
        stage = self._place.stage
        if self._over:
            raise self._refused(f"{operation} came after `{stage}` had returned: await it there")
        if operation not in ALLOWED[stage]:
            fits = " and ".join(f"`{other}`" for other, allowed in ALLOWED.items() if operation in allowed)
            raise self._refused(f"{operation} is not for `{stage}`: it belongs into {fits}")

    def _know(self, topic: object, known: tuple[Topic[Any], ...], where: str) -> None:
        if not isinstance(topic, Topic):
            raise self._refused(f"a topic is given as pipeline.topic(…) made it, not as {topic!r}")
        if not any(topic is one for one in known):
            raise self._refused(f"the topic {topic.name!r} is not its own: name it in {where}")

    def _refused(self, text: str) -> UsageError:
        error = UsageError(f"{self._place.handler}: {text}")
        self.doings.violation = self.doings.violation or error
        return error


def read_result(encoded: bytes, type: Any) -> Any:
    """The result of a mutation as what `mutate` says that it returns; as plain values where that does not fit.

    The mutation has happened: an annotation that does not fit must not stop what follows.
    """
    if type not in (Any, None, types.NoneType):
        with suppress(InvalidValue):
            return codec.decode(encoded, type, "the result of the mutation")
    return codec.decode(encoded, Any, "the result of the mutation")


def _event(stored: StoredEvent, topic: Topic[Any]) -> Event[Any]:
    id = stored.facts.message_id
    payload = codec.decode(stored.facts.payload, topic.type, f"payload of {id!r} of topic {topic.name!r}")
    return Event(id, payload, moment_of(stored.published_us), stored.attempt)
