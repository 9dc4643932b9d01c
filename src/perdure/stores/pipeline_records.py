"""Pipeline records: what a store keeps of pipelines, and what its transitions take and give (seed 004).

Frozen data of perdure.stores.pipeline_port. States, payloads and results are JSON that no store reads. Times are
microseconds since 1970 by the store's own clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from perdure.errors import Failure
from perdure.stores.event_records import NewEvent
from perdure.stores.records import Start

HandlerKind = Literal["producer", "consumer"]
Stage = Literal["preparing", "prepared", "mutating", "mutated", "emitting", "committed"]
MutationOutcome = Literal["none", "success", "failure", "skipped", "uncertain"]
EventStatus = Literal["pending", "reserved", "consumed", "skipped"]
RunStatus = Literal[
    "active",
    "paused:transient",
    "paused:approval",
    "paused:reconciliation",
    "failed:logic",
    "failed:internal",
    "committed",
    "crashed",
]
LedgerStatus = Literal["in_flight", "success", "failure", "skipped", "uncertain"]


# --- pipelines ----------------------------------------------------------------------------------


class NewHandler(msgspec.Struct, frozen=True, kw_only=True):
    """A handler as it is declared. `words`, as JSON, is for people: its cadence, its line."""

    name: str
    kind: HandlerKind
    topics: tuple[str, ...] = ()  # that a consumer subscribes to
    words: bytes = b"{}"


class NewPipeline(msgspec.Struct, frozen=True, kw_only=True):
    """A declaration. Another digest is another declaration (L2)."""

    name: str
    digest: str
    topics: tuple[str, ...]
    handlers: tuple[NewHandler, ...]


class Times(msgspec.Struct, frozen=True):
    """When a handler is to run next, as far as that has to outlive a worker."""

    next_run_us: int | None = None  # a producer
    wake_us: int | None = None  # a consumer
    queued: bool = False


class HandlerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A handler as it stands."""

    facts: NewHandler
    state: bytes | None = None
    times: Times = Times()
    dirty: bool = False  # since a deploy; otherwise found from what is pending


class PipelineRow(msgspec.Struct, frozen=True, kw_only=True):
    """A pipeline as it stands. `open_run` is active or blocks: there is at most one (L6, L8)."""

    name: str
    digest: str
    topics: tuple[str, ...]
    handlers: tuple[HandlerRow, ...]
    owner: int | None = None  # the lease of the worker that runs it
    paused: bool = False  # by a person
    open_run: str | None = None
    created_us: int
    deployed_us: int


class Deployed(msgspec.Struct, frozen=True):
    """What a deploy came to. Not changed: the same declaration, or a live worker has the pipeline (L2, L9)."""

    pipeline: PipelineRow
    changed: bool


# --- events -------------------------------------------------------------------------------------


class StoredEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event as it stands; its number grows in the order of publishing."""

    number: int
    facts: NewEvent
    status: EventStatus = "pending"
    attempt: int = 1  # one more each time that a reservation is given back
    published_us: int
    published_by: str | None = None  # the run; None: from outside
    reserved_by: str | None = None  # the run that has or had it


# --- runs of handlers ---------------------------------------------------------------------------


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The mutation of a run: written before the call as in flight, and never guessed (L3)."""

    key: str
    what: str  # the name of the function, for people
    status: LedgerStatus = "in_flight"
    started_us: int
    ended_us: int | None = None
    reconciliations: int = 0
    next_us: int | None = None  # of the next reconciliation
    decided_by: str | None = None  # a person's word, where there was one


class HandlerRun(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a handler: a record of its own, never used again for another (L7)."""

    id: str
    number: int  # growing in the order of creation
    pipeline: str
    handler: str
    kind: HandlerKind
    retry_of: str | None = None
    attempt: int = 1
    key: str  # of its mutation: the same along a chain until an outcome is failure
    stage: Stage = "preparing"
    status: RunStatus = "active"
    mutation: MutationOutcome = "none"
    prepared: bytes | None = None
    wake_us: int | None = None
    result: bytes | None = None
    ledger: LedgerEntry | None = None
    error: Failure | None = None
    retry_us: int | None = None  # from when on another attempt may take its place; None: a person is asked
    created_us: int
    updated_us: int


class RunBeginning(msgspec.Struct, frozen=True, kw_only=True):
    """A run that begins. With `takes_over` it has the reservations and results of the run `retry_of` (L7).

    `stage` is then where it goes on: at prepared without what became of the mutation, which is to be tried anew.
    """

    run: str
    handler: str
    key: str
    retry_of: str | None = None
    takes_over: bool = False
    stage: Stage = "preparing"
    attempt: int = 1
    times: Times | None = None  # of its handler, from now on


class Preparation(msgspec.Struct, frozen=True, kw_only=True):
    """What `prepare` decided. `peeked` are those reserved ids that this run has seen pending (L4).

    `prepared` is a JSON object; from its `reserve`, ids by topic, the store takes out what is dropped.
    """

    run: str
    prepared: bytes
    reserve: Mapping[str, tuple[str, ...]] = {}
    peeked: Mapping[str, frozenset[str]] = {}
    wake_us: int | None = None


class Reservation(msgspec.Struct, frozen=True):
    """What was reserved. `dropped`: skipped since they were peeked. With anything `refused`, nothing was written."""

    reserved: int = 0
    dropped: tuple[tuple[str, str], ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


class RunCommit(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a run comes to: all of it is written, or nothing (L4)."""

    run: str
    state: bytes | None = None  # None: as it was
    times: Times
    events: tuple[NewEvent, ...] = ()
    starts: tuple[Start, ...] = ()  # workflows


class RunFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A run that cannot go on. With `release` what it has reserved is pending again, attempt + 1 (L7)."""

    run: str
    status: RunStatus
    stage: Stage
    mutation: MutationOutcome
    error: Failure | None = None
    retry_us: int | None = None
    release: bool = False
    reconcile_us: int | None = None  # of the next reconciliation, of one that waits for that
    reconciliations: int = 0


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the mutation of a run that waits, or that it may be tried again (L7)."""

    run: str
    mutation: MutationOutcome | None = None  # None: nothing new about that
    result: bytes | None = None
    release: bool = False
    decided_by: str | None = None


class Finished(msgspec.Struct, frozen=True):
    """A run was committed: when the oldest pending event of each topic was published; topics with new ones."""

    pending: Mapping[str, int]
    news: tuple[str, ...] = ()


class PipelineView(msgspec.Struct, frozen=True):
    """All that a scheduler begins with: the row, the run that is active or blocks, and what is pending.

    `pending` is when the oldest event of each topic was published, `newest` the number of the newest.
    """

    pipeline: PipelineRow
    open_run: HandlerRun | None
    pending: Mapping[str, int]
    newest: Mapping[str, int]
