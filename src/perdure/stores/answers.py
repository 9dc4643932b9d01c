"""Answers: the few things that a store itself has to say to a run, written alike by all stores."""

from __future__ import annotations

import msgspec

from perdure.errors import AlreadyExists, Failure
from perdure.model.jobs import Cancelled, CancelRequested, Failed, PromiseRejected, PromiseResolved, Resolved
from perdure.model.turns import Answered
from perdure.stores.records import Attempt, Closing, NewRun, ParentClose, Settlement, Task, TurnCommit

_write = msgspec.json.encode


FAILURES = {"terminated": "Terminated", "timed_out": "TimedOut"}


class AttemptNotes(msgspec.Struct, frozen=True, kw_only=True):
    """What a message that answers an activity carries as its notes, as JSON: how the answer came about."""

    id: str
    seq: int
    name: str
    attempts: tuple[Attempt, ...]


def cancelled_job(seq: int) -> bytes:
    """The answer to an activity that was cancelled while nobody ran it."""
    return _write(Cancelled(seq))


def attempt_notes(task: Task, last: Attempt | None = None) -> bytes:
    """The notes of a task's answer: all its attempts, with the one that is reported just now."""
    attempts = (*task.attempts, last) if last else task.attempts
    return _write(AttemptNotes(id=task.id, seq=task.seq, name=task.name, attempts=attempts))


def replaced(by: str) -> bytes:
    """The result of a run that was ended by a start with the policy `terminate`."""
    return _write(Failure("Terminated", f"replaced by run {by} of the same workflow id", retryable=False))


def done_job(seq: int) -> bytes:
    """The answer to a command that only had to reach its target."""
    return _write(Resolved(seq))


def child_taken(seq: int, facts: NewRun) -> bytes:
    """The answer to a child whose workflow id stands for a run already (E2)."""
    return _refused(seq, "AlreadyExists", f"the workflow id {facts.workflow_id!r} is taken")


def key_taken(seq: int, key: str) -> bytes:
    """The answer to a promise whose key another open run's promise has (E2)."""
    return _refused(seq, "AlreadyExists", f"the key {key!r} is taken by the promise of another run")


def nobody_there(seq: int, workflow_id: str) -> bytes:
    """The answer to a job that was sent to a workflow id which no run has (E2)."""
    return _refused(seq, "NotFound", f"no run has the workflow id {workflow_id!r}")


def already_closed(seq: int, workflow_id: str) -> bytes:
    """The answer to a job that was sent to a run which has ended (M1)."""
    return _refused(seq, "RunClosed", f"the run {workflow_id!r} has ended")


def ended_job(seq: int, workflow_id: str, closing: Closing) -> bytes:
    """What a parent is told of the end of its child (M7): its value, or why it has none."""
    if closing.status == "completed":
        return _write(Resolved(seq, msgspec.Raw(closing.result or b"null")))
    failure = None if closing.result is None else msgspec.json.decode(closing.result, type=Failure | None)
    failure = failure or Failure(FAILURES.get(closing.status, "Failed"), f"the run {workflow_id!r} is {closing.status}")
    return _write(Failed(seq, failure))


def cancelling(commit: TurnCommit) -> frozenset[str]:
    """The workflow ids of the children that this turn asks to cancel: jobs to which no answer is wanted (M6)."""
    return frozenset(sent.workflow_id for sent in commit.sent if sent.seq is None)


def ends_at_once(policy: ParentClose, closing: Closing) -> bool:
    """Whether a child ends with its parent; that of a cancelled one is asked to cancel, so that it cleans up (M7)."""
    return policy == "terminate" and closing.status != "cancelled"


def parent_cancels(parent: NewRun) -> bytes:
    """What a child with the policy `cancel` is told when its parent ends (M7)."""
    return _write(CancelRequested(f"its parent {parent.workflow_id!r} has ended"))


def parent_ended(parent: NewRun) -> Closing:
    """How a child with the policy `terminate` ends with its parent (M7)."""
    reason = f"its parent {parent.workflow_id!r} has ended"
    return Closing("terminated", _write(Failure("Terminated", reason, retryable=False)))


def settled_job(name: str, settlement: Settlement) -> bytes:
    """What a run is told of a promise that the outside has settled (M4)."""
    if settlement.rejected is not None:
        return _write(PromiseRejected(name, settlement.rejected))
    return _write(PromiseResolved(name, msgspec.Raw(settlement.value or b"null")))


def settled_already(name: str, workflow_id: str, settlement: Settlement) -> AlreadyExists:
    """Why a promise cannot be settled any more: the outside has, or its run has gone on without it (M4)."""
    promise = f"the promise {name!r} of the run {workflow_id!r}"
    if settlement.lapsed:
        why = "it timed out, or its workflow cancelled it"
        return AlreadyExists(f"{promise} has lapsed: {why}, and goes on without it. Nothing was written")
    return AlreadyExists(f"{promise} was settled otherwise. Nothing was written")


def unanswered(update_id: str, workflow_id: str) -> bytes:
    """The answer to an update that was still open when its run ended (M2)."""
    failure = Failure("RunClosed", f"the run {workflow_id!r} ended before it was answered", retryable=False)
    return _write(Answered(update_id, "update", error=failure))


def same_start(one: NewRun, other: NewRun) -> bool:
    """Whether two starts of one workflow id ask for the same: workflow and input (E2)."""
    return (one.workflow, one.input, one.keywords) == (other.workflow, other.input, other.keywords)


def _refused(seq: int, kind: str, message: str) -> bytes:
    return _write(Failed(seq, Failure(kind, message, retryable=False)))
