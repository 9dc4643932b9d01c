"""What an error, a reconciliation, and a person's word mean for a run (L3, L7, L8; seed 004's failure tables)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure.define.outcomes import happened, needs_approval, not_applied, transient
from perdure.errors import InternalError, InvalidValue, UsageError
from perdure.pipelines.failing import (
    Attempted,
    Settled,
    Verdict,
    checkpoint,
    judge,
    next_reconciliation,
    read_answer,
    read_reconciled,
)
from perdure.pipelines.policy import PipelinePolicy

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
POLICY = PipelinePolicy()
SOON = NOW + timedelta(seconds=10)


@pytest.mark.parametrize(
    ("error", "where", "mutation", "verdict"),
    [
        # prepare, a producer, mutate without a mutation: nothing was done
        (transient("slow down"), "handler", "none", Verdict("paused:transient", "none", True, SOON)),
        (TimeoutError(), "timeout", "none", Verdict("paused:transient", "none", True, SOON)),
        (TimeoutError(), "handler", "none", Verdict("failed:logic", "none", True)),
        (needs_approval("log in"), "handler", "none", Verdict("paused:approval", "none", False)),
        (ValueError("oops"), "handler", "none", Verdict("failed:logic", "none", True)),
        (not_applied(), "handler", "none", Verdict("failed:logic", "none", True)),
        (InternalError("ours"), "host", "none", Verdict("failed:internal", "none", True)),
        # the mutation itself
        (not_applied("refused"), "mutation", "uncertain", Verdict("failed:logic", "failure", True)),
        (transient("slow down"), "mutation", "uncertain", Verdict("paused:transient", "failure", True, SOON)),
        (needs_approval("log in"), "mutation", "uncertain", Verdict("paused:approval", "failure", False)),
        (ConnectionResetError(), "mutation", "uncertain", Verdict("paused:reconciliation", "uncertain", False)),
        (TimeoutError(), "mutation", "uncertain", Verdict("paused:reconciliation", "uncertain", False)),
        (ValueError("oops"), "mutation", "uncertain", Verdict("paused:reconciliation", "uncertain", False)),
        (TimeoutError(), "timeout", "uncertain", Verdict("paused:reconciliation", "uncertain", False)),
        (transient(), "handler", "uncertain", Verdict("paused:reconciliation", "uncertain", False)),
        # next, after the mutation was applied: forward only
        (transient("slow down"), "handler", "success", Verdict("paused:transient", "success", False, SOON)),
        (ValueError("oops"), "handler", "success", Verdict("failed:logic", "success", False)),
        (ValueError("oops"), "handler", "skipped", Verdict("failed:logic", "skipped", False)),
        (InternalError("ours"), "host", "success", Verdict("failed:internal", "success", False)),
        (InternalError("ours"), "host", "uncertain", Verdict("failed:internal", "uncertain", False)),
    ],
)
def test_failure_classification(error: Exception, where: Any, mutation: Any, verdict: Verdict) -> None:
    """Seed 004, "Failure Classification and Handling"; what `fn` raises says what became of it (L3)."""
    assert judge(error, where, Attempted(mutation), NOW, POLICY) == verdict


def test_the_sixth_transient_failure_waits_for_a_person() -> None:
    """L8."""
    verdicts = [judge(transient(), "handler", Attempted("none", attempt), NOW, POLICY) for attempt in (5, 6)]
    assert [one.retry_at for one in verdicts] == [NOW + timedelta(seconds=160), None]


@pytest.mark.parametrize(
    ("stage", "mutation", "status", "begins"),
    [
        ("preparing", "none", "paused:approval", "preparing"),
        ("prepared", "none", "paused:approval", "prepared"),
        ("mutating", "failure", "paused:approval", "prepared"),
        ("mutating", "failure", "paused:transient", "preparing"),
        ("emitting", "success", "paused:approval", "emitting"),
        ("emitting", "none", "paused:approval", "emitting"),
        ("emitting", "none", "failed:logic", "preparing"),
        ("emitting", "success", "failed:logic", "emitting"),
        ("mutating", "uncertain", "paused:reconciliation", "mutating"),
        ("mutating", "uncertain", "crashed", "mutating"),
        ("prepared", "none", "crashed", "preparing"),
    ],
)
def test_the_next_attempt_begins_at_the_last_checkpoint(stage: Any, mutation: Any, status: str, begins: str) -> None:
    """L7: an approval keeps what was prepared, everything else starts over before the mutation was applied."""
    assert checkpoint(stage, mutation, status) == begins


@pytest.mark.parametrize(
    ("answer", "settled"),
    [
        ("row 7", Settled("success", "row 7")),
        (0, Settled("success", 0)),
        (happened(), Settled("success", None)),
        (happened("row 7"), Settled("success", "row 7")),
        (not_applied(), Settled("failure", release=True)),
        (None, None),
        (transient(), None),
        (ValueError(), None),
    ],
)
def test_what_reconcile_says(answer: object, settled: Settled | None) -> None:
    """L7: a value, `happened()`, `not_applied(…)` raised, or None."""
    assert read_reconciled(answer) == settled


def test_reconciliation_asks_five_times_at_growing_distances_and_then_a_person() -> None:
    """L7: 5 attempts, 10 s doubling to 10 min; the first at once."""
    waits = [next_reconciliation(done, NOW, POLICY) for done in range(6)]
    assert waits == [NOW, *(NOW + timedelta(seconds=seconds) for seconds in (10, 20, 40, 80)), None]


def test_a_persons_word_about_an_uncertain_mutation() -> None:
    """L7: happened, did not happen, skip, try again."""
    assert read_answer("happened", "uncertain", reconciles=True, result=7) == Settled("success", 7)
    assert read_answer("did_not_happen", "uncertain", reconciles=True) == Settled("failure", release=True)
    assert read_answer("skip", "uncertain", reconciles=False) == Settled("skipped")
    assert read_answer("retry", "uncertain", reconciles=True) == Settled(None)
    assert read_answer("retry", "uncertain", reconciles=False) == Settled(None, again=True)


def test_a_persons_word_that_does_not_fit_is_refused() -> None:
    assert read_answer("retry", "none", reconciles=False) == Settled(None)
    for answer in ("happened", "did_not_happen", "skip"):
        with pytest.raises(UsageError, match="outcome is unknown"):
            read_answer(answer, "failure", reconciles=True)
    with pytest.raises(InvalidValue, match="happened, did_not_happen, skip or retry"):
        read_answer("perhaps", "uncertain", reconciles=True)
