"""P6, M6, K17: joins that nest, are cancelled, lose, or have a rule of their own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import (
    NondeterminismError,
    first,
    parallel,
    shielded,
    sleep,
    wait_until,
    workflow,
)
from perdure.testing import Harness, cancel, fire, resolve
from tests.kernel.joining import act, branch, brief, check_replay, joining

# --- nesting and cancellation -------------------------------------------------------------------------


def test_p6_joins_nest_each_with_its_own_rule_and_a_second_one_has_units_of_its_own() -> None:
    """P6, K2: two of three, of which one is a join of all; then a second parallel in the same unit."""

    @workflow
    async def nested() -> list[Any]:
        one = await parallel(parallel(branch(0), branch(1)), parallel(branch(2), branch(3), join="first"), branch(4))
        two = await parallel(branch(5), branch(6), join=first(1))
        return [one, two]

    h = Harness(nested)
    units = [(c.unit, c.input[0]) for c in h.start().commands]
    assert units == [("/p2", 4), ("/p0/p0", 0), ("/p0/p1", 1), ("/p1/p0", 2), ("/p1/p1", 3)]
    by_input = {c.input[0]: c.seq for c in h.turns[0].commands}
    turn = h.activate(*(resolve(by_input[number] or 0, number) for number in (0, 1, 3, 4)))
    assert [(c.kind, c.unit) for c in turn.commands] == [
        ("cancel_activity", "/p1/p0"),
        ("schedule_activity", "/p0#1"),
        ("schedule_activity", "/p1#1"),
    ]
    h.activate(resolve(turn.commands[2], 6))
    assert h.result == [[[0, 1], 3, 4], [6]]
    check_replay(h)


@pytest.mark.parametrize("join", ["all", "settled", "first", first(2)])
def test_m6_a_run_that_is_cancelled_during_a_join_cancels_every_branch_in_unit_order(join: Any) -> None:
    """M6, P6: futures of the parent first, then the branches."""
    h = joining(3, join, lambda number: act(number) if number == 1 else branch(number))
    h.activate(resolve(1, 0)) if join == first(2) else None
    turn = h.activate(cancel("enough"))
    open_ones = [1, 2] if join == first(2) else [0, 1, 2]
    assert [kind for kind, _ in brief(turn)] == ["cancel_activity"] * len(open_ones) + ["cancel"]
    assert h.status == "cancelled"
    check_replay(h)


async def cleans_up(number: int, done: list[int]) -> int:
    try:
        return await act(number)
    finally:
        async with shielded():
            await act(number + 100)
            done.append(number)


def test_m6_losers_end_their_shielded_clean_up_before_the_join_goes_on() -> None:
    """M6, P6."""
    done: list[int] = []

    @workflow
    async def first_wins() -> int:
        return await parallel(branch(0), cleans_up(1, done), cleans_up(2, done), join="first")

    h = Harness(first_wins)
    h.start()
    turn = h.activate(resolve(0, 42))
    assert [(c.kind, c.unit) for c in turn.commands] == [
        ("cancel_activity", "/p1"),
        ("cancel_activity", "/p2"),
        ("schedule_activity", "/p1"),
        ("schedule_activity", "/p2"),
    ]
    cleaning = turn.commands[2:]
    h.activate(resolve(cleaning[1], 0))
    assert not h.done
    h.activate(resolve(cleaning[0], 0))
    assert h.result == 42
    assert done == [2, 1]
    check_replay(h)


def test_m6_a_join_that_was_decided_keeps_its_value_when_the_run_is_cancelled_while_losers_clean_up() -> None:
    """M6, K17: the answer was there first; the cancellation is raised at the next pause."""

    @workflow
    async def decided(pause: bool) -> int:
        value = await parallel(branch(0), cleans_up(1, []), join="first")
        if pause:
            await sleep(1)
        return value

    for pause, status in ((False, "completed"), (True, "cancelled")):
        h = Harness(decided, pause)
        h.start()
        turn = h.activate(resolve(0, 42))
        h.activate(cancel("late"))
        h.activate(resolve(turn.commands[1], 0))
        assert h.status == status
        check_replay(h)


@pytest.mark.parametrize("order", ["answer first", "cancellation first"])
def test_k17_answers_that_decide_a_join_beat_a_cancellation_of_the_same_turn(order: str) -> None:
    """K17, K13: for futures, as for a plain await; what is not decided is cancelled."""
    for needed, count, status in ((1, 2, "completed"), (2, 3, "cancelled"), (1, 1, "completed")):
        h = joining(count, first(needed), act)
        told = [resolve(count - 1, 11), cancel("enough")]
        turn = h.activate(*(told if order == "answer first" else told[::-1]))
        assert h.status == status
        assert [seq for kind, seq in brief(turn) if kind == "cancel_activity"] == list(range(count - 1))
        check_replay(h)


class Stubborn(asyncio.Future[None]):
    """A future of the author's own that ends when it is cancelled, and raises all the same."""

    def cancel(self, msg: Any | None = None) -> bool:
        self.set_result(None)
        raise ValueError("not cancelled")


def test_p6_a_branch_that_ends_while_the_end_of_another_raises_counts() -> None:
    """P6: both end in one round; what the first of them sets off fails, and is reported."""

    def make(number: int) -> Any:
        return Stubborn(loop=asyncio.get_running_loop()) if number == 2 else branch(number)

    h = joining(3, "first", make)
    h.activate(resolve(0, 10), resolve(1, 11))
    assert h.result == 10
    assert [report for report in h.reports if "not cancelled" in report]


def test_p6_a_thousand_branches_join() -> None:
    """P6, E10."""
    h = joining(1000, first(999))
    h.activate(*(resolve(number, number) for number in range(999)))
    assert h.result == list(range(999))


def test_p6_a_condition_that_a_branch_makes_true_is_a_way_to_join_by_ones_own_rule() -> None:
    """P6, K17."""

    @workflow
    async def own_rule() -> int:
        total = 0

        async def add(number: int) -> None:
            nonlocal total
            value = await branch(number)
            total += value

        async def enough() -> None:
            await wait_until(lambda: total >= 10)

        await parallel(enough(), parallel(add(0), add(1), add(2)), join="first")
        return total

    h = Harness(own_rule)
    h.start()
    h.activate(resolve(0, 4))
    turn = h.activate(resolve(2, 6))
    assert brief(turn) == [("cancel_activity", 1), ("complete", None)]
    assert h.result == 10
    check_replay(h)


def test_k11_another_join_in_the_code_is_found_on_replay() -> None:
    """K11: the turn in which it would have ended does not match."""
    h = joining(3, "all")
    h.activate(resolve(0, 0))

    @workflow(name="joining")
    async def changed() -> Any:
        return await parallel(*(branch(number) for number in range(3)), join="first")

    with pytest.raises(NondeterminismError):
        Harness.replay_transcript(changed, h.transcript)


def test_p6_a_timer_that_wins_cancels_the_branches_as_a_timeout_of_a_join() -> None:
    """P6: cancelling discriminator with a deadline."""
    h = joining(3, "first", lambda number: sleep(30) if number == 2 else branch(number))
    turn = h.activate(fire(h.turns[0].commands[0]))
    assert [kind for kind, _ in brief(turn)] == ["cancel_activity", "cancel_activity", "complete"]
    assert h.result is None
