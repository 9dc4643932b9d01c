"""Seed 003: what its project tests of cancellation: tasks, cases, regions inside and beside each other, effects.

Scopes are the regions here (M6). What they do at every pause is in tests/kernel/test_scopes.py.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import choose, each, parallel, race, receive, scope, shielded, sleep, workflow
from perdure.policies import new
from perdure.testing import Harness, cancel, evict, fire, resolve, signal
from tests.kernel.telling import Start, act, told

# --- the case ------------------------------------------------------------------------------------------


async def two_branches() -> Any:
    return await parallel(lambda: act("a"), lambda: act("b"))


async def one_choice() -> Any:
    return await choose(lambda: act("a"), lambda: act("b"))


async def three_instances() -> Any:
    return await each("abc", act)


async def one_task() -> Any:
    return await act("a")


ACTIVE = {"a task": one_task, "two branches": two_branches, "a choice": one_choice, "instances": three_instances}


@pytest.mark.parametrize("what", ACTIVE)
def test_m6_cancelling_the_case_cancels_whatever_is_active_in_it_and_nothing_starts_afterwards(
    run: Start, what: str
) -> None:
    """M6: every effect is withdrawn, in unit order, in one turn."""
    active = ACTIVE[what]

    @workflow
    async def case() -> Any:
        async with scope():
            await active()
        return await act("never")

    h = run(case)
    asked = [command.seq for command in h.start().commands if command.kind == "schedule_activity"]
    assert told(h.activate(cancel())) == [
        *[f"cancel_activity#{seq}" + _unit(h, seq) for seq in asked],
        "cancel",
    ]
    assert (h.status, h.waiting()) == ("cancelled", [])


def _unit(h: Harness[Any], seq: int | None) -> str:
    unit = next(command.unit for turn in h.turns for command in turn.commands if command.seq == seq)
    return "" if unit == "/" else f" @{unit}"


# --- regions -------------------------------------------------------------------------------------------


def test_m6_an_empty_region_is_nothing(run: Start) -> None:
    @workflow
    async def empty() -> str:
        async with scope():
            pass
        async with scope(timeout=60):
            pass
        return await act("after")

    h = run(empty)
    kinds = [command.kind for command in h.start().commands]
    assert kinds == ["start_timer", "cancel_timer", "schedule_activity"]
    h.activate(resolve(1, "done"))
    assert h.result == "done"


def test_m6_an_inner_region_that_is_cancelled_leaves_the_outer_one_as_it_was(run: Start) -> None:
    """M6: what runs in the outer one goes on, before, beside and after."""

    @workflow
    async def nested() -> list[str]:
        async with scope() as outer:
            beside = act("beside")
            async with scope() as inner:
                first, _ = act("inside"), inner.cancel()
                await first
            after = await act("after")
            return [await beside, after, str(outer.cancelled), str(inner.cancelled)]
        return []

    h = run(nested)
    expected = ['schedule_activity#0 act ["beside"]', 'schedule_activity#1 act ["inside"]', "cancel_activity#1"]
    assert told(h.start()) == [*expected, 'schedule_activity#2 act ["after"]']
    h.activate(resolve(2, "A"), resolve(0, "B"))
    assert h.result == ["B", "A", "False", "True"]


def test_m6_an_outer_region_that_is_cancelled_takes_the_inner_ones_with_it_at_any_depth(run: Start) -> None:
    @workflow
    async def deep() -> str:
        async def level(number: int) -> None:
            async with scope():
                if number:
                    await parallel(lambda: level(number - 1), lambda: act(f"level {number}"))
                else:
                    await act("bottom")

        async with scope() as outer:

            async def stop() -> None:
                await receive("stop", int)
                outer.cancel()

            await parallel(lambda: level(2), stop)
        return await act("outside")

    h = run(deep)
    started = {command.unit: command.seq for command in h.start().commands}
    *cancels, last = told(h.activate(signal("stop", 1)))
    assert cancels == [f"cancel_activity#{started[unit]} @{unit}" for unit in sorted(started)]
    assert last == f'schedule_activity#{len(started)} act ["outside"]'


def test_m6_cancelling_a_region_costs_what_is_in_it_and_leaves_the_other_ones_of_the_case(run: Start) -> None:
    """M6: one of two hundred; the others are neither cancelled nor given a step."""

    @workflow
    async def many() -> int:
        async def region(number: int) -> int:
            async with scope() as own:
                if number == 77:
                    stopped.append(own)
                return len(await parallel(lambda: act(f"{number} a"), lambda: act(f"{number} b")))
            return 0

        async def stopper() -> int:
            await receive("stop", int)
            stopped[0].cancel()
            return 0

        stopped: list[Any] = []
        return sum(await parallel(*[lambda number=number: region(number) for number in range(200)], stopper))

    h = run(many)
    turn = h.start()
    assert len(turn.commands) == 400
    inside = [command for command in turn.commands if command.unit.startswith("/p77/")]
    stopped = h.activate(signal("stop", 1))
    assert [(command.kind, command.seq) for command in stopped.commands] == [
        ("cancel_activity", command.seq) for command in inside
    ]
    rest = [command for command in turn.commands if command not in inside]
    h.activate(*(resolve(command, "ok") for command in rest))
    assert h.result == 199 * 2


def test_m6_a_region_with_a_limit_of_time_cancels_itself_and_may_be_handled(run: Start) -> None:
    """M6, P6: escalation when the time is over."""

    @workflow
    async def limited() -> str:
        try:
            async with scope(timeout=60):
                await parallel(act("slow"), act("slower"))
        except TimeoutError:
            return await act("escalate")
        return "in time"

    h = run(limited)
    h.start()
    timer = next(command for command in h.turns[0].commands if command.kind == "start_timer")
    expected = ["cancel_activity#1", "cancel_activity#2", 'schedule_activity#3 act ["escalate"]']
    assert told(h.activate(fire(timer))) == expected


def test_m6_a_task_is_cancelled_alone_and_the_work_beside_it_goes_on(run: Start) -> None:
    """M6: of the three granularities the smallest; a region and the case are the others."""

    @workflow
    async def one_of_two() -> list[str]:
        doomed, beside = act("doomed"), act("beside")
        await receive("stop", int)
        doomed.cancel()
        try:
            await doomed
        except asyncio.CancelledError:
            return ["cancelled", await beside]
        return []

    h = run(one_of_two)
    h.start()
    assert told(h.activate(signal("stop", 1))) == ["cancel_activity#0"]
    h.activate(resolve(0, "too late"), resolve(1, "done"))
    assert (h.result, h.dropped) == (["cancelled", "done"], 1)


# --- instances -----------------------------------------------------------------------------------------


def test_m6_instances_that_are_cancelled_midway_keep_what_has_ended_and_begin_no_more(run: Start) -> None:
    """M6, P6: two of six have ended, two are at work, two have not begun."""

    @workflow
    async def instances() -> list[str]:
        ended: dict[str, int] = {}

        async def collect() -> None:
            async for value in each("abcdef", act, limit=2):
                ended[value] = len(ended)

        await race(collect, receive("stop", int))
        return list(ended)

    h = run(instances)
    h.start()
    h.activate(resolve(0, "A"))
    h.activate(resolve(1, "B"))
    *cancels, end = told(h.activate(signal("stop", 1)))
    assert [line.split()[0] for line in cancels] == ["cancel_activity#2", "cancel_activity#3"]
    assert end == 'complete [["A", "B"]]'


# --- clean-up, and policies ----------------------------------------------------------------------------


def test_m6_clean_up_of_a_region_runs_to_its_end_before_the_code_behind_it(run: Start) -> None:
    @workflow
    async def tidy() -> str:
        async with scope() as region:

            async def worker(name: str) -> None:
                try:
                    await act(name)
                finally:
                    async with shielded():
                        await act(f"tidy {name}")

            async def stop() -> None:
                await receive("stop", int)
                region.cancel()

            await parallel(lambda: worker("a"), lambda: worker("b"), stop)
        return await act("behind it")

    h = run(tidy)
    h.start()
    turn = told(h.activate(signal("stop", 1)))
    asked = ['schedule_activity#2 act ["tidy a"] @/p0', 'schedule_activity#3 act ["tidy b"] @/p1']
    assert turn == ["cancel_activity#0 @/p0", "cancel_activity#1 @/p1", *asked]
    assert told(h.activate(resolve(3, "ok"))) == []
    assert told(h.activate(resolve(2, "ok"))) == ['schedule_activity#4 act ["behind it"]']


@pytest.mark.parametrize("seed", range(6))
def test_p4_regions_that_are_cancelled_at_random_replay_and_cancel_in_the_order_of_units(seed: int) -> None:
    """P4, M6: a policy orders who runs, never what a cancelled scope withdraws."""

    @workflow
    async def regions() -> None:
        async def region(number: int) -> None:
            async with scope() as own:

                async def stop() -> None:
                    await sleep(0)
                    await receive(f"stop {number}", int)
                    own.cancel()

                await parallel(*[lambda: act(f"work {number}") for _ in range(3)], stop)

        await parallel(*[lambda number=number: region(number) for number in range(3)])

    h = Harness(regions, policy=new("nondeterministic", seed=seed))
    started = h.start().commands
    for number in (2, 0, 1):
        turn = h.activate(signal(f"stop {number}", 1), evict())
        seqs = {command.unit: command.seq for command in started if command.unit.startswith(f"/p{number}/")}
        withdrawn = [(command.unit, command.seq) for command in turn.commands if command.kind == "cancel_activity"]
        assert withdrawn == sorted(seqs.items())
    assert h.done
    h.replay()
