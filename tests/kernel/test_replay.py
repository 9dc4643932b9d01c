"""K10, K11: recorded runs replay strictly for ever, and one recorded command damaged in any way is found."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from perdure import NondeterminismError
from perdure.model.commands import KINDS, Command
from perdure.testing import Harness, Transcript
from tests.kernel import every_kind
from tests.kernel.every_kind import CODE, without_tracebacks

Run = dict[str, Any]
Place = tuple[str, int, int]


def run_of(name: str) -> Run:
    return json.loads(every_kind.recorded(name))


def replay(name: str, run: Run) -> Harness[Any]:
    return Harness.replay_transcript(CODE[name], Transcript.from_json(json.dumps(run)))


def refused(name: str, run: Run) -> NondeterminismError:
    with pytest.raises(NondeterminismError) as raised:
        replay(name, run)
    return raised.value


def places() -> list[Place]:
    """Every recorded command: its run, its turn, and its number in it."""
    return [
        (name, turn["turn"], number)
        for name in CODE
        for turn in run_of(name)["turns"]
        for number in range(len(turn["commands"]))
    ]


def command_at(run: Run, place: Place) -> dict[str, Any]:
    return run["turns"][place[1]]["commands"][place[2]]


def as_text(place: Place) -> str:
    return f"{place[0]}-{place[1]}-{place[2]}-{command_at(run_of(place[0]), place)['kind']}"


every_command = pytest.mark.parametrize("place", places(), ids=as_text)


# --- as they are --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CODE)
def test_k11_a_recorded_run_replays_and_says_the_same_once_more(name: str) -> None:
    text = every_kind.recorded(name)
    replayed, live = Harness.replay_transcript(CODE[name], Transcript.from_json(text)), every_kind.record(name)
    assert without_tracebacks(live.transcript.to_json()) + "\n" == text
    assert Transcript.from_json(text).to_json() + "\n" == text
    assert (replayed.status, replayed.result) == (live.status, live.result)
    assert [turn.commands for turn in live.replay().turns] == [turn.commands for turn in live.turns]


def test_k11_the_recorded_runs_hold_every_kind_of_command() -> None:
    recorded = {command_at(run_of(place[0]), place)["kind"] for place in places()}
    assert recorded == KINDS


# --- dropped, duplicated, swapped ---------------------------------------------------------------


@every_command
def test_k11_a_command_that_was_dropped_from_the_record_is_found(place: Place) -> None:
    run = run_of(place[0])
    dropped = run["turns"][place[1]]["commands"].pop(place[2])
    error = refused(place[0], run)
    assert error.turn == place[1]
    if dropped["kind"] == "set_patch":  # M9: a record without the mark is one of the old way
        assert error.now is None or error.now.kind != "set_patch"
    elif dropped["kind"] == "reject_update":
        assert error.now is not None
        assert error.now.kind == "accept_update"
    else:
        assert error.now is not None
        assert error.now.kind == dropped["kind"]
    rest = run["turns"][place[1]]["commands"][place[2] :]
    assert (error.recorded is None) == (not rest)


@every_command
def test_k11_a_command_that_stands_in_the_record_twice_is_found(place: Place) -> None:
    run = run_of(place[0])
    commands = run["turns"][place[1]]["commands"]
    commands.insert(place[2], copy.deepcopy(commands[place[2]]))
    error = refused(place[0], run)
    assert error.turn == place[1]
    assert error.recorded is not None
    assert error.recorded.kind == commands[place[2]]["kind"]
    following = commands[place[2] + 2 :]
    assert (error.now.kind if error.now else None) == (following[0]["kind"] if following else None)


@pytest.mark.parametrize("place", [p for p in places() if p[2]], ids=as_text)
def test_k11_two_commands_that_changed_places_are_found(place: Place) -> None:
    name, turn, number = place
    run = run_of(name)
    commands = run["turns"][turn]["commands"]
    commands[number - 1], commands[number] = commands[number], commands[number - 1]
    error = refused(name, run)
    assert error.turn == turn
    assert error.recorded is not None
    assert error.now is not None
    assert error.recorded.kind == commands[number - 1]["kind"]


@pytest.mark.parametrize("name", CODE)
def test_k11_a_whole_turn_without_its_commands_is_found(name: str) -> None:
    for turn in run_of(name)["turns"]:
        if turn["commands"]:
            run = run_of(name)
            run["turns"][turn["turn"]]["commands"] = []
            assert refused(name, run).turn == turn["turn"]


# --- one field changed --------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """A field of a recorded command, and how it is changed."""

    field: str
    edit: Callable[[dict[str, Any]], object]


# The recorded value is handed to the code, so that it cannot differ from what the code has.
TAKEN_FROM_RECORD = {"record_side_effect", "reject_update"}
# A kind that a record of the same shape may have: `from_json` refuses any other.
OTHER_KINDS = {
    "schedule_activity": "start_child",
    "start_child": "schedule_activity",
    "signal_external": "schedule_activity",
    "create_promise": "schedule_activity",
    "start_timer": "cancel_external",
    "cancel_external": "cancel_timer",
    "cancel_activity": "cancel_timer",
    "cancel_timer": "cancel_activity",
    "cancel_child": "cancel_timer",
    "set_state": "record_side_effect",
    "clear_state": "accept_update",
    "set_attributes": "publish",
    "publish": "complete",
    "publish_event": "set_state",
    "record_side_effect": "set_state",
    "record_choice": "publish",
    "accept_update": "clear_state",
    "complete_update": "set_state",
    "fail_update": "set_state",
    "complete": "publish",
    "fail": "publish",
    "cancel": "continue_as_new",
    "continue_as_new": "cancel",
}


def changes(command: dict[str, Any]) -> Iterator[Change]:
    """What K10 says belongs to this command."""
    kind = command["kind"]
    if kind not in ("set_patch", "reject_update"):  # without these, the code goes another way
        yield Change("kind", lambda c: c.update(kind=OTHER_KINDS[kind]))
    if "seq" in command:
        yield Change("seq", lambda c: c.update(seq=c["seq"] + 10))
    if kind != "set_patch":
        yield Change("unit", lambda c: c.update(unit="/p3"))
    if "name" in command and kind not in ("set_patch", "record_side_effect"):
        yield Change("name", lambda c: c.update(name="another"))
    if command.get("input") and kind not in TAKEN_FROM_RECORD | {"record_choice"}:
        failing = kind in ("fail", "fail_update")
        if failing:
            yield Change("input[0].type", lambda c: c["input"][0].update(type="KeyError"))
            yield Change("input[0].message", lambda c: c["input"][0].update(message="another"))
        else:
            if kind == "set_attributes":
                for key in command["input"][0]:
                    yield Change(f"input[0].{key}", lambda c, key=key: c["input"][0].pop(key))
            else:
                another = 99 if kind == "start_timer" else "another"
                yield Change("input[0]", lambda c: c["input"].__setitem__(0, another))
            yield Change("input[1]", lambda c: c["input"].append(1))
    for key in command.get("kwargs", {}):
        yield Change(f"kwargs.{key}", lambda c, key=key: c["kwargs"].update({key: "another"}))
    if kind != "reject_update":
        for key in command.get("options", {}):
            yield Change(f"options.{key}", lambda c, key=key: c["options"].update({key: "another"}))
            yield Change(f"options.{key}", lambda c, key=key: c["options"].pop(key))
        yield Change("options.queue", lambda c: c.setdefault("options", {}).update(queue="another"))


FIELDS = [(place, change) for place in places() for change in changes(command_at(run_of(place[0]), place))]


@pytest.mark.parametrize(("place", "change"), FIELDS, ids=[f"{as_text(p)}-{c.field}" for p, c in FIELDS])
def test_k10_each_field_of_a_command_belongs_to_its_identity(place: Place, change: Change) -> None:
    run = run_of(place[0])
    change.edit(command_at(run, place))
    error = refused(place[0], run)
    assert (error.turn, error.field) == (place[1], change.field)
    assert isinstance(error.recorded, Command)
    assert isinstance(error.now, Command)
    assert error.recorded.source is None
    assert error.recorded.kind == command_at(run, place)["kind"]
    assert error.now.kind == command_at(run_of(place[0]), place)["kind"]
    assert error.cause


@pytest.mark.parametrize("place", [p for p in places() if p[0] != "everything" or p[2] in (8, 17, 19)], ids=as_text)
def test_k10_of_a_failure_only_type_and_message_count_and_the_source_line_never_does(place: Place) -> None:
    run = run_of(place[0])
    command = command_at(run, place)
    command["source"] = ["another.py", 1]
    if command["kind"] in ("fail", "fail_update", "reject_update"):
        command["input"][0] |= {"traceback": "…", "cause": {"type": "E"}, "details": [1], "retryable": False}
    replay(place[0], run)


def test_k10_a_timer_is_identified_by_the_duration_that_was_asked_for_and_not_by_its_due_time() -> None:
    run = run_of("continues")
    for turn in run["turns"]:
        turn["now"] = turn["now"].replace("2026-01-01", "2026-03-01")
    assert replay("continues", run).done
    command_at(run, ("continues", 0, 0))["input"] = [1.0]
    assert replay("continues", run).done
    command_at(run, ("continues", 0, 0))["input"] = [2]
    error = refused("continues", run)
    assert (error.field, error.cause) == ("input[0]", "changed argument")


def test_m11_a_recorded_side_effect_is_handed_to_the_code_and_differs_where_it_is_used() -> None:
    run = run_of("everything")
    command_at(run, ("everything", 0, 4))["input"] = [8]
    error = refused("everything", run)
    assert error.now is not None
    assert (error.now.kind, error.now.input, error.field) == ("publish", [8], "input[0]")


def test_p4_a_recorded_choice_is_taken_and_one_that_is_not_there_is_found() -> None:
    run = run_of("everything")
    command_at(run, ("everything", 0, 7))["input"] = [1]
    error = refused("everything", run)
    assert error.now is not None
    assert (error.now.name, error.now.input) == ("fetch", ["right"])
    command_at(run, ("everything", 0, 7))["input"] = [2]
    error = refused("everything", run)
    assert error.now is not None
    assert (error.now.kind, error.field) == ("record_choice", "input[0]")


def test_m2_a_recorded_rejection_is_repeated_without_asking_the_validator() -> None:
    run = run_of("everything")
    command_at(run, ("everything", 0, 17))["input"][0]["message"] = "as it was said then"
    replayed = replay("everything", run)
    (rejection,) = [command for command in replayed.turns[0].commands if command.kind == "reject_update"]
    assert rejection.input[0]["message"] == "as it was said then"
    command_at(run, ("everything", 0, 17))["options"]["id"] = "u-9"
    error = refused("everything", run)
    assert error.now is not None
    assert error.now.kind == "accept_update"


def test_m9_a_record_without_the_mark_of_a_patch_is_one_of_the_old_way() -> None:
    run = run_of("everything")
    del run["turns"][0]["commands"][5:7]  # the mark, and what the new way emits
    assert replay("everything", run).done
