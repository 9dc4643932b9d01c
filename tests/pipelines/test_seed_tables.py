"""Seed 004, table by table: what starts a handler, and what a scheduler remembers.

Where semantics.md section 5 corrects the seed (when `dirty` is cleared, what decides a reset), the test says so.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from perdure.errors import UsageError
from perdure.pipelines.scheduling import (
    Consumer,
    Producer,
    Start,
    State,
    Wait,
    clamp_wake_at,
    commit,
    decide,
    deploy,
    event,
    fail,
    pause,
    recover,
    run_now,
    start,
    tick,
)
from tests.pipelines.seed_states import HOUR, MINUTE, NOW, POLL, SHEET, idle, ran

# --- Trigger Conditions -------------------------------------------------------------------------


def test_producer_trigger_conditions_the_schedule_fires_and_no_other_run_is_active() -> None:
    """Seed 004, "Producer Scheduling: Trigger Conditions"."""
    state = idle(POLL, SHEET)
    assert decide(state, NOW) == Wait(NOW + 5 * MINUTE)
    assert decide(state, NOW + 5 * MINUTE) == Start("poll")
    busy = start(state, "sheet", NOW)
    assert decide(busy, NOW + 5 * MINUTE) == Wait()


def test_a_producer_whose_time_comes_while_another_run_is_active_is_queued_at_most_once() -> None:
    """Seed 004, "Trigger Conditions": queued runs are coalesced (L6)."""
    cron = Producer("poll", cron="*/5 * * * *", next_run_at=NOW + 5 * MINUTE)
    state = start(idle(cron, SHEET), "sheet", NOW)
    for minutes in (5, 10, 15):
        state = tick(state, NOW + minutes * MINUTE)
    assert state.producers[0].queued
    later = NOW + 16 * MINUTE
    state = commit(state, "sheet", later)
    assert decide(state, later) == Start("poll")
    state = ran(state, "poll", later)
    assert decide(state, later) == Wait(NOW + 20 * MINUTE)


def test_consumer_trigger_conditions_a_new_event_or_its_wake_time() -> None:
    """Seed 004, "Consumer Scheduling: Trigger Conditions"."""
    state = idle(Consumer("sheet", ("inbox",), wake_at=NOW + HOUR))
    assert decide(state, NOW) == Wait(NOW + HOUR)
    assert decide(state, NOW + HOUR) == Start("sheet")
    assert decide(event(state, "inbox", NOW), NOW) == Start("sheet")
    assert decide(event(state, "another", NOW), NOW) == Wait(NOW + HOUR)


def test_a_consumer_that_is_triggered_during_a_run_is_queued_at_most_once() -> None:
    """Seed 004, "Consumer Scheduling: Trigger Conditions"."""
    state = start(idle(POLL, SHEET), "poll", NOW)
    for _ in range(3):
        state = event(state, "inbox", NOW + MINUTE)
    assert state.consumers[0].queued
    assert decide(state, NOW + MINUTE) == Wait()
    state = commit(state, "poll", NOW + MINUTE)
    assert decide(state, NOW + MINUTE) == Start("sheet")
    state = ran(state, "sheet", NOW + MINUTE)
    assert decide(state, NOW + MINUTE) == Wait(NOW + 6 * MINUTE)


def test_an_empty_reservation_waits_for_a_trigger_although_events_are_pending() -> None:
    """Seed 004, "The Empty Reservation Problem"."""
    state = event(idle(SHEET), "inbox", NOW)
    state = commit(start(state, "sheet", NOW), "sheet", NOW, reserved=False, pending={"inbox": NOW})
    assert not state.consumers[0].dirty
    assert decide(state, NOW + 24 * HOUR) == Wait()
    assert decide(event(state, "inbox", NOW + HOUR), NOW + HOUR) == Start("sheet")


# --- Manual Trigger -----------------------------------------------------------------------------


def test_manual_trigger_queues_all_producers_which_run_one_after_another() -> None:
    """Seed 004, "Manual Trigger" (L10)."""
    archive = Producer("archive", cron="0 9 * * *", next_run_at=NOW + 21 * HOUR)
    state = run_now(idle(POLL, archive, SHEET), NOW + MINUTE)
    assert [one.queued for one in state.producers] == [True, True]
    assert [one.next_run_at for one in state.producers] == [NOW + 6 * MINUTE, NOW + 21 * HOUR]  # recomputed
    assert not state.consumers[0].is_due(NOW + MINUTE)  # consumers are not triggered
    assert decide(state, NOW + MINUTE) == Start("poll")
    state = ran(state, "poll", NOW + 2 * MINUTE)
    assert decide(state, NOW + 2 * MINUTE) == Start("archive")
    state = ran(state, "archive", NOW + 3 * MINUTE)
    assert [one.next_run_at for one in state.producers] == [NOW + 7 * MINUTE, NOW + 21 * HOUR]
    assert decide(state, NOW + 3 * MINUTE) == Wait(NOW + 7 * MINUTE)


@pytest.mark.parametrize("status", ["paused:transient", "paused:approval", "failed:logic", "failed:internal"])
def test_manual_trigger_is_refused_while_anything_is_active_or_paused(status: str) -> None:
    """Seed 004, "Manual Trigger" and "Paused Workflows" (L10)."""
    state = idle(POLL, SHEET)
    active = start(state, "sheet", NOW)
    for refused in (active, pause(state), fail(active, "sheet", NOW, run="r1", status=status)):
        with pytest.raises(UsageError, match="cannot run now"):
            run_now(refused, NOW)


# --- The wakeAt Hint ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "clamped"),
    [
        (NOW + HOUR, NOW + HOUR),
        ("2026-06-01T13:00:00Z", NOW + HOUR),
        ("2026-06-01T15:00:00+02:00", NOW + HOUR),
        ("2026-06-01T13:00:00", NOW + HOUR),
        (NOW + timedelta(seconds=29), NOW + timedelta(seconds=30)),
        (NOW - HOUR, NOW + timedelta(seconds=30)),
        ("1970-01-01", NOW + timedelta(seconds=30)),
        (NOW + timedelta(days=2), NOW + timedelta(days=1)),
        (datetime.max.replace(tzinfo=UTC), NOW + timedelta(days=1)),
        ("9999-12-31T23:59:59-05:00", NOW + timedelta(days=1)),
        ("0001-01-01T00:00:00+05:00", NOW + timedelta(seconds=30)),
        (None, None),
        ("", None),
        ("tomorrow at nine", None),
        (datetime(2026, 6, 1, 13), None),
        (1_800_000_000, None),
        (True, None),
    ],
)
def test_wake_constraints(value: object, clamped: datetime | None) -> None:
    """Seed 004, "Host-enforced constraints": at least 30 s, at most 24 h, and nonsense means none (L5)."""
    assert clamp_wake_at(value, NOW) == clamped


def test_wake_at_is_recorded_whether_or_not_anything_was_reserved() -> None:
    """Seed 004, "The wakeAt Hint"."""
    for reserved in (True, False):
        state = ran(idle(SHEET), "sheet", NOW, reserved, NOW + HOUR)
        assert state.consumers[0].wake_at == NOW + HOUR


@pytest.mark.parametrize(
    ("reserved", "given", "becomes"),
    [
        (True, None, None),  # it did something, and wants no waking any more
        (False, None, NOW + 2 * HOUR),  # an event woke it early: what it was waiting for still stands
        (True, "nonsense", None),
        (False, "nonsense", NOW + 2 * HOUR),
        (True, NOW + HOUR, NOW + HOUR),
        (False, NOW + HOUR, NOW + HOUR),
    ],
)
def test_a_commit_replaces_clears_or_keeps_wake_at(reserved: bool, given: object, becomes: datetime | None) -> None:
    """L5 (the seed replaces it on every commit)."""
    state = idle(Consumer("sheet", ("inbox",), wake_at=NOW + 2 * HOUR))
    assert ran(state, "sheet", NOW, reserved, given).consumers[0].wake_at == becomes


def test_a_start_clears_a_wake_at_that_is_due_and_no_other() -> None:
    """L5."""
    state = idle(Consumer("due", ("a",), wake_at=NOW), Consumer("later", ("b",), wake_at=NOW + HOUR))
    state = ran(state, "due")
    assert state.consumers[0].wake_at is None
    assert start(state, "later", NOW).consumers[1].wake_at == NOW + HOUR


# --- Pattern Coverage ---------------------------------------------------------------------------


def test_pattern_simple_fifo_processes_at_once_until_nothing_is_left() -> None:
    """Seed 004, "Pattern Coverage": woken by new events, no wakeAt."""
    state = event(idle(SHEET), "inbox", NOW)
    for _ in range(3):
        assert decide(state, NOW) == Start("sheet")
        state = ran(state, "sheet", reserved=True)
    state = commit(start(state, "sheet", NOW), "sheet", NOW, reserved=False, pending={})
    assert decide(state, NOW) == Wait()


def test_pattern_correlation_waits_for_the_other_event() -> None:
    """Seed 004, "Pattern Coverage": no wakeAt; the correlated event wakes it."""
    state = event(idle(Consumer("join", ("orders", "payments"))), "orders", NOW)
    state = ran(state, "join")
    assert decide(state, NOW + HOUR) == Wait()
    state = event(state, "payments", NOW + HOUR)
    assert decide(state, NOW + HOUR) == Start("join")


def test_pattern_time_window_processes_after_the_delay() -> None:
    """Seed 004, "Pattern Coverage": wakeAt now + 1h."""
    state = ran(event(idle(SHEET), "inbox", NOW), "sheet", wake_at=NOW + HOUR)
    assert decide(state, NOW) == Wait(NOW + HOUR)
    assert decide(state, NOW + HOUR) == Start("sheet")
    state = ran(state, "sheet", NOW + HOUR, reserved=True)
    assert state.consumers[0].wake_at is None


def test_pattern_batch_with_timeout_takes_whichever_comes_first() -> None:
    """Seed 004, "Pattern Coverage": wakeAt now + 1h, or the batch is full."""
    waiting = ran(event(idle(SHEET), "inbox", NOW), "sheet", wake_at=NOW + HOUR)
    assert decide(event(waiting, "inbox", NOW + MINUTE), NOW + MINUTE) == Start("sheet")
    assert decide(waiting, NOW + HOUR) == Start("sheet")


def test_pattern_daily_digest_looks_at_events_and_sends_at_nine() -> None:
    """Seed 004, "Pattern Coverage": wakeAt tomorrow 9am, given with a reservation too."""
    nine = NOW + 21 * HOUR
    state = ran(idle(SHEET), "sheet", wake_at=nine)
    state = event(state, "inbox", NOW + HOUR)
    assert decide(state, NOW + HOUR) == Start("sheet")
    state = ran(state, "sheet", NOW + HOUR, wake_at=nine)
    assert decide(state, NOW + HOUR) == Wait(nine)
    state = start(state, "sheet", nine)
    state = commit(state, "sheet", nine, reserved=True, wake_at=nine + 24 * HOUR, pending={})
    assert decide(state, nine) == Start("sheet")  # it stays dirty, and this prepare reserves nothing
    state = ran(state, "sheet", nine)
    assert decide(state, nine) == Wait(nine + 24 * HOUR)


# --- Scheduler State and Logic ------------------------------------------------------------------


def test_scheduler_logic_on_event_publish() -> None:
    """Seed 004, "Scheduler Logic": an idle consumer is dirty, one that is not idle is queued."""
    state = event(idle(SHEET, Consumer("other", ("more",))), "inbox", NOW)
    assert [(one.dirty, one.queued) for one in state.consumers] == [(True, False), (False, False)]
    busy = event(start(state, "sheet", NOW), "inbox", NOW)
    assert busy.consumers[0].queued


def test_scheduler_logic_on_run_commit() -> None:
    """Seed 004, "Scheduler Logic": flags are cleared, next_run_at is computed, wakeAt is taken from the result."""
    state = run_now(idle(POLL, SHEET), NOW)
    state = ran(state, "poll", NOW + MINUTE)
    assert (state.producers[0].queued, state.producers[0].next_run_at) == (False, NOW + 6 * MINUTE)
    state = ran(event(state, "inbox", NOW), "sheet", wake_at=NOW + HOUR)
    assert state.consumers[0] == Consumer("sheet", ("inbox",), wake_at=NOW + HOUR)


def test_dirty_is_cleared_only_by_a_run_that_reserves_nothing() -> None:
    """L6 (the seed clears it on every commit, so that the rest of a batch would have to ask for a wakeAt)."""
    state = ran(event(idle(SHEET), "inbox", NOW), "sheet", reserved=True)
    assert state.consumers[0].dirty
    assert not ran(state, "sheet").consumers[0].dirty


def test_initial_state_every_producer_is_due_and_every_consumer_dirty() -> None:
    """Seed 004, "Initial State (on deploy)"."""
    state = deploy(State((Producer("poll", every="5m"),), (SHEET,)), NOW)
    assert state.producers[0].next_run_at == NOW
    assert state.consumers[0].dirty
    assert decide(state, NOW) == Start("sheet")
    assert decide(ran(state, "sheet"), NOW) == Start("poll")


def test_restart_recovers_flags_from_what_is_stored() -> None:
    """Seed 004, "Restart Recovery" and "In-Memory State": overdue producers queued, consumers with events dirty."""
    stored = State(
        (Producer("past", every="5m", next_run_at=NOW - HOUR), Producer("future", every="5m", next_run_at=NOW + HOUR)),
        (Consumer("events", ("a",)), Consumer("none", ("b",)), Consumer("woken", ("c",), wake_at=NOW)),
        pending={"a": NOW - MINUTE},
    )
    state = recover(stored, NOW)
    assert [one.queued for one in state.producers] == [True, False]
    assert [one.dirty for one in state.consumers] == [True, False, False]
    assert decide(state, NOW) == Start("events")
    assert decide(ran(state, "events"), NOW) == Start("woken")


def test_a_producer_that_was_running_at_the_crash_is_overdue() -> None:
    """Seed 004, "Persisted State": next_run_at is stored when a run ends, and so still says when it was due."""
    state = start(deploy(idle(POLL), NOW), "poll", NOW)
    assert state.producers[0].next_run_at == NOW
    assert not tick(state, NOW + HOUR).producers[0].queued  # an interval counts from the end
    assert recover(state, NOW + MINUTE).producers[0].queued


@pytest.mark.parametrize("handler", ["poll", "sheet"])
def test_a_run_that_was_active_at_the_crash_is_recovered_first(handler: str) -> None:
    """Seed 004, "Restart Recovery" of runs (L9)."""
    other = Consumer("other", ("more",))
    state = start(event(idle(POLL, SHEET, other), "more", NOW), handler, NOW, run="r1")
    state = recover(state, NOW + MINUTE)
    assert decide(state, NOW + MINUTE) == Start(handler, retry_of="r1")
    state = ran(state, handler, NOW + MINUTE)
    assert decide(state, NOW + MINUTE) == Start("other")
