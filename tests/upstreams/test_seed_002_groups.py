"""Seed 002's table of replay cases, groups 1 to 6: fresh, replayed, half replayed, step by step, told, cancelled.

Each case is a history written by hand, what the next turn is told, and what comes of it.
"""

from __future__ import annotations

from typing import Any

import pytest

from perdure import (
    ActivityFailed,
    ApplicationError,
    child,
    continue_as_new,
    parallel,
    receive,
    shielded,
    side_effect,
    sleep,
    uuid4,
    workflow,
)
from perdure.testing import Harness, cancel, fail, fire, resolve, signal
from tests.kernel.telling import Start, told
from tests.upstreams.baseline import STARTED, asked, child_of, end, greet, history, job, replayed, timer


@workflow
async def errand(what: str) -> str: ...


@workflow(name="now")
async def one_activity() -> str:
    return await greet("Ann")


@workflow(name="now")
async def one_timer() -> str:
    await sleep(60)
    return "rested"


@workflow(name="now")
async def one_signal() -> str:
    return await receive("approval", str)


@workflow(name="now")
async def one_child() -> str:
    return await child(errand, "bread")


@workflow(name="now")
async def again(count: int) -> None:
    continue_as_new(count + 1)


@workflow(name="now")
async def ordered_and_left() -> str:
    greet("Ann")
    greet("Bob")
    sleep(5)
    return "done"


@workflow(name="now")
async def at_once() -> str:
    return "success"


@workflow(name="now")
async def refuses() -> str:
    raise ApplicationError("no", type="Refused")


# --- 1. fresh ----------------------------------------------------------------------------------


FRESH: dict[str, tuple[Any, tuple[Any, ...], list[str]]] = {
    "a value at once": (at_once, (), ['complete ["success"]']),
    "an error at once": (refuses, (), ['fail ["Refused: no"]']),
    "an activity": (one_activity, (), ['schedule_activity#0 greet ["Ann"]']),
    "a timer": (one_timer, (), ["start_timer#0 [60]"]),
    "a message, for which nothing has to be asked": (one_signal, (), []),
    "a child": (one_child, (), ['start_child#0 errand ["bread"]']),
    "a new generation": (again, (1,), ["continue_as_new [2]"]),
    "several, none of them awaited": (
        ordered_and_left,
        (),
        [
            'schedule_activity#0 greet ["Ann"]',
            'schedule_activity#1 greet ["Bob"]',
            "start_timer#2 [5]",
            'complete ["done"]',
        ],
    ),
}


@pytest.mark.parametrize("case", FRESH)
def test_k5_group_1_a_fresh_run_decides_what_its_code_calls_whether_it_is_awaited_or_not(run: Start, case: str) -> None:
    """K5, K17, M8."""
    code, given, expected = FRESH[case]
    assert told(run(code, *given).start()) == expected


# --- 2, 3 and 5. one operation: its answer recorded, not there yet, coming in -------------------


SINGLE: dict[str, tuple[Any, dict[str, Any] | None, dict[str, Any], Any, Any]] = {
    "activity": (one_activity, asked("greet", 0, "Ann"), job("resolved", seq=0, value="hi"), resolve(0, "hi"), "hi"),
    "timer": (one_timer, timer(0, 60), job("fired", seq=0), fire(0), "rested"),
    "message": (one_signal, None, job("signal", name="approval", input=["yes"]), signal("approval", "yes"), "yes"),
    "child": (one_child, child_of("errand", 0, "bread"), job("resolved", seq=0, value="ok"), resolve(0, "ok"), "ok"),
}
every_operation = pytest.mark.parametrize("kind", SINGLE)


@every_operation
def test_k11_group_2_an_answer_on_record_is_given_to_the_future_that_was_made_anew(kind: str) -> None:
    """K11: and nothing is decided that is not on record."""
    code, command, answer, _, result = SINGLE[kind]
    first = ([STARTED], [command] if command else [])
    h = replayed(code, history(first, ([answer], [end("complete", result)])))
    assert (h.status, h.result) == ("completed", result)
    assert len(h.turns) == len(h.transcript.turns) == 2


@every_operation
def test_k11_group_3_what_has_no_answer_on_record_is_asked_for_once_and_still_waited_for(kind: str) -> None:
    """K11, K19."""
    code, command, _, _, _ = SINGLE[kind]
    h = replayed(code, history(([STARTED], [command] if command else [])))
    assert h.status == "running"
    assert [waiting.unit for waiting in h.waiting()] == ["/"]
    assert told(h.activate(signal("something else", 1))) == []


@every_operation
def test_k11_group_5_an_answer_that_comes_in_meets_what_the_replay_left_open(kind: str) -> None:
    """K11, E2: the same answer again changes nothing."""
    code, command, _, answer, result = SINGLE[kind]
    h = replayed(code, history(([STARTED], [command] if command else [])))
    assert told(h.activate(answer)) == [f'complete ["{result}"]']
    if command is not None:
        h.activate(answer)
        assert (h.dropped, h.result, len(h.transcript.turns)) == (1, result, 2)
    h.replay()


def test_k11_group_2_a_failure_on_record_is_raised_again_where_it_can_be_handled() -> None:
    """K11, E4: and fails the run where it is not."""

    @workflow(name="now")
    async def forgives() -> str:
        try:
            return await greet("Ann")
        except ActivityFailed as error:
            return error.failure.message

    failed = job("failed", seq=0, failure={"type": "Broken", "message": "no greeting"})
    asked_first = ([STARTED], [asked("greet", 0, "Ann")])
    assert replayed(forgives, history(asked_first, ([failed], [end("complete", "no greeting")]))).done
    live = Harness(one_activity)
    live.start()
    live.activate(fail(0, ApplicationError("no greeting", type="Broken")))
    assert live.failure is not None
    message = {"type": "ActivityFailed", "message": live.failure.message}
    assert replayed(one_activity, history(asked_first, ([failed], [end("fail", message)]))).status == "failed"


def test_m11_group_2_a_value_that_was_recorded_with_its_call_is_not_made_again() -> None:
    """M11, K9: the upstream's system calls; identities come from the run's seed and need no record."""
    rolled: list[int] = []

    def roll() -> int:
        rolled.append(4)
        return 4

    @workflow(name="now")
    async def dice() -> list[Any]:
        value, identity = side_effect("roll", roll), uuid4()
        await greet("Ann")
        return [value, str(identity)]

    recorded = {"kind": "record_side_effect", "unit": "/", "name": "roll", "input": [6]}
    record = history(([STARTED], [recorded, asked("greet", 0, "Ann")]))
    h, second = replayed(dice, record), replayed(dice, record)
    for one in (h, second):
        one.activate(resolve(0, "hi"))
    assert rolled == []
    assert h.result is not None
    assert h.result == second.result
    assert h.result[0] == 6


# --- 4. step by step ---------------------------------------------------------------------------


@workflow(name="now")
async def two_greetings() -> str:
    return await greet("Ann") + await greet("Bob")


@workflow(name="now")
async def greet_and_rest() -> str:
    word = await greet("Ann")
    await sleep(60)
    return word


@workflow(name="now")
async def rest_and_greet() -> str:
    await sleep(60)
    return await greet("Ann")


ANN = ([STARTED], [asked("greet", 0, "Ann")])
ANSWERED = job("resolved", seq=0, value="hi")


def test_k7_group_4_the_second_step_is_asked_for_when_the_first_is_done_and_its_number_goes_on() -> None:
    """K5, K7: one await for one answer."""
    h = replayed(two_greetings, history(ANN))
    assert told(h.activate(resolve(0, "hi "))) == ['schedule_activity#1 greet ["Bob"]']
    both = history(ANN, ([ANSWERED], [asked("greet", 1, "Bob")]))
    assert told(replayed(two_greetings, both).activate(resolve(1, "there"))) == ['complete ["hithere"]']


def test_k11_group_4_an_activity_and_a_timer_follow_each_other_either_way() -> None:
    h = replayed(greet_and_rest, history(ANN))
    assert told(h.activate(resolve(0, "hi"))) == ["start_timer#1 [60]"]
    h = replayed(rest_and_greet, history(([STARTED], [timer(0, 60)])))
    assert told(h.activate(fire(0))) == ['schedule_activity#1 greet ["Ann"]']


def test_k11_group_4_ten_steps_on_record_are_gone_through_with_every_value_in_its_place() -> None:
    @workflow(name="now")
    async def ten() -> list[str]:
        return [await greet(str(number)) for number in range(10)]

    steps = [([job("resolved", seq=n, value=f"r{n}")], [asked("greet", n + 1, str(n + 1))]) for n in range(9)]
    h = replayed(ten, history(([STARTED], [asked("greet", 0, "0")]), *steps))
    h.activate(resolve(9, "r9"))
    assert h.result == [f"r{number}" for number in range(10)]


# --- 5. what a turn is told ---------------------------------------------------------------------


def test_k11_group_5_the_same_answer_twice_in_one_turn_counts_once(run: Start) -> None:
    """K11, E2: the first is taken, the second dropped and counted."""
    h = run(two_greetings)
    h.start()
    h.activate(resolve(0, "first "), resolve(0, "second "))
    assert h.dropped == 1
    h.activate(resolve(1, "Bob"))
    assert h.result == "first Bob"


def test_m8_group_5_answers_for_an_earlier_generation_are_dropped_and_do_not_reach_the_next(run: Start) -> None:
    """M8: late answers to the old generation are dropped and counted."""

    @workflow
    async def twice(count: int) -> str:
        answer = greet(str(count))
        if count < 2:
            continue_as_new(count + 1)
        return await answer

    h = run(twice, 1)
    h.start()
    following = h.next_generation()
    assert told(following.start()) == ['schedule_activity#0 greet ["2"]']
    h.activate(resolve(0, "of the first"))
    assert (h.dropped, h.status) == (1, "continued")
    following.activate(resolve(0, "of the second"))
    assert following.result == "of the second"


def test_m1_group_5_a_message_that_comes_before_anybody_waits_is_kept(run: Start) -> None:
    """M1: the upstream drops it, and says that it should not."""

    @workflow
    async def late() -> str:
        await greet("Ann")
        return await receive("approval", str)

    h = run(late)
    h.start()
    assert told(h.activate(signal("approval", "early"))) == []
    h.activate(resolve(0, "hi"))
    assert h.result == "early"


def test_k13_group_5_answers_of_one_turn_are_all_applied_before_the_code_goes_on(run: Start) -> None:
    """K6, K13."""

    @workflow
    async def both() -> list[str]:
        first, second = greet("Ann"), greet("Bob")
        value = await second
        return [value, await first if first.done() else "not yet"]

    h = run(both)
    h.start()
    h.activate(resolve(1, "b"), resolve(0, "a"))
    assert h.result == ["b", "a"]


# --- 6. cancellation ----------------------------------------------------------------------------


def test_m6_group_6_a_cancellation_live_or_on_record_ends_the_run_and_cancels_what_is_open(run: Start) -> None:
    h = run(one_activity)
    h.start()
    assert told(h.activate(cancel("enough"))) == ["cancel_activity#0", "cancel"]
    requested = {"kind": "cancel_activity", "seq": 0, "unit": "/"}
    record = history(ANN, ([job("cancel", reason="enough")], [requested, end("cancel")]))
    assert replayed(one_activity, record).status == "cancelled"


@pytest.mark.parametrize("answer_first", [True, False])
def test_m6_group_6_a_run_whose_work_is_done_keeps_its_value_although_it_was_cancelled(
    run: Start, answer_first: bool
) -> None:
    """M6: where seed 002 lets the cancellation win, the value stands, for the work is done."""
    h = run(one_activity)
    h.start()
    told_of = [resolve(0, "hi"), cancel("too late")]
    h.activate(*(told_of if answer_first else told_of[::-1]))
    assert (h.status, h.result) == ("completed", "hi")


def test_m6_group_6_a_second_cancellation_is_no_news(run: Start) -> None:
    @workflow
    async def cleans_up() -> None:
        try:
            await greet("Ann")
        finally:
            async with shielded():
                await greet("the broom")

    h = run(cleans_up)
    h.start()
    assert told(h.activate(cancel("one"))) == ["cancel_activity#0", 'schedule_activity#1 greet ["the broom"]']
    assert told(h.activate(cancel("two"))) == []
    assert told(h.activate(resolve(1, "swept"), cancel("three"))) == ["cancel"]


def test_m6_group_6_all_that_is_open_is_cancelled_in_one_turn_in_the_order_of_units(run: Start) -> None:
    @workflow
    async def all_kinds() -> list[Any]:
        return await parallel(lambda: sleep(60), lambda: greet("Ann"), lambda: child(errand, "bread"))

    h = run(all_kinds)
    h.start()
    expected = ["cancel_timer#0 @/p0", "cancel_activity#1 @/p1", "cancel_child#2 @/p2", "cancel"]
    assert told(h.activate(cancel())) == expected
