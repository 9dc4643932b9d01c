"""Jobs: what a turn is told, one record a kind, tagged by it.

Answers are applied first and in order, then messages; queries and evictions leave no trace (K6).
Values are JSON as it is stored, read with the type that the receiving code names.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.errors import Failure


class Job(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind"):
    """The root of all jobs."""


class Started(Job, frozen=True, tag="started"):
    """The run begins. What an earlier generation handed over comes with it."""

    workflow_id: str | None = None
    generation: int = 0
    memo: dict[str, Any] = {}
    attributes: dict[str, Any] = {}
    state: dict[str, msgspec.Raw] = {}


class Resolved(Job, frozen=True, tag="resolved"):
    seq: int
    value: msgspec.Raw = msgspec.Raw(b"null")


class Failed(Job, frozen=True, tag="failed"):
    seq: int
    failure: Failure


class Cancelled(Job, frozen=True, tag="cancelled"):
    seq: int


class Fired(Job, frozen=True, tag="fired"):
    seq: int


class PromiseResolved(Job, frozen=True, tag="promise_resolved"):
    name: str
    value: msgspec.Raw = msgspec.Raw(b"null")


class PromiseRejected(Job, frozen=True, tag="promise_rejected"):
    name: str
    message: str = ""


class CancelRequested(Job, frozen=True, tag="cancel"):
    reason: str = ""


class Patched(Job, frozen=True, tag="patch"):
    id: str


class Signalled(Job, frozen=True, tag="signal"):
    name: str
    encoded: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"[]"), name="input")
    message_id: str | None = None


class UpdateRequested(Job, frozen=True, tag="update"):
    name: str
    id: str
    encoded: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"[]"), name="input")
    validate: bool = True


class Queried(Job, frozen=True, tag="query"):
    name: str
    id: str
    encoded: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"[]"), name="input")


class Evicted(Job, frozen=True, tag="evict"):
    pass


Answer = Started | Resolved | Failed | Cancelled | Fired | PromiseResolved | PromiseRejected | CancelRequested | Patched
Message = Signalled | UpdateRequested
Recorded = Answer | Message
AnyJob = Recorded | Queried | Evicted
