"""Failing: what an error means for a run, and what an answer about its mutation means, as pure functions (L3, L7, L8).

Three places can fail: the handler's own code, the one mutation that it performs, and the host. Only words of the
mutation's author say that nothing happened; whatever else comes out of it leaves it uncertain, and is never guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from perdure.define.outcomes import Happened, NeedsApproval, NotApplied, Transient
from perdure.errors import InvalidValue, UsageError
from perdure.pipelines.policy import PipelinePolicy
from perdure.pipelines.resuming import Mutation, Stage, goes_on_at
from perdure.pipelines.states import FailedStatus

Failing = Literal["handler", "timeout", "mutation", "host"]  # "timeout": the handler's own `timeout=` ran out
Answer = Literal["happened", "did_not_happen", "skip", "retry"]
ANSWERS: tuple[Answer, ...] = ("happened", "did_not_happen", "skip", "retry")


@dataclass(frozen=True)
class Verdict:
    """What an error makes of a run. With `release` its reservations are given back (L7)."""

    status: FailedStatus
    mutation: Mutation
    release: bool
    retry_at: datetime | None = None  # None: nothing goes on by itself


@dataclass(frozen=True)
class Attempted:
    """How far a run had come when it failed; the first attempt is 1."""

    mutation: Mutation = "none"
    attempt: int = 1


def judge(error: BaseException, where: Failing, run: Attempted, now: datetime, policy: PipelinePolicy) -> Verdict:
    """The status of a run that failed with this error, and what is known of its mutation.

    A handler that takes longer than its `timeout=` is transient, as the outside may answer later; while its mutation is
    in flight, that is uncertain, whatever the handler itself makes of it.
    """
    status, mutation = _read(error, where, run.mutation)
    # Who waits for an approval or for certainty goes on from the last checkpoint.
    kept = status in ("paused:approval", "paused:reconciliation") or goes_on_at("mutated", mutation) != "preparing"
    again = status == "paused:transient" and run.attempt <= policy.retries
    return Verdict(status, mutation, release=not kept, retry_at=now + policy.backoff(run.attempt) if again else None)


def _read(error: BaseException, where: Failing, mutation: Mutation) -> tuple[FailedStatus, Mutation]:
    if where == "host":
        return "failed:internal", mutation
    if where == "mutation":
        if isinstance(error, NotApplied):
            return "failed:logic", "failure"
        if isinstance(error, Transient):
            return "paused:transient", "failure"
        if isinstance(error, NeedsApproval):
            return "paused:approval", "failure"
        return "paused:reconciliation", "uncertain"
    if mutation == "uncertain":
        return "paused:reconciliation", "uncertain"
    if where == "timeout" or isinstance(error, Transient):
        return "paused:transient", mutation
    if isinstance(error, NeedsApproval):
        return "paused:approval", mutation
    return "failed:logic", mutation


def checkpoint(stage: Stage, mutation: Mutation, status: str) -> Stage:
    """The stage at which the next attempt begins (L7): what waited for approval keeps what it has prepared."""
    place = goes_on_at(stage, mutation)
    if place == "reconcile":
        return "mutating"
    if place == "preparing" and status == "paused:approval" and stage != "preparing":
        return "emitting" if stage in ("mutated", "emitting") and mutation == "none" else "prepared"
    return place


# --- certainty --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settled:
    """What has become known of a mutation; None: nothing. With `again` it is performed once more, under its key."""

    mutation: Mutation | None
    result: Any = None
    release: bool = False
    again: bool = False


def read_reconciled(answer: object) -> Settled | None:
    """What `reconcile` returned or raised: it happened, it did not, or (None) it is not known yet (L7)."""
    if isinstance(answer, NotApplied):
        return Settled("failure", release=True)
    if answer is None or isinstance(answer, BaseException):
        return None
    return Settled("success", answer.result if isinstance(answer, Happened) else answer)


def next_reconciliation(done: int, now: datetime, policy: PipelinePolicy) -> datetime | None:
    """When to ask next, after it has been asked so often; None: from now on only a person can say (L7)."""
    if done >= policy.reconciliations:
        return None
    return now if done == 0 else now + policy.backoff(done)


def read_answer(answer: str, mutation: Mutation, *, reconciles: bool, result: Any = None) -> Settled:
    """A person's word (L7). `InvalidValue` for another word; `UsageError` where it does not fit the run.

    "retry" goes on wherever a run waits; of an uncertain mutation it asks `reconcile` again, and where there is none
    performs the mutation once more under the same key: the person has said so.
    """
    if answer not in ANSWERS:
        raise InvalidValue(f"{answer!r} is no answer: say {', '.join(ANSWERS[:-1])} or {ANSWERS[-1]}")
    if answer == "retry":
        return Settled(None, again=mutation == "uncertain" and not reconciles)
    if mutation != "uncertain":
        raise UsageError(
            f"{answer!r} is an answer about a mutation whose outcome is unknown; this one's is {mutation}. "
            'Nothing was written; "retry" lets the run go on'
        )
    if answer == "happened":
        return Settled("success", result)
    return Settled("skipped") if answer == "skip" else Settled("failure", release=True)
