"""Runs of handlers in a memory store: begun, carried through their stages, committed, blocked, settled."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from msgspec.structs import replace

from perdure.errors import AlreadyExists, InvalidValue, NotFound, UsageError
from perdure.stores.answers import same_start
from perdure.stores.memory.part import Part
from perdure.stores.memory.pipeline_rows import PipelineRows, pipeline_rows
from perdure.stores.memory.state import State
from perdure.stores.pipeline_records import (
    Decision,
    HandlerRow,
    HandlerRun,
    LedgerEntry,
    LedgerStatus,
    MutationOutcome,
    PipelineRow,
    Preparation,
    Reservation,
    RunBeginning,
    RunCommit,
    RunFailure,
    StoredEvent,
)

_LEDGER: Mapping[MutationOutcome, LedgerStatus] = {
    "success": "success",
    "failure": "failure",
    "skipped": "skipped",
    "uncertain": "uncertain",
    "none": "failure",  # in the ledger and yet nothing was done
}


class MemoryHandlerRuns(Part):
    """perdure.stores.pipeline_port.HandlerRunStore."""

    async def begin_run(self, owner: int, pipeline: str, beginning: RunBeginning) -> HandlerRun | None:
        with self._writing() as (state, now):
            rows = pipeline_rows(state)
            row = rows.owned(state, owner, pipeline)
            if row.paused:
                return None
            if row.open_run != beginning.retry_of:
                raise UsageError(f"pipeline {pipeline!r} has the open run {row.open_run}: one at a time")
            handler = _handler(row, beginning.handler)
            run = _begun(rows, row, handler, beginning, now)
            times = handler.times if beginning.times is None else beginning.times
            row = rows.put_handler(row, replace(handler, times=times, dirty=False))
            rows.pipelines[pipeline] = replace(row, open_run=run.id)
            rows.chains.setdefault(pipeline, []).append(run.id)
            rows.runs[run.id] = run
            state.changes += 1
            return run

    async def save_prepared(self, owner: int, pipeline: str, preparation: Preparation) -> Reservation:
        with self._writing() as (state, now):
            rows = pipeline_rows(state)
            run = _active(rows, rows.owned(state, owner, pipeline), preparation.run, "preparing")
            wanted, dropped, refused = _looked_up(rows, pipeline, preparation)
            if refused:
                return Reservation(0, tuple(dropped), tuple(refused))
            for event in wanted:
                rows.reserve(pipeline, event, run.id)
            rows.runs[run.id] = replace(
                run, stage="prepared", prepared=preparation.prepared, wake_us=preparation.wake_us, updated_us=now
            )
            state.changes += 1
            return Reservation(len(wanted), tuple(dropped))

    async def begin_mutation(self, owner: int, pipeline: str, run: str, what: str) -> LedgerEntry:
        with self._writing() as (state, now):
            rows = pipeline_rows(state)
            active = _active(rows, rows.owned(state, owner, pipeline), run, "prepared")
            entry = LedgerEntry(key=active.key, what=what, started_us=now)
            rows.runs[run] = replace(active, stage="mutating", mutation="uncertain", ledger=entry, updated_us=now)
            state.changes += 1
            return entry

    async def end_mutation(
        self, owner: int, pipeline: str, run: str, outcome: MutationOutcome, result: bytes | None
    ) -> None:
        with self._writing() as (state, now):
            rows = pipeline_rows(state)
            active = _active(rows, rows.owned(state, owner, pipeline), run, "prepared", "mutating")
            rows.runs[run] = replace(
                active, stage="mutated", result=result, updated_us=now, **_outcome(active, outcome, now)
            )
            state.changes += 1

    async def commit_run(self, owner: int, pipeline: str, commit: RunCommit) -> Mapping[str, int]:
        with self._writing() as (state, now):
            rows = pipeline_rows(state)
            row = rows.owned(state, owner, pipeline)
            run = _active(rows, row, commit.run)
            rows.check_topics(row, commit.events)
            _check_starts(state, commit)
            handler = _handler(row, run.handler)
            new = handler.state if commit.state is None else commit.state
            row = rows.put_handler(row, replace(handler, state=new, times=commit.times))
            rows.pipelines[pipeline] = replace(row, open_run=None)
            rows.finish(pipeline, run.id, "skipped" if run.mutation == "skipped" else "consumed")
            for event in commit.events:
                rows.publish(pipeline, event, now, run.id)
            for start in commit.starts:
                if start.facts.workflow_id not in state.newest:
                    state.add_run(start.facts, now, now if start.wake_us is None else start.wake_us)
            rows.runs[run.id] = replace(run, stage="committed", status="committed", error=None, updated_us=now)
            state.changes += 1
            return rows.oldest(pipeline)

    async def fail_run(self, owner: int, pipeline: str, failure: RunFailure) -> HandlerRun:
        with self._writing() as (state, now):
            rows = pipeline_rows(state)
            run = _open(rows, rows.owned(state, owner, pipeline), failure.run)
            if failure.status in ("active", "committed"):
                raise InvalidValue(f"{failure.status!r} is no status of a run that failed")
            changes = _outcome(run, failure.mutation, now)
            entry = changes["ledger"]
            if isinstance(entry, LedgerEntry):
                changes["ledger"] = replace(
                    entry, reconciliations=failure.reconciliations, next_us=failure.reconcile_us
                )
            run = rows.runs[run.id] = replace(
                run,
                status=failure.status,
                stage=failure.stage,
                error=failure.error,
                retry_us=failure.retry_us,
                updated_us=now,
                **changes,
            )
            if failure.release:
                rows.release(pipeline, run.id)
            state.changes += 1
            return run

    async def settle_run(self, decision: Decision) -> HandlerRun:
        with self._writing() as (state, now):
            rows = pipeline_rows(state)
            run = _find(rows, decision.run)
            if rows.find(run.pipeline).open_run != run.id or run.status == "active":
                raise UsageError(f"the run {run.id} of {run.handler!r} does not wait for anybody: it is {run.status}")
            if decision.mutation is not None:
                known = decision.mutation in ("success", "skipped")
                run = replace(run, result=decision.result, **_outcome(run, decision.mutation, now))
                run = replace(run, stage="mutated" if known else run.stage)
            if run.ledger is not None:
                run = replace(run, ledger=replace(run.ledger, decided_by=decision.decided_by, next_us=None))
            if decision.release:
                rows.release(run.pipeline, run.id)
            run = rows.runs[run.id] = replace(run, retry_us=now, updated_us=now)
            state.changes += 1
            return run

    async def get_handler_run(self, run: str) -> HandlerRun:
        with self._reading() as state:
            return _find(pipeline_rows(state), run)

    async def list_handler_runs(self, pipeline: str, limit: int, after: int = 0) -> list[HandlerRun]:
        with self._reading() as state:
            rows = pipeline_rows(state)
            rows.find(pipeline)
            runs = (rows.runs[id] for id in rows.chains.get(pipeline, ()))
            return list(islice((run for run in runs if run.number > after), limit))


def _handler(row: PipelineRow, name: str) -> HandlerRow:
    for one in row.handlers:
        if one.facts.name == name:
            return one
    raise NotFound(f"pipeline {row.name!r} has no handler {name!r}")


def _find(rows: PipelineRows, run: str) -> HandlerRun:
    if run not in rows.runs:
        raise NotFound(f"no run of a pipeline has the id {run!r}; list them with `perdure pipeline runs`")
    return rows.runs[run]


def _open(rows: PipelineRows, row: PipelineRow, run: str) -> HandlerRun:
    if row.open_run != run:
        raise UsageError(f"the run {run} of pipeline {row.name!r} is not open; open is {row.open_run}")
    return rows.runs[run]


def _active(rows: PipelineRows, row: PipelineRow, run: str, *stages: str) -> HandlerRun:
    """The open run, if it is active, and in one of these stages."""
    found = _open(rows, row, run)
    if found.status != "active" or (stages and found.stage not in stages):
        raise UsageError(f"the run {run} is {found.status} in stage {found.stage}: that is not its turn")
    return found


def _begun(rows: PipelineRows, row: PipelineRow, handler: HandlerRow, beginning: RunBeginning, now: int) -> HandlerRun:
    run = HandlerRun(
        id=beginning.run,
        number=next(rows.run_numbers),
        pipeline=row.name,
        handler=handler.facts.name,
        kind=handler.facts.kind,
        retry_of=beginning.retry_of,
        attempt=beginning.attempt,
        key=beginning.key,
        created_us=now,
        updated_us=now,
    )
    if beginning.retry_of is None:
        return run
    old = rows.runs[beginning.retry_of]
    if not beginning.takes_over:
        rows.release(row.name, old.id)
        return run
    rows.hand_over(row.name, old.id, run.id)
    run = replace(run, stage=beginning.stage, prepared=old.prepared, wake_us=old.wake_us)
    if beginning.stage == "prepared":
        return run
    return replace(run, mutation=old.mutation, result=old.result, ledger=old.ledger)


def _looked_up(
    rows: PipelineRows, pipeline: str, preparation: Preparation
) -> tuple[list[StoredEvent], list[tuple[str, str]], list[tuple[str, str]]]:
    """What can be reserved, what was skipped since it was peeked, and what cannot be reserved."""
    wanted: list[StoredEvent] = []
    dropped: list[tuple[str, str]] = []
    refused: list[tuple[str, str]] = []
    for name, ids in preparation.reserve.items():
        topic = rows.topic(pipeline, name)
        for id in dict.fromkeys(ids):
            event = topic.events.get(topic.numbers.get(id, 0))
            if event is not None and event.status == "pending":
                wanted.append(event)
            elif event is not None and event.status == "skipped" and id in preparation.peeked.get(name, ()):
                dropped.append((name, id))
            else:
                refused.append((name, id))
    return wanted, dropped, refused


def _outcome(run: HandlerRun, outcome: MutationOutcome, now: int) -> dict[str, object]:
    """What becomes of a run and its ledger when this is known of its mutation."""
    entry = run.ledger
    if entry is not None:
        entry = replace(entry, status=_LEDGER[outcome], ended_us=None if outcome == "uncertain" else now)
    return {"mutation": outcome, "ledger": entry}


def _check_starts(state: State, commit: RunCommit) -> None:
    for start in commit.starts:
        number = state.newest.get(start.facts.workflow_id)
        if number is not None and not same_start(state.rows.runs[number].facts, start.facts):
            raise AlreadyExists(
                f"the workflow id {start.facts.workflow_id!r} is taken by run {state.rows.runs[number].facts.run_id} "
                "with another workflow or input; choose another id"
            )
