"""Jobs: what a turn is told, one record a kind, tagged by it.

Answers are applied first and in order, then messages; queries and evictions leave no trace (K6).
Values are JSON as it is stored, read with the type that the receiving code names. As all records, they hold plain data
and never a cycle, so the garbage collector need not look at them, however long a history is.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.errors import Failure

NO_ARGUMENTS = msgspec.Raw(b"[]")


class Job(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", gc=False):
    """The root of all jobs."""


class Started(Job, frozen=True, tag="started", gc=False):
    """The run begins. What an earlier generation handed over comes with it."""

    workflow_id: str | None = None
    generation: int = 0
    memo: dict[str, Any] = {}
    attributes: dict[str, Any] = {}
    state: dict[str, msgspec.Raw] = {}


class Resolved(Job, frozen=True, tag="resolved", gc=False):
    seq: int
    value: msgspec.Raw = msgspec.Raw(b"null")


class Failed(Job, frozen=True, tag="failed", gc=False):
    seq: int
    failure: Failure


class Cancelled(Job, frozen=True, tag="cancelled", gc=False):
    seq: int


class Fired(Job, frozen=True, tag="fired", gc=False):
    seq: int


class PromiseResolved(Job, frozen=True, tag="promise_resolved", gc=False):
    name: str
    value: msgspec.Raw = msgspec.Raw(b"null")


class PromiseRejected(Job, frozen=True, tag="promise_rejected", gc=False):
    name: str
    message: str = ""


class CancelRequested(Job, frozen=True, tag="cancel", gc=False):
    reason: str = ""


class Patched(Job, frozen=True, tag="patch", gc=False):
    id: str


class Signalled(Job, frozen=True, tag="signal", gc=False):
    name: str
    encoded: msgspec.Raw = msgspec.field(default=NO_ARGUMENTS, name="input")
    message_id: str | None = None


class UpdateRequested(Job, frozen=True, tag="update", gc=False):
    name: str
    id: str
    encoded: msgspec.Raw = msgspec.field(default=NO_ARGUMENTS, name="input")
    validate: bool = True


class Queried(Job, frozen=True, tag="query", gc=False):
    name: str
    id: str
    encoded: msgspec.Raw = msgspec.field(default=NO_ARGUMENTS, name="input")


class Evicted(Job, frozen=True, tag="evict", gc=False):
    pass


Ended = Resolved | Failed | Cancelled  # how what was asked for came out
Answer = Started | Resolved | Failed | Cancelled | Fired | PromiseResolved | PromiseRejected | CancelRequested | Patched
Message = Signalled | UpdateRequested
ENDS = (Resolved, Failed, Cancelled)  # for isinstance, which looks into a union more slowly
MESSAGES = (Signalled, UpdateRequested)
Recorded = Answer | Message
AnyJob = Recorded | Queried | Evicted
