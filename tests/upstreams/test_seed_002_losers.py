"""Seed 002: races and their losers, futures left alone, state over generations, and samples of its project."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import (
    ActivityFailed,
    NondeterminismError,
    activity,
    child,
    continue_as_new,
    get_state,
    parallel,
    race,
    receive,
    set_state,
    sleep,
    workflow,
)
from perdure.testing import Harness, cancel, cancelled, evict, fail, fire, resolve, signal
from tests.kernel.telling import Start, told
from tests.upstreams.baseline import greet


@workflow
async def errand(what: str) -> str: ...


@activity(cancellation="wait")
async def print_slowly(name: str) -> str: ...


# --- losers, and futures that nobody awaits ----------------------------------------------------------


def test_m6_the_loser_of_a_race_is_cancelled_once_and_one_that_has_ended_is_not(run: Start) -> None:
    @workflow
    async def hedged() -> str:
        _, value = await race(greet("a"), greet("b"))
        await sleep(5)
        return str(value)

    h = run(hedged)
    h.start()
    assert told(h.activate(resolve(1, "b"))) == ["cancel_activity#0", "start_timer#2 [5]"]
    assert told(h.activate(fire(2))) == ['complete ["b"]']
    h = run(hedged)
    h.start()
    assert told(h.activate(resolve(1, "b"), resolve(0, "a"))) == ["start_timer#2 [5]"]


@pytest.mark.parametrize("late", [resolve(0, "a"), fail(0, ValueError("x")), cancelled(0)])
def test_m6_whatever_becomes_of_a_cancelled_loser_blocks_nothing_and_changes_nothing(run: Start, late: Any) -> None:
    """K11, M6: its answer is dropped and counted, also where it comes with the next one."""

    @workflow
    async def hedged() -> str:
        _, value = await race(greet("a"), greet("b"))
        return str(value) + await greet("c")

    h = run(hedged)
    h.start()
    h.activate(resolve(1, "b"))
    h.activate(late, resolve(2, "c"))
    assert (h.result, h.dropped) == ("bc", 1)


def test_k11_a_cancel_on_record_that_the_code_does_not_ask_for_any_more_is_found() -> None:
    """K11, M6: the upstream's "recorded drops must be reproduced", and a new one is found as well."""

    @workflow(name="hedged")
    async def drops() -> None:
        greet("a").cancel()
        await greet("b")

    @workflow(name="hedged")
    async def keeps() -> None:
        greet("a")
        await greet("b")

    for recorded, present in ((drops, keeps), (keeps, drops)):
        h = Harness(recorded)
        h.start()
        h.activate(resolve(1, "hi"))
        with pytest.raises(NondeterminismError):
            Harness.replay_transcript(present, h.transcript)


def test_k17_what_is_scheduled_and_never_awaited_is_asked_for_and_cancelled_only_at_the_end(run: Start) -> None:
    """K17, K5: a future is no lease on the work; the upstream cancels what goes out of scope."""

    @workflow
    async def forgets() -> str:
        greet("early")
        await sleep(5)
        greet("late")
        return "done"

    h = run(forgets)
    assert told(h.start()) == ['schedule_activity#0 greet ["early"]', "start_timer#1 [5]"]
    expected = ['schedule_activity#2 greet ["late"]', "cancel_activity#0", 'complete ["done"]']
    assert told(h.activate(fire(1))) == expected
    assert told(h.activate(resolve(0, "hi"), resolve(2, "hi"))) == []
    assert h.dropped == 2


def test_m6_a_future_that_is_cancelled_before_its_turn_has_ended_was_asked_for_all_the_same(run: Start) -> None:
    """M6, K5: both commands stand on record, in that order."""

    @workflow
    async def changes_its_mind() -> None:
        future = print_slowly("Ann")
        future.cancel()
        try:
            await future
        except asyncio.CancelledError:
            await sleep(1)

    h = run(changes_its_mind)
    assert told(h.start()) == ['schedule_activity#0 print_slowly ["Ann"]', "cancel_activity#0"]
    assert told(h.activate(cancelled(0))) == ["start_timer#1 [1]"]


# --- aggregates --------------------------------------------------------------------------------------


def test_k13_asyncio_is_deterministic_here_too_where_the_seed_forbids_the_macros_of_its_runtime(run: Start) -> None:
    """K13, K15: of two that are there in one turn, the first in the turn's order is taken first."""

    @workflow
    async def waits() -> list[str]:
        slow, quick = greet("slow"), greet("quick")
        return [await one for one in asyncio.as_completed([slow, quick])]

    for first, second in ((0, 1), (1, 0)):
        h = run(waits)
        h.start()
        h.activate(resolve(first, str(first)), resolve(second, str(second)))
        assert h.result == [str(first), str(second)]


def test_k13_a_race_of_what_is_there_already_is_won_by_the_branch_that_is_given_first(run: Start) -> None:
    """K13, K3: biased, as the seed says, and so the same on every replay."""

    @workflow
    async def biased() -> list[Any]:
        a, b = greet("a"), greet("b")
        await parallel(a, b)

        async def wait_for(future: asyncio.Future[str]) -> str:
            return await future

        return [*await race(wait_for(a), wait_for(b)), *await race(wait_for(b), wait_for(a))]

    h = run(biased)
    h.start()
    h.activate(resolve(1, "b"), resolve(0, "a"))
    assert h.result == [0, "a", 0, "b"]


# --- state, generations, children ---------------------------------------------------------------------


def test_m10_state_is_rebuilt_from_what_the_generation_began_with_and_not_from_the_latest() -> None:
    """M10, M8: read, add, write, in a loop, evicted on the way, over two generations."""

    @workflow
    async def counter(generation: int) -> int:
        for _ in range(3):
            await receive("tick", int)
            set_state("count", get_state("count", int, 0) + 1)
        if generation == 0:
            continue_as_new(1)
        return get_state("count", int, 0)

    h = Harness(counter, 0)
    h.start()
    for number in range(3):
        h.activate(signal("tick", number))
        h.activate(evict())
    h = h.next_generation()
    h.start()
    for number in range(3):
        h.activate(evict())
        h.activate(signal("tick", number))
    assert h.result == h.replay().result == 6


def test_m7_a_child_that_was_cancelled_or_failed_is_seen_where_it_is_awaited(run: Start) -> None:
    @workflow
    async def parent() -> list[str]:
        said: list[str] = []
        for what in ("bread", "milk", "salt"):
            try:
                said.append(await child(errand, what))
            except asyncio.CancelledError:
                said.append("cancelled")
            except Exception as error:
                said.append(type(error).__name__)
        return said

    h = run(parent)
    h.start()
    h.activate(cancelled(0))
    h.activate(fail(1, ValueError("sour")))
    h.activate(resolve(2, "salt"))
    assert h.result == ["cancelled", "ChildFailed", "salt"]


# --- patterns of its samples ---------------------------------------------------------------------------


def test_k11_a_retry_loop_of_the_workflow_is_activities_and_timers_in_its_history(run: Start) -> None:
    """K11, M6: each attempt anew, the pause between them durable, and cancelled in the middle of one."""

    @workflow
    async def retries() -> str:
        for attempt in range(3):
            try:
                return await greet(f"attempt {attempt}")
            except ActivityFailed:
                await sleep(2**attempt)
        return "gave up"

    h = run(retries)
    h.start()
    assert told(h.activate(fail(0, ValueError("x")))) == ["start_timer#1 [1]"]
    h.activate(fire(1))
    assert told(h.activate(fail(2, ValueError("x")))) == ["start_timer#3 [2]"]
    assert told(h.activate(cancel())) == ["cancel_timer#3", "cancel"]


def test_k11_a_saga_undoes_what_was_done_in_the_opposite_order(run: Start) -> None:
    @workflow
    async def saga() -> str:
        undo: list[str] = []
        try:
            for step in ("flight", "hotel", "car"):
                await greet(step)
                undo.append(step)
        except ActivityFailed:
            for step in reversed(undo):
                await greet(f"no {step}")
            return "undone"
        return "booked"

    h = run(saga)
    asked = [told(turn)[0] for turn in (h.start(), h.activate(resolve(0, "ok")), h.activate(resolve(1, "ok")))]
    asked += [told(turn)[0] for turn in (h.activate(fail(2, ValueError("full"))), h.activate(resolve(3, "ok")))]
    assert [line.split('"')[1] for line in asked] == ["flight", "hotel", "car", "no hotel", "no flight"]
    h.activate(resolve(4, "ok"))
    assert h.result == "undone"
