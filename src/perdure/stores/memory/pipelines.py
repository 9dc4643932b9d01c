"""Pipelines of a memory store: deploying, owning, pausing; their runs and events are in handler_runs and events."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from perdure.errors import UsageError
from perdure.stores.memory.part import Part
from perdure.stores.memory.pipeline_rows import PipelineRows, pipeline_rows
from perdure.stores.memory.state import State
from perdure.stores.pipeline_records import (
    Deployed,
    HandlerRow,
    NewHandler,
    NewPipeline,
    PipelineRow,
    PipelineView,
    Times,
)


class MemoryPipelines(Part):
    """perdure.stores.pipeline_port.PipelineStore."""

    async def deploy_pipeline(self, new: NewPipeline, owner: int | None = None) -> Deployed:
        with self._writing() as (state, now):
            rows = pipeline_rows(state)
            row = rows.pipelines.get(new.name)
            if row is None:
                handlers = tuple(_deployed(one, None, now) for one in new.handlers)
                row = PipelineRow(
                    name=new.name,
                    digest=new.digest,
                    topics=new.topics,
                    handlers=handlers,
                    created_us=now,
                    deployed_us=now,
                )
            elif row.digest == new.digest or (_is_alive(state, row.owner) and row.owner != owner):
                return Deployed(row, changed=False)
            else:
                row = _redeployed(rows, row, new, now)
            rows.pipelines[row.name] = row
            state.changes += 1
            return Deployed(row, changed=True)

    async def claim_pipeline(self, owner: int, name: str) -> PipelineView | None:
        with self._writing() as (state, _):
            rows = pipeline_rows(state)
            row = rows.find(name)
            if not _is_alive(state, owner) or (_is_alive(state, row.owner) and row.owner != owner):
                return None
            row = rows.pipelines[name] = replace(row, owner=owner)
            state.changes += 1
            return rows.view(row)

    async def release_pipeline(self, owner: int, name: str) -> None:
        with self._writing() as (state, _):
            rows = pipeline_rows(state)
            row = rows.find(name)
            if row.owner == owner:
                rows.pipelines[name] = replace(row, owner=None)
                state.changes += 1

    async def view_pipeline(self, name: str) -> PipelineView:
        with self._reading() as state:
            rows = pipeline_rows(state)
            return rows.view(rows.find(name))

    async def list_pipelines(self) -> list[PipelineRow]:
        with self._reading() as state:
            return [row for _, row in sorted(pipeline_rows(state).pipelines.items())]

    async def pause_pipeline(self, name: str, paused: bool) -> PipelineRow:
        with self._writing() as (state, _):
            rows = pipeline_rows(state)
            row = rows.pipelines[name] = replace(rows.find(name), paused=paused)
            state.changes += 1
            return row

    async def queue_producers(self, name: str, times: Mapping[str, Times]) -> PipelineRow:
        with self._writing() as (state, _):
            rows = pipeline_rows(state)
            row = rows.find(name)
            if row.open_run is not None or row.paused:
                why = "it is paused" if row.paused else f"its run {row.open_run} is not finished"
                raise UsageError(f"the pipeline {name!r} cannot run now: {why}. Nothing was queued")
            for one in row.handlers:
                if one.facts.name in times:
                    row = rows.put_handler(row, replace(one, times=times[one.facts.name]))
            rows.pipelines[name] = row
            state.changes += 1
            return row


def _is_alive(state: State, owner: int | None) -> bool:
    return owner is not None and owner in state.rows.leases


def _deployed(facts: NewHandler, old: HandlerRow | None, now: int) -> HandlerRow:
    """A handler at a deploy: a producer is due, a consumer dirty; state and `wake_us` are those of the same name."""
    if facts.kind == "producer":
        return HandlerRow(facts=facts, state=old.state if old else None, times=Times(next_run_us=now))
    times = Times(wake_us=old.times.wake_us) if old else Times()
    return HandlerRow(facts=facts, state=old.state if old else None, times=times, dirty=True)


def _redeployed(rows: PipelineRows, row: PipelineRow, new: NewPipeline, now: int) -> PipelineRow:
    old = {(one.facts.name, one.facts.kind): one for one in row.handlers}
    handlers = tuple(_deployed(one, old.get((one.name, one.kind)), now) for one in new.handlers)
    row = replace(row, digest=new.digest, topics=new.topics, handlers=handlers, deployed_us=now)
    run = None if row.open_run is None else rows.runs[row.open_run]
    if run is None or run.status != "failed:logic":
        return row
    if run.handler in {one.name for one in new.handlers}:
        rows.runs[run.id] = replace(run, retry_us=now)
        return row
    rows.release(row.name, run.id)
    return replace(row, open_run=None)
