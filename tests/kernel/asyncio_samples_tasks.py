"""Sample workflows for shields, awaitables, cancelled tasks and sets of tasks (K15).

A part of `asyncio_samples`, with the same promise.
"""

# ruff: noqa: PERF401 (a comprehension would show no order)

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any

from perdure import workflow
from tests.kernel.asyncio_samples import act, chain, note


@workflow
async def shield_of_a_coroutine() -> list[str]:
    seen: list[str] = []

    async def outer(name: str) -> None:
        try:
            await asyncio.shield(chain(seen, name))
        finally:
            seen.append(f"out {name}")

    tasks = [asyncio.create_task(outer(name)) for name in "ab"]
    await act("first")
    tasks[0].cancel()
    await asyncio.wait(tasks)
    return [*seen, await act("end")]


@workflow
async def shield_of_a_future() -> list[str]:
    kept = act("kept")
    try:
        async with asyncio.timeout(5):
            await asyncio.shield(kept)
    except TimeoutError:
        return ["late", await kept]
    return ["in time", await kept]


class Both:
    """An awaitable that is no coroutine."""

    def __init__(self, *parts: Awaitable[str]) -> None:
        self.parts = parts

    def __await__(self) -> Generator[Any, Any, str]:
        values: list[str] = []
        for part in self.parts:
            values.append((yield from part.__await__()))
        return "".join(values)


@workflow
async def ensure_future_of_awaitables() -> list[str]:
    seen: list[str] = []
    one = asyncio.ensure_future(Both(act("a"), chain(seen, "b")))
    two = asyncio.ensure_future(chain(seen, "c"))
    future = act("d")
    seen.append(str(asyncio.ensure_future(future) is future))
    return [*seen, *await asyncio.gather(one, two, Both(act("e")))]


@workflow
async def cancel_in_the_order_of_units() -> list[str]:
    seen: list[str] = []
    tasks = [asyncio.create_task(chain(seen, name)) for name in "abcdefghijklm"]
    await act("first")
    for task in {tasks[index]: None for index in (12, 3, 10, 2, 11, 1)}:
        task.cancel("enough")
    for number, task in enumerate(tasks):
        try:
            await task
        except asyncio.CancelledError as error:
            seen.append(f"{number} {error.args} {task.cancelled()}")
    return seen


@workflow
async def cancel_and_uncancel() -> list[str]:
    seen: list[str] = []

    async def stubborn() -> str:
        task = asyncio.current_task()
        assert task is not None
        try:
            await note(seen, "a")
        except asyncio.CancelledError:
            seen.append(f"cancelling {task.cancelling()}, then {task.uncancel()}")
        return await note(seen, "b")

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    seen.append(f"{task.cancel()} {task.cancelling()}")
    await asyncio.wait([task])
    return [*seen, f"{task.cancel()} {task.cancelled()}"]


@workflow
async def cancel_before_the_first_step() -> list[str]:
    seen: list[str] = []
    tasks = [asyncio.create_task(chain(seen, name)) for name in "abc"]
    tasks[1].cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    return [*seen, *(one if isinstance(one, str) else type(one).__name__ for one in found)]


@workflow
async def sets_of_tasks() -> list[str]:
    seen: list[str] = []
    tasks = {asyncio.create_task(chain(seen, f"{number:02}"), name=str(number)) for number in range(40)}
    seen += [task.get_name() for task in tasks]
    for task in tasks:
        await task
    futures = {act(f"f{number}"): number for number in range(20)}
    for future in set(futures):
        seen.append(f"{futures[future]} {await future}")
    return seen


SAMPLES: tuple[Any, ...] = (
    shield_of_a_coroutine,
    shield_of_a_future,
    ensure_future_of_awaitables,
    cancel_in_the_order_of_units,
    cancel_and_uncancel,
    cancel_before_the_first_step,
    sets_of_tasks,
)
