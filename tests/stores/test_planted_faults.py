"""Planted faults: for each store that breaks one promise, the cases of the conformance suite that notice it."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from perdure.clock import Clock
from perdure.stores.memory import MemoryStore
from perdure.testing.conformance import CASES, NotConforming, changes, run_case
from tests.stores import faulty_families as families
from tests.stores import faulty_finding as finding
from tests.stores import faulty_leases as owning
from tests.stores import faulty_limits as limits
from tests.stores import faulty_pipelines as piping
from tests.stores import faulty_stores as faulty

CAUGHT_BY: dict[type[MemoryStore], tuple[str, ...]] = {
    # lost
    faulty.LosesTurns: ("turns-turns_are_listed_in_their_order", "closing-the_history_of_a_run_that_is_ended_stays"),
    faulty.LosesTurnsWhenKilled: (
        "reopening-what_was_written_is_there_after_a_kill",
        "reopening-each_acknowledged_turn_is_there_after_a_kill",
    ),
    faulty.LosesMessages: ("messages-messages_are_numbered_from_one_in_their_order",),
    faulty.WritesBeforeItRefuses: ("starts-a_start_that_is_refused_writes_nothing",),
    # doubled
    faulty.DoublesMessages: ("messages-a_message_id_belongs_to_one_run",),
    faulty.DoublesAnswers: ("reports-an_answer_is_delivered_once",),
    faulty.AcceptsIdsTwice: ("messages-a_message_id_that_waits_is_accepted_once",),
    faulty.HandsOutOtherRuns: ("starts-a_workflow_id_with_other_input_is_refused",),
    faulty.EndsTwice: ("closing-what_has_ended_cannot_be_ended_again",),
    # torn
    faulty.TearsGroups: ("groups-a_group_of_turns_is_written",),
    faulty.TearsTurns: ("groups-a_turn_that_cannot_be_leaves_nothing_behind",),
    faulty.RefusesWholeGroups: ("groups-a_turn_that_cannot_be_holds_up_no_other",),
    # stale
    faulty.ReadsStale: ("turns-a_run_knows_its_last_turn",),
    faulty.ListsStale: ("reopening-what_was_read_before_is_read_anew",),
    # out of order
    faulty.AnswersGroupsInAnyOrder: ("groups-each_turn_of_a_group_is_answered_in_its_place",),
    faulty.ListsMessagesInAnyOrder: ("messages-messages_are_numbered_from_one_in_their_order",),
    faulty.AppendsTurnsInAnyOrder: ("fencing-a_turn_that_skips_one_is_refused",),
    owning.IgnoresPriority: (
        "claims-the_larger_priority_is_claimed_first",
        "claims-priority_goes_before_time_across_queues",
    ),
    # owned by two, or by the dead
    faulty.IgnoresFencing: (
        "fencing-a_turn_under_a_lost_lease_is_refused",
        "fencing-a_turn_is_refused_once_another_has_taken_over",
        "fencing-a_turn_under_somebody_elses_lease_is_refused",
    ),
    owning.SharesRuns: ("claims-a_run_has_one_owner",),
    owning.GivesNumbersAgain: ("leases-the_number_of_a_lease_is_never_given_twice",),
    owning.KeepsTheDead: ("leases-a_worker_that_has_died_loses_its_runs_when_its_lease_has_expired",),
    owning.EndsTheLiving: ("leases-a_lease_is_renewed_for_as_long_as_it_was_opened_for",),
    # attempts
    faulty.IgnoresAttempts: (
        "fencing-a_report_under_a_lost_lease_is_refused",
        "reports-an_attempt_is_known_by_its_number",
    ),
    faulty.DoesNotCountAttempts: ("reports-every_attempt_is_counted_and_kept",),
    faulty.RetriesAtOnce: ("reports-a_failed_attempt_is_tried_again_at_its_time",),
    faulty.ForgetsDetails: ("tasks-a_heartbeat_keeps_its_time_and_its_details",),
    # asleep, or awake too early
    faulty.ParksWhileMessagesWait: ("turns-a_run_is_not_parked_while_a_message_waits",),
    faulty.SleepsThroughMessages: ("messages-a_message_makes_a_parked_run_due_now",),
    faulty.SleepsThroughAnswers: ("reports-an_answer_becomes_a_message_of_its_run",),
    owning.ClaimsTooEarly: ("claims-a_run_is_not_claimed_before_it_is_due",),
    faulty.TellsNobody: ("changes-a_start_elsewhere_is_told", "changes-a_question_from_elsewhere_is_told"),
    # left behind
    faulty.DropsCancels: ("cancels-a_free_task_that_is_not_wanted_is_gone",),
    faulty.LeavesTasksBehind: ("closing-the_free_tasks_of_a_run_that_is_ended_are_gone",),
    # other runs: children, generations, updates, promises
    families.LosesChildren: ("children-a_turn_starts_children",),
    families.StartsChildrenTwice: ("children-a_child_whose_id_is_taken_is_answered_so",),
    families.TellsNoParent: ("children-a_parent_is_told_how_its_child_failed",),
    families.OrphansChildren: (
        "children-children_end_with_their_parent",
        "children-children_may_be_told_to_cancel_with_their_parent",
    ),
    families.ForgetsWhatWaits: (
        "generations-what_was_carried_comes_before_what_waits",
        "generations-a_chain_of_generations_loses_and_doubles_nothing",
    ),
    families.CarriesAnswersOver: ("generations-answers_to_the_old_generation_are_left_behind",),
    families.ForgetsIdsOfGenerations: ("generations-a_message_id_counts_for_all_generations",),
    families.AnswersUpdatesTwice: ("updates-the_first_answer_counts",),
    families.LeavesUpdatesOpen: ("updates-an_update_that_is_open_when_its_run_ends_is_answered_with_an_error",),
    families.SettlesTwice: ("promises-the_same_settlement_again_changes_nothing",),
    families.SharesKeys: ("promises-a_key_belongs_to_one_open_run",),
    limits.ForgetsLapses: ("promises-a_promise_that_its_run_does_not_wait_for_any_more_is_refused",),
    limits.EndsWhatIsOwned: ("deadlines-what_somebody_owns_is_left_to_its_owner",),
    limits.ServesOneQueue: ("deadlines-what_is_overdue_is_ended_and_nothing_else",),
    limits.CorrectsAnything: ("blocked-only_what_waits_for_a_blocked_run_of_nobody_can_be_corrected",),
    families.SendsToTheDead: ("sending-a_sender_is_answered_that_nobody_is_there",),
    # found wrongly
    finding.MissesWhatIsMissing: ("conditions-a_missing_attribute_fits_no_comparison",),
    finding.ComparesNumbersAsText: ("conditions-values_of_different_types_do_not_compare",),
    finding.IgnoresCase: ("conditions-like_knows_two_wildcards_and_no_more",),
    finding.TakesListsAsOne: ("conditions-a_list_is_each_of_its_values",),
    finding.KeepsOldAttributes: ("conditions-attributes_are_found_as_they_are_now",),
    finding.CountsValues: ("conditions-a_list_is_each_of_its_values",),
    # pipelines
    piping.OrphansReservations: ("retries-a_retry_after_the_mutation_takes_results_and_reservations_over",),
    piping.ReservesWhatIsRefused: ("stages-reserving_what_is_not_pending_writes_nothing",),
    piping.WritesTheLedgerLate: (
        "stages-a_mutation_stands_in_the_ledger_before_its_call_and_its_result_with_the_stage",
    ),
    piping.CommitsByHalves: ("stages-a_commit_that_cannot_start_its_workflow_or_publish_its_event_writes_nothing",),
    piping.ForgetsToConsume: ("stages-a_commit_stores_state_consumes_publishes_and_starts_together",),
    piping.RevivesEvents: ("events-an_event_is_known_by_its_topic_and_id_and_a_second_one_replaces_the_payload",),
    piping.PeeksAtTheNewest: ("events-peek_gives_pending_events_oldest_first",),
    piping.CountsNoAttempts: ("retries-a_failure_before_the_mutation_releases_and_counts_the_attempt",),
    piping.IgnoresPauses: ("pipelines-a_persons_pause_keeps_runs_from_beginning_and_touches_no_block",),
    piping.LetsAnybodyWrite: ("pipelines-every_transition_of_a_worker_whose_lease_was_lost_is_refused",),
    piping.SettlesWhatRuns: ("retries-a_person_has_a_mutation_tried_again",),
    # changed
    faulty.RewritesValues: ("starts-every_fact_of_a_run_is_kept_as_it_was_given",),
    faulty.DoesNotVerify: ("corruption-a_turn_that_is_not_what_was_written_is_found",),
}

PAIRS = [(fault, name) for fault, names in CAUGHT_BY.items() for name in names]


@pytest.mark.parametrize(("fault", "name"), PAIRS, ids=[f"{fault.__name__}-{name}" for fault, name in PAIRS])
def test_a_planted_fault_is_caught(
    fault: type[MemoryStore], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What notices it is an expectation of the case, not an accident in the store."""
    monkeypatch.setattr(changes, "PATIENCE_SECONDS", 0.05)
    (case,) = [case for case in CASES if str(case) == name]

    def make(clock: Clock) -> MemoryStore:
        return fault(clock, str(tmp_path))

    with pytest.raises(NotConforming) as caught:
        run_case(case, make)
    assert caught.value.__notes__ == [f"in the case {case}: {case.rule}"]


def test_there_are_faults_enough_and_none_is_forgotten() -> None:
    classes = [
        item
        for module in (faulty, families, finding, owning, limits, piping)
        for _, item in inspect.getmembers(module, inspect.isclass)
    ]
    planted = {item for item in classes if issubclass(item, MemoryStore)}
    assert planted - {MemoryStore, piping.FaultyPipelines} == set(CAUGHT_BY)
    assert len(CAUGHT_BY) >= 15
