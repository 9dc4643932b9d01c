"""Walk-throughs: a letter's way from a mailbox to a sheet, with a crash at each of its points, one story for each (L9).

A producer polls, a consumer prepares, writes a row, and publishes it. What is to be seen after each crash is told in
full: every attempt, the rows outside, what became of the events. The tests of other systems that these mirror, and
where each of them is here, are listed in `MIRRORED`.
"""

from __future__ import annotations

import asyncio
import importlib
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from perdure.pipelines import Pipeline, Prepared, needs_approval, not_applied, transient
from perdure.testing.conformance import CASES
from tests.pipelines.mailing import Desk, Email, mail_to_sheet
from tests.pipelines.walking import BEGINS, COMMITTED, IN_FLIGHT, MUTATED, POLL_BEGINS, POLL_COMMITTED, PREPARED, Walk

HOUR = timedelta(hours=1)
DONE, EVENT_DONE, TRIED_TWICE = "committed committed success", ["consumed 1"], ["consumed 2"]
POLLED = "committed committed none"
UNCERTAIN, ASKING = "mutating crashed uncertain", "mutating paused:reconciliation uncertain"
unasked = partial(mail_to_sheet, reconciles=False)


def written_once(walk: Walk) -> None:
    """The letter is in the sheet, its row was published, and nothing is left to do."""
    assert (walk.rows, walk.states("rows"), walk.status.status) == (["subject 0"], ["consumed 1"], "Idle")


# --- the producer --------------------------------------------------------------------------------


def test_a_crash_before_the_producer_begins_leaves_nothing_and_it_runs() -> None:
    walk = Walk().play(POLL_BEGINS, "before")
    assert (walk.chain("poll"), walk.chain(), walk.states("inbox")) == ([POLLED], [DONE], EVENT_DONE)
    written_once(walk)


@pytest.mark.parametrize(("at", "when"), [(POLL_BEGINS, "after"), (POLL_COMMITTED, "before")])
def test_a_crash_while_the_producer_runs_publishes_nothing_and_it_runs_again(at: int, when: Any) -> None:
    walk = Walk().play(at, when)
    assert (walk.chain("poll"), walk.chain()) == (["preparing crashed none", POLLED], [DONE])
    assert walk.states("inbox") == EVENT_DONE
    written_once(walk)


def test_a_crash_after_the_producers_commit_keeps_its_events_and_its_cursor() -> None:
    walk = Walk().play(POLL_COMMITTED, "after")
    assert (walk.chain("poll"), walk.chain(), walk.states("inbox")) == ([POLLED], [DONE], EVENT_DONE)
    written_once(walk)


def test_a_producer_whose_time_passed_while_nobody_was_there_runs_once() -> None:
    """L9: however many times it missed."""
    walk = Walk().play(COMMITTED, "after", away=3_600, lives=200)
    assert walk.chain("poll") == [POLLED, POLLED]
    assert walk.states("inbox") == EVENT_DONE
    written_once(walk)


# --- before the mutation: it starts over ---------------------------------------------------------


def test_a_crash_before_the_consumer_begins_leaves_its_event_pending() -> None:
    walk = Walk().play(BEGINS, "before")
    assert (walk.chain(), walk.states("inbox")) == ([DONE], EVENT_DONE)
    written_once(walk)


@pytest.mark.parametrize(("at", "when"), [(BEGINS, "after"), (PREPARED, "before")])
def test_a_crash_while_preparing_has_reserved_nothing_and_it_starts_over(at: int, when: Any) -> None:
    walk = Walk().play(at, when)
    assert (walk.chain(), walk.states("inbox")) == (["preparing crashed none", DONE], EVENT_DONE)
    written_once(walk)


@pytest.mark.parametrize(("at", "when"), [(PREPARED, "after"), (IN_FLIGHT, "before")])
def test_a_crash_when_prepared_gives_the_event_back_with_an_attempt_more(at: int, when: Any) -> None:
    walk = Walk().play(at, when)
    assert (walk.chain(), walk.states("inbox")) == (["prepared crashed none", DONE], TRIED_TWICE)
    assert len(walk.desk.keys) == 1, "nothing was called before"
    written_once(walk)


# --- in flight: never guessed --------------------------------------------------------------------


def test_a_crash_before_the_call_is_found_not_to_have_happened_and_starts_over() -> None:
    """In flight was written, the call was not made: reconcile says so, and only then is it performed."""
    walk = Walk().play(IN_FLIGHT, "after")
    assert walk.chain() == [UNCERTAIN, "mutating paused:reconciliation failure", DONE]
    assert (walk.states("inbox"), len(walk.desk.keys)) == (TRIED_TWICE, 1)
    written_once(walk)


def test_a_crash_after_the_call_is_found_to_have_happened_and_goes_on_at_emitting() -> None:
    walk = Walk().play(MUTATED, "before")
    assert (walk.chain(), walk.states("inbox"), len(walk.desk.keys)) == ([UNCERTAIN, DONE], EVENT_DONE, 1)
    written_once(walk)


def test_a_crash_in_flight_that_nothing_can_reconcile_waits_for_a_person() -> None:
    """The event stays reserved, nothing else runs, and it says what a person has to do."""
    walk = Walk(unasked).play(MUTATED, "before", lives=86_400)
    assert (walk.chain(), walk.rows, walk.states("inbox")) == ([UNCERTAIN, ASKING], ["subject 0"], ["reserved 1"])
    assert walk.status.status == "Needs attention"
    assert len(walk.chain("poll")) == 1


async def say(answer: str, walk: Walk, engine: Any) -> None:
    waiting = (await engine.pipelines.runs("mail"))[-1]
    await engine.pipelines.resolve(waiting.id, answer, **({"result": 1} if answer == "happened" else {}))


def test_a_person_says_after_the_crash_that_it_happened() -> None:
    walk = Walk(unasked).play(MUTATED, "before", then=partial(say, "happened"))
    assert walk.chain() == [UNCERTAIN, "mutated paused:reconciliation success", DONE]
    assert (walk.states("inbox"), len(walk.desk.keys)) == (EVENT_DONE, 1)
    written_once(walk)


def test_a_person_says_after_the_crash_that_it_did_not_happen() -> None:
    walk = Walk(unasked).play(IN_FLIGHT, "after", then=partial(say, "did_not_happen"))
    assert walk.chain() == [UNCERTAIN, "mutating paused:reconciliation failure", DONE]
    assert (walk.states("inbox"), len(walk.desk.keys)) == (TRIED_TWICE, 1)
    written_once(walk)


def test_a_person_gives_it_up_after_the_crash() -> None:
    """Its event is skipped, and `next` is told so; nothing is published."""
    walk = Walk(unasked).play(IN_FLIGHT, "after", then=partial(say, "skip"))
    assert walk.chain()[-1] == "committed committed skipped"
    assert (walk.rows, walk.states("inbox"), walk.states("rows")) == ([], ["skipped 1"], [])
    assert "skipped" in walk.desk.told


def test_a_person_has_it_tried_again_after_the_crash() -> None:
    """Under the same key."""
    walk = Walk(unasked).play(IN_FLIGHT, "after", then=partial(say, "retry"))
    assert (walk.chain()[-1], walk.states("inbox"), len(walk.desk.keys)) == (DONE, EVENT_DONE, 1)
    written_once(walk)


# --- after the mutation: only forward ------------------------------------------------------------


@pytest.mark.parametrize(("at", "when"), [(MUTATED, "after"), (COMMITTED, "before")])
def test_a_crash_after_the_mutation_takes_result_and_reservation_over(at: int, when: Any) -> None:
    walk = Walk().play(at, when)
    assert walk.chain() == ["mutated crashed success", DONE]
    assert (walk.states("inbox"), len(walk.desk.keys)) == (EVENT_DONE, 1)
    written_once(walk)


def test_a_crash_after_the_commit_does_nothing_again() -> None:
    walk = Walk().play(COMMITTED, "after")
    assert (walk.chain(), walk.states("inbox"), len(walk.desk.keys)) == ([DONE], EVENT_DONE, 1)
    written_once(walk)


# --- paused when it crashes ----------------------------------------------------------------------

FAILED = MUTATED  # the write of a failure is where the one of the result would have been


def failing(error: BaseException) -> Any:
    """The first call raises this."""

    def made(desk: Desk) -> Any:
        if not desk.keys and not desk.trouble:
            desk.trouble.append(error)
        return mail_to_sheet(desk)

    return made


def test_a_crash_during_back_off_goes_on_with_the_retry() -> None:
    walk = Walk(failing(transient("busy"))).play(FAILED, "after", lives=60)
    assert [one.rpartition(" ")[0] for one in walk.chain()] == ["mutating paused:transient", "committed committed"]
    written_once(walk)


def test_a_crash_while_it_waits_for_approval_keeps_what_it_has_prepared() -> None:
    async def approve(walk: Walk, engine: Any) -> None:
        assert walk.desk.rows == []
        assert [one.status for one in await engine.pipelines.events("mail", "inbox")] == ["reserved"]
        (waiting,) = [run for run in await engine.pipelines.runs("mail") if run.status == "paused:approval"]
        await engine.pipelines.resolve(waiting.id, "retry")

    walk = Walk(failing(needs_approval("log in again"))).play(FAILED, "after", then=approve)
    assert walk.chain()[-1] == DONE
    assert walk.states("inbox") == EVENT_DONE
    written_once(walk)


def test_a_crash_after_a_mutation_that_failed_for_good_does_not_try_it_again() -> None:
    """Its author's word that nothing happened: only new code or a person gets it going."""
    walk = Walk(failing(not_applied("the sheet is closed"))).play(FAILED, "after", lives=86_400)
    assert walk.chain() == ["mutating failed:logic failure"]
    assert (walk.rows, walk.states("inbox"), walk.status.status) == ([], ["pending 2"], "Needs attention")


def test_a_persons_pause_survives_a_crash() -> None:
    """L11: and nothing starts until it is lifted."""

    async def pause(walk: Walk, engine: Any) -> None:
        await engine.pipelines.pause("mail")
        walk.desk.mails.append(Email("m1", "subject 1"))

    async def resume(walk: Walk, engine: Any) -> None:
        assert (await engine.pipelines.status("mail")).status == "Stopped"
        assert len(walk.rows) == 1
        await engine.pipelines.resume("mail")

    walk = Walk().play(then=pause)
    walk.play(lives=400, then=resume)
    assert walk.rows == ["subject 0", "subject 1"]


# --- what other systems test ---------------------------------------------------------------------

# Where each story of `upstreams.md` 5.4 is told: a module of tests.pipelines, or a side of the conformance suite.
MIRRORED: dict[str, str] = {
    "event-store: publish creates, idempotent by id": (
        "events: an_event_is_known_by_its_topic_and_id_and_a_second_one_replaces_the_payload"
    ),
    "event-store: the same id in another topic": "events: an_id_means_another_event_in_another_topic",
    "event-store: reserve only pending": "stages: reserving_what_is_not_pending_writes_nothing",
    "event-store: consume only one's own": "stages: a_commit_consumes_what_its_run_reserved_and_no_more",
    "event-store: release increments the attempt": (
        "retries: a_failure_before_the_mutation_releases_and_counts_the_attempt"
    ),
    "event-store: causes": (
        "test_contexts: test_published_events_carry_their_ids_and_causes_and_those_without_get_the_same_on_a_retry"
    ),
    "phase-tracking: the operation matrix": "test_contexts: test_the_operation_matrix",
    "phase-tracking: a single mutation": (
        "test_contexts: test_a_second_mutation_is_refused_and_remembered_although_the_code_goes_on"
    ),
    "phase-tracking: resets": "test_seed_runs: test_phase_reset_rules",
    "handler-state-machine: prepared without reservations goes on": (
        "test_walk_throughs: test_what_reserves_nothing_goes_on_without_a_mutation"
    ),
    "handler-state-machine: in flight on restart": (
        "test_walk_throughs: test_a_crash_in_flight_that_nothing_can_reconcile_waits_for_a_person"
    ),
    "handler-state-machine: applied on restart": (
        "test_walk_throughs: test_a_crash_after_the_mutation_takes_result_and_reservation_over"
    ),
    "handler-state-machine: a failed mutation": (
        "test_walk_throughs: test_a_crash_after_a_mutation_that_failed_for_good_does_not_try_it_again"
    ),
    "session-orchestration: producers by kind of trigger": (
        "test_seed_tables: test_producer_trigger_conditions_the_schedule_fires_and_no_other_run_is_active"
    ),
    "session-orchestration: the cap on iterations": (
        "test_scheduling_properties: test_a_producer_that_is_due_goes_first_after_a_hundred_consumer_runs_in_a_row"
    ),
    "session-orchestration: one at a time": "test_seed_runs: test_single_threaded_execution",
    "session-orchestration: wakeAt due, in the future, zero": "test_seed_tables: test_wake_constraints",
    "session-orchestration: wakeAt of an unknown consumer": "test_scheduling: test_an_unknown_handler_is_not_found",
    "session-orchestration: events beat wakeAt": "test_walk_throughs: test_an_event_does_not_wait_for_a_wake_time",
    "handler-run-store: the order of a retry chain": (
        "test_walk_throughs: test_a_crash_before_the_call_is_found_not_to_have_happened_and_starts_over"
    ),
    "handler-run-store: results are copied after the mutation": (
        "retries: a_retry_after_the_mutation_takes_results_and_reservations_over"
    ),
    "reconciliation: the table of waits": (
        "test_failing: test_reconciliation_asks_five_times_at_growing_distances_and_then_a_person"
    ),
    "reconciliation: applied resolves it": (
        "test_walk_throughs: test_a_crash_after_the_call_is_found_to_have_happened_and_goes_on_at_emitting"
    ),
    "reconciliation: exhausted, a person": "test_host_failures: test_reconcile_is_asked_with_its_budget",
    "failure-handling: the mapping table": "test_failing: test_failure_classification",
    "producer-schedule-store": (
        "test_scheduling: test_an_interval_counts_from_the_end_of_a_run_and_a_cron_from_its_expression"
    ),
    "schedule-utils": "test_cadence: test_a_bad_interval_is_refused_and_the_message_says_what_to_write",
    "workflow-validation": "test_declare: test_a_mistake_is_refused_at_deploy_with_its_line",
}


@pytest.mark.parametrize("story", MIRRORED)
def test_each_story_of_other_systems_is_told_here(story: str) -> None:
    place, _, name = MIRRORED[story].partition(": ")
    if place.startswith("test_"):
        assert callable(getattr(importlib.import_module(f"tests.pipelines.{place}"), name))
    else:
        assert name in {case.name for case in CASES if case.side == place}


async def test_what_reserves_nothing_goes_on_without_a_mutation(engine: Any) -> None:
    """L3: `mutate` is skipped, `next` runs with outcome none."""
    desk = Desk()
    desk.mails = []
    async with engine(pipelines=[mail_to_sheet(desk)]) as running:
        await asyncio.sleep(1)
        (run,) = [run for run in await running.pipelines.runs("mail") if run.handler == "Sheet"]
        assert (run.stage, run.status, run.mutation) == ("committed", "committed", "none")
        assert (desk.keys, desk.told) == ([], ["none"])


async def test_an_event_does_not_wait_for_a_wake_time(engine: Any) -> None:
    """L2, L6: a consumer runs for whichever comes first."""
    ran: list[float] = []
    loop = asyncio.get_running_loop()
    mail = Pipeline("mail")
    inbox = mail.topic("inbox", int)

    @mail.consumer(inbox)
    class Later:
        async def prepare(self, ctx: Any, state: Any) -> Prepared:
            ran.append(loop.time())
            events = await ctx.peek(inbox)
            return Prepared({inbox: [one.id for one in events]}, wake_at=ctx.now + HOUR)

    async with engine(pipelines=[mail]) as running:
        await asyncio.sleep(60)
        await running.pipelines.publish(inbox, 1)
        await asyncio.sleep(3_650)
    assert [round(at - ran[0]) for at in ran] == [0, 60, 60, 3_660]
