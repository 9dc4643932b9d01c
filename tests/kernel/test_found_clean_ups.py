"""K15, M6: a cancelled run lets asyncio's own clean-up end, whatever stands between it and the task that waits."""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from perdure import activity, shielded, workflow
from perdure.testing import Harness, cancel, resolve

Waits = Coroutine[Any, Any, None]


@activity
async def act(name: str) -> str: ...


async def group() -> None:
    """Its child goes on under a shield, so that the group waits although it was interrupted."""

    async def child() -> None:
        async with shielded():
            await act("child")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(child())


async def condition() -> None:
    """Somebody else has the lock, under a shield, so that the interrupted wait cannot have it back at once."""
    lock = asyncio.Condition()

    async def holder() -> None:
        async with shielded(), lock:
            await act("holder")

    async with lock:
        holding = asyncio.create_task(holder())
        await lock.wait()
    await holding


class Wrapped:
    def __init__(self, waits: Waits) -> None:
        self._waits = waits

    def __await__(self) -> Generator[Any, None, None]:
        return self._waits.__await__()


class Delegating(Wrapped):
    def __await__(self) -> Generator[Any, None, None]:
        return (yield from super().__await__())


@types.coroutine
def old_style(waits: Waits) -> Generator[Any, None, None]:
    return (yield from waits.__await__())


async def generator(waits: Waits) -> AsyncGenerator[int, None]:
    await waits
    yield 1


async def iterated(waits: Waits) -> None:
    async for _ in generator(waits):
        pass


async def nexted(waits: Waits) -> None:
    await anext(generator(waits), None)


async def sent(waits: Waits) -> None:
    await generator(waits).asend(None)


async def closed(waits: Waits) -> None:
    async def cleaning() -> AsyncGenerator[int, None]:
        try:
            yield 1
        finally:
            await waits

    one = cleaning()
    await anext(one)
    await one.aclose()


@asynccontextmanager
async def managed(waits: Waits) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await waits


async def left(waits: Waits) -> None:
    async with managed(waits):
        pass


async def left_with_an_error(waits: Waits) -> None:
    async with managed(waits):
        raise ValueError


async def limited(waits: Waits) -> None:
    await asyncio.wait_for(waits, 50)


BETWEEN: dict[str, Callable[[Waits], Awaitable[None]]] = {
    "nothing": lambda waits: waits,
    "an awaitable of its own": Wrapped,
    "an awaitable that delegates": Delegating,
    "a coroutine of the old style": old_style,
    "an asynchronous generator": iterated,
    "anext with a default": nexted,
    "asend": sent,
    "aclose": closed,
    "a context manager that is left": left,
    "a context manager that is left with an error": left_with_an_error,
    "wait_for": limited,
}


@pytest.mark.parametrize("between", BETWEEN.values(), ids=BETWEEN)
@pytest.mark.parametrize("waits", [group, condition])
def test_m6_k15_a_cancelled_clean_up_of_asyncio_is_interrupted_once_and_then_ends(
    waits: Callable[[], Waits], between: Callable[[Waits], Awaitable[None]]
) -> None:
    @workflow
    async def run() -> None:
        await between(waits())

    h = Harness(run)
    [asked] = [one for one in h.start().commands if one.kind == "schedule_activity"]
    h.activate(cancel("enough"))
    assert (h.status, [wait.what for wait in h.waiting()][1:]) == ("running", ["activity `act`"])
    h.activate(resolve(asked, "done"))
    assert h.status == "cancelled"
    assert h.replay().status == "cancelled"
