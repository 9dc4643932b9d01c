"""Records: what the store keeps of a pipeline, read as what its scheduler works with, and as what people see.

In:  the rows of perdure.stores.pipeline_records, which stand below so that stores can read them.
Out: a `State` for perdure.pipelines.scheduling; runs and events for `engine.pipelines`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec

from perdure import codec
from perdure.clock import micros, moment_of
from perdure.errors import Failure
from perdure.pipelines import scheduling
from perdure.pipelines.cadence import read_every
from perdure.pipelines.declare import Pipeline
from perdure.pipelines.digest import digest_of
from perdure.pipelines.policy import PipelinePolicy
from perdure.pipelines.states import Blocked, Consumer, Producer, State
from perdure.stores.pipeline_records import (
    EventStatus,
    HandlerRow,
    HandlerRun,
    MutationOutcome,
    NewHandler,
    NewPipeline,
    PipelineView,
    RunStatus,
    Stage,
    StoredEvent,
    Times,
)


@dataclass(frozen=True)
class SeenRun:
    """One attempt of a handler, as `engine.pipelines.runs` gives it. Stage and status are apart (L7).

    `wake_at` is what its *prepare* asked for, clamped (L5).
    """

    id: str
    handler: str
    retry_of: str | None
    stage: Stage
    status: RunStatus
    mutation: MutationOutcome
    error: Failure | None
    created_at: datetime
    updated_at: datetime
    attempt: int = 1
    wake_at: datetime | None = None


@dataclass(frozen=True)
class SeenEvent:
    """An event, as `engine.pipelines.events` gives it.

    `causes` name the events that it goes back to, `published_by` the run that published it (None: from outside), and
    `taken_by` the run that has reserved it, or had.
    """

    id: str
    payload: Any
    status: EventStatus
    attempt: int
    published_at: datetime
    causes: tuple[str, ...] = ()
    published_by: str | None = None
    taken_by: str | None = None


def seen_run(run: HandlerRun) -> SeenRun:
    """A run as people see it."""
    return SeenRun(
        run.id,
        run.handler,
        run.retry_of,
        run.stage,
        run.status,
        run.mutation,
        run.error,
        moment_of(run.created_us),
        moment_of(run.updated_us),
        run.attempt,
        _moment(run.wake_us),
    )


def seen_event(event: StoredEvent, type: Any = Any) -> SeenEvent:
    """An event as people see it; its payload as plain values, if no type is given."""
    payload = codec.decode(event.facts.payload, type, f"event {event.facts.message_id!r}")
    published_at = moment_of(event.published_us)
    return SeenEvent(
        event.facts.message_id,
        payload,
        event.status,
        event.attempt,
        published_at,
        event.facts.causes,
        event.published_by,
        event.reserved_by,
    )


def deployment_of(pipeline: Pipeline) -> NewPipeline:
    """A declaration, as the store keeps it."""
    producers = [
        NewHandler(name=one.name, kind="producer", words=_words(one.source, _cadence(one)))
        for one in pipeline.producers
    ]
    consumers = [
        NewHandler(
            name=one.name, kind="consumer", topics=tuple(topic.name for topic in one.topics), words=_words(one.source)
        )
        for one in pipeline.consumers
    ]
    topics = tuple(topic.name for topic in pipeline.topics)
    return NewPipeline(name=pipeline.name, digest=digest_of(pipeline), topics=topics, handlers=(*producers, *consumers))


def state_of(pipeline: Pipeline, view: PipelineView, policy: PipelinePolicy) -> State:
    """What its scheduler knows from the store alone: flags that live in memory are down."""
    rows = {(one.facts.kind, one.facts.name): one for one in view.pipeline.handlers}
    known = pipeline.scheduled(policy)
    known = replace(
        known,
        producers=tuple(_with_producer_times(one, rows.get(("producer", one.name))) for one in known.producers),
        consumers=tuple(_with_consumer_times(one, rows.get(("consumer", one.name))) for one in known.consumers),
    )
    return _with_runs(known, view)


def _with_runs(known: State, view: PipelineView) -> State:
    run = view.open_run
    active = run is not None and run.status == "active"
    return replace(
        known,
        pending={topic: moment_of(oldest) for topic, oldest in view.pending.items()},
        active=run.handler if run is not None and active else None,
        active_run=run.id if run is not None and active else None,
        active_since=moment_of(run.created_us) if run is not None and active else None,
        blocked=None if run is None or active else blocked_of(run),
        paused=view.pipeline.paused,
    )


def declared_state(view: PipelineView, policy: PipelinePolicy) -> State:
    """What is known of a pipeline without its code: as it was declared, from the store alone."""
    rows = [(one, msgspec.json.decode(one.facts.words)) for one in view.pipeline.handlers]
    producers = tuple(
        _with_producer_times(
            Producer(one.facts.name, words.get("every"), words.get("cron"), words.get("timezone", "UTC")), one
        )
        for one, words in rows
        if one.facts.kind == "producer"
    )
    consumers = tuple(
        _with_consumer_times(Consumer(one.facts.name, one.facts.topics), one)
        for one, _ in rows
        if one.facts.kind == "consumer"
    )
    return _with_runs(State(producers, consumers, policy=policy), view)


def taken_over(pipeline: Pipeline, view: PipelineView, policy: PipelinePolicy, now: datetime) -> State:
    """The state of a worker that takes a pipeline over (L9); a deploy that nobody has acted upon still counts (L2)."""
    stored = state_of(pipeline, view, policy)
    state = scheduling.recover(stored, now)
    dirty = {one.name for one in stored.consumers if one.dirty}
    queued = {one.name for one in stored.producers if one.queued}
    return replace(
        state,
        producers=tuple(replace(one, queued=one.queued or one.name in queued) for one in state.producers),
        consumers=tuple(replace(one, dirty=one.dirty or one.name in dirty) for one in state.consumers),
    )


def refreshed(state: State, view: PipelineView) -> State:
    """The state of a worker that learns what others have written while none of its handlers runs (L10, L11)."""
    rows = {one.facts.name: one for one in view.pipeline.handlers}
    queued = {name for name, row in rows.items() if row.times.queued}
    producers = tuple(
        replace(_with_producer_times(one, rows.get(one.name)), queued=one.queued or one.name in queued)
        for one in state.producers
    )
    run = view.open_run
    return replace(
        state,
        producers=producers,
        pending={topic: moment_of(oldest) for topic, oldest in view.pending.items()},
        blocked=None if run is None or run.status == "active" else blocked_of(run),
        paused=view.pipeline.paused,
    )


def blocked_of(run: HandlerRun) -> Blocked:
    """A run that blocks its pipeline, as the scheduler knows it."""
    retry_at = None if run.retry_us is None else moment_of(run.retry_us)
    return Blocked(run.handler, run.id, run.status, run.attempt, moment_of(run.updated_us), retry_at)


def times_of(handler: Producer | Consumer) -> Times:
    """When a handler runs next, as far as that has to outlive a worker."""
    if isinstance(handler, Producer):
        return Times(next_run_us=_micros(handler.next_run_at), queued=handler.queued)
    return Times(wake_us=_micros(handler.wake_at))


def _with_producer_times(one: Producer, row: HandlerRow | None) -> Producer:
    return one if row is None else replace(one, next_run_at=_moment(row.times.next_run_us), queued=row.times.queued)


def _with_consumer_times(one: Consumer, row: HandlerRow | None) -> Consumer:
    return one if row is None else replace(one, wake_at=_moment(row.times.wake_us), dirty=row.dirty)


def _moment(at_us: int | None) -> datetime | None:
    return None if at_us is None else moment_of(at_us)


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else micros(moment)


def _cadence(one: Any) -> Mapping[str, Any]:
    if one.cron is not None:
        return {"cron": one.cron, "timezone": one.timezone}
    return {"every": read_every(one.every).seconds}


def _words(source: str, cadence: Mapping[str, Any] | None = None) -> bytes:
    return bytes(codec.encode({"source": source, **(cadence or {})}, "words"))
