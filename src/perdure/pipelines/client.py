"""The client of pipelines, `engine.pipelines`: what people see of them, and what they may do (L10, L11).

In:  app.Engine and app.Client, the command line. It needs no code of the pipelines' handlers.
Out: the store; a host of this process, if there is one, learns at once of what was written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Protocol, TypeVar, cast, overload

from perdure import codec
from perdure.clock import Clock, moment_of
from perdure.define.performing import refuse_in_transaction
from perdure.engine.patience import whole
from perdure.errors import InvalidValue, NotFound
from perdure.model.ids import check_id
from perdure.pipelines import scheduling
from perdure.pipelines.declare import Pipeline
from perdure.pipelines.failing import read_answer
from perdure.pipelines.policy import PipelinePolicy
from perdure.pipelines.records import (
    SeenEvent,
    SeenRun,
    declared_state,
    deployment_of,
    seen_event,
    seen_run,
    times_of,
)
from perdure.pipelines.topics import Topic
from perdure.pipelines.validation import validate
from perdure.pipelines.wording import PipelineStatus, Seen, pending_of, status_of
from perdure.stores.pipeline_port import PipelineStores
from perdure.stores.pipeline_records import Decision, HandlerRun, NewEvent

T = TypeVar("T")
PAGE = 1_000
LOOKED_AT = 25  # of the last runs, for what is worth telling


class LocalHost(Protocol):
    """The host of this process."""

    def changed(self, name: str) -> None:
        """Somebody in this process has written to a pipeline."""
        ...

    def published(self, name: str, topics: tuple[str, ...]) -> None:
        """Somebody in this process has published new events."""
        ...

    async def deploy(self, pipeline: Pipeline) -> bool:
        """A new or changed declaration; whether anything has changed."""
        ...


class Pipelines:
    """The pipelines of one store, from the outside."""

    def __init__(
        self,
        store: PipelineStores,
        clock: Clock,
        policy: PipelinePolicy,
        new_id: Callable[[], str],
        host: Callable[[], LocalHost | None],
    ) -> None:
        self._store = store
        self._new_id = new_id
        self._clock = clock
        self._policy = policy
        self._host = host

    # --- acting -----------------------------------------------------------------------------

    async def deploy(self, pipeline: Pipeline) -> bool:
        """Deploy a declaration; whether anything has changed (L2). `InvalidValue` with the line of what is wrong.

        A live worker that owns the pipeline elsewhere keeps what it has: nothing changes then (L9).
        """
        refuse_in_transaction("deploying a pipeline")
        valid, host = validate(pipeline), self._host()
        if host is not None:
            return await host.deploy(valid)
        return (await self._store.deploy_pipeline(deployment_of(valid))).changed

    async def run_now(self, name: str) -> None:
        """Queue every producer (L10). `UsageError` while anything is active or paused; `NotFound`."""
        refuse_in_transaction("running a pipeline now")
        state = declared_state(await self._store.view_pipeline(_name(name)), self._policy)
        state = scheduling.run_now(state, self._now())
        times = {one.name: times_of(one) for one in state.producers}
        await whole(self._told(_name(name), self._store.queue_producers(_name(name), times)))

    async def pause(self, name: str) -> None:
        """Stop it: what runs is finished, and nothing starts. `NotFound`."""
        refuse_in_transaction("pausing a pipeline")
        await whole(self._told(_name(name), self._store.pause_pipeline(_name(name), True)))

    async def resume(self, name: str) -> None:
        """Lift `pause`, and nothing else: a run that blocks still does (L11). `NotFound`."""
        refuse_in_transaction("resuming a pipeline")
        await whole(self._told(_name(name), self._store.pause_pipeline(_name(name), False)))

    @overload
    async def publish(self, topic: Topic[T], payload: T, message_id: str | None = None) -> bool: ...
    @overload
    async def publish(self, topic: str, payload: object, message_id: str | None = None) -> bool: ...
    async def publish(self, topic: Topic[Any] | str, payload: Any, message_id: str | None = None) -> bool:
        """Publish an event from outside; whether it is new (L1). `NotFound` before the pipeline was deployed.

        By its name alone, a topic is looked up among all pipelines, and its type is not known.
        """
        payloads = {self._new_id() if message_id is None else message_id: payload}
        return await self.publish_many(topic, payloads) == 1

    async def publish_many(self, topic: Topic[T] | str, payloads: Mapping[str, T]) -> int:
        """Publish events by their message ids, in their order, all of them or none; how many are new (L1)."""
        refuse_in_transaction("publishing an event")
        found = await self._find(topic)
        events = [_event(found, id, payload) for id, payload in payloads.items()]
        return await whole(self._publish(found, events))

    async def resolve(self, run_id: str, answer: str, result: Any = None) -> None:
        """A person's word on a run that waits for one: "happened", "did_not_happen", "skip" or "retry" (L7).

        `NotFound`; `InvalidValue` for another word; `UsageError` where it does not fit the run.
        """
        refuse_in_transaction("resolving a run of a pipeline")
        run = await self._store.get_handler_run(check_id(run_id, "the id of a run"))
        settled = read_answer(answer, run.mutation, reconciles=True, result=result)
        decision = Decision(
            run=run.id,
            mutation=settled.mutation,
            result=bytes(codec.encode(settled.result, "result")) if settled.mutation == "success" else None,
            release=settled.release,
            decided_by="a person",
        )
        await whole(self._told(run.pipeline, self._store.settle_run(decision)))

    async def skip_event(self, name: str, topic: str | Topic[Any], message_id: str) -> None:
        """Have a pending event skipped. `NotFound`; `UsageError` for one that is reserved or done."""
        refuse_in_transaction("skipping an event")
        skipped = _name(name), _topic(topic), check_id(message_id, "message_id")
        await whole(self._told(skipped[0], self._store.skip_event(*skipped)))

    # --- seeing -----------------------------------------------------------------------------

    async def names(self) -> list[str]:
        """Of all pipelines that were ever deployed."""
        return [row.name for row in await self._store.list_pipelines()]

    async def status(self, name: str) -> PipelineStatus:
        """How it stands, in plain words (L11). `NotFound`."""
        view = await self._store.view_pipeline(_name(name))
        recent = await self._store.list_last_handler_runs(_name(name), LOOKED_AT)
        counts = await self._store.count_events(_name(name))
        oldest = {topic: moment_of(at) for topic, at in view.pending.items()}
        pending = pending_of({topic: counts.get(topic, {}) for topic in view.pipeline.topics}, oldest)
        state = declared_state(view, self._policy)
        return status_of(Seen(state, view.open_run, tuple(recent), pending), self._now())

    async def runs(self, name: str, *, last: int | None = None) -> list[SeenRun]:
        """Every attempt of its handlers, the oldest first; or only so many of the last ones. `NotFound`."""
        if last is not None:
            return [seen_run(one) for one in await self._store.list_last_handler_runs(_name(name), last)]
        found: list[HandlerRun] = []
        while page := await self._store.list_handler_runs(_name(name), PAGE, found[-1].number if found else 0):
            found += page
        return [seen_run(one) for one in found]

    async def events(self, name: str, topic: str | Topic[Any]) -> list[SeenEvent]:
        """Every event of a topic, the oldest first; by its name alone, payloads are plain values. `NotFound`."""
        found: list[SeenEvent] = []
        type = topic.type if isinstance(topic, Topic) else Any
        last = 0
        while page := await self._store.list_events(_name(name), _topic(topic), PAGE, last):
            found += [seen_event(one, type) for one in page]
            last = page[-1].number
        return found

    async def _find(self, topic: object) -> Topic[Any]:
        if isinstance(topic, Topic):
            return cast("Topic[Any]", topic)
        if not isinstance(topic, str):
            raise InvalidValue(f"a topic is given as pipeline.topic(…) made it, or by its name, not as {topic!r}")
        name = _topic(topic)
        having = [row.name for row in await self._store.list_pipelines() if name in row.topics]
        if not having:
            raise NotFound(f"there is no topic {name!r}: deploy its pipeline first; nothing was written")
        if len(having) > 1:
            raise InvalidValue(
                f"the pipelines {', '.join(having)} have a topic {name!r} each: give it as pipeline.topic(…) made it"
            )
        return Topic[Any](having[0], name, cast("type[Any]", Any), "")

    def _now(self) -> datetime:
        return moment_of(self._clock.now_us())

    # --- written, and told to the host here: also where the caller is cancelled meanwhile ---

    async def _publish(self, topic: Topic[Any], events: list[NewEvent]) -> int:
        new = sum(await self._store.publish_events(topic.pipeline, events))
        host = self._host()
        if new and host is not None:
            host.published(topic.pipeline, (topic.name,))
        return new

    async def _told(self, name: str, call: Awaitable[object]) -> None:
        await call
        host = self._host()
        if host is not None:
            host.changed(name)


def _event(topic: Topic[Any], message_id: object, payload: object) -> NewEvent:
    id = check_id(message_id, "message_id")
    what = f"payload of {id!r} for topic {topic.name!r}"
    encoded = bytes(codec.encode(payload, what))
    codec.decode(encoded, topic.type, what)
    return NewEvent(topic=topic.name, message_id=id, payload=encoded)


def _name(given: object) -> str:
    return check_id(getattr(given, "name", given), "the name of a pipeline")


def _topic(given: object) -> str:
    return check_id(getattr(given, "name", given), "the name of a topic")
