"""Seed 004 as tests: how runs are managed, and what holds for a whole pipeline; the rest is in test_seed_tables."""

from __future__ import annotations

from datetime import timedelta

import pytest

from perdure.errors import UsageError
from perdure.pipelines.scheduling import (
    Consumer,
    Producer,
    Start,
    Wait,
    commit,
    decide,
    deploy,
    event,
    fail,
    goes_on_at,
    pause,
    resume,
    retry,
    start,
    tick,
)
from tests.pipelines.seed_states import HOUR, MINUTE, NOW, POLL, SHEET, idle, ran

# --- Run Management -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stage", "mutation", "place"),
    [
        ("preparing", "none", "preparing"),
        ("prepared", "none", "preparing"),
        ("mutating", "none", "preparing"),
        ("mutating", "uncertain", "reconcile"),
        ("mutated", "success", "emitting"),
        ("emitting", "success", "emitting"),
        ("mutated", "skipped", "emitting"),
        ("emitting", "skipped", "emitting"),
        ("mutated", "failure", "preparing"),  # tried, and it did not happen
        ("mutated", "none", "preparing"),  # upstream's correction: the outcome decides, not the stage
        ("emitting", "none", "preparing"),
    ],
)
def test_phase_reset_rules(stage: str, mutation: str, place: str) -> None:
    """Seed 004, "Phase Reset Rules", with the outcome of the mutation apart (L3, L7)."""
    assert goes_on_at(stage, mutation) == place


@pytest.mark.parametrize(("stage", "mutation"), [("committed", "success"), ("done", "none"), ("mutated", "maybe")])
def test_what_cannot_be_retried_is_refused(stage: str, mutation: str) -> None:
    with pytest.raises(UsageError):
        goes_on_at(stage, mutation)


def test_transient_failures_are_tried_again_after_a_doubling_wait_and_then_a_person_is_asked() -> None:
    """Seed 004, "Retry Flow: Transient failure" (L8): 10 s doubling, five retries."""
    state = start(idle(POLL, SHEET), "sheet", NOW, run="r1")
    now = NOW
    for attempt, seconds in enumerate([10, 20, 40, 80, 160], 1):
        state = fail(state, "sheet", now, run=f"r{attempt}", status="paused:transient", attempt=attempt)
        due = now + timedelta(seconds=seconds)
        assert decide(state, now) == Wait(due)
        assert decide(state, due - timedelta(microseconds=1)) == Wait(due)
        assert decide(state, due) == Start("sheet", retry_of=f"r{attempt}")
        now = due
        state = start(state, "sheet", now, run=f"r{attempt + 1}")
    state = fail(state, "sheet", now, run="r6", status="paused:transient", attempt=6)
    assert decide(state, now + 24 * HOUR) == Wait()
    assert decide(retry(state, now), now) == Start("sheet", retry_of="r6")


@pytest.mark.parametrize("status", ["paused:approval", "paused:reconciliation", "failed:logic", "failed:internal"])
def test_other_failures_wait_until_somebody_says_that_they_are_settled(status: str) -> None:
    """Seed 004, "Failure Classification and Handling" and "Run Lifecycle Integration"."""
    state = fail(start(idle(POLL, SHEET), "sheet", NOW), "sheet", NOW, run="r1", status=status)
    assert decide(state, NOW + 24 * HOUR) == Wait()
    state = retry(state, NOW + 24 * HOUR)
    assert decide(state, NOW + 24 * HOUR) == Start("sheet", retry_of="r1")


def test_an_auto_fix_is_a_deploy_that_tries_the_failed_run_once_with_the_new_code() -> None:
    """Seed 004, "Retry Flow: Logic error with auto-fix" (L2)."""
    state = fail(start(idle(POLL, SHEET), "sheet", NOW), "sheet", NOW, run="r1", status="failed:logic")
    state = deploy(state, NOW + MINUTE)
    assert decide(state, NOW + MINUTE) == Start("sheet", retry_of="r1")
    state = start(state, "sheet", NOW + MINUTE)
    state = fail(state, "sheet", NOW + MINUTE, run="r2", status="failed:logic", attempt=2)
    assert decide(state, NOW + HOUR) == Wait()


@pytest.mark.parametrize("status", ["paused:approval", "paused:reconciliation", "failed:internal"])
def test_a_deploy_settles_no_other_failure(status: str) -> None:
    """L2: only what new code can mend."""
    state = fail(start(idle(POLL, SHEET), "sheet", NOW), "sheet", NOW, run="r1", status=status)
    assert decide(deploy(state, NOW + HOUR), NOW + HOUR) == Wait()


# --- Workflow-Level Constraints -----------------------------------------------------------------


def test_single_threaded_execution() -> None:
    """Seed 004, "Single-Threaded Execution": at most one run is active."""
    state = start(idle(POLL, SHEET), "poll", NOW)
    with pytest.raises(UsageError, match="at most one run"):
        start(state, "sheet", NOW)
    with pytest.raises(UsageError, match="at most one run"):
        commit(state, "sheet", NOW)
    with pytest.raises(UsageError, match="at most one run"):
        fail(state, "sheet", NOW, run="r", status="failed:logic")


def test_priority_a_retry_then_consumers_by_their_oldest_event_then_producers() -> None:
    """Seed 004, "Priority"; a retry beats both (L6)."""
    young, old = Consumer("young", ("a",)), Consumer("old", ("b", "c"))
    state = idle(Producer("poll", every="5m", next_run_at=NOW), young, old)
    state = event(event(event(state, "a", NOW - MINUTE), "b", NOW), "c", NOW - HOUR)
    assert decide(state, NOW) == Start("old")
    failed = fail(start(state, "young", NOW), "young", NOW, run="r1", status="paused:transient")
    assert decide(failed, NOW + HOUR) == Start("young", retry_of="r1")
    state = commit(start(state, "old", NOW), "old", NOW, pending={})
    assert decide(state, NOW) == Start("young")
    state = commit(start(state, "young", NOW), "young", NOW, pending={})
    assert decide(state, NOW) == Start("poll")


def test_paused_workflows_start_nothing_and_remember_everything() -> None:
    """Seed 004, "Paused Workflows" and "During backoff": triggers accumulate."""
    state = pause(idle(POLL, SHEET))
    later = NOW + HOUR
    state = tick(event(state, "inbox", NOW), later)
    assert decide(state, later) == Wait()
    assert state.producers[0].queued
    with pytest.raises(UsageError, match="paused"):
        start(state, "sheet", later)
    assert decide(resume(state), later) == Start("sheet")


def test_single_point_of_failure_any_failing_handler_stops_the_whole_pipeline() -> None:
    """Seed 004, "Single point of failure" (L8)."""
    state = fail(start(idle(POLL, SHEET), "poll", NOW), "poll", NOW, run="r1", status="paused:transient")
    state = tick(event(state, "inbox", NOW), NOW + HOUR)
    with pytest.raises(UsageError, match="nothing else runs"):
        start(state, "sheet", NOW + HOUR)
    assert decide(state, NOW + HOUR) == Start("poll", retry_of="r1")
    state = ran(state, "poll", NOW + HOUR)
    assert decide(state, NOW + HOUR) == Start("sheet")


def test_a_persons_pause_and_a_systems_block_never_overwrite_each_other() -> None:
    """L11; upstreams.md 5.3."""
    state = pause(fail(start(idle(POLL, SHEET), "sheet", NOW), "sheet", NOW, run="r1", status="paused:approval"))
    assert decide(resume(state), NOW + HOUR) == Wait()
    granted = retry(state, NOW)
    assert decide(granted, NOW) == Wait()
    assert decide(resume(granted), NOW) == Start("sheet", retry_of="r1")
    failed_later = fail(pause(start(idle(POLL, SHEET), "sheet", NOW)), "sheet", NOW, run="r1", status="failed:logic")
    assert failed_later.paused
