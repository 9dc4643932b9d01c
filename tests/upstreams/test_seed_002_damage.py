"""Seed 002's table of replay cases, groups 7 and 8: code that does not fit its history, and histories that fit none.

Where the upstream lets a case pass or leaves it open, the rule that decides it here stands in the docstring.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure import InvalidValue, NondeterminismError, child, receive, sleep, workflow
from perdure.testing import Harness, Transcript, cancel, fire, resolve, signal
from tests.kernel.telling import told
from tests.upstreams.baseline import (
    STARTED,
    Command,
    Turn,
    asked,
    bid_farewell,
    child_of,
    end,
    greet,
    history,
    job,
    replayed,
    timer,
)


@workflow
async def errand(what: str) -> str: ...


@workflow(name="now")
async def greets() -> str:
    return await greet("Ann")


@workflow(name="now")
async def rests() -> str:
    await sleep(60)
    return "hi"


@workflow(name="now")
async def waits() -> str:
    return await receive("x", str)


@workflow(name="now")
async def sends() -> str:
    return await child(errand, "bread")


GREET, REST, SEND = asked("greet", 0, "Ann"), timer(0, 60), child_of("errand", 0, "bread")
DONE = end("complete", "hi")
ANSWERED, FIRED = job("resolved", seq=0, value="hi"), job("fired", seq=0)
WHOLE: tuple[Turn, Turn] = (([STARTED], [GREET]), ([ANSWERED], [DONE]))


def refused(code: Any, *turns: Turn) -> NondeterminismError:
    with pytest.raises(NondeterminismError) as raised:
        replayed(code, history(*turns))
    return raised.value


def malformed(record: dict[str, Any]) -> str:
    with pytest.raises(InvalidValue, match="this is no transcript") as raised:
        Transcript.from_json(json.dumps(record))
    return str(raised.value)


# --- 7. code that does not fit ------------------------------------------------------------------


@workflow(name="now")
async def greets_bob() -> str:
    return await greet("Bob")


@workflow(name="now")
async def says_goodbye() -> str:
    return await bid_farewell("Ann")


@workflow(name="now")
async def rests_longer() -> str:
    await sleep(61)
    return "hi"


@workflow(name="now")
async def sends_for_milk() -> str:
    return await child(errand, "milk")


@workflow(name="now")
async def returns_at_once() -> str:
    return "hi"


@workflow(name="now")
async def never_asks() -> str:
    return await receive("nothing", str)


MISMATCHES: dict[str, tuple[Any, Command, str]] = {
    "a timer for an activity": (rests, GREET, "kind"),
    "an activity for a timer": (greets, REST, "kind"),
    "a child for an activity": (sends, GREET, "kind"),
    "another activity": (says_goodbye, GREET, "name"),
    "another input": (greets_bob, GREET, "input[0]"),
    "another duration": (rests_longer, REST, "input[0]"),
    "another input of a child": (sends_for_milk, SEND, "input[0]"),
    "an early return": (returns_at_once, GREET, "kind"),
    "nothing asked for": (never_asks, GREET, "command"),
}


@pytest.mark.parametrize("case", MISMATCHES)
def test_k11_group_7_another_decision_than_the_recorded_one_is_found_with_its_field(case: str) -> None:
    """K10, K11: an early return too, which the upstream lets pass; and timers by what was asked for."""
    code, recorded, field = MISMATCHES[case]
    error = refused(code, ([STARTED], [recorded]))
    assert (error.turn, error.field) == (0, field)
    assert error.recorded is not None
    assert error.recorded.name == recorded.get("name")
    assert (error.now is None) == (case == "nothing asked for")


def test_m1_group_7_a_wait_for_another_message_is_found_where_its_end_differs() -> None:
    """M1, K11: waiting emits no command, so that what shows is that the recorded signal now wakes nobody."""
    came = ([job("signal", name="y", input=["hi"])], [DONE])
    error = refused(waits, ([STARTED], []), came)
    assert (error.turn, error.now) == (1, None)


@pytest.mark.parametrize("answer", [resolve(7, "hi"), fire(7)], ids=["resolve", "fire"])
def test_k11_group_7_an_answer_to_what_was_never_asked_for_is_found(answer: Any) -> None:
    h = Harness(greets)
    h.start()
    with pytest.raises(NondeterminismError, match="seq 7"):
        h.activate(answer)
    assert len(h.transcript.turns) == 1
    assert told(h.activate(resolve(0, "hi"))) == ['complete ["hi"]']


WRONG_KIND = [(greets, fire(0)), (rests, resolve(0, "hi")), (sends, fire(0))]


@pytest.mark.parametrize(("code", "answer"), WRONG_KIND, ids=["activity", "timer", "child"])
def test_k11_group_7_an_answer_of_another_kind_is_found(code: Any, answer: Any) -> None:
    """K11: a timer fires and nothing else does."""
    h = Harness(code)
    h.start()
    with pytest.raises(NondeterminismError, match="seq 0"):
        h.activate(answer)
    assert h.status == "running"


# --- 8.1 structure ------------------------------------------------------------------------------


def test_k11_group_8_a_history_without_turns_is_one_of_a_run_that_has_not_begun() -> None:
    """Section 6: it is no damage; nothing was recorded yet."""
    h = replayed(greets, history())
    assert told(h.start()) == ['schedule_activity#0 greet ["Ann"]']


STARTS: dict[str, list[Turn]] = {
    "no job": [([], [GREET])],
    "no start": [([ANSWERED], [DONE])],
    "not first": [([ANSWERED, STARTED], [GREET])],
    "twice": [([STARTED, STARTED], [GREET])],
    "again later": [([STARTED], [GREET]), ([STARTED], [DONE])],
}


@pytest.mark.parametrize("case", STARTS)
def test_group_8_a_history_begins_with_its_one_start(case: str) -> None:
    """Section 6: refused where it is read, naming the place."""
    assert "started" in malformed(history(*STARTS[case]))


@pytest.mark.parametrize("numbers", [(0, 0), (1, 0), (0, 2), (1, 2), (0, -1)])
def test_group_8_turns_are_numbered_from_0_without_a_gap(numbers: tuple[int, int]) -> None:
    """Section 6, E8: a gap would be a lost turn."""
    record = history(*WHOLE)
    for turn, number in zip(record["turns"], numbers, strict=True):
        turn["turn"] = number
    assert "turns count up from 0" in malformed(record)


@pytest.mark.parametrize("field", ["turn", "now", "jobs", "commands"])
def test_group_8_a_turn_has_a_number_a_time_jobs_and_commands(field: str) -> None:
    """Section 6."""
    record = history(*WHOLE)
    del record["turns"][1][field]
    with pytest.raises((InvalidValue, NondeterminismError)):
        replayed(greets, record)


# --- 8.2, 8.6, 8.7 answers that belong to nothing ------------------------------------------------


def test_group_8_an_answer_names_what_it_is_for() -> None:
    """Section 6."""
    assert "`seq`" in malformed(history(WHOLE[0], ([job("resolved", value="hi")], [DONE])))
    assert "`seq`" in malformed(history(WHOLE[0], ([job("resolved", seq=-1, value="hi")], [DONE])))


ORPHANS: dict[str, tuple[Any, Command, dict[str, Any]]] = {
    "activity": (greets, GREET, job("resolved", seq=9, value="hi")),
    "failed activity": (greets, GREET, job("failed", seq=9, failure={"type": "E", "message": "m"})),
    "cancelled activity": (greets, GREET, job("cancelled", seq=9)),
    "timer": (rests, REST, job("fired", seq=9)),
    "child": (sends, SEND, job("resolved", seq=9, value="hi")),
    "timer for an activity": (greets, GREET, FIRED),
    "activity for a timer": (rests, REST, ANSWERED),
    "promise": (greets, GREET, job("promise_resolved", name="paid", value=1)),
}


@pytest.mark.parametrize("case", ORPHANS)
def test_k11_group_8_an_answer_on_record_to_what_nobody_asked_for_is_found(case: str) -> None:
    code, command, answer = ORPHANS[case]
    assert refused(code, ([STARTED], [command]), ([answer], [DONE])).turn == 1


@pytest.mark.parametrize(("code", "command", "answer"), [(greets, GREET, ANSWERED), (rests, REST, FIRED)])
def test_k11_group_8_an_answer_that_stands_before_its_question_is_found(
    code: Any, command: Command, answer: dict[str, Any]
) -> None:
    """K6, K11: what comes with the start is applied before any code has run."""
    assert refused(code, ([STARTED, answer], [command, DONE])).turn == 0


def test_k11_group_8_a_second_answer_on_record_is_dropped_and_counted() -> None:
    """K11: in the same turn, or in one after the end; the first one counts."""
    other = job("resolved", seq=0, value="another")
    for record in (history(WHOLE[0], ([ANSWERED, other], [DONE])), history(*WHOLE, ([other], []))):
        h = replayed(greets, record)
        assert (h.result, h.dropped) == ("hi", 1)


def test_m1_group_8_a_message_on_record_that_nobody_takes_is_no_damage() -> None:
    """M1: it is buffered; the run is as it would be without it."""
    stray = job("signal", name="x", input=["early"])
    assert replayed(greets, history(([STARTED, stray], [GREET]), WHOLE[1])).result == "hi"
    assert replayed(waits, history(([STARTED, stray], [end("complete", "early")]))).result == "early"


# --- 8.3 what stands behind the end --------------------------------------------------------------


def test_k17_group_8_what_comes_after_the_end_changes_nothing() -> None:
    """K17: the first terminal decision wins; a late cancellation is dropped and counted."""
    h = replayed(greets, history(*WHOLE))
    assert told(h.activate(cancel("late"))) == []
    assert (h.status, h.result, h.dropped) == ("completed", "hi", 1)
    assert replayed(greets, history(*WHOLE, ([job("cancel")], []))).status == "completed"


BEHIND = [end("cancel"), DONE, asked("greet", 1, "Bob"), timer(1, 60)]


@pytest.mark.parametrize("command", BEHIND, ids=lambda command: command["kind"])
def test_k11_group_8_commands_that_stand_behind_the_end_of_the_run_are_found(command: Command) -> None:
    """K11: nothing meets them, in the turn of the end or in one of their own."""
    same_turn = refused(greets, WHOLE[0], ([ANSWERED], [DONE, command]))
    later = refused(greets, *WHOLE, ([job("cancel")], [command]))
    assert (same_turn.turn, later.turn) == (1, 2)
    for error in (same_turn, later):
        assert error.now is None
        assert error.recorded is not None
        assert error.recorded.kind == command["kind"]


# --- 8.5, 8.8 fields and duplicates --------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "null", "  ", "größe ☃ 🦜", "a\nb\tc", "nul \x00 inside", "long " * 200_000])
def test_k20_group_8_any_text_is_a_value_and_comes_back_as_it_was(text: str) -> None:
    """K20: empty, a megabyte, control characters; live, replayed, and through the transcript's text."""

    @workflow(name="now")
    async def echoes(word: str) -> str:
        return await greet(word)

    h = Harness(echoes, text)
    assert h.start().commands[0].input == [text]
    h.activate(resolve(0, text))
    again = Harness.replay_transcript(echoes, Transcript.from_json(h.transcript.to_json()))
    assert h.result == again.result == text


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 513])
def test_group_8_a_message_id_follows_the_grammar_of_ids(name: str) -> None:
    """Section 6: an id that is empty, over 512 characters, or holds control characters."""
    with pytest.raises(InvalidValue):
        signal("x", "hi", message_id=name)


@pytest.mark.parametrize(("code", "command"), [(greets, GREET), (rests, REST), (sends, SEND)])
def test_k11_group_8_a_command_that_stands_on_record_twice_is_met_once(code: Any, command: Command) -> None:
    """K11: each recorded entry is consumed exactly once."""
    error = refused(code, ([STARTED], [command, dict(command)]))
    assert (error.turn, error.now) == (0, None)
