"""M5: phases take messages with state, one handler after another; the first verdict ends them."""

from __future__ import annotations

from typing import Any

import pytest

import perdure
from perdure import Continue, Later, PhaseEnd, Reply, Stop, pending, phase, publish, receive, workflow
from perdure.testing import fire, resolve, signal, update
from tests.kernel.telling import Start, act, answers, asked, told

State = list[str]


def note(state: State, text: str) -> Continue[State]:
    return Continue([*state, text])


def stop(state: State, text: str = "stop") -> Stop[State]:
    return Stop([*state, text], reply=f"bye {text}")


def reply(state: State, text: str) -> Reply[State]:
    return Reply(len(state), [*state, text])


async def slowly(state: State, name: str) -> Continue[State]:
    return Continue([*state, await act(name)])


async def slow_stop(state: State, name: str) -> Stop[State]:
    return Stop([*state, await act(name)])


def later(state: State, name: str) -> Later[State]:
    async def rest() -> str:
        return await act(name)

    return Later(rest(), [*state, f"began {name}"])


def refuse_empty(state: State, text: str) -> None:
    if not text or text in state:
        raise ValueError("refused")


HANDLERS: dict[str, Any] = {
    "note": note,
    "stop": stop,
    "reply": reply,
    "slowly": slowly,
    "slow_stop": slow_stop,
    "later": later,
}


@workflow
async def office(timeout: int | None = None) -> list[Any]:
    end = await phase([], signals=HANDLERS, timeout=timeout)
    return [end.state, end.timed_out, pending("note"), pending("slowly")]


@workflow
async def counter(timeout: int | None = None) -> list[Any]:
    end = await phase([], updates=HANDLERS, signals={"halt": stop}, validators={"reply": refuse_empty}, timeout=timeout)
    return [end.state, end.timed_out]


# --- verdicts -------------------------------------------------------------------------------------


def test_m5_a_phase_takes_messages_until_a_handler_says_stop(run: Start) -> None:
    h = run(office)
    assert h.start().commands == []
    h.activate(signal("note", "a"))
    h.activate(signal("note", "b"), signal("stop", "c"))
    assert h.result == [["a", "b", "c"], False, 0, 0]


def test_m5_a_phase_that_runs_out_of_time_says_so(run: Start) -> None:
    h = run(office, 60)
    turn = h.start(signal("note", "a"))
    assert told(turn) == ["start_timer#0 [60]"]
    assert told(h.activate(fire(turn.commands[0]))) == ['complete [[["a"], true, 0, 0]]']


def test_m5_stop_cancels_the_timer(run: Start) -> None:
    h = run(office, 60)
    h.start()
    assert told(h.activate(signal("stop")))[0] == "cancel_timer#0"
    assert h.result == [["stop"], False, 0, 0]


def test_m5_an_update_that_stops_is_answered_with_its_reply(run: Start) -> None:
    h = run(counter)
    h.start()
    turn = h.activate(update("stop", "x", id="u"))
    assert told(turn)[:2] == ["accept_update stop @/h0", 'complete_update stop ["bye x"] @/h0']
    assert (answers(turn)[-1], h.result) == (("u", "update", "bye x"), [["x"], False])


def test_m5_a_reply_answers_the_update_and_goes_on(run: Start) -> None:
    h = run(counter)
    h.start()
    turn = h.activate(update("reply", "a", id="u"), update("reply", "b", id="v"), update("note", "c", id="w"))
    done = [answer for answer in answers(turn) if answer[1] == "update"]
    assert done == [("u", "update", 0), ("v", "update", 1), ("w", "update", None)]
    h.activate(signal("halt"))
    assert h.result == [["a", "b", "c", "stop"], False]


def test_m5_the_first_verdict_wins_over_a_stop_that_was_at_work_when_the_time_ran_out(run: Start) -> None:
    h = run(office, 60)
    timer = h.start().commands[0]
    turn = h.activate(signal("slow_stop", "x"))
    assert h.activate(fire(timer)).commands == []
    h.activate(resolve(turn.commands[0], "X"))
    assert h.result == [["X"], True, 0, 0]


def test_m5_the_first_verdict_wins_over_a_timer_that_fires_while_the_phase_ends(run: Start) -> None:
    h = run(office, 60)
    timer = h.start().commands[0]
    turn = h.activate(signal("later", "x"), signal("stop"))
    assert told(turn) == ["cancel_timer#0", 'schedule_activity#1 act ["x"] @/h0/a0']
    h.activate(fire(timer))
    h.activate(resolve(turn.commands[1], "X"))
    assert (h.result, h.dropped) == ([["began x", "stop"], False, 0, 0], 1)


# --- handlers one after another, and beside each other ---------------------------------------------


def test_m5_handlers_run_one_after_another_in_the_order_of_arrival_even_while_one_waits(run: Start) -> None:
    h = run(counter)
    h.start()
    turn = h.activate(update("slowly", "a"), update("note", "b"), signal("halt"))
    kinds = [(command.kind, command.unit) for command in turn.commands]
    assert kinds == [("accept_update", "/h0"), ("schedule_activity", "/h0"), ("accept_update", "/h1")]
    turn = h.activate(resolve(asked(turn)[0], "A"))
    assert told(turn)[:2] == ["complete_update slowly [null] @/h0", "complete_update note [null] @/h1"]
    assert h.result == [["A", "b", "stop"], False]


def test_m5_an_async_handler_sees_the_state_as_it_was_when_its_turn_came(run: Start) -> None:
    h = run(counter)
    h.start()
    first = h.activate(update("slowly", "a"), update("slowly", "b"))
    assert [command.input for command in asked(first)] == [["a"]]
    second = h.activate(resolve(asked(first)[0], "A"))
    assert [command.input for command in asked(second)] == [["b"]]
    h.activate(resolve(asked(second)[0], "B"), signal("halt"))
    assert h.result == [["A", "B", "stop"], False]


def test_m5_what_is_left_to_later_overlaps_and_answers_when_it_is_done(run: Start) -> None:
    h = run(counter)
    h.start()
    turn = h.activate(update("later", "a", id="u"), update("later", "b", id="v"), update("note", "c", id="w"))
    assert [(command.unit, command.input) for command in asked(turn)] == [("/h0/a0", ["a"]), ("/h1/a0", ["b"])]
    assert [one for one in answers(turn) if one[1] == "update"] == [("w", "update", None)]
    assert answers(h.activate(resolve(asked(turn)[1], "B"))) == [("v", "update", "B")]
    assert answers(h.activate(resolve(asked(turn)[0], "A"))) == [("u", "update", "A")]
    h.activate(signal("halt"))
    assert h.result == [["began a", "began b", "c", "stop"], False]


def test_m5_the_end_waits_for_what_is_left_to_later(run: Start) -> None:
    h = run(counter)
    h.start()
    turn = h.activate(update("later", "a", id="u"), signal("halt"))
    assert not h.done
    turn = h.activate(resolve(asked(turn)[0], "A"))
    assert answers(turn) == [("u", "update", "A")]
    assert h.result == [["began a", "stop"], False]


def test_m5_each_phase_counts_its_handlers_from_zero_and_carries_its_number(run: Start) -> None:
    @workflow
    async def several() -> list[Any]:
        ends = [await phase([], signals={"later": later, "stop": stop}) for _ in range(2)]
        return [end.state for end in ends]

    h = run(several)
    h.start()
    turn = h.activate(signal("later", "a"), signal("later", "b"), signal("stop"))
    units = [command.unit for command in turn.commands]
    h.activate(*(resolve(command, "") for command in turn.commands))
    turn = h.activate(signal("later", "c"))
    assert [*units, turn.commands[0].unit] == ["/h0/a0", "/h1/a0", "/h0#1/a0"]
    h.activate(resolve(turn.commands[0], ""), signal("stop"))
    assert h.result == [["began a", "began b", "stop"], ["began c", "stop"]]


# --- validators -------------------------------------------------------------------------------------


def test_m5_a_validator_sees_the_state_and_refuses_without_a_handler_number(run: Start) -> None:
    h = run(counter)
    h.start()
    turn = h.activate(update("reply", "a"), update("reply", "a"), update("reply", ""), update("reply", "b"))
    shown = [(command.kind, command.unit) for command in turn.commands]
    assert shown == [
        ("accept_update", "/h0"),
        ("complete_update", "/h0"),
        ("reject_update", "/"),
        ("reject_update", "/"),
        ("accept_update", "/h1"),
        ("complete_update", "/h1"),
    ]


def test_m5_a_validator_is_skipped_where_the_update_says_so(run: Start) -> None:
    h = run(counter)
    h.start()
    assert answers(h.activate(update("reply", "", id="u", validate=False)))[-1] == ("u", "update", 0)


def test_m5_validators_need_their_update(run: Start) -> None:
    @workflow
    async def wrong() -> None:
        await phase(0, updates={"a": note}, validators={"b": refuse_empty})

    h = run(wrong)
    h.start()
    assert h.failure is not None
    assert h.failure.type == "UsageError"


# --- the end: what was not dispatched -----------------------------------------------------------------


def test_m5_undispatched_signals_go_back_to_the_buffer_in_order(run: Start) -> None:
    @workflow
    async def emptied() -> list[Any]:
        end = await phase([], signals=HANDLERS)
        rest = [await receive("note"), await receive("slowly"), await receive("note"), await receive("note")]
        return [end.state, rest]

    h = run(emptied)
    h.start()
    turn = h.activate(signal("slow_stop", "x"))
    h.activate(signal("note", "1"), signal("slowly", "2"), signal("note", "3"))
    h.activate(resolve(turn.commands[0], "X"), signal("note", "4"))
    assert h.result == [["X"], ["1", "2", "3", "4"]]


def test_m5_signals_that_come_after_the_verdict_are_buffered(run: Start) -> None:
    h = run(office)
    h.start()
    turn = h.activate(signal("later", "x"), signal("stop"), signal("note", "after"))
    h.activate(signal("slowly", "after"))
    h.activate(resolve(turn.commands[0], ""))
    assert h.result == [["began x", "stop"], False, 1, 1]


def test_m5_undispatched_updates_are_failed(run: Start) -> None:
    h = run(counter)
    h.start()
    turn = h.activate(update("slow_stop", "x", id="a"))
    h.activate(update("note", "b", id="b"), update("reply", "c", id="c"))
    turn = h.activate(resolve(asked(turn)[0], "X"))
    expected = [("a", "update", None), ("b", "update", "Rejected"), ("c", "update", "Rejected")]
    assert answers(turn) == expected
    assert [command.kind for command in turn.commands] == ["complete_update", "fail_update", "fail_update", "complete"]
    assert h.result == [["X"], False]


def test_m5_updates_that_come_after_the_verdict_or_for_another_name_are_rejected(run: Start) -> None:
    h = run(counter)
    h.start()
    turn = h.activate(update("other", 1, id="a"), update("later", "x", id="b"), signal("halt"))
    rejected = h.activate(update("note", "y", id="c"))
    assert answers(turn)[0] == ("a", "update_rejected", "Rejected")
    assert answers(rejected) == [("c", "update_rejected", "Rejected")]
    assert [command.kind for command in rejected.commands] == ["reject_update"]
    h.activate(resolve(asked(turn)[0], ""))
    assert h.result == [["began x", "stop"], False]


def test_m5_buffered_signals_are_taken_on_entry_in_the_order_of_arrival_and_others_stay(run: Start) -> None:
    @workflow
    async def late() -> list[Any]:
        await act("first")
        end = await phase([], signals={"b": note, "a": note, "stop": stop})
        return [end.state, pending("other"), pending("a")]

    h = run(late)
    turn = h.start(signal("a", "1"), signal("b", "2"), signal("other", "x"))
    h.activate(signal("a", "3"), signal("stop"), signal("a", "4"))
    h.activate(resolve(turn.commands[0], ""))
    assert h.result == [["1", "2", "3", "stop"], 1, 1]


def test_m5_messages_of_the_turn_that_opens_the_phase_come_after_the_buffered_ones(run: Start) -> None:
    @workflow
    async def late() -> Any:
        await receive("open")
        return (await phase([], signals={"a": note, "stop": stop})).state

    h = run(late)
    h.start(signal("a", "1"))
    h.activate(signal("open"), signal("a", "2"))
    h.activate(signal("a", "3"), signal("stop"))
    assert h.result == ["1", "2", "3", "stop"]


def test_m5_an_update_with_the_start_finds_the_phase_open(run: Start) -> None:
    h = run(counter)
    assert answers(h.start(update("reply", "a", id="u")))[-1] == ("u", "update", 0)


def test_m5_a_phase_end_holds_state_and_whether_time_ran_out() -> None:
    end = PhaseEnd(state={"a": 1}, timed_out=True)
    assert (end.state, end.timed_out) == ({"a": 1}, True)


def test_m5_a_phase_without_messages_is_a_pause_that_ends_with_its_time(run: Start) -> None:
    @workflow
    async def quiet() -> bool:
        return (await phase(None, timeout=5)).timed_out

    h = run(quiet)
    turn = h.start(signal("a"))
    h.activate(fire(turn.commands[0]))
    assert h.result is True


def test_m5_commands_of_a_handler_stand_between_accept_and_answer(run: Start) -> None:
    def shows(state: int, value: int) -> Stop[int]:
        publish(value)
        return Stop(state + value, reply="ok")

    @workflow
    async def showing() -> int:
        return (await phase(1, updates={"show": shows})).state

    h = run(showing)
    h.start()
    kinds = [command.kind for command in h.activate(update("show", 2)).commands]
    assert kinds == ["accept_update", "publish", "complete_update", "complete"]
    assert h.result == 3


@pytest.mark.parametrize("given", [{"signals": {"a": 3}}, {"updates": {"": note}}])
def test_m5_handlers_are_functions_with_proper_names(run: Start, given: Any) -> None:
    @workflow
    async def wrong() -> str:
        try:
            await phase(0, **given)
        except perdure.InvalidValue:
            return "refused"
        return "taken"

    h = run(wrong)
    h.start()
    assert h.result == "refused"


def test_m5_an_update_that_an_open_phase_does_not_take_is_told_which_ones_it_does(run: Start) -> None:
    h = run(counter)
    h.start()
    [answer] = h.activate(update("nod", id="u")).answers
    assert answer.error is not None
    assert (
        answer.error.message == "nothing handles update `nod` now; known: later, note, reply, slow_stop, slowly, stop"
    )
