"""K11, `match="names"`: the recorded corpus of seed 001 (upstreams 2.4), replayed by that rule and strictly."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import NondeterminismError
from perdure.testing import Harness, Transcript, fire, resolve
from tests.kernel import rewritten
from tests.kernel.rewritten import CHANGED, UNCHANGED, Case

FOLDER = Path(__file__).parents[1] / "histories/names"
CASES = UNCHANGED + CHANGED
BY_NAME = [case for case in CHANGED if case.names is None]
VIOLATIONS = [case for case in CHANGED if case.names is not None]
# The 22 histories, and where the code as it is now differs (turn, field): by names, and strictly.
OF_THE_SEED: dict[str, tuple[tuple[int, str] | None, tuple[int, str] | None]] = {
    "simple_operation": (None, None),
    "multiple_operations": (None, None),
    "state": (None, None),
    "task": (None, None),
    "timer": (None, None),
    "promise": (None, None),
    "child": (None, None),
    "parallel_two_tasks": (None, None),
    "parallel_task_and_timer": (None, None),
    "parallel_three_tasks_one_fails": (None, None),
    "select_first_wins": (None, None),
    "timeout_success": (None, None),
    "timeout_expiry": (None, None),
    "parallel_mixed": (None, None),
    "determinism_task_loop": (None, None),
    "determinism_child_loop": (None, None),
    "determinism_mixed_commands": (None, None),
    "loop_shortened": (None, (2, "kind")),
    "violation_task_type": ((0, "name"), (0, "name")),
    "violation_task_order": ((0, "name"), (0, "name")),
    "violation_child_name": ((0, "name"), (0, "name")),
    "violation_child_kind": ((0, "name"), (0, "name")),
}
# What `names` looks at, and so what a change of the recorded name of is a violation.
LOOKED_AT = {"schedule_activity", "start_child", "create_promise", "record_side_effect", "set_state", "clear_state"}


def recorded(case: Case) -> Transcript:
    return Transcript.from_json((FOLDER / f"{case.name}.json").read_text("utf-8"))


def edited(case: Case, edit: Callable[[dict[str, Any]], object]) -> Transcript:
    """The recorded run after an edit of each of its commands."""
    run = json.loads((FOLDER / f"{case.name}.json").read_text("utf-8"))
    for turn in run["turns"]:
        for command in turn["commands"]:
            edit(command)
    return Transcript.from_json(json.dumps(run))


def every(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])


def test_k11_the_corpus_holds_every_history_of_seed_001_with_its_verdicts_and_no_other_file() -> None:
    verdicts = {case.name: (case.names, case.strict) for case in CASES}
    assert len(OF_THE_SEED) == 22
    assert {name: verdicts[name] for name in OF_THE_SEED} == OF_THE_SEED
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(case.name for case in CASES)


@every(CASES)
def test_k11_a_run_recorded_long_ago_would_be_recorded_alike_today(case: Case) -> None:
    text = (FOLDER / f"{case.name}.json").read_text("utf-8")
    assert case.record().transcript.to_json() + "\n" == text
    assert recorded(case).to_json() + "\n" == text


@every(UNCHANGED)
@pytest.mark.parametrize("match", ["names", "strict"])
def test_k11_unchanged_code_replays_by_either_rule_to_the_same_end(case: Case, match: Any) -> None:
    replayed, live = Harness.replay_transcript(case.now, recorded(case), match=match), case.record()
    assert replayed.done
    assert (replayed.status, replayed.result) == (live.status, live.result)
    assert [turn.commands for turn in replayed.turns] == [turn.commands for turn in live.turns]


@every(BY_NAME)
def test_k11_names_lets_reordered_kinds_other_values_and_another_length_pass(case: Case) -> None:
    Harness.replay_transcript(case.now, recorded(case))
    Harness.replay_transcript(case.now, recorded(case), match="names")


@every(VIOLATIONS)
def test_k11_names_finds_another_name_where_the_nth_of_a_kind_was_recorded(case: Case) -> None:
    with pytest.raises(NondeterminismError) as raised:
        Harness.replay_transcript(case.now, recorded(case))
    error = raised.value
    assert (error.turn, error.field) == case.names
    assert error.recorded is not None
    assert error.now is not None
    assert (error.recorded.name, error.recorded.kind) != (error.now.name, error.now.kind)


@every([case for case in CHANGED if case.strict])
def test_k11_strict_finds_the_first_difference_of_each(case: Case) -> None:
    with pytest.raises(NondeterminismError) as raised:
        Harness.replay_transcript(case.now, recorded(case), match="strict")
    assert (raised.value.turn, raised.value.field) == case.strict


@every([case for case in UNCHANGED if case.name != "simple_operation"])
def test_k11_names_does_not_look_at_inputs_options_or_units_and_strict_looks_at_all(case: Case) -> None:
    def another_input(command: dict[str, Any]) -> None:
        if command["kind"] not in ("record_side_effect", "start_timer", "clear_state", "create_promise"):
            command["input"] = ["another"]

    def other_options(command: dict[str, Any]) -> None:
        command["options"] = {"queue": "another"}

    def another_unit(command: dict[str, Any]) -> None:
        command["unit"] = "/p7"

    def another_duration(command: dict[str, Any]) -> None:
        if command["kind"] == "start_timer":
            command["input"] = [command["input"][0] + 1]

    for edit in (another_input, other_options, another_unit, another_duration):
        changed = edited(case, edit)
        Harness.replay_transcript(case.now, changed, match="names")
        if changed.turns != recorded(case).turns:
            with pytest.raises(NondeterminismError):
                Harness.replay_transcript(case.now, changed, match="strict")


@every(UNCHANGED)
def test_k11_names_looks_at_the_name_of_every_command_that_has_one(case: Case) -> None:
    kinds = {command.kind for turn in recorded(case).turns for command in turn.commands} & LOOKED_AT
    for kind in kinds:

        def rename(command: dict[str, Any], kind: str = kind) -> None:
            if command["kind"] == kind:
                command["name"] = "renamed"

        with pytest.raises(NondeterminismError) as raised:
            Harness.replay_transcript(case.now, edited(case, rename))
        assert raised.value.recorded is not None
        assert (raised.value.recorded.kind, raised.value.recorded.name) == (kind, "renamed")


def test_k11_under_names_an_answer_finds_the_call_that_it_was_recorded_for() -> None:
    replayed = Harness.replay_transcript(rewritten.timer_first, recorded(CASES_BY_NAME["kinds_reordered"]))
    assert replayed.result == ["a", None]


def test_k11_under_names_a_run_that_stops_short_ends_with_what_it_has() -> None:
    replayed = Harness.replay_transcript(rewritten.loop_shortened, recorded(CASES_BY_NAME["loop_shortened"]))
    assert replayed.done
    assert replayed.result == ["value 0", "value 1"]
    assert len(replayed.turns) == 3


def test_k11_under_names_a_run_goes_on_beyond_its_record() -> None:
    harness = Harness.replay_transcript(rewritten.loop_extended, recorded(CASES_BY_NAME["loop_extended"]))
    assert not harness.done
    (command,) = harness.turns[-1].commands
    assert (command.name, command.input) == ("fetch", ["page 3"])
    harness.activate(resolve(command, "value 3"))
    assert harness.result == [f"value {number}" for number in range(4)]


def test_k11_the_rule_is_kept_in_the_transcript_and_can_be_set_aside_for_one_replay() -> None:
    harness = Harness(rewritten.task_and_timer, match="names")
    turn = harness.start()
    harness.activate(resolve(turn.commands[0], "a"))
    harness.activate(fire(turn.commands[1]))
    assert harness.transcript.match == "names"
    assert Harness.replay_transcript(rewritten.task_and_timer, harness.transcript, match="strict").done


def test_k12_under_names_the_report_counts_within_the_kind() -> None:
    with pytest.raises(NondeterminismError) as raised:
        Harness.replay_transcript(rewritten.tasks_swapped, recorded(CASES_BY_NAME["violation_task_order"]))
    assert "command | activity #1 `fetch` (seq 0) | activity #1 `store` (seq 0)" in str(raised.value)


CASES_BY_NAME = {case.name: case for case in CASES}
