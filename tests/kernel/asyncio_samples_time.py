"""Sample workflows for asyncio's time-outs, timers, callbacks, contexts and generators (K15).

A part of `asyncio_samples`, with the same promise.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from perdure import shielded, workflow
from tests.kernel.asyncio_samples import act, chain, note

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


@workflow
async def wait_for_a_coroutine() -> list[str]:
    seen: list[str] = []

    async def branch(name: str) -> None:
        try:
            seen.append(f"got {await asyncio.wait_for(chain(seen, name), 5)}")
        except TimeoutError:
            seen.append(f"late {name}")
        await note(seen, f"after {name}")

    await asyncio.gather(branch("a"), branch("b"))
    return seen


@workflow
async def wait_for_a_future() -> list[str]:
    seen: list[str] = []

    async def branch(name: str) -> None:
        future = act(name)
        try:
            seen.append(f"got {await asyncio.wait_for(future, 5)}")
        except TimeoutError:
            seen.append(f"late {name} {future.cancelled()}")

    await asyncio.gather(branch("a"), branch("b"))
    return [*seen, await act("end")]


@workflow
async def wait_for_a_task() -> list[str]:
    seen: list[str] = []
    task = asyncio.create_task(chain(seen, "t"))
    try:
        seen.append(await asyncio.wait_for(task, timeout=5))
    except TimeoutError:
        seen.append(f"late {task.cancelled()}")
    made = asyncio.create_task(chain(seen, "u"))
    return [*seen, await asyncio.wait_for(made, None)]


@workflow
async def wait_for_nested() -> list[str]:
    seen: list[str] = []

    async def inner() -> str:
        try:
            return await asyncio.wait_for(chain(seen, "a"), 5)
        except TimeoutError:
            seen.append("inner")
            return await note(seen, "instead")

    try:
        await asyncio.wait_for(inner(), 7)
    except TimeoutError:
        seen.append("outer")
    return [*seen, await act("end")]


@workflow
async def wait_for_no_time_at_all() -> list[str]:
    seen: list[str] = []
    task = asyncio.create_task(chain(seen, "t"))
    for awaitable in (chain(seen, "never"), act("future"), task):
        try:
            seen.append(await asyncio.wait_for(awaitable, 0))
        except TimeoutError:
            seen.append("late")
    return [*seen, await asyncio.create_task(chain(seen, "u"))]


@workflow
async def wait_for_what_swallows_its_end() -> list[str]:
    seen: list[str] = []

    async def stubborn() -> str:
        try:
            return await note(seen, "a")
        except asyncio.CancelledError:
            return "instead"

    async def branch() -> None:
        seen.append(f"got {await asyncio.wait_for(stubborn(), 5)}")
        await note(seen, "after")

    task = asyncio.create_task(branch())
    await act("first")
    task.cancel()
    await asyncio.wait([task])
    return [*seen, str(task.cancelled()), await asyncio.wait_for(stubborn(), 5)]


@workflow
async def wait_for_what_tidies_up() -> list[str]:
    seen: list[str] = []

    async def tidy(name: str) -> str:
        try:
            return await note(seen, name)
        finally:
            async with shielded():
                await note(seen, f"undo {name}")

    try:
        seen.append(await asyncio.wait_for(tidy("a"), 5))
    except TimeoutError:
        seen.append("late")
    return [*seen, await asyncio.wait_for(tidy("b"), 5)]


@workflow
async def wait_for_keeps_the_task() -> list[str]:
    seen: list[str] = []
    outer = asyncio.current_task()

    async def inner() -> str:
        VARIABLE.set("set within")
        seen.append(f"{asyncio.current_task() is outer} {len(asyncio.all_tasks())}")
        child = asyncio.create_task(chain(seen, "child"))
        return await child

    await asyncio.wait_for(inner(), 5)
    return [*seen, VARIABLE.get(), await asyncio.create_task(chain(seen, "next"))]


@workflow
async def timeout_of_a_block() -> list[str]:
    seen: list[str] = []

    async def branch(name: str, seconds: float | None) -> None:
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                await chain(seen, name)
        except TimeoutError:
            seen.append(f"late {name} {limit.expired()}")
        await note(seen, f"after {name}")

    await asyncio.gather(branch("a", 5), branch("b", 0.1), branch("c", None), branch("d", 0))
    return seen


@workflow
async def timeout_at_and_rescheduled() -> list[str]:
    seen: list[str] = []
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout_at(loop.time() + 5) as limit:
            await note(seen, "a")
            limit.reschedule(loop.time() + 3.3)
            await note(seen, "b")
            limit.reschedule(None)
            await note(seen, "c")
            seen.append(str(limit.when()))
            limit.reschedule(loop.time() - 1)
            await note(seen, "d")
    except TimeoutError:
        seen.append("late")
    return [*seen, str(loop.time()), await act("end")]


@workflow
async def timeouts_within_timeouts() -> list[str]:
    seen: list[str] = []
    try:
        async with asyncio.timeout(5):
            try:
                async with asyncio.timeout(5):
                    await chain(seen, "a")
            except TimeoutError:
                seen.append("inner")
            async with asyncio.TaskGroup() as group:
                group.create_task(chain(seen, "b"))
                group.create_task(chain(seen, "c"))
    except TimeoutError:
        seen.append("outer")
    return [*seen, await act("end")]


@workflow
async def sleep_without_time() -> list[str]:
    seen: list[str] = []

    async def spinner(name: str, times: int) -> None:
        for number in range(times):
            seen.append(f"{name}{number}")
            await asyncio.sleep(0)
        await note(seen, name)

    await asyncio.gather(spinner("a", 3), spinner("b", 1), chain(seen, "c"), spinner("d", 2))
    return seen


@workflow
async def sleep_for_a_time() -> list[str]:
    seen: list[str] = []

    async def sleeper(name: str, seconds: float) -> None:
        seen.append(await asyncio.sleep(seconds, f"slept {name}"))
        await note(seen, name)

    sleeping = asyncio.create_task(sleeper("long", 3600))
    await asyncio.gather(sleeper("a", 0.1), sleeper("b", 2), sleeper("c", -1), sleeper("d", 2))
    sleeping.cancel()
    await asyncio.wait([sleeping])
    return seen


@workflow
async def callbacks() -> list[str]:
    seen: list[str] = []
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def later(name: str) -> None:
        seen.append(f"{name} {VARIABLE.get()}")
        act(name)

    def made(name: str) -> None:
        task = asyncio.ensure_future(chain(seen, name))
        task.add_done_callback(lambda task: done.set_result(task.cancelled()))

    async def branch() -> None:
        VARIABLE.set("branch")
        loop.call_soon(later, "soon from the branch")
        loop.call_later(2, later, "later from the branch")
        loop.call_soon(later, "without a context", context=contextvars.Context())
        await note(seen, "branch")

    loop.call_later(3, made, "made")
    loop.call_at(loop.time() + 1, later, "at")
    loop.call_later(4, later, "never").cancel()
    loop.call_soon(later, "never").cancel()
    loop.call_soon(later, "soon")
    loop.call_later(0, later, "at once", context=contextvars.Context())
    await asyncio.gather(branch(), done)
    return seen


@workflow
async def tasks_and_their_names() -> list[str]:
    seen: list[str] = []

    async def branch() -> str:
        task = asyncio.current_task()
        assert task is not None
        await act(task.get_name())
        task.set_name("renamed")
        return task.get_name()

    tasks = [asyncio.create_task(branch(), name=name) for name in (None, "named", None)]
    seen += sorted(task.get_name() for task in asyncio.all_tasks())
    seen += [task.get_name() for task in asyncio.all_tasks()]
    seen += await asyncio.gather(*tasks)
    return [*seen, *(task.get_name() for task in asyncio.all_tasks())]


@workflow
async def contexts_of_tasks() -> list[str]:
    seen: list[str] = []

    async def branch(name: str) -> str:
        before = VARIABLE.get()
        VARIABLE.set(name)
        await act(name)
        return f"{before} {VARIABLE.get()}"

    VARIABLE.set("root")
    shared = contextvars.copy_context()
    seen += await asyncio.gather(branch("a"), branch("b"))
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(branch(name), context=shared) for name in "cd"]
    seen += await asyncio.gather(*tasks, asyncio.create_task(branch("e")))
    return [*seen, VARIABLE.get(), shared[VARIABLE]]


async def numbers(seen: list[str], name: str) -> AsyncGenerator[str, None]:
    try:
        for number in range(3):
            yield await act(f"{name}{number}")
    finally:
        seen.append(f"closed {name}")


@workflow
async def generators_closed() -> list[str]:
    seen: list[str] = []
    async with aclosing(numbers(seen, "a")) as generator:
        async for value in generator:
            seen.append(value)
            break
    left = numbers(seen, "b")
    async for value in left:
        seen.append(value)
        break
    seen += [value async for value in numbers(seen, "c")]
    await left.aclose()
    return seen


@workflow
async def generators_left() -> list[str]:
    seen: list[str] = []
    for number in range(3):
        async for value in numbers(seen, f"left{number}"):
            seen.append(value)
            break
        await act(f"next{number}")
    return seen


SAMPLES: tuple[Any, ...] = (
    wait_for_a_coroutine,
    wait_for_a_future,
    wait_for_a_task,
    wait_for_nested,
    wait_for_no_time_at_all,
    wait_for_what_swallows_its_end,
    wait_for_what_tidies_up,
    wait_for_keeps_the_task,
    timeout_of_a_block,
    timeout_at_and_rescheduled,
    timeouts_within_timeouts,
    sleep_without_time,
    sleep_for_a_time,
    callbacks,
    tasks_and_their_names,
    contexts_of_tasks,
    generators_closed,
    generators_left,
)
