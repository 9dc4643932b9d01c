"""P6: the joins of `parallel`: all, settled, first, first n, n of m, merge; and what branches can be."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from perdure import (
    ActivityFailed,
    InvalidValue,
    Outcome,
    first,
    merge,
    n_of_m,
    parallel,
    receive,
    sleep,
    workflow,
)
from perdure.testing import Harness, fail, resolve, signal
from tests.kernel.joining import act, branch, brief, check_replay, joining

# --- all ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 5, 10])
def test_p6_a_join_of_all_waits_for_every_branch_and_gives_the_values_in_input_order(count: int) -> None:
    """P6, K3: `wf_test_par` with 2, 3, 5, 10 branches; commands in unit order, p10 after p9."""
    h = joining(count, "all")
    assert [(c.unit, c.input) for c in h.turns[0].commands] == [(f"/p{n}", [n]) for n in range(count)]
    for number in reversed(range(count)):
        assert not h.done
        h.activate(resolve(number, number * 10))
    assert h.result == [number * 10 for number in range(count)]
    check_replay(h)


@pytest.mark.parametrize("count", [3, 5])
def test_p6_a_join_of_all_ends_in_one_turn_if_all_answers_come_in_one(count: int) -> None:
    """P6."""
    h = joining(count, "all")
    turn = h.activate(*(resolve(number, number) for number in reversed(range(count))))
    assert brief(turn) == [("complete", None)]
    assert h.result == list(range(count))


def test_p6_a_failing_branch_cancels_the_rest_and_raises_when_the_rest_has_ended() -> None:
    """P6, M6."""
    h = joining(4, "all")
    h.activate(resolve(1, 10))
    turn = h.activate(fail(2, ValueError("broken")))
    assert brief(turn) == [("cancel_activity", 0), ("cancel_activity", 3), ("fail", None)]
    assert h.failure is not None
    assert h.failure.type == "ActivityFailed"
    assert "broken" in h.failure.message
    check_replay(h)


def test_p6_of_two_failures_in_one_turn_the_first_unit_decides() -> None:
    """P6, K13: branches end in K3 order within a round, whatever the order of the answers."""
    h = joining(3, "all")
    h.activate(fail(2, ValueError("two")), fail(0, ValueError("zero")))
    assert h.failure is not None
    assert "zero" in h.failure.message


def test_p6_an_empty_parallel_gives_nothing_and_does_not_pause() -> None:
    """P6: no round passes, so what stands after it comes before the other unit's step."""

    @workflow
    async def nothing() -> list[Any]:
        async def outer() -> Any:
            results: list[Any] = [await parallel(), await parallel(join=merge()), await parallel(join="settled")]
            act(1)
            return results

        async def other() -> None:
            act(2)

        return (await parallel(outer(), other()))[0]

    h = Harness(nothing)
    assert [command.input for command in h.start().commands[:2]] == [[1], [2]]
    assert h.result == [[], {}, []]


# --- settled --------------------------------------------------------------------------------------


def test_p6_a_settled_join_gives_an_outcome_for_each_and_a_failure_cancels_nobody() -> None:
    """P6."""
    seen: list[list[Outcome[int]]] = []

    @workflow
    async def settles() -> int:
        outcomes = await parallel(act(0), branch(1), branch(2), join="settled")
        seen.append(outcomes)
        return len(outcomes)

    h = Harness(settles)
    h.start()
    assert brief(h.activate(fail(1, ValueError("broken")))) == []
    h.activate(resolve(0, 5))
    h.activate(resolve(2, 7))
    assert h.result == 3
    values = seen[0]
    assert [outcome.value for outcome in values] == [5, None, 7]
    assert [type(outcome.error) for outcome in values] == [type(None), ActivityFailed, type(None)]
    check_replay(h)


# --- first, first n, n of m -------------------------------------------------------------------------


@pytest.mark.parametrize(("winner", "count"), [(0, 4), (3, 4), (9, 10), (4, 10)])
def test_p6_the_first_of_n_gives_its_value_and_the_others_are_cancelled_in_unit_order(winner: int, count: int) -> None:
    """P6, M6: first of 4 and of 10."""
    h = joining(count, "first")
    turn = h.activate(resolve(winner, 77))
    losers = [number for number in range(count) if number != winner]
    assert brief(turn) == [*(("cancel_activity", number) for number in losers), ("complete", None)]
    assert h.result == 77
    check_replay(h)


@pytest.mark.parametrize(
    ("needed", "count", "order"),
    [
        (2, 3, [2, 0]),
        (3, 5, [4, 0, 2]),
        (1, 4, [3]),
        (1, 1, [0]),
        (3, 3, [2, 1, 0]),
        (5, 5, [3, 1, 4, 0, 2]),
        (4, 10, [9, 0, 5, 3]),
    ],
)
@pytest.mark.parametrize("say", ["first", "n_of_m"])
def test_p6_n_of_m_waits_for_n_and_gives_their_values_in_the_order_of_completion(
    needed: int, count: int, order: list[int], say: str
) -> None:
    """P6: 2 of 3, 3 of 5, 1 of 4, n = m, n = 1."""
    h = joining(count, first(needed) if say == "first" else n_of_m(needed, count))
    turn = h.turns[0]
    for number in order:
        assert not h.done
        turn = h.activate(resolve(number, number * 10))
    losers = sorted(set(range(count)) - set(order))
    assert brief(turn) == [*(("cancel_activity", number) for number in losers), ("complete", None)]
    assert h.result == [number * 10 for number in order]
    check_replay(h)


def test_p6_completion_within_one_turn_is_in_unit_order_for_coroutines_and_in_answer_order_for_futures() -> None:
    """P6, K13."""
    together = [resolve(3, 3), resolve(1, 1), resolve(2, 2)]
    coroutines = joining(5, first(3))
    coroutines.activate(*together)
    assert coroutines.result == [1, 2, 3]
    futures = joining(5, first(3), lambda number: act(number))
    futures.activate(*together)
    assert futures.result == [3, 1, 2]


def test_p6_answers_beyond_the_needed_ones_are_left_out() -> None:
    """P6: all came in one turn, two are taken, and nobody is left to cancel."""
    h = joining(3, n_of_m(2, 3))
    assert brief(h.activate(resolve(2, 2), resolve(1, 1), resolve(0, 0))) == [("complete", None)]
    assert h.result == [0, 1]


@pytest.mark.parametrize("join", ["first", first(2), n_of_m(2, 3)])
def test_p6_a_branch_that_fails_before_the_join_is_satisfied_fails_it(join: Any) -> None:
    """P6."""
    h = joining(3, join)
    turn = h.activate(fail(1, ValueError("broken")))
    assert brief(turn) == [("cancel_activity", 0), ("cancel_activity", 2), ("fail", None)]


def test_p6_a_branch_that_fails_after_the_join_is_satisfied_changes_nothing() -> None:
    """P6: it was cancelled by then, and its failure is dropped."""
    h = joining(3, first(2))
    h.activate(resolve(0, 1), resolve(1, 2))
    assert h.done
    h.activate(fail(2, ValueError("late")))
    assert h.dropped == 1
    assert h.result == [1, 2]


NUMBERS: list[tuple[int, Callable[[], Any], str]] = [
    (3, lambda: first(4), "a join of 4 does not fit 3 branches"),
    (0, lambda: first(1), "a join of 1 does not fit 0 branches"),
    (0, lambda: "first", "a join of 1 does not fit 0 branches"),
    (4, lambda: n_of_m(2, 3), "n_of_m(2, 3) does not fit 4 branches"),
    (2, lambda: n_of_m(2, 3), "n_of_m(2, 3) does not fit 2 branches"),
    (3, lambda: n_of_m(4, 3), "a join of 4 does not fit 3 branches"),
    (3, lambda: "most", "not 'most'"),
    (3, lambda: first, "join is 'all', 'settled', 'first'"),
]


@pytest.mark.parametrize(("count", "make", "message"), NUMBERS)
def test_p6_numbers_that_do_not_fit_are_refused_before_anything_runs(
    count: int, make: Callable[[], Any], message: str
) -> None:
    """P6, section 6: nothing is emitted, and coroutines that nobody will await are closed without a warning."""
    open_ones: list[bool] = []

    @workflow
    async def refused() -> str:
        made = [branch(number) for number in range(count)]
        try:
            await parallel(*made, join=make())
        except InvalidValue as error:
            open_ones.extend(coroutine.cr_frame is not None for coroutine in made)
            return str(error)
        return "not refused"

    h = Harness(refused)
    assert brief(h.start()) == [("complete", None)]
    assert message in str(h.result)
    assert open_ones == [False] * count


@pytest.mark.parametrize("number", [0, -1, True, 1.5, "2", None])
def test_p6_a_number_that_is_none_is_refused_where_the_join_is_made(number: Any) -> None:
    """P6, section 6."""
    with pytest.raises(InvalidValue, match=r"first\(\) takes whole numbers from 1 on, not "):
        first(number)
    with pytest.raises(InvalidValue, match=r"n_of_m\(\) takes whole numbers from 1 on, not "):
        n_of_m(number, 3)
    with pytest.raises(InvalidValue, match=r"n_of_m\(\) takes whole numbers from 1 on, not "):
        n_of_m(1, number)


@pytest.mark.parametrize("stranger", [7, {1, 2}, "text", None, [branch], int])
def test_p6_what_is_no_branch_is_refused_and_the_coroutines_beside_it_are_closed(stranger: Any) -> None:
    """P6, K16: sets above all."""

    @workflow
    async def refused() -> str:
        try:
            await parallel(branch(0), stranger, branch(1))
        except InvalidValue as error:
            return str(error)
        return "not refused"

    h = Harness(refused)
    assert brief(h.start()) == [("complete", None)]
    assert str(h.result).startswith("branch 1 of parallel() is ")
    assert ("a set has no order" in str(h.result)) == isinstance(stranger, set)


# --- merge ------------------------------------------------------------------------------------------


async def mapping(number: int) -> dict[str, int]:
    return {f"only {number}": number, "shared": await act(number)}


def test_p6_a_merge_joins_mappings_in_branch_order_and_the_later_wins() -> None:
    """P6: sync-merge; the order of completion does not count."""
    h = joining(3, merge(), mapping)
    for number in (2, 0, 1):
        h.activate(resolve(number, number * 10))
    assert h.result == {"only 0": 0, "shared": 20, "only 1": 1, "only 2": 2}
    check_replay(h)


def test_p6_a_merge_asks_its_function_about_each_conflict_from_left_to_right() -> None:
    """P6: `fn(key, old, new)`."""
    asked: list[tuple[str, int, int]] = []

    def add(key: str, old: int, new: int) -> int:
        asked.append((key, old, new))
        return old + new

    h = joining(3, merge(add), mapping)
    h.activate(resolve(2, 5), resolve(1, 7), resolve(0, 9))
    assert h.result == {"only 0": 0, "shared": 21, "only 1": 1, "only 2": 2}
    assert asked == [("shared", 9, 7), ("shared", 16, 5)]


def test_p6_a_merge_of_what_is_no_mapping_and_one_with_a_failing_function_fail_the_join() -> None:
    """P6."""
    h = joining(2, merge())
    h.activate(resolve(0, 1), resolve(1, 2))
    assert h.failure is not None
    assert "branch 0 returned int; merge() needs mappings" in h.failure.message
    h = joining(2, merge(lambda key, old, new: 1 / 0), mapping)
    h.activate(resolve(0, 1), resolve(1, 2))
    assert h.failure is not None
    assert h.failure.type == "ZeroDivisionError"


# --- what a branch can be ----------------------------------------------------------------------------


async def plus(start: int, number: int) -> int:
    return start + await act(number)


def test_p6_a_branch_is_a_coroutine_a_future_a_callable_or_a_partial_and_may_return_a_plain_value() -> None:
    """P6, K2: a future is no unit, but it counts as a branch; a callable is called in its own unit."""

    @workflow
    async def kinds() -> list[int]:
        return await parallel(
            branch(0),
            act(1),
            lambda: act(2),
            lambda: branch(3),
            functools.partial(plus, 100, 4),
            lambda: 5,
            functools.partial(int, "6"),
        )

    h = Harness(kinds)
    asked = h.start().commands
    assert [(c.unit, c.seq, c.input[0]) for c in asked] == [
        *[("/", 0, 1), ("/p0", 1, 0), ("/p2", 2, 2), ("/p3", 3, 3), ("/p4", 4, 4)]
    ]
    h.activate(*(resolve(command, command.input[0]) for command in asked))
    assert h.result == [0, 1, 2, 3, 104, 5, 6]
    check_replay(h)


def test_p6_a_callable_that_raises_at_once_is_a_failing_branch() -> None:
    """P6."""
    h = joining(1, "all", lambda number: lambda: 1 // number)
    assert h.failure is not None
    assert h.failure.type == "ZeroDivisionError"


def test_p6_timers_and_signals_are_branches_and_give_back_what_nobody_read() -> None:
    """P6, M1: a loser that was served in the same turn gives its signal back to the head."""

    @workflow
    async def waits() -> list[Any]:
        decided = await parallel(receive("a", int), receive("b", int), sleep(60), join="first")
        return [decided, await receive("b", int), await receive("b", int)]

    h = Harness(waits)
    h.start()
    turn = h.activate(signal("a", 1), signal("b", 2), signal("b", 3))
    assert brief(turn) == [("cancel_timer", 0), ("complete", None)]
    assert h.result == [1, 2, 3]
    check_replay(h)
