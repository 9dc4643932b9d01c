"""Seed 000's checklist, as far as no other test holds it: how runs begin and end, timers, errors, generations, load."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import (
    ActivityFailed,
    ApplicationError,
    Continue,
    Failure,
    Stop,
    UsageError,
    activity,
    continue_as_new,
    get_state,
    info,
    parallel,
    phase,
    publish,
    receive,
    set_state,
    sleep,
    workflow,
)
from perdure.testing import Harness, fail, fire, resolve, signal
from tests.kernel.telling import Start, act, told


@activity
async def mix(first: str, second: int = 2, *rest: int, third: bool = False) -> str: ...


# --- how runs begin and end -----------------------------------------------------------------------


@workflow
async def pure() -> str:
    return "nothing to wait for"


@workflow
async def with_input(name: str, amount: int, kinds: dict[str, int]) -> list[Any]:
    return [name, amount + 1, kinds]


@workflow
async def failing() -> None:
    raise KeyError("missing")


def test_k6_a_run_that_needs_nobody_ends_in_its_first_turn(run: Start) -> None:
    h = run(pure)
    assert told(h.start()) == ['complete ["nothing to wait for"]']
    assert (h.done, h.status, h.result) == (True, "completed", "nothing to wait for")
    assert h.transcript.workflow == "pure"


def test_k20_a_run_is_given_all_its_arguments(run: Start) -> None:
    h = run(with_input, "a", 1, {"x": 2})
    assert told(h.start()) == ['complete [["a", 2, {"x": 2}]]']


def test_k17_an_error_that_nobody_catches_fails_the_run_with_its_type_and_message(run: Start) -> None:
    h = run(failing)
    h.start()
    assert h.failure is not None
    assert (h.status, h.failure.type, h.failure.message) == ("failed", "KeyError", "'missing'")
    assert "raise KeyError" in (h.failure.traceback or "")


def test_a_class_without_run_is_no_workflow() -> None:
    class Empty:
        """It has handlers at most."""

    with pytest.raises(UsageError, match="run"):
        workflow(Empty)


# --- activities ---------------------------------------------------------------------------------------


def test_k10_an_activity_is_asked_for_with_what_the_call_gave(run: Start) -> None:
    @workflow
    async def mixing() -> list[str]:
        return await parallel(mix("a"), mix("b", 3, 4, 5), mix("c", second=6, third=True))

    commands = run(mixing).start().commands
    assert [command.input for command in commands] == [["a"], ["b", 3, 4, 5], ["c", 6]]
    assert [command.kwargs for command in commands] == [{}, {}, {"third": True}]


@pytest.mark.parametrize(
    ("error", "type_name", "message"),
    [
        (ValueError("bad"), "ValueError", "bad"),
        (ApplicationError("refused", type="Refused", details=[1], retryable=False), "Refused", "refused"),
        (Failure("Timeout", "too long"), "Timeout", "too long"),
    ],
)
def test_k17_an_activitys_failure_is_caught_or_is_the_cause_of_the_runs(
    run: Start, error: Any, type_name: str, message: str
) -> None:
    @workflow
    async def catching(catches: bool) -> list[Any]:
        try:
            await act("x")
        except ActivityFailed as failed:
            if catches:
                return [failed.failure.type, failed.failure.message, failed.failure.details]
            raise
        return []

    caught, uncaught = run(catching, True), run(catching, False)
    for h in (caught, uncaught):
        h.start()
        h.activate(fail(0, error))
    assert caught.result == [type_name, message, [1] if type_name == "Refused" else None]
    assert uncaught.failure is not None
    assert uncaught.failure.type == "ActivityFailed"
    assert uncaught.failure.cause is not None
    assert (uncaught.failure.cause.type, uncaught.failure.cause.message) == (type_name, message)


# --- timers -------------------------------------------------------------------------------------------


def test_k15_sleeps_of_either_kind_are_durable_timers_one_after_another(run: Start) -> None:
    @workflow
    async def sleeping() -> str:
        await sleep("1m")
        await asyncio.sleep(0.5)
        await sleep(0)
        await asyncio.sleep(0)
        return "awake"

    h = run(sleeping)
    assert told(h.start()) == ["start_timer#0 [60]"]
    assert told(h.activate(fire(0))) == ["start_timer#1 [0.5]"]
    assert told(h.activate(fire(1))) == ['complete ["awake"]']


def test_k13_timers_of_branches_fire_in_any_order_and_each_wakes_its_own(run: Start) -> None:
    async def branch(name: str, seconds: int) -> str:
        await sleep(seconds)
        publish(name)
        return name

    @workflow
    async def side_by_side() -> list[str]:
        return await parallel(branch("a", 30), branch("b", 10), branch("c", 20))

    h = run(side_by_side)
    h.start()
    shown = [told(h.activate(fire(seq)))[0] for seq in (1, 2, 0)]
    assert shown == ['publish ["b"] @/p1', 'publish ["c"] @/p2', 'publish ["a"] @/p0']
    assert h.result == ["a", "b", "c"]


# --- branches -----------------------------------------------------------------------------------------


def test_p6_a_failing_branch_is_an_outcome_at_its_place_and_the_others_run_to_their_end(run: Start) -> None:
    @workflow
    async def settling() -> list[Any]:
        outcomes = await parallel(act("a"), act("b"), act("c"), join="settled")
        return [outcome.value if outcome.error is None else type(outcome.error).__name__ for outcome in outcomes]

    h = run(settling)
    h.start()
    h.activate(fail(1, ValueError("no")))
    h.activate(resolve(2, "C"), resolve(0, "A"))
    assert h.result == ["A", "ActivityFailed", "C"]


def test_p6_one_branch_is_a_list_of_one_and_none_is_an_empty_one_at_once(run: Start) -> None:
    @workflow
    async def few() -> list[Any]:
        return [await parallel(), await parallel(act("a"))]

    h = run(few)
    h.start()
    h.activate(resolve(0, "A"))
    assert h.result == [[], ["A"]]


# --- what is kept apart -------------------------------------------------------------------------------


def append(words: list[str], word: str) -> Continue[list[str]]:
    publish(f"append {word}")
    return Continue([*words, word])


def stop(words: list[str]) -> Stop[list[str]]:
    return Stop(words)


def test_m5_phases_follow_each_other_each_with_its_own_state_and_what_was_published_stays(run: Start) -> None:
    """M5, M10: locals, the state of a phase and what is published know nothing of each other."""

    @workflow
    async def two_phases() -> list[Any]:
        words = ["local"]
        first = await phase([], signals={"append": append, "stop": stop})
        second = await phase(["fresh"], signals={"append": append, "stop": stop})
        return [words, first.state, second.state]

    h = run(two_phases)
    h.start()
    assert told(h.activate(signal("append", "a"), signal("stop"))) == ['publish ["append a"] @/h0']
    assert told(h.activate(signal("append", "b"))) == ['publish ["append b"] @/h0#1']
    h.activate(signal("stop"))
    assert h.result == [["local"], ["a"], ["fresh", "b"]]


# --- generations --------------------------------------------------------------------------------------


@workflow
async def generation_after_generation(left: int) -> list[Any]:
    if left:
        set_state("left", left)
        try:
            continue_as_new(left - 1)
        except Exception:
            return ["caught"]
    return [info().generation, get_state("left", int), await receive("kept", str)]


def test_m8_a_hundred_generations_later_state_and_signals_are_still_there(run: Start) -> None:
    h: Harness[Any] = run(generation_after_generation, 100)
    turn = h.start(signal("kept", "from the first"))
    assert told(turn) == ["set_state left [100]", "continue_as_new [99]"]
    assert h.status == "continued"
    ids = {h.transcript.run_id}
    while h.status == "continued":
        h = h.next_generation()
        h.start()
        h.replay()
        ids.add(h.transcript.run_id)
    assert (h.result, len(ids)) == ([100, 1, "from the first"], 101)


# --- load ---------------------------------------------------------------------------------------------


def test_k7_a_thousand_activities_fifty_branches_fifty_signals_and_a_megabyte_go_through_one_run() -> None:
    async def branch(number: int) -> int:
        for _ in range(20):
            await act(str(number))
        return number

    @workflow
    async def loaded(payload: str) -> list[Any]:
        numbers = await parallel(*(branch(number) for number in range(50)))
        signals = [await receive("one", int) for _ in range(50)]
        return [numbers, signals, len(payload)]

    h = Harness(loaded, "x" * 1_000_000)
    turn = h.start(*(signal("one", number) for number in range(50)))
    for _ in range(20):
        assert [command.unit for command in turn.commands] == [f"/p{number}" for number in range(50)]
        turn = h.activate(*(resolve(command, "") for command in turn.commands))
    assert h.result == [list(range(50)), list(range(50)), 1_000_000]
    assert h.replay().result == h.result
