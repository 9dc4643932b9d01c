"""M8, M10, M11: what a generation hands to the next, what the outside can read, and recorded side effects."""

from __future__ import annotations

from typing import Any

import perdure
from perdure import (
    attributes,
    clear_state,
    continue_as_new,
    get_state,
    info,
    publish,
    receive,
    set_state,
    side_effect,
    wait_until,
    workflow,
)
from perdure.testing import Harness, evict, resolve, signal, update
from tests.kernel.telling import Start, act, answers, asked, told

# --- M8: generations --------------------------------------------------------------------------------


@workflow
async def carries(number: int) -> list[Any]:
    if number == 0:
        set_state("kept", ["a", 1])
        set_state("dropped", 1)
        clear_state("dropped")
        attributes(customer="c-1")
        await receive("go")
        continue_as_new(number + 1)
    facts = info()
    seen: list[Any] = [number, facts.generation, get_state("kept"), get_state("dropped"), facts.attributes]
    return [*seen, await receive("note"), await receive("note"), await receive("note")]


def test_m8_state_attributes_and_buffered_signals_carry_over_and_history_begins_anew() -> None:
    h = Harness(carries, 0)
    h.start(signal("note", "one"))
    turn = h.activate(signal("note", "two"), signal("go"), signal("note", "three"))
    assert (told(turn), h.status) == (["continue_as_new [1]"], "continued")
    following = h.next_generation()
    following.start()
    assert following.result == [1, 1, ["a", 1], None, {"customer": "c-1"}, "one", "two", "three"]
    assert [record.turn for record in following.transcript.turns] == [0]
    assert following.transcript.run_id != h.transcript.run_id
    assert following.replay().result == following.result


def test_m8_a_signal_that_was_served_and_not_read_goes_on_to_the_next_generation() -> None:
    @workflow
    async def served(number: int) -> list[str]:
        if number == 0:
            unread = receive("note")
            await receive("go")
            assert unread.done()
            continue_as_new(1)
        return [await receive("note"), await receive("note")]

    h = Harness(served, 0)
    h.start()
    h.activate(signal("note", "one"), signal("note", "two"), signal("go"))
    following = h.next_generation()
    following.start()
    assert following.result == ["one", "two"]


@workflow
class Steps:
    def __init__(self) -> None:
        self.go = False

    async def run(self, number: int) -> str:
        await wait_until(lambda: self.go)
        if number == 0:
            continue_as_new(1)
        return "done"

    @perdure.signal
    def proceed(self) -> None:
        self.go = True

    @perdure.update
    async def ask(self, name: str) -> str:
        return await act(name)


def test_m8_an_unanswered_update_is_answered_by_the_next_generation() -> None:
    h = Harness(Steps, 0)
    h.start()
    h.activate(update("ask", "x", id="u"))
    turn = h.activate(signal("proceed"))
    assert answers(turn) == []
    assert told(turn)[-1] == "continue_as_new [1]"
    following = h.next_generation()
    turn = following.start()
    assert answers(turn) == [("u", "update_accepted", None)]
    turn = following.activate(resolve(asked(turn)[0], "receipt"))
    assert answers(turn) == [("u", "update", "receipt")]


def test_m8_except_exception_does_not_catch_it_and_nothing_behind_it_runs(run: Start) -> None:
    @workflow
    async def careful(number: int) -> str:
        try:
            continue_as_new(number + 1)
        except Exception:
            set_state("caught", 1)
        return "went on"

    h = run(careful, 1)
    assert told(h.start()) == ["continue_as_new [2]"]


def test_m8_late_answers_to_the_old_generation_are_dropped_and_counted(run: Start) -> None:
    @workflow
    async def leaves_one(number: int) -> None:
        act("left behind")
        await act("x")
        continue_as_new(number + 1)

    h = run(leaves_one, 0)
    turn = h.start()
    turn = h.activate(resolve(turn.commands[1], ""))
    assert told(turn) == ["cancel_activity#0", "continue_as_new [1]"]
    before = h.dropped
    turn = h.activate(resolve(0, "late"))
    assert (turn.commands, h.dropped) == ([], before + 1)


# --- M10: state ---------------------------------------------------------------------------------------


def test_m10_state_is_read_as_it_was_set_and_rebuilt_from_history(run: Start) -> None:
    @workflow
    async def remembers() -> list[Any]:
        set_state("a", (1, 2))
        set_state("b", "gone")
        seen = [get_state("a"), get_state("b")]
        await act("x")
        clear_state("b")
        return [*seen, get_state("a", list[int]), get_state("b", str), get_state("b", str, "default")]

    h = run(remembers)
    turn = h.start()
    assert told(turn)[:2] == ["set_state a [[1, 2]]", 'set_state b ["gone"]']
    turn = h.activate(resolve(turn.commands[2], ""))
    assert told(turn)[0] == "clear_state b"
    assert h.result == [[1, 2], "gone", [1, 2], None, "default"]


def test_m10_what_is_published_leaves_with_the_turn_each_value_by_itself(run: Start) -> None:
    @workflow
    async def shows() -> None:
        publish({"step": 1})
        publish({"step": 2})
        await act("x")

    h = run(shows)
    assert told(h.start())[:2] == ['publish [{"step": 1}]', 'publish [{"step": 2}]']


# --- M11: side effects ----------------------------------------------------------------------------------


def test_m11_a_side_effect_is_executed_once_and_its_value_is_in_the_history() -> None:
    executed: list[int] = []

    def effect() -> int:
        executed.append(1)
        return len(executed)

    @workflow
    async def records() -> list[int]:
        first = side_effect("count", effect)
        await act("x")
        return [first, side_effect("count", effect)]

    h = Harness(records)
    turn = h.start()
    assert told(turn)[0] == "record_side_effect count [1]"
    h.activate(evict())
    h.activate(resolve(turn.commands[1], ""))
    h.replay()
    assert (h.result, len(executed)) == ([1, 2], 2)
