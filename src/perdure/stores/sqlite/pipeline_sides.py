"""Sides of pipelines: the methods of their port, each handed to its transition in the modules beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perdure.stores.pipeline_records import (
    Decision,
    Deployed,
    EventStatus,
    Finished,
    HandlerRun,
    LedgerEntry,
    MutationOutcome,
    NewEvent,
    NewPipeline,
    PipelineRow,
    PipelineView,
    Preparation,
    Reservation,
    RunBeginning,
    RunCommit,
    RunFailure,
    StoredEvent,
    Times,
)
from perdure.stores.sqlite import events as transitions
from perdure.stores.sqlite import handler_runs, pipelines
from perdure.stores.sqlite.part import Part


class SqlitePipelines(Part):
    """perdure.stores.pipeline_port.PipelineStore."""

    async def deploy_pipeline(self, new: NewPipeline, owner: int | None = None) -> Deployed:
        return await self._write(handler_runs.deploy_pipeline, new, owner)

    async def claim_pipeline(self, owner: int, name: str) -> PipelineView | None:
        return await self._write(handler_runs.claim_pipeline, owner, name)

    async def release_pipeline(self, owner: int, name: str) -> None:
        await self._write(pipelines.release_pipeline, owner, name)

    async def view_pipeline(self, name: str) -> PipelineView:
        return await self._read(handler_runs.view_pipeline, name)

    async def list_pipelines(self) -> list[PipelineRow]:
        return await self._read(pipelines.list_pipelines)

    async def pause_pipeline(self, name: str, paused: bool) -> PipelineRow:
        return await self._write(pipelines.pause_pipeline, name, paused)

    async def queue_producers(self, name: str, times: Mapping[str, Times]) -> PipelineRow:
        return await self._write(pipelines.queue_producers, name, times)


class SqliteHandlerRuns(Part):
    """perdure.stores.pipeline_port.HandlerRunStore."""

    async def begin_run(self, owner: int, pipeline: str, beginning: RunBeginning) -> HandlerRun | None:
        return await self._write(handler_runs.begin_run, owner, pipeline, beginning)

    async def save_prepared(self, owner: int, pipeline: str, preparation: Preparation) -> Reservation:
        return await self._write(handler_runs.save_prepared, owner, pipeline, preparation)

    async def begin_mutation(self, owner: int, pipeline: str, run: str, what: str) -> LedgerEntry:
        return await self._write(handler_runs.begin_mutation, owner, pipeline, run, what)

    async def end_mutation(
        self, owner: int, pipeline: str, run: str, outcome: MutationOutcome, result: bytes | None
    ) -> None:
        await self._write(handler_runs.end_mutation, owner, pipeline, run, (outcome, result))

    async def commit_run(self, owner: int, pipeline: str, commit: RunCommit) -> Finished:
        return await self._write(handler_runs.commit_run, owner, pipeline, commit)

    async def fail_run(self, owner: int, pipeline: str, failure: RunFailure) -> HandlerRun:
        return await self._write(handler_runs.fail_run, owner, pipeline, failure)

    async def settle_run(self, decision: Decision) -> HandlerRun:
        return await self._write(handler_runs.settle_run, decision)

    async def get_handler_run(self, run: str) -> HandlerRun:
        return await self._read(handler_runs.load, run)

    async def list_handler_runs(self, pipeline: str, limit: int, after: int = 0) -> list[HandlerRun]:
        return await self._scan(handler_runs.list_handler_runs, pipeline, limit, after)

    async def list_last_handler_runs(self, pipeline: str, limit: int) -> list[HandlerRun]:
        return await self._scan(handler_runs.list_last_handler_runs, pipeline, limit)


class SqliteEvents(Part):
    """perdure.stores.pipeline_port.EventStore."""

    async def publish_events(self, pipeline: str, events: Sequence[NewEvent]) -> list[bool]:
        return await self._write(transitions.publish_events, pipeline, events)

    async def skip_event(self, pipeline: str, topic: str, message_id: str) -> StoredEvent:
        return await self._write(transitions.skip_event, pipeline, topic, message_id)

    async def peek_events(self, pipeline: str, topic: str, limit: int) -> list[StoredEvent]:
        return await self._read(transitions.peek_events, pipeline, topic, limit)

    async def list_events(self, pipeline: str, topic: str, limit: int, after: int = 0) -> list[StoredEvent]:
        return await self._scan(transitions.list_events, pipeline, topic, limit, after)

    async def count_events(self, pipeline: str) -> Mapping[str, Mapping[EventStatus, int]]:
        return await self._scan(transitions.count_events, pipeline)
