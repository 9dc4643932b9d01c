"""Pipelines of a memory store: deploying, owning, pausing; their runs and events are in handler_runs and events."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from perdure.stores import pipeline_rules as rules
from perdure.stores.memory.part import Part
from perdure.stores.memory.pipeline_rows import PipelineRows, pipeline_rows
from perdure.stores.memory.state import State
from perdure.stores.pipeline_records import (
    Deployed,
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
                row = rules.new_row(new, now)
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
            row = rules.queued(rows.find(name), times)
            rows.pipelines[name] = row
            state.changes += 1
            return row


def _is_alive(state: State, owner: int | None) -> bool:
    return owner is not None and owner in state.rows.leases


def _redeployed(rows: PipelineRows, row: PipelineRow, new: NewPipeline, now: int) -> PipelineRow:
    row = rules.redeployed(row, new, now)
    run = None if row.open_run is None else rows.runs[row.open_run]
    if run is None:
        return row
    kept = rules.minded(run, new, now)
    if kept is not None:
        rows.runs[run.id] = kept
        return row
    rows.runs[run.id], status = rules.given_up(run, now)
    if status == "pending":
        rows.release(row.name, run.id)
    else:
        rows.finish(row.name, run.id, status)
    return replace(row, open_run=None)
