"""Pipeline rules: what becomes of rows of pipelines in each transition, written alike by all stores; pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from perdure.errors import InvalidValue, LeaseLost, NotFound, UsageError
from perdure.stores.event_records import NewEvent
from perdure.stores.pipeline_records import (
    Decision,
    EventStatus,
    HandlerRow,
    HandlerRun,
    LedgerEntry,
    LedgerStatus,
    MutationOutcome,
    NewHandler,
    NewPipeline,
    PipelineRow,
    Preparation,
    RunBeginning,
    RunFailure,
    StoredEvent,
    Times,
)


class HasStatus(Protocol):
    """An event, as far as it matters whether it can be reserved."""

    @property
    def status(self) -> str: ...


E = TypeVar("E", bound=HasStatus)
APPLIED = ("success", "skipped")  # a mutation that is settled for good
_LEDGER: Mapping[MutationOutcome, LedgerStatus] = {
    "success": "success",
    "failure": "failure",
    "skipped": "skipped",
    "uncertain": "uncertain",
    "none": "failure",  # in the ledger and yet nothing was done
}

# --- pipelines ----------------------------------------------------------------------------------


def new_row(new: NewPipeline, now: int) -> PipelineRow:
    """A pipeline that is deployed for the first time."""
    return PipelineRow(
        name=new.name,
        digest=new.digest,
        topics=new.topics,
        handlers=tuple(_deployed(one, None, now) for one in new.handlers),
        created_us=now,
        deployed_us=now,
    )


def redeployed(row: PipelineRow, new: NewPipeline, now: int) -> PipelineRow:
    """The row with another declaration (L2)."""
    old = {(one.facts.name, one.facts.kind): one for one in row.handlers}
    handlers = tuple(_deployed(one, old.get((one.name, one.kind)), now) for one in new.handlers)
    return replace(row, digest=new.digest, topics=new.topics, handlers=handlers, deployed_us=now)


def _deployed(facts: NewHandler, old: HandlerRow | None, now: int) -> HandlerRow:
    """A handler at a deploy: a producer is due, a consumer dirty; state and `wake_us` are those of the same name."""
    if facts.kind == "producer":
        return HandlerRow(facts=facts, state=old.state if old else None, times=Times(next_run_us=now))
    times = Times(wake_us=old.times.wake_us) if old else Times()
    return HandlerRow(facts=facts, state=old.state if old else None, times=times, dirty=True)


def minded(run: HandlerRun, new: NewPipeline, now: int) -> HandlerRun | None:
    """The open run after a deploy (L2). None: it is given up, for its handler is gone, unless its outcome is unknown.

    One that is active was interrupted: nobody deploys over the head of a worker that is alive.
    """
    if run.handler not in {one.name for one in new.handlers} and run.mutation != "uncertain":
        return None
    return replace(run, retry_us=now) if run.status == "failed:logic" else run


def given_up(run: HandlerRun, now: int) -> tuple[HandlerRun, EventStatus]:
    """A run whose handler a deploy has taken away, and what becomes of its events: none of them is done twice."""
    if run.status == "active":
        run = replace(run, status="crashed", updated_us=now)
    return run, "consumed" if run.mutation == "success" else "skipped" if run.mutation == "skipped" else "pending"


def handler_of(row: PipelineRow, name: str) -> HandlerRow:
    """The handler of this name. `NotFound`."""
    for one in row.handlers:
        if one.facts.name == name:
            return one
    raise NotFound(f"pipeline {row.name!r} has no handler {name!r}")


def with_handler(row: PipelineRow, changed: HandlerRow) -> PipelineRow:
    """The row with a handler as it is now."""
    handlers = tuple(changed if one.facts.name == changed.facts.name else one for one in row.handlers)
    return replace(row, handlers=handlers)


def queued(row: PipelineRow, times: Mapping[str, Times]) -> PipelineRow:
    """The row with its producers queued (L10). `UsageError`."""
    if row.open_run is not None or row.paused:
        why = "it is paused" if row.paused else f"its run {row.open_run} is not finished"
        raise UsageError(f"the pipeline {row.name!r} cannot run now: {why}. Nothing was queued")
    for one in row.handlers:
        if one.facts.name in times:
            row = with_handler(row, replace(one, times=times[one.facts.name]))
    return row


def check_topics(row: PipelineRow, events: Sequence[NewEvent]) -> None:
    """`NotFound` if any of these events is of a topic that is not declared."""
    for event in events:
        if event.topic not in row.topics:
            raise NotFound(
                f"pipeline {row.name!r} has no topic {event.topic!r}; it has {', '.join(row.topics) or 'none'}"
            )


def pipeline_with(rows: Sequence[PipelineRow], pipeline: str | None, topic: str) -> str:
    """The pipeline that a workflow publishes to: the one that it names, or the one that has this topic."""
    found = [row.name for row in rows if topic in row.topics and pipeline in (None, row.name)]
    if not found:
        where = "" if pipeline is None else f" of pipeline {pipeline!r}"
        raise NotFound(f"there is no topic {topic!r}{where}: deploy its pipeline, and the workflow goes on")
    if len(found) > 1:
        raise UsageError(
            f"the pipelines {', '.join(sorted(found))} have a topic {topic!r}: publish to the topic, not to its name"
        )
    return found[0]


# --- refusals -----------------------------------------------------------------------------------


def no_pipeline(name: str) -> NotFound:
    return NotFound(f"no pipeline is called {name!r}; look it up with `perdure pipeline list`")


def no_topic(pipeline: str, topic: str) -> NotFound:
    return NotFound(f"pipeline {pipeline!r} has no topic {topic!r}")


def no_event(pipeline: str, topic: str, message_id: str) -> NotFound:
    return NotFound(f"topic {topic!r} of pipeline {pipeline!r} has no event {message_id!r}")


def no_run(run: str) -> NotFound:
    return NotFound(f"no run of a pipeline has the id {run!r}; list them with `perdure pipeline runs`")


def lost(owner: int, name: str) -> LeaseLost:
    return LeaseLost(f"another worker may run the pipeline {name!r} now (lease {owner}). Nothing was written")


def check_open(row: PipelineRow, run: str) -> None:
    """`UsageError` unless this run is the open one."""
    if row.open_run != run:
        raise UsageError(f"the run {run} of pipeline {row.name!r} is not open; open is {row.open_run}")


def check_active(run: HandlerRun, *stages: str) -> HandlerRun:
    """The run, if it is active, and in one of these stages. `UsageError`."""
    if run.status != "active" or (stages and run.stage not in stages):
        raise UsageError(f"the run {run.id} is {run.status} in stage {run.stage}: that is not its turn")
    return run


def check_pending(event: StoredEvent) -> StoredEvent:
    """The event, if it can be skipped. `UsageError`."""
    if event.status != "pending":
        facts = event.facts
        raise UsageError(
            f"the event {facts.message_id!r} of topic {facts.topic!r} is {event.status}, and cannot be skipped"
        )
    return event


# --- runs ---------------------------------------------------------------------------------------


def check_beginning(row: PipelineRow, beginning: RunBeginning) -> None:
    """`UsageError` while another run is open."""
    if row.open_run != beginning.retry_of:
        raise UsageError(f"pipeline {row.name!r} has the open run {row.open_run}: one at a time")


def begun(row: PipelineRow, beginning: RunBeginning, number: int, old: HandlerRun | None, now: int) -> HandlerRun:
    """The record of a run that begins, with what it takes over (L7)."""
    handler = handler_of(row, beginning.handler)
    run = HandlerRun(
        id=beginning.run,
        number=number,
        pipeline=row.name,
        handler=handler.facts.name,
        kind=handler.facts.kind,
        retry_of=beginning.retry_of,
        attempt=beginning.attempt,
        key=beginning.key,
        created_us=now,
        updated_us=now,
    )
    if old is None or not beginning.takes_over:
        return run
    run = replace(run, stage=beginning.stage, prepared=old.prepared, wake_us=old.wake_us)
    if beginning.stage == "prepared":
        return run
    return replace(run, mutation=old.mutation, result=old.result, ledger=old.ledger)


def sorted_out(
    found: Mapping[tuple[str, str], E], preparation: Preparation
) -> tuple[list[E], tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """What can be reserved, what was skipped since it was peeked, and what cannot be reserved (L4)."""
    wanted: list[E] = []
    dropped: list[tuple[str, str]] = []
    refused: list[tuple[str, str]] = []
    for name, ids in preparation.reserve.items():
        for id in dict.fromkeys(ids):
            event = found.get((name, id))
            if event is not None and event.status == "pending":
                wanted.append(event)
            elif event is not None and event.status == "skipped" and id in preparation.peeked.get(name, ()):
                dropped.append((name, id))
            else:
                refused.append((name, id))
    return wanted, tuple(dropped), tuple(refused)


def without_dropped(prepared: bytes, dropped: Sequence[tuple[str, str]]) -> bytes:
    """What was prepared, with nothing in its `reserve` that was skipped meanwhile (L4)."""
    if not dropped:
        return prepared
    parts = msgspec.json.decode(prepared, type=dict[str, msgspec.Raw])
    named = msgspec.json.decode(parts.get("reserve", b"{}"), type=dict[str, list[str]])
    gone = set(dropped)
    left = {topic: [id for id in ids if (topic, id) not in gone] for topic, ids in named.items()}
    parts["reserve"] = msgspec.Raw(msgspec.json.encode({topic: ids for topic, ids in left.items() if ids}))
    return msgspec.json.encode(parts)


def in_flight(run: HandlerRun, what: str, now: int) -> HandlerRun:
    """Its mutation is about to be called (L3)."""
    entry = LedgerEntry(key=run.key, what=what, started_us=now)
    return replace(run, stage="mutating", mutation="uncertain", ledger=entry, updated_us=now)


def mutated(run: HandlerRun, outcome: MutationOutcome, result: bytes | None, now: int) -> HandlerRun:
    """What became of its mutation is known (L4)."""
    return replace(run, stage="mutated", result=result, updated_us=now, **_outcome(run, outcome, now))


def committed(run: HandlerRun, now: int) -> HandlerRun:
    """It is done."""
    return replace(run, stage="committed", status="committed", error=None, updated_us=now)


def failed(run: HandlerRun, failure: RunFailure, now: int) -> HandlerRun:
    """It cannot go on. `InvalidValue` for a status of another kind."""
    if failure.status in ("active", "committed"):
        raise InvalidValue(f"{failure.status!r} is no status of a run that failed")
    changes = _outcome(run, failure.mutation, now)
    entry = changes["ledger"]
    if isinstance(entry, LedgerEntry):
        changes["ledger"] = replace(entry, reconciliations=failure.reconciliations, next_us=failure.reconcile_us)
    return replace(
        run,
        status=failure.status,
        stage=failure.stage,
        error=failure.error,
        retry_us=failure.retry_us,
        updated_us=now,
        **changes,
    )


def settled(row: PipelineRow, run: HandlerRun, decision: Decision, now: int) -> HandlerRun:
    """It waits, and may go on now (L7). `UsageError` where it does not wait."""
    if row.open_run != run.id or run.status == "active":
        raise UsageError(f"the run {run.id} of {run.handler!r} does not wait for anybody: it is {run.status}")
    if decision.mutation is not None:
        run = replace(run, result=decision.result, **_outcome(run, decision.mutation, now))
        run = replace(run, stage="mutated" if decision.mutation in APPLIED else run.stage)
    if run.ledger is not None:
        run = replace(run, ledger=replace(run.ledger, decided_by=decision.decided_by, next_us=None, reconciliations=0))
    return replace(run, retry_us=now, updated_us=now)


def _outcome(run: HandlerRun, outcome: MutationOutcome, now: int) -> dict[str, Any]:
    """What becomes of a run and its ledger when this is known of its mutation."""
    entry = run.ledger
    if entry is not None:
        entry = replace(entry, status=_LEDGER[outcome], ended_us=None if outcome == "uncertain" else now)
    return {"mutation": outcome, "ledger": entry}
