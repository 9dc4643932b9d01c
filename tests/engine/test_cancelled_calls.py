"""Who is cancelled while a call of a handle is being written has made it, or has not: its run goes on either way (E1).

A request of a web server that is given up is such a caller. On a file, where what is asked for is written by a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from perdure import (
    Client,
    Engine,
    RunTerminated,
    activity,
    activity_info,
    complete_later,
    promise,
    receive,
    update,
    wait_until,
    workflow,
)

PATIENCE_SECONDS = 3
TOKENS: list[str] = []


@workflow
async def doubled(number: int) -> int:
    return number * 2


@workflow
async def hears() -> int:
    return await receive("number", int)


@workflow
async def promised() -> int:
    return await promise("answer", int, key="the key")


@activity
async def given() -> int:
    TOKENS.append(activity_info().token)
    return complete_later()


@workflow
async def completed() -> int:
    return await given()


@workflow
class Updated:
    def __init__(self) -> None:
        self.number = 0

    async def run(self) -> int:
        await wait_until(lambda: self.number)
        return self.number

    @update
    def set(self, number: int) -> None:
        self.number = number


WORKFLOWS: list[Any] = [doubled, hears, promised, completed, Updated]


def on_a_file(tmp_path: Path, scene: Callable[[Engine], Coroutine[Any, Any, None]]) -> None:
    """Play a scene with an engine that nobody else writes beside, and that has nothing to look for by itself."""

    async def play() -> None:
        async with Engine(f"sqlite:///{tmp_path}/a.db", workflows=WORKFLOWS, activities=[given]) as engine:
            await engine.run(doubled, 0)
            await scene(engine)

    asyncio.run(play())


async def given_up(call: Coroutine[Any, Any, Any], answers: int = 0) -> None:
    """Make a call, and cancel it when it waits for the store's answer after so many others."""
    caller = asyncio.create_task(call)
    awaited: list[Any] = []
    while not caller.done() and len(awaited) <= answers:
        await asyncio.sleep(0)
        future = _awaited_by(call)
        if future is not None and all(future is not known for known in awaited):
            awaited.append(future)
    caller.cancel()
    with suppress(asyncio.CancelledError):
        await caller


def _awaited_by(call: Any) -> Any:
    """What a coroutine waits for in the end, through the coroutines that it awaits."""
    while call is not None and hasattr(call, "cr_await"):
        call = call.cr_await
    return call


async def quiet() -> None:
    """Wait until the worker has looked at everything."""
    waiter = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.1, waiter.set_result, None)
    await waiter


def test_a_run_that_was_started_goes_on(tmp_path: Path) -> None:
    async def scene(engine: Engine) -> None:
        await quiet()
        await given_up(engine.start(doubled, 1, id="r"))
        await quiet()
        assert await engine.handle("r").result(timeout=PATIENCE_SECONDS) == 2

    on_a_file(tmp_path, scene)


def test_a_signal_that_was_accepted_is_heard(tmp_path: Path) -> None:
    async def scene(engine: Engine) -> None:
        handle = await engine.start(hears, id="r")
        await quiet()
        await given_up(handle.signal("number", 7))
        assert await handle.result(timeout=PATIENCE_SECONDS) == 7

    on_a_file(tmp_path, scene)


def test_an_update_that_was_accepted_is_done(tmp_path: Path) -> None:
    async def scene(engine: Engine) -> None:
        handle = await engine.start(Updated, id="r")
        await quiet()
        await given_up(handle.update("set", 7))
        assert await handle.result(timeout=PATIENCE_SECONDS) == 7

    on_a_file(tmp_path, scene)


def test_a_promise_that_was_settled_is_kept(tmp_path: Path) -> None:
    async def scene(engine: Engine) -> None:
        handle = await engine.start(promised, id="r")
        await quiet()
        await given_up(engine.resolve_promise("the key", 7))
        assert await handle.result(timeout=PATIENCE_SECONDS) == 7

    on_a_file(tmp_path, scene)


@pytest.mark.parametrize("answers", [0, 1])
def test_an_activity_that_was_completed_from_outside_is_done(tmp_path: Path, answers: int) -> None:
    """While it was looked up, or while it was reported; whoever asked asks again."""

    async def scene(engine: Engine) -> None:
        handle = await engine.start(completed, id="r")
        await quiet()
        token = TOKENS.pop()
        await given_up(engine.complete_activity(token, 7), answers)
        await quiet()
        await engine.complete_activity(token, 7)
        assert await handle.result(timeout=PATIENCE_SECONDS) == 7

    on_a_file(tmp_path, scene)


def test_whoever_waits_for_a_run_that_was_terminated_is_told(tmp_path: Path) -> None:
    """By a client alone: nobody else writes, and makes it look."""

    async def scene() -> None:
        async with Client(f"sqlite:///{tmp_path}/a.db", workflows=[hears]) as client:
            handle = await client.start(hears, id="r")
            waiting = asyncio.create_task(handle.result(timeout=PATIENCE_SECONDS))
            await quiet()
            await given_up(handle.terminate())
            with pytest.raises(RunTerminated):
                await waiting

    asyncio.run(scene())


def test_whoever_waits_for_a_run_that_was_replaced_is_told(tmp_path: Path) -> None:
    """E2. By a client alone, which is not cancelled here."""

    async def scene() -> None:
        async with Client(f"sqlite:///{tmp_path}/a.db", workflows=[hears]) as client:
            handle = await client.start(hears, id="r")
            waiting = asyncio.create_task(client.handle("r", handle.run_id).result(timeout=PATIENCE_SECONDS))
            await quiet()
            await client.start(hears, id="r", id_policy="terminate")
            with pytest.raises(RunTerminated):
                await waiting

    asyncio.run(scene())
