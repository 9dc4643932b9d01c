"""The port of pipelines: what an engine asks of a store for them, phrased as transitions, each atomic and durable.

    deploy ──► claim ──► begin_run ──► save_prepared ──► begin_mutation ──► end_mutation ──► commit_run
                 ▲           ▲              │                  │                  │             │
                 │           └──────────────┴── fail_run ◄─────┴──────────────────┴─────────────┘
                 └── a worker's end           (settle_run: reconciled, or a person's word)

A pipeline is owned like a run is: by one lease, the fencing number. Every transition of its owner is refused with
`LeaseLost` once another worker has it; then nothing was written. What people and other processes do (publish, pause,
settle, skip, deploy) needs no ownership, and the owner learns of it as of any change.

What always holds, after any transition: a pipeline has at most one open run; an event is reserved by that run or not at
all; a run stands in the ledger from before its call to the outside on.

Every method may be awaited on any event loop, in any thread, at any time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

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


class PipelineStore(Protocol):
    """Pipelines: deployed by name, owned by one worker at a time."""

    async def deploy_pipeline(self, new: NewPipeline, owner: int | None = None) -> Deployed:
        """Write a declaration, if it is new or another one and nobody else owns the pipeline (L2, L9).

        Every producer is due now, every consumer dirty; handlers keep state and `wake_us` by their name, events their
        status. An open run that is failed:logic may be tried again now, or is given up where its handler is gone.
        """
        ...

    async def claim_pipeline(self, owner: int, name: str) -> PipelineView | None:
        """Own it, if nobody alive does. An open run that is still active was interrupted: the caller settles that (L9).

        `NotFound`. A lease that was lost claims nothing.
        """
        ...

    async def release_pipeline(self, owner: int, name: str) -> None:
        """Give it back."""
        ...

    async def view_pipeline(self, name: str) -> PipelineView:
        """As it stands. `NotFound`."""
        ...

    async def list_pipelines(self) -> list[PipelineRow]:
        """By name."""
        ...

    async def pause_pipeline(self, name: str, paused: bool) -> PipelineRow:
        """A person's word; it touches nothing that the system has blocked (L11). `NotFound`."""
        ...

    async def queue_producers(self, name: str, times: Mapping[str, Times]) -> PipelineRow:
        """*Run now* (L10). `UsageError`, and nothing is written, while a run is open or the pipeline is paused."""
        ...


class HandlerRunStore(Protocol):
    """Runs of handlers: one record per attempt, one open at a time."""

    async def begin_run(self, owner: int, pipeline: str, beginning: RunBeginning) -> HandlerRun | None:
        """An active run. None: the pipeline has been paused meanwhile. `LeaseLost`.

        `retry_of` is the open run, and is open no more. With `takes_over` this run has what that one has prepared and
        reserved, and (unless it begins at stage prepared) what became of its mutation; without, what was reserved is
        pending again. `UsageError` while another run is open.
        """
        ...

    async def save_prepared(self, owner: int, pipeline: str, preparation: Preparation) -> Reservation:
        """Stage prepared, with the result, `wake_us`, and the events reserved: all or nothing (L4). `LeaseLost`."""
        ...

    async def begin_mutation(self, owner: int, pipeline: str, run: str, what: str) -> LedgerEntry:
        """Stage mutating, outcome uncertain, in flight in the ledger: before the call (L3). `LeaseLost`."""
        ...

    async def end_mutation(
        self, owner: int, pipeline: str, run: str, outcome: MutationOutcome, result: bytes | None
    ) -> None:
        """Stage mutated with its outcome and result, in run and ledger (L4). `LeaseLost`."""
        ...

    async def commit_run(self, owner: int, pipeline: str, commit: RunCommit) -> Finished:
        """State, consumed events, new events, workflows, times (L4); what is pending afterwards. `LeaseLost`.

        Where the mutation was skipped, the reserved events are skipped. `AlreadyExists` for a workflow id that stands
        for another workflow or input; nothing is written then.
        """
        ...

    async def fail_run(self, owner: int, pipeline: str, failure: RunFailure) -> HandlerRun:
        """A status that is neither active nor committed. The run stays open, and blocks (L8). `LeaseLost`."""
        ...

    async def settle_run(self, decision: Decision) -> HandlerRun:
        """A run that waits may go on now, with what has become known of its mutation (L7).

        By its owner after reconciling, or by anybody with a person's word. `NotFound`; `UsageError` where the run does
        not wait (any more): nothing is written then.
        """
        ...

    async def get_handler_run(self, run: str) -> HandlerRun:
        """`NotFound`."""
        ...

    async def list_handler_runs(self, pipeline: str, limit: int, after: int = 0) -> list[HandlerRun]:
        """The oldest first, from those with a larger number."""
        ...

    async def list_last_handler_runs(self, pipeline: str, limit: int) -> list[HandlerRun]:
        """The last ones, the oldest of them first."""
        ...


class EventStore(Protocol):
    """Events: published once by id, consumed once."""

    async def publish_events(self, pipeline: str, events: Sequence[NewEvent]) -> list[bool]:
        """Which of them are new. One that exists has its payload and causes replaced and keeps its status (L1).

        `NotFound` for an unknown pipeline or topic; nothing is written then.
        """
        ...

    async def skip_event(self, pipeline: str, topic: str, message_id: str) -> StoredEvent:
        """Pending becomes skipped. `NotFound`; `UsageError` for one that is reserved or done."""
        ...

    async def peek_events(self, pipeline: str, topic: str, limit: int) -> list[StoredEvent]:
        """The pending ones, the oldest first."""
        ...

    async def list_events(self, pipeline: str, topic: str, limit: int, after: int = 0) -> list[StoredEvent]:
        """Of any status, the oldest first, from those with a larger number."""
        ...

    async def count_events(self, pipeline: str) -> Mapping[str, Mapping[EventStatus, int]]:
        """How many there are, by topic and status."""
        ...


class PipelineStores(PipelineStore, HandlerRunStore, EventStore, Protocol):
    """All three."""
