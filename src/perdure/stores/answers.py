"""Answers: the few things that a store itself has to say to a run, written alike by all stores."""

from __future__ import annotations

import msgspec

from perdure.errors import Failure
from perdure.model.jobs import Cancelled
from perdure.stores.records import Attempt, NewRun, Task


class AttemptNotes(msgspec.Struct, frozen=True, kw_only=True):
    """What a message that answers an activity carries as its notes, as JSON: how the answer came about."""

    id: str
    seq: int
    name: str
    attempts: tuple[Attempt, ...]


def cancelled_job(seq: int) -> bytes:
    """The answer to an activity that was cancelled while nobody ran it."""
    return msgspec.json.encode(Cancelled(seq))


def attempt_notes(task: Task, last: Attempt | None = None) -> bytes:
    """The notes of a task's answer: all its attempts, with the one that is reported just now."""
    attempts = (*task.attempts, last) if last else task.attempts
    return msgspec.json.encode(AttemptNotes(id=task.id, seq=task.seq, name=task.name, attempts=attempts))


def replaced(by: str) -> bytes:
    """The result of a run that was ended by a start with the policy `terminate`."""
    return msgspec.json.encode(Failure("Terminated", f"replaced by run {by} of the same workflow id", retryable=False))


def same_start(one: NewRun, other: NewRun) -> bool:
    """Whether two starts of one workflow id ask for the same: workflow and input (E2)."""
    return (one.workflow, one.input, one.keywords) == (other.workflow, other.input, other.keywords)
