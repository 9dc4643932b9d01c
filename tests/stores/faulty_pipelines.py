"""Stores with one fault each in what they keep of pipelines; the conformance suite has to find every one of them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from perdure.stores.memory import MemoryStore
from perdure.stores.memory.pipeline_rows import PipelineRows, pipeline_rows
from perdure.stores.pipeline_records import (
    Decision,
    Finished,
    HandlerRun,
    LedgerEntry,
    NewEvent,
    Preparation,
    Reservation,
    RunBeginning,
    RunCommit,
    RunFailure,
    StoredEvent,
)


class FaultyPipelines(MemoryStore):
    """Where its rows are."""

    @property
    def rows(self) -> PipelineRows:
        return pipeline_rows(self._state)


class OrphansReservations(FaultyPipelines):
    """A successor takes results over, and not what was reserved (L7)."""

    async def begin_run(self, owner: int, pipeline: str, beginning: RunBeginning) -> HandlerRun | None:
        kept = self.rows.reserved
        if beginning.takes_over:
            self.rows.reserved = {}
        begun = await super().begin_run(owner, pipeline, beginning)
        self.rows.reserved = kept
        return begun


class ReservesWhatIsRefused(FaultyPipelines):
    """It reserves what it can, and says afterwards what it could not (L4)."""

    async def save_prepared(self, owner: int, pipeline: str, preparation: Preparation) -> Reservation:
        given = await super().save_prepared(owner, pipeline, preparation)
        if given.refused:
            refused = set(given.refused)
            reserve = {
                topic: tuple(id for id in ids if (topic, id) not in refused)
                for topic, ids in preparation.reserve.items()
            }
            await super().save_prepared(owner, pipeline, replace(preparation, reserve=reserve))
        return given


class WritesTheLedgerLate(FaultyPipelines):
    """A mutation is in flight, and nobody knows (L3)."""

    async def begin_mutation(self, owner: int, pipeline: str, run: str, what: str) -> LedgerEntry:
        before = self.rows.runs[run]
        entry = await super().begin_mutation(owner, pipeline, run, what)
        self.rows.runs[run] = before
        return entry


class CommitsByHalves(FaultyPipelines):
    """Events are published although the commit is refused (L4)."""

    async def commit_run(self, owner: int, pipeline: str, commit: RunCommit) -> Finished:
        try:
            return await super().commit_run(owner, pipeline, commit)
        except Exception:
            known = [event for event in commit.events if event.topic in self.rows.find(pipeline).topics]
            await self.publish_events(pipeline, known)
            raise


class ForgetsToConsume(FaultyPipelines):
    """What a run has worked off waits again (L4)."""

    async def commit_run(self, owner: int, pipeline: str, commit: RunCommit) -> Finished:
        self.rows.release(pipeline, commit.run)
        return await super().commit_run(owner, pipeline, commit)


class RevivesEvents(FaultyPipelines):
    """An id that is published again waits again (L1)."""

    async def publish_events(self, pipeline: str, events: Sequence[NewEvent]) -> list[bool]:
        given = await super().publish_events(pipeline, events)
        for event, new in zip(events, given, strict=True):
            if not new:
                topic = self.rows.topic(pipeline, event.topic)
                number = topic.numbers[event.message_id]
                topic.events[number] = replace(topic.events[number], status="pending")
        return given


class PeeksAtTheNewest(FaultyPipelines):
    """The newest first."""

    async def peek_events(self, pipeline: str, topic: str, limit: int) -> list[StoredEvent]:
        return list(reversed(await super().peek_events(pipeline, topic, 10_000)))[:limit]


class CountsNoAttempts(FaultyPipelines):
    """What was given back looks as if it had never been taken (L7)."""

    async def fail_run(self, owner: int, pipeline: str, failure: RunFailure) -> HandlerRun:
        reserved = list(self.rows.reserved.get(failure.run, ()))
        run = await super().fail_run(owner, pipeline, failure)
        for name, number in reserved:
            events = self.rows.topic(pipeline, name).events
            events[number] = replace(events[number], attempt=1)
        return run


class IgnoresPauses(FaultyPipelines):
    """A run begins although a person has said stop (L11)."""

    async def begin_run(self, owner: int, pipeline: str, beginning: RunBeginning) -> HandlerRun | None:
        row = self.rows.find(pipeline)
        self.rows.pipelines[pipeline] = replace(row, paused=False)
        begun = await super().begin_run(owner, pipeline, beginning)
        self.rows.pipelines[pipeline] = replace(self.rows.find(pipeline), paused=row.paused)
        return begun


class LetsAnybodyWrite(FaultyPipelines):
    """Whoever comes with a lease, lost or not, is taken for the owner (L9)."""

    async def fail_run(self, owner: int, pipeline: str, failure: RunFailure) -> HandlerRun:
        known = self.rows.find(pipeline).owner
        alive = next(iter(self._state.rows.leases), None)
        if alive is None:
            alive = (await self.open_lease("anybody", {}, 10)).number
        self.rows.pipelines[pipeline] = replace(self.rows.find(pipeline), owner=alive)
        run = await super().fail_run(alive, pipeline, failure)
        self.rows.pipelines[pipeline] = replace(self.rows.find(pipeline), owner=known)
        return run


class SettlesWhatRuns(FaultyPipelines):
    """A person's word is taken on a run that waits for nobody (L7)."""

    async def settle_run(self, decision: Decision) -> HandlerRun:
        run = self.rows.runs.get(decision.run)
        if run is not None and run.status == "active":
            return run
        return await super().settle_run(decision)
