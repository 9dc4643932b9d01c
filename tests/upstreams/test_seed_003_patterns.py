"""Seed 003: what its project tests of joins, choices, loops and multiple instances, and the holes it was found to have.

Every pattern has an example on docs/patterns.md; all that joins can be told is in tests/kernel/test_joins.py.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import (
    choose,
    each,
    first,
    merge,
    n_of_m,
    parallel,
    race,
    receive,
    receive_any,
    sleep,
    workflow,
)
from perdure.policies import new
from perdure.testing import Harness, fire, resolve, signal
from tests.kernel.telling import Start, act, told


def inputs(turn: Any) -> list[str]:
    """What a turn asks for."""
    return [command.input[0] for command in turn.commands if command.kind == "schedule_activity"]


# --- sequence, split, join -----------------------------------------------------------------------------


def test_p6_tasks_of_a_sequence_run_one_after_another_and_each_sees_what_came_before(run: Start) -> None:
    @workflow
    async def sequence() -> str:
        value = "start"
        for name in "abc":
            value = await act(f"{value} {name}")
        return value

    h = run(sequence)
    turn = h.start()
    for expected in ("start a", "done a b", "done b c"):
        assert inputs(turn) == [expected]
        turn = h.activate(resolve(turn.commands[0], f"done {expected[-1]}"))
    assert h.result == "done c"


@pytest.mark.parametrize("count", [2, 3, 5, 10])
def test_p6_every_branch_of_a_split_runs_and_what_follows_runs_once(run: Start, count: int) -> None:
    """P6: one continuation for all of them, in the turn of the last."""

    @workflow
    async def split() -> str:
        values = await parallel(*[act(str(number)) for number in range(count)])
        return await act("then " + "".join(values))

    h = run(split)
    assert inputs(h.start()) == [str(number) for number in range(count)]
    asked = [inputs(h.activate(resolve(seq, str(seq)))) for seq in range(count)]
    assert asked == [[]] * (count - 1) + [["then " + "".join(map(str, range(count)))]]


JOINS = [(2, 3), (3, 5), (1, 4), (1, 10), (4, 4), (1, 1)]


@pytest.mark.parametrize(("needed", "count"), JOINS)
def test_p6_a_join_fires_as_soon_as_it_is_satisfied_and_once_only_while_others_are_still_at_work(
    run: Start, needed: int, count: int
) -> None:
    """P6: not only when nobody is active any more; late siblings are cancelled, and their answers change nothing."""

    @workflow
    async def joins() -> list[str]:
        values = await parallel(*[act(str(number)) for number in range(count)], join=n_of_m(needed, count))
        return [await act("then"), *values]

    h = run(joins)
    h.start()
    turns = [told(h.activate(resolve(seq, str(seq)))) for seq in range(needed)]
    assert turns[:-1] == [[]] * (needed - 1)
    expected = [f"cancel_activity#{seq}" for seq in range(needed, count)]
    assert turns[-1] == [*expected, f'schedule_activity#{count} act ["then"]']
    for seq in range(needed, count):
        assert told(h.activate(resolve(seq, "late"))) == []
    h.activate(resolve(count, "then"))
    assert h.result == ["then", *map(str, range(needed))]


def test_p6_joins_inside_joins_wait_for_their_own_branches_each(run: Start) -> None:
    """P6: the upstream looks for the first join that it finds."""

    @workflow
    async def nested() -> list[Any]:
        async def inner(name: str) -> str:
            return "".join(await parallel(act(f"{name}0"), act(f"{name}1"), act(f"{name}2"), join=first(2)))

        return await parallel(inner("a"), inner("b"))

    h = run(nested)
    seqs = {command.input[0]: command for command in h.start().commands}
    h.activate(resolve(seqs["a2"], "A2"), resolve(seqs["b0"], "B0"))
    assert not h.done
    assert [command.seq for command in h.activate(resolve(seqs["a0"], "A0")).commands] == [seqs["a1"].seq]
    h.activate(resolve(seqs["b1"], "B1"))
    assert h.result == ["A2A0", "B0B1"]


def test_p6_each_branch_has_variables_of_its_own_and_a_merge_takes_the_later_branch(run: Start) -> None:
    """P6: the upstream shares one context; here what branches return is merged in the order of branches."""

    @workflow
    async def merged() -> dict[str, str]:
        async def one(name: str) -> dict[str, str]:
            context = {"who": name}
            context[f"{name} ran"] = await act(name)
            return context

        return await parallel(one("a"), one("b"), join=merge())

    h = run(merged)
    h.start()
    h.activate(resolve(1, "yes"))
    h.activate(resolve(0, "yes"))
    assert h.result == {"who": "b", "a ran": "yes", "b ran": "yes"}


# --- exclusive choice ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("count", [2, 3, 10])
def test_p6_branches_that_were_not_chosen_never_run_and_what_follows_is_reached(seed: int, count: int) -> None:
    """P1, P6: whether branches are callables or coroutines; the upstream always takes the first, and stops there."""
    ran: list[int] = []

    @workflow
    async def chooses() -> str:
        async def branch(number: int) -> str:
            ran.append(number)
            return await act(str(number))

        chosen = await choose(*[lambda number=number: branch(number) for number in range(count)])
        again = await choose(*[branch(number) for number in range(count)])
        return await act(f"after {chosen} {again}")

    h = Harness(chooses, policy=new("nondeterministic", seed=seed))
    turns = [h.start()]
    for seq in range(2):
        turns.append(h.activate(resolve(seq, turns[-1].commands[-1].input[0])))
    taken = [command.input[0] for turn in turns for command in turn.commands if command.kind == "record_choice"]
    assert ran == taken
    assert inputs(turns[-1]) == [f"after {taken[0]} {taken[1]}"]


# --- deferred choice -----------------------------------------------------------------------------------


def test_p6_the_first_event_decides_and_the_others_stay_for_whoever_asks_next(run: Start) -> None:
    """P6, M1: its payload enters the winner; the losers are withdrawn and nothing of them is undone."""

    @workflow
    async def decides() -> list[Any]:
        name, value = await receive_any({"approve": str, "reject": str})
        return [name, value, await receive("approve", str)]

    h = run(decides)
    h.start()
    assert told(h.activate(signal("reject", "too dear"), signal("approve", "fine"))) == [
        'complete [["reject", "too dear", "fine"]]'
    ]


def test_p6_an_event_or_a_deadline_decides(run: Start) -> None:
    """P6, M6: an approval that escalates when nobody gives it."""

    @workflow
    async def approval() -> str:
        index, _ = await race(receive("approve", bool), sleep(60))
        return await act("escalate") if index else "approved"

    h = run(approval)
    h.start()
    assert inputs(h.activate(fire(0))) == ["escalate"]
    h = run(approval)
    h.start()
    assert told(h.activate(signal("approve", True))) == ["cancel_timer#0", 'complete ["approved"]']


# --- loops ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "answers", "expected"), [("while", 0, 0), ("until", 1, 1), ("count", 3, 3)])
def test_p6_a_loop_tests_before_or_after_or_counts(run: Start, kind: str, answers: int, expected: int) -> None:
    """P6: while may run no time, until runs once at least, a count of 3 runs three times."""

    @workflow
    async def loops(kind: str) -> int:
        rounds, more = 0, False
        while more or (kind == "until" and not rounds) or (kind == "count" and rounds < 3):
            await act(f"{kind} {rounds}")
            rounds += 1
        return rounds

    h = run(loops, kind)
    h.start()
    for seq in range(answers):
        assert not h.done
        h.activate(resolve(seq, "ok"))
    assert h.result == expected


# --- multiple instances --------------------------------------------------------------------------------


def test_p6_instances_are_numbered_in_order_and_each_is_a_unit_with_work_of_its_own(run: Start) -> None:
    """P6, K2, K8: ids are unique, sequential, and the same on every replay."""

    @workflow
    async def instances(count: int) -> list[str]:
        return await each(range(count), lambda number: act(f"instance {number}"))

    h = run(instances, 12)
    commands = h.start().commands
    assert [command.unit for command in commands] == [f"/p{number}" for number in range(12)]
    assert [command.input for command in commands] == [[f"instance {number}"] for number in range(12)]
    h.activate(*(resolve(seq, str(seq)) for seq in reversed(range(12))))
    assert h.result == [str(number) for number in range(12)]


@pytest.mark.parametrize(("join", "enough"), [("all", 5), (first(3), 3), ("first", 1)])
def test_p6_instances_are_waited_for_all_or_some_or_one_and_the_rest_is_cancelled(
    run: Start, join: Any, enough: int
) -> None:
    """P6: wait-all, wait-n and first-complete, of five."""

    @workflow
    async def instances() -> Any:
        joined: Any = parallel
        return await joined(*[act(str(number)) for number in range(5)], join=join)

    h = run(instances)
    h.start()
    for seq in range(enough - 1):
        assert told(h.activate(resolve(seq, str(seq)))) == []
    *cancels, end = told(h.activate(resolve(enough - 1, str(enough - 1))))
    assert cancels == [f"cancel_activity#{seq}" for seq in range(enough, 5)]
    assert end.startswith("complete")


def test_p6_instances_without_a_join_are_started_and_left_to_themselves(run: Start) -> None:
    """P6, K17: the run goes on at once, and ends without them."""

    @workflow
    async def leaves() -> str:
        tasks = [asyncio.ensure_future(_instance(number)) for number in range(3)]
        await sleep(0)
        return f"{len(tasks)} started"

    h = run(leaves)
    assert told(h.start()) == [
        'schedule_activity#0 act ["0"] @/t0',
        'schedule_activity#1 act ["1"] @/t1',
        'schedule_activity#2 act ["2"] @/t2',
        'complete ["3 started"]',
    ]


async def _instance(number: int) -> str:
    return await act(str(number))


def test_p6_the_number_of_instances_may_follow_from_what_the_run_learns_and_grow_meanwhile(run: Start) -> None:
    """P6: dynamic instances; the upstream takes the lower bound."""

    @workflow
    async def grows() -> int:
        known = int(await act("how many"))
        done = 0
        async with asyncio.TaskGroup() as group:

            async def instance(number: int) -> None:
                nonlocal done
                more = await act(f"instance {number}")
                done += 1
                if more == "one more":
                    group.create_task(instance(number + 10))

            for number in range(known):
                group.create_task(instance(number))
        return done

    h = run(grows)
    h.start()
    assert inputs(h.activate(resolve(0, "2"))) == ["instance 0", "instance 1"]
    assert inputs(h.activate(resolve(2, "one more"))) == ["instance 11"]
    h.activate(resolve(1, "ok"), resolve(3, "ok"))
    assert h.result == 3
