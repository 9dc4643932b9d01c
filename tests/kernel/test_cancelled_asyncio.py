"""M6: asyncio's own primitives in a scope that is cancelled: each raises once, cleans up, and never spins."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import perdure
from perdure import parallel, race, receive, scope, shielded, sleep, workflow
from perdure.testing import cancel, fire, resolve, signal
from tests.kernel.telling import Start, act, asked, told, waits


async def work(name: str) -> str:
    return await act(name)


async def careful(name: str) -> str:
    try:
        return await act(name)
    finally:
        async with shielded():
            await act(f"undo {name}")


async def in_group(run_it: Any) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(run_it("a"))
        group.create_task(run_it("b"))


async def in_gather(run_it: Any) -> None:
    await asyncio.gather(run_it("a"), run_it("b"))


async def in_wait(run_it: Any) -> None:
    tasks = [asyncio.create_task(run_it(name)) for name in "ab"]
    await asyncio.wait(tasks)


async def in_wait_for(run_it: Callable[[str], Awaitable[Any]]) -> None:
    await asyncio.wait_for(asyncio.gather(run_it("a"), run_it("b")), 1000)


async def in_timeout(run_it: Any) -> None:
    async with asyncio.timeout(1000):
        await parallel(run_it("a"), run_it("b"))


async def in_completed(run_it: Any) -> None:
    for one in asyncio.as_completed([run_it("a"), run_it("b")]):
        await one


SHAPES: dict[str, Any] = {
    "TaskGroup": in_group,
    "gather": in_gather,
    "wait": in_wait,
    "wait_for": in_wait_for,
    "timeout": in_timeout,
    "as_completed": in_completed,
}


@workflow
async def shaped(shape: str, clean: bool) -> str:
    try:
        await SHAPES[shape](careful if clean else work)
    except asyncio.CancelledError:
        return "raised"
    return "went on"


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_m6_a_cancellation_is_raised_where_asyncio_waits_and_its_children_are_cancelled(run: Start, shape: str) -> None:
    h = run(shaped, shape, False)
    schedules = asked(h.start())
    turn = h.activate(cancel())
    assert [command.seq for command in asked(turn, "cancel_activity")] == [command.seq for command in schedules]
    assert h.result == "raised"


@pytest.mark.parametrize("shape", ["TaskGroup", "timeout"])
def test_m6_the_clean_up_of_children_is_waited_for_and_runs_to_its_end(run: Start, shape: str) -> None:
    h = run(shaped, shape, True)
    h.start()
    turn = h.activate(cancel())
    undos = asked(turn)
    assert [command.input[0] for command in undos] == ["undo a", "undo b"]
    h.activate(resolve(undos[1], ""))
    assert not h.done
    h.activate(resolve(undos[0], ""))
    assert h.result == "raised"


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_m6_a_scope_that_times_out_around_it_ends_with_timeout(run: Start, shape: str) -> None:
    @workflow
    async def limited(shape: str) -> str:
        try:
            async with scope(timeout=5):
                await SHAPES[shape](work)
        except TimeoutError:
            return "timeout"
        return "went on"

    h = run(limited, shape)
    timer = h.start().commands[0]
    h.activate(fire(timer))
    assert h.result == "timeout"


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_m6_entered_when_the_scope_was_cancelled_already_it_raises_and_schedules_nothing(
    run: Start, shape: str
) -> None:
    @workflow
    async def late(shape: str) -> list[Any]:
        seen = "left"
        async with scope() as region:
            region.cancel()
            await SHAPES[shape](work)
            seen = "went on"
        return [seen, await act("after")]

    h = run(late, shape)
    turn = h.start()
    assert [command.input[0] for command in asked(turn)] == ["after"]
    h.activate(resolve(asked(turn)[0], ""))
    assert h.result == ["left", ""]


async def for_event() -> None:
    await asyncio.Event().wait()


async def for_lock() -> None:
    lock = asyncio.Lock()
    async with lock:
        await lock.acquire()


async def for_semaphore() -> None:
    await asyncio.Semaphore(0).acquire()


async def for_queue() -> None:
    await asyncio.Queue[int]().get()


async def for_condition() -> None:
    condition = asyncio.Condition()
    async with condition:
        await condition.wait()


async def for_condition_held_by_another() -> None:
    condition = asyncio.Condition()

    async def holder() -> None:
        await asyncio.sleep(0)
        async with condition, shielded():
            await act("hold")

    async with asyncio.TaskGroup() as group:
        group.create_task(holder())
        async with condition:
            await condition.wait()


async def for_barrier() -> None:
    await asyncio.Barrier(2).wait()


WAITS: dict[str, Any] = {
    "event": for_event,
    "lock": for_lock,
    "semaphore": for_semaphore,
    "queue": for_queue,
    "condition": for_condition,
    "barrier": for_barrier,
}


@pytest.mark.parametrize("what", sorted(WAITS))
def test_m6_a_wait_for_a_primitive_is_interrupted(run: Start, what: str) -> None:
    @workflow
    async def waiting(what: str) -> str:
        async with scope() as region:
            await parallel(WAITS[what](), stopper(region))
        return "left"

    async def stopper(region: Any) -> None:
        await receive("stop")
        region.cancel()

    h = run(waiting, what)
    h.start()
    h.activate(signal("stop"))
    assert h.result == "left"


def test_m6_a_condition_takes_its_lock_back_before_it_raises(run: Start) -> None:
    @workflow
    async def held() -> str:
        try:
            await for_condition_held_by_another()
        except asyncio.CancelledError:
            return "raised"
        return "went on"

    h = run(held)
    hold = asked(h.start())[0]
    h.activate(cancel())
    assert not h.done
    h.activate(resolve(hold, ""))
    assert h.result == "raised"


def test_m6_asyncio_timeout_cancels_scopes_and_branches_inside_it(run: Start) -> None:
    @workflow
    async def limited() -> list[str]:
        seen: list[str] = []
        try:
            async with asyncio.timeout(5):
                async with scope():
                    await parallel(act("a"), work("b"))
        except TimeoutError:
            seen.append("timeout")
        return [*seen, await act("after")]

    h = run(limited)
    turn = h.start()
    turn = h.activate(fire(asked(turn, "start_timer")[0]))
    assert [command.kind for command in turn.commands] == ["cancel_activity", "cancel_activity", "schedule_activity"]
    h.activate(resolve(turn.commands[-1], "x"))
    assert h.result == ["timeout", "x"]


def test_m6_a_scope_timeout_inside_asyncio_timeout_and_the_other_way_round(run: Start) -> None:
    @workflow
    async def both(inner: str) -> str:
        def outer_region() -> Any:
            return asyncio.timeout(10) if inner == "scope" else scope(timeout=10)

        def inner_region() -> Any:
            return scope(timeout=5) if inner == "scope" else asyncio.timeout(5)

        async with outer_region():
            try:
                async with inner_region():
                    await act("x")
            except TimeoutError:
                return "inner " + await act("y")
        return "nothing"

    for inner in ("scope", "asyncio"):
        h = run(both, inner)
        turn = h.start()
        turn = h.activate(fire(turn.commands[1]))
        assert [command.kind for command in turn.commands] == ["cancel_activity", "schedule_activity"]
        h.activate(resolve(turn.commands[1], "y"))
        assert h.result == "inner y"


def test_m6_asyncio_shield_keeps_what_a_task_cancellation_would_take(run: Start) -> None:
    @workflow
    async def keeping() -> list[str]:
        inner = asyncio.create_task(work("x"))

        async def outer() -> str:
            return await asyncio.shield(inner)

        task = asyncio.create_task(outer())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return ["cancelled", await inner]
        return []

    h = run(keeping)
    turn = h.start()
    assert [command.kind for command in turn.commands] == ["schedule_activity"]
    h.activate(resolve(turn.commands[0], "kept"))
    assert h.result == ["cancelled", "kept"]


def test_m6_a_task_that_is_cancelled_behind_a_shield_hears_of_it_afterwards(run: Start) -> None:
    @workflow
    async def later() -> list[str]:
        seen: list[str] = []

        async def body() -> None:
            async with shielded():
                seen.append(await act("x"))
            try:
                await sleep(5)
            except asyncio.CancelledError:
                seen.append("cancelled")

        task = asyncio.create_task(body())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await task
        return seen

    h = run(later)
    turn = h.start()
    assert told(turn) == ['schedule_activity#0 act ["x"] @/t0']
    h.activate(resolve(turn.commands[0], "v"))
    assert h.result == ["v", "cancelled"]


def test_m6_a_group_around_an_activity_that_is_waited_for_ends_with_it(run: Start) -> None:
    @workflow
    async def grouped() -> str:
        results: list[str] = []

        async def slow() -> None:
            results.append(await waits("x"))

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(slow())
        except asyncio.CancelledError:
            return f"raised, {results[0]}"
        return "went on"

    h = run(grouped)
    slow = asked(h.start())[0]
    assert told(h.activate(cancel())) == ["cancel_activity#0 @/t0"]
    h.activate(resolve(slow, "made it"))
    assert h.result == "raised, made it"


def test_m6_a_race_in_a_group_in_a_scope_is_cancelled_as_one(run: Start) -> None:
    @workflow
    async def deep() -> str:
        async def contest() -> Any:
            return await race(work("a"), perdure.wait_until(lambda: False), sleep(9))

        async with scope() as region, asyncio.TaskGroup() as group:
            group.create_task(contest())
            await receive("stop")
            region.cancel()
        return "left"

    h = run(deep)
    h.start()
    turn = h.activate(signal("stop"))
    assert sorted(command.kind for command in turn.commands) == ["cancel_activity", "cancel_timer", "complete"]
    assert h.result == "left"
