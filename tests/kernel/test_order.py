"""K1, K3, K4, K13: what runs first follows from structure and from the record, and from nothing else."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

import perdure
from perdure import parallel, race, receive, sleep, wait_until, workflow
from perdure.testing import Harness, evict, fire, resolve, signal
from tests.kernel.telling import Start, act, asked, told


def units(h: Harness[Any]) -> list[str]:
    """The units of the last turn's activities, in the order of their commands."""
    return [command.unit for command in asked(h.turns[-1])]


# --- K1: nothing else has a say -------------------------------------------------------------------

SETS = """
import asyncio
from perdure import activity, workflow
from perdure.testing import Harness, resolve

@activity
async def act(name: str) -> str: ...

@workflow
async def sets() -> list[str]:
    plain = [asyncio.get_running_loop().create_future() for _ in range(12)]
    done, _ = await asyncio.wait([act(str(number)) for number in range(12)])
    return [*(future.result() for future in done), *(str(plain.index(future)) for future in set(plain))]

h = Harness(sets)
turn = h.start()
h.activate(*(resolve(command, command.input[0]) for command in turn.commands))
print(h.result)
"""


def test_k1_a_set_of_futures_iterates_alike_whatever_the_hash_seed_of_the_process() -> None:
    said: set[str] = set()
    for seed in ("0", "1", "4711"):
        surroundings = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        told = subprocess.run(
            [sys.executable, "-c", SETS], env=surroundings, capture_output=True, text=True, check=True
        )
        said.add(told.stdout)
    assert len(said) == 1
    assert len(said.pop().split(",")) == 24


@pytest.mark.parametrize("collects", [False, True], ids=["", "with the collector"])
def test_k1_a_generator_that_was_left_behind_is_closed_with_the_run_and_not_by_the_collector(collects: bool) -> None:
    seen: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            seen.append("closed")

    @workflow
    async def leaves_one() -> None:
        async for _ in numbers():
            break
        await act("1")
        seen.append("after")
        await act("2")

    h: Harness[Any] = Harness(leaves_one)
    turn = h.start()
    if collects:
        gc.collect()
    h.activate(resolve(turn.commands[0], ""))
    h.activate(evict())
    assert seen == ["after", "closed"]


# --- K3: one order over all units -----------------------------------------------------------------


def test_k3_numbers_compare_as_numbers_so_the_tenth_branch_goes_before_the_eleventh(run: Start) -> None:
    @workflow
    async def many() -> None:
        async def twice(number: int) -> None:
            await act(f"{number}")
            await act(f"{number} again")

        await parallel(*(twice(number) for number in range(12)))

    h = run(many)
    turn = h.start()
    h.activate(*(resolve(command, "") for command in reversed(turn.commands)))
    assert units(h) == [f"/p{number}" for number in range(12)]


def test_k3_the_root_goes_first_then_branches_then_tasks_then_handlers(run: Start) -> None:
    @workflow
    class Every:
        async def run(self) -> None:
            async def twice(name: str) -> None:
                await act(name)
                await act(name)

            task = asyncio.create_task(twice("task"))
            branches = asyncio.create_task(self.branches(twice))
            await act("root")
            await act("root")
            await asyncio.gather(task, branches)

        async def branches(self, twice: Any) -> None:
            await parallel(twice("p0"), asyncio.create_task(twice("t0")))

        @perdure.signal
        async def knock(self) -> None:
            await act("handler")
            await act("handler")

    h = run(Every)
    h.start()
    h.activate(signal("knock"))
    open_now = [command for turn in h.turns for command in asked(turn)]
    h.activate(*(resolve(command, "") for command in reversed(open_now)))
    assert units(h) == ["/", "/t0", "/t1/p0", "/t1/t0", "/h0"]


def test_k3_a_prefix_goes_before_what_extends_it(run: Start) -> None:
    @workflow
    async def nested() -> None:
        async def outer() -> None:
            task = asyncio.create_task(inner())
            await act("outer")
            await act("outer")
            await task

        async def inner() -> None:
            await act("inner")
            await act("inner")

        await parallel(outer(), inner())

    h = run(nested)
    turn = h.start()
    assert units(h) == ["/p0", "/p1", "/p0/t0"]
    h.activate(*(resolve(command, "") for command in reversed(turn.commands)))
    assert units(h) == ["/p0", "/p0/t0", "/p1"]


# --- K4: rounds -------------------------------------------------------------------------------------


def test_k4_the_number_of_hops_inside_an_await_does_not_change_the_order(run: Start) -> None:
    @workflow
    async def hops() -> None:
        async def deep(name: str) -> None:
            await asyncio.shield(asyncio.gather(act(name), act(name)))
            await act(f"{name} again")

        async def flat(name: str) -> None:
            await act(name)
            await act(f"{name} again")

        await parallel(deep("0"), flat("1"), deep("2"), flat("3"))

    h = run(hops)
    turn = h.start()
    h.activate(*(resolve(command, "") for command in turn.commands))
    assert units(h) == ["/p0", "/p1", "/p2", "/p3"]


def test_k4_what_a_unit_wakes_in_itself_belongs_to_its_step_and_a_yield_does_not(run: Start) -> None:
    @workflow
    async def woken() -> None:
        async def wakes_itself() -> None:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            future.set_result(None)
            await asyncio.shield(future)
            future = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(future.set_result, None)
            await future
            act("own step")

        async def yields() -> None:
            await asyncio.sleep(0)
            act("next step")

        async def plain() -> None:
            act("plain")

        await parallel(yields(), wakes_itself(), plain())

    h = run(woken)
    assert [command.input for command in asked(h.start())] == [["own step"], ["plain"], ["next step"]]


def test_k4_units_that_became_ready_in_another_order_run_in_that_of_their_ids(run: Start) -> None:
    @workflow
    async def woken() -> None:
        gates = [asyncio.Event() for _ in range(3)]

        async def waits(number: int) -> None:
            await gates[number].wait()
            act(str(number))

        async def opens() -> None:
            for gate in reversed(gates):
                gate.set()

        await parallel(*(waits(number) for number in range(3)), opens())

    h = run(woken)
    h.start()
    assert units(h) == ["/p0", "/p1", "/p2"]


# --- K13: the order of application -----------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 1])
def test_k13_a_race_between_futures_is_won_by_the_answer_that_stands_first(run: Start, first: int) -> None:
    @workflow
    async def race_of_futures() -> list[Any]:
        return list(await race(act("0"), act("1")))

    h = run(race_of_futures)
    commands = h.start().commands
    answers = [resolve(commands[first], "first"), resolve(commands[1 - first], "second")]
    h.activate(*answers)
    assert h.result == [first, "first"]


@pytest.mark.parametrize("first", [0, 1])
def test_k13_answers_that_were_there_before_the_race_count_in_the_order_of_application(run: Start, first: int) -> None:
    @workflow
    async def late_race() -> list[Any]:
        futures = [act("0"), act("1")]
        await sleep(1)
        return list(await race(*futures))

    h = run(late_race)
    commands = h.start().commands
    answers = [resolve(commands[first], "first"), resolve(commands[1 - first], "second")]
    h.activate(*answers)
    h.activate(fire(commands[2]))
    assert h.result == [first, "first"]


def test_k13_an_answer_stands_before_the_messages_of_its_turn(run: Start) -> None:
    @workflow
    async def answer_or_signal() -> list[Any]:
        return list(await race(receive("go"), act("x")))

    h = run(answer_or_signal)
    (asked_for,) = h.start().commands
    h.activate(signal("go", "signal"), resolve(asked_for, "answer"))
    assert h.result == [1, "answer"]


def test_k13_a_race_between_coroutines_is_won_by_the_branch_that_ends_first_and_within_a_round_by_unit(
    run: Start,
) -> None:
    @workflow
    async def race_of_branches() -> list[Any]:
        async def branch(name: str) -> str:
            return await act(name)

        return list(await race(branch("0"), branch("1")))

    h = run(race_of_branches)
    zero, one = h.start().commands
    h.activate(resolve(one, "one"), resolve(zero, "zero"))
    assert h.result == [0, "zero"]


def test_k2_time_that_is_up_at_once_makes_no_unit_either(run: Start) -> None:
    """K2: `wait_for` never makes one, so the next task is the first."""

    @workflow
    async def no_time() -> None:
        async def never() -> None:
            await wait_until(lambda: False)

        async def task() -> None:
            await act("x")

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(never(), 0)
        await asyncio.create_task(task())

    h = run(no_time)
    assert told(h.start()) == ['schedule_activity#0 act ["x"] @/t0']
