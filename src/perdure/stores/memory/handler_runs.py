"""Runs of handlers in a memory store: begun, carried through their stages, committed, blocked, settled."""

from __future__ import annotations

from itertools import islice

from msgspec.structs import replace

from perdure.errors import AlreadyExists
from perdure.stores import pipeline_rules as rules
from perdure.stores.answers import same_start
from perdure.stores.memory.part import Part
from perdure.stores.memory.pipeline_rows import PipelineRows, pipeline_rows
from perdure.stores.memory.state import State
from perdure.stores.pipeline_records import (
    Decision,
    Finished,
    HandlerRun,
    LedgerEntry,
    MutationOutcome,
    PipelineRow,
    Preparation,
    Reservation,
    RunBeginning,
    RunCommit,
    RunFailure,
    StoredEvent,
)


class MemoryHandlerRuns(Part):
    """perdure.stores.pipeline_port.HandlerRunStore."""

    async def begin_run(self, owner: int, pipeline: str, beginning: RunBeginning) -> HandlerRun | None:
        with self._writing() as (state, now):
            rows = pipeline_rows(state)
            row = rows.owned(state, owner, pipeline)
            if row.paused:
                return None
            rules.check_beginning(row, beginning)
            handler = rules.handler_of(row, beginning.handler)
            run = _begun(rows, row, beginning, now)
            times = handler.times if beginning.times is None else beginning.times
            row = rules.with_handler(row, replace(handler, times=times, dirty=False))
            rows.pipelines[pipeline] = replace(row, open_run=run.id)
            rows.chains.setdefault(pipeline, []).append(run.id)
            rows.runs[run.id] = run
            state.changes += 1
            return run

    async def save_prepared(self, owner: int, pipeline: str, preparation: Preparation) -> Reservation:
        with self._writing() as (state, now):
            rows = pipeline_rows(state)
            run = _active(rows, rows.owned(state, owner, pipeline), preparation.run, "preparing")
            wanted, dropped, refused = rules.sorted_out(_looked_up(rows, pipeline, preparation), preparation)
            if refused:
                return Reservation(0, dropped, refused)
            for event in wanted:
                rows.reserve(pipeline, event, run.id)
            prepared = rules.without_dropped(preparation.prepared, dropped)
            rows.runs[run.id] = replace(
                run, stage="prepared", prepared=prepared, wake_us=preparation.wake_us, updated_us=now
            )
            state.changes += 1
            return Reservation(len(wanted), dropped)

    async def begin_mutation(self, owner: int, pipeline: str, run: str, what: str) -> LedgerEntry:
        with self._writing() as (state, now):
            rows = pipeline_rows(state)
            active = _active(rows, rows.owned(state, owner, pipeline), run, "prepared")
            run_in_flight = rows.runs[run] = rules.in_flight(active, what, now)
            state.changes += 1
            assert run_in_flight.ledger is not None
            return run_in_flight.ledger

    async def end_mutation(
        self, owner: int, pipeline: str, run: str, outcome: MutationOutcome, result: bytes | None
    ) -> None:
        with self._writing() as (state, now):
            rows = pipeline_rows(state)
            active = _active(rows, rows.owned(state, owner, pipeline), run, "prepared", "mutating")
            rows.runs[run] = rules.mutated(active, outcome, result, now)
            state.changes += 1

    async def commit_run(self, owner: int, pipeline: str, commit: RunCommit) -> Finished:
        with self._writing() as (state, now):
            rows = pipeline_rows(state)
            row = rows.owned(state, owner, pipeline)
            run = _active(rows, row, commit.run)
            rules.check_topics(row, commit.events)
            _check_starts(state, commit)
            handler = rules.handler_of(row, run.handler)
            new = handler.state if commit.state is None else commit.state
            row = rules.with_handler(row, replace(handler, state=new, times=commit.times))
            rows.pipelines[pipeline] = replace(row, open_run=None)
            rows.finish(pipeline, run.id, "skipped" if run.mutation == "skipped" else "consumed")
            news = [event.topic for event in commit.events if rows.publish(pipeline, event, now, run.id)]
            for start in commit.starts:
                if start.facts.workflow_id not in state.newest:
                    state.add_run(start.facts, now, now if start.wake_us is None else start.wake_us)
            rows.runs[run.id] = rules.committed(run, now)
            state.changes += 1
            return Finished(rows.oldest(pipeline), tuple(dict.fromkeys(news)))

    async def fail_run(self, owner: int, pipeline: str, failure: RunFailure) -> HandlerRun:
        with self._writing() as (state, now):
            rows = pipeline_rows(state)
            run = _open(rows, rows.owned(state, owner, pipeline), failure.run)
            run = rows.runs[run.id] = rules.failed(run, failure, now)
            if failure.release:
                rows.release(pipeline, run.id)
            state.changes += 1
            return run

    async def settle_run(self, decision: Decision) -> HandlerRun:
        with self._writing() as (state, now):
            rows = pipeline_rows(state)
            run = _find(rows, decision.run)
            run = rows.runs[run.id] = rules.settled(rows.find(run.pipeline), run, decision, now)
            if decision.release:
                rows.release(run.pipeline, run.id)
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

    async def list_last_handler_runs(self, pipeline: str, limit: int) -> list[HandlerRun]:
        with self._reading() as state:
            rows = pipeline_rows(state)
            rows.find(pipeline)
            return [rows.runs[id] for id in rows.chains.get(pipeline, [])[-limit:]]


def _find(rows: PipelineRows, run: str) -> HandlerRun:
    if run not in rows.runs:
        raise rules.no_run(run)
    return rows.runs[run]


def _open(rows: PipelineRows, row: PipelineRow, run: str) -> HandlerRun:
    rules.check_open(row, run)
    return rows.runs[run]


def _active(rows: PipelineRows, row: PipelineRow, run: str, *stages: str) -> HandlerRun:
    return rules.check_active(_open(rows, row, run), *stages)


def _begun(rows: PipelineRows, row: PipelineRow, beginning: RunBeginning, now: int) -> HandlerRun:
    old = None if beginning.retry_of is None else rows.runs[beginning.retry_of]
    if old is not None and beginning.takes_over:
        rows.hand_over(row.name, old.id, beginning.run)
    elif old is not None:
        rows.release(row.name, old.id)
    return rules.begun(row, beginning, next(rows.run_numbers), old, now)


def _looked_up(rows: PipelineRows, pipeline: str, preparation: Preparation) -> dict[tuple[str, str], StoredEvent]:
    found: dict[tuple[str, str], StoredEvent] = {}
    for name, ids in preparation.reserve.items():
        topic = rows.topic(pipeline, name)
        found |= {(name, id): topic.events[topic.numbers[id]] for id in ids if id in topic.numbers}
    return found


def _check_starts(state: State, commit: RunCommit) -> None:
    for start in commit.starts:
        number = state.newest.get(start.facts.workflow_id)
        if number is not None and not same_start(state.rows.runs[number].facts, start.facts):
            raise AlreadyExists(
                f"the workflow id {start.facts.workflow_id!r} is taken by run {state.rows.runs[number].facts.run_id} "
                "with another workflow or input; choose another id"
            )
