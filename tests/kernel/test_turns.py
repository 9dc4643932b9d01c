"""K5, K6, K17: what pauses, the parts of a turn, conditions between its rounds, and how a run ends."""

from __future__ import annotations

import asyncio
import pathlib
from typing import Any

import pytest

import perdure
from perdure import (
    Continue,
    NondeterminismError,
    Stop,
    clear_state,
    continue_as_new,
    get_state,
    parallel,
    patched,
    phase,
    publish,
    set_state,
    sleep,
    wait_until,
    workflow,
)
from perdure.testing import Harness, cancel, fire, resolve, signal, update
from tests.kernel.telling import Start, act, answers, asked, told

# --- K5: pausing and not pausing -------------------------------------------------------------------


def test_k5_a_call_emits_at_once_where_it_stands_and_only_the_await_pauses(run: Start) -> None:
    @workflow
    async def calls() -> list[str]:
        set_state("before", 1)
        one = act("1")
        set_state("between", 2)
        two = act("2")
        set_state("after", 3)
        return [await two, await one]

    h = run(calls)
    turn = h.start()
    assert [command.name for command in turn.commands] == ["before", "act", "between", "act", "after"]
    one, two = asked(turn)
    h.activate(resolve(one, "one"))
    h.activate(resolve(two, "two"))
    assert h.result == ["two", "one"]


def test_k5_what_does_not_pause_keeps_the_step(run: Start) -> None:
    @workflow
    async def quick() -> None:
        async def first() -> None:
            perdure.now()
            perdure.random().random()
            perdure.uuid4()
            perdure.info()
            perdure.cancelled()
            publish(1)
            set_state("key", 1)
            get_state("key", int)
            clear_state("key")
            perdure.attributes(size=1)
            patched("new")
            act("first")

        async def second() -> None:
            act("second")

        await parallel(first(), second())

    h = run(quick)
    assert [command.input for command in asked(h.start())] == [["first"], ["second"]]


def test_k5_a_condition_that_holds_already_does_not_pause(run: Start) -> None:
    @workflow
    async def ready() -> None:
        async def first() -> None:
            await wait_until(lambda: True)
            act("first")

        async def second() -> None:
            act("second")

        await parallel(first(), second())

    h = run(ready)
    assert [command.input for command in asked(h.start())] == [["first"], ["second"]]


# --- K6: a turn --------------------------------------------------------------------------------------


def test_k6_an_update_that_comes_with_the_start_finds_what_the_workflow_opens_after_a_few_rounds(run: Start) -> None:
    """K6: rounds are drained, to the last, before the messages of the turn are looked up."""

    @workflow
    async def slow_to_open() -> int:
        def add(state: int, by: int) -> Stop[int]:
            return Stop(state + by, state + by)

        await sleep(0)
        await sleep(0)
        ended = await phase(0, updates={"add": add})
        return ended.state

    h = run(slow_to_open)
    turn = h.start(update("add", 3, id="u"))
    assert answers(turn) == [("u", "update_accepted", None), ("u", "update", 3)]
    assert h.result == 3


def test_k6_answers_are_drained_before_the_messages_of_their_turn(run: Start) -> None:
    @workflow
    async def answer_first() -> list[str]:
        seen: list[str] = []

        def note(state: int) -> Continue[int]:
            seen.append("message")
            return Continue(state)

        async def answered() -> None:
            await act("x")
            await sleep(0)
            seen.append("answer")

        await parallel(answered(), lambda: phase(0, signals={"note": note}, timeout=60))
        return seen

    h = run(answer_first)
    turn = h.start()
    h.activate(signal("note"), resolve(asked(turn)[0], ""))
    h.activate(fire(next(one for one in turn.commands if one.kind == "start_timer")))
    assert h.result == ["answer", "message"]


# --- K17: conditions ---------------------------------------------------------------------------------


def test_k17_predicates_are_looked_at_in_unit_order(run: Start) -> None:
    seen: list[str] = []

    @workflow
    async def looks() -> None:
        def look(name: str) -> bool:
            seen.append(name)
            return "go" in seen

        async def late() -> None:
            await sleep(0)
            await wait_until(lambda: look("p0"))

        async def early() -> None:
            await wait_until(lambda: look("p1"))

        await parallel(late(), early(), act("x"))

    h = run(looks)
    (command,) = h.start().commands
    seen.clear()
    h.activate(resolve(command, ""))
    assert seen[-2:] == ["p0", "p1"]


def test_k17_a_condition_that_holds_between_two_rounds_only_is_met(run: Start) -> None:
    @workflow
    async def blinks() -> str:
        light: list[bool] = [False]

        async def blink() -> None:
            await act("x")
            light[0] = True
            await sleep(0)
            light[0] = False

        async def watch() -> None:
            await wait_until(lambda: light[0])
            await act("seen")

        await parallel(blink(), watch())
        return "both"

    h = run(blinks)
    (command,) = h.start().commands
    assert told(h.activate(resolve(command, ""))) == ['schedule_activity#1 act ["seen"] @/p1']


def test_k17_a_rejected_update_has_no_condition_looked_at() -> None:
    looks: list[int] = []

    @workflow
    async def looked_at() -> None:
        def look() -> bool:
            looks.append(1)
            return False

        await wait_until(look)

    h: Harness[Any] = Harness(looked_at)
    h.start()
    before = len(looks)
    turn = h.activate(update("nothing", id="u"))
    assert answers(turn) == [("u", "update_rejected", "Rejected")]
    assert len(looks) == before
    h.activate(signal("any"))
    assert len(looks) > before, "anything else has them looked at"


# --- K17: endings ------------------------------------------------------------------------------------


@workflow
class Fragile:
    """Its handlers fail, and its root returns when it is told to."""

    def __init__(self) -> None:
        self.over = False

    async def run(self) -> str:
        await wait_until(lambda: self.over)
        return "value"

    @perdure.signal
    def fail(self, text: str) -> None:
        raise ValueError(text)

    @perdure.signal
    def end(self) -> None:
        self.over = True


def test_k17_the_first_terminal_decision_of_a_turn_wins(run: Start) -> None:
    h = run(Fragile)
    h.start()
    turn = h.activate(signal("fail", "first"), signal("fail", "second"))
    assert told(turn) == ['fail ["ValueError: first"]']


def test_k17_a_root_that_has_returned_has_decided_whatever_a_handler_does_in_the_same_turn(run: Start) -> None:
    @workflow
    class Ends:
        async def run(self) -> str:
            return "value"

        @perdure.signal
        def fail(self) -> None:
            raise ValueError("too late")

    h = run(Ends)
    h.start(signal("fail"))
    assert (h.status, h.result) == ("completed", "value")


def test_k17_after_the_root_has_returned_the_rounds_are_drained_and_the_end_stands_last(run: Start) -> None:
    @workflow
    async def returns_early() -> str:
        tasks: list[asyncio.Task[None]] = []

        async def aside() -> None:
            await sleep(0)
            await sleep(0)
            set_state("aside", 1)

        tasks.append(asyncio.create_task(aside()))
        return "value"

    h = run(returns_early)
    assert told(h.start()) == ["set_state aside [1] @/t0", 'complete ["value"]']


def test_k17_activities_of_the_last_turn_still_start_and_all_others_are_asked_to_cancel(run: Start) -> None:
    @workflow
    async def leaves_some() -> str:
        act("old")
        await act("x")
        act("new")
        return "done"

    h = run(leaves_some)
    turn = h.start()
    turn = h.activate(resolve(turn.commands[1], ""))
    assert told(turn) == ['schedule_activity#2 act ["new"]', "cancel_activity#0", 'complete ["done"]']
    before = h.dropped
    h.activate(resolve(0, "late"))
    assert h.dropped == before + 1


def test_k17_an_answer_in_the_turn_of_a_cancellation_is_delivered_whichever_stands_first(run: Start) -> None:
    for cancel_first in (True, False):

        @workflow
        async def answered() -> list[str]:
            seen = [await act("x")]
            try:
                await act("y")
            except BaseException as error:
                seen.append(type(error).__name__)
            return seen

        h = run(answered)
        (command,) = h.start().commands
        jobs = [cancel("enough"), resolve(command, "answer")]
        h.activate(*(jobs if cancel_first else reversed(jobs)))
        assert h.result == ["answer", "CancelledError"]


# --- K12: what happens after the first difference -----------------------------------------------------


def test_k12_a_turn_that_stumbles_after_its_first_difference_still_reports_that(run: Start) -> None:
    @workflow(name="stumbles")
    async def as_recorded() -> None:
        await act("one")

    @workflow(name="stumbles")
    async def as_it_is_now() -> None:
        waits = act("two")
        pathlib.Path("file").unlink()  # refused: a violation, which fails the turn as well
        await waits

    h = run(as_recorded)
    h.start()
    with pytest.raises(NondeterminismError) as raised:
        Harness.replay_transcript(as_it_is_now, h.transcript)
    assert raised.value.field == "input[0]"


def test_k17_a_generation_that_ends_ends_with_its_last_command(run: Start) -> None:
    @workflow
    async def goes_on(number: int) -> None:
        set_state("number", number)
        continue_as_new(number + 1)

    h = run(goes_on, 1)
    assert told(h.start()) == ["set_state number [1]", "continue_as_new [2]"]
