"""Shadows: every turn is replayed as soon as it is durable; what comes out differently is told (K11, K12)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from perdure import activity, choose, receive, sleep, workflow
from perdure.app import Engine
from perdure.define.registry import Registry
from perdure.engine.parts import Listener
from perdure.engine.settings import Settings
from perdure.engine.shadow import Recorded, Shadows, rehearse
from perdure.engine.turns import Prepared
from perdure.errors import NondeterminismError, PerdureError
from perdure.stores.records import Closing, Run
from perdure.testing import VirtualClock

Open = Callable[..., Any]
Told = list[tuple[str, PerdureError]]
memory: list[str] = []


@activity
async def echo(text: str) -> str:
    return text


@workflow
async def steady(amount: int) -> str:
    said = ""
    for number in range(amount):
        said += await echo(str(number))
        await sleep(60)
    return said


@workflow
async def patient() -> str:
    first = await receive("one", str)
    return first + await receive("two", str)


@workflow
async def choosing() -> str:
    return await choose(lambda: echo("a"), lambda: echo("b"))


@workflow
async def forgetful() -> None:
    memory.append("once")
    await echo(f"{len(memory)}")
    await receive("on", str)


@workflow
async def late() -> None:
    await receive("one", str)
    memory.append("late")
    await echo(f"{len(memory)}")
    await receive("two", str)
    await echo("end")


WORKFLOWS = [steady, patient, choosing, forgetful, late]
REGISTRY = Registry(WORKFLOWS, [echo])


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    memory.clear()


class Late(Listener):
    """Tells shadows, which are made once there is a store."""

    shadows: Shadows

    def turn_committed(self, prepared: Prepared) -> None:
        self.shadows.turn_committed(prepared)

    def run_closed(self, number: int, closing: Closing) -> None:
        self.shadows.run_closed(number, closing)


@asynccontextmanager
async def shadowed(engine: Open, clock: VirtualClock, cache: int = 100) -> AsyncGenerator[tuple[Engine, Told, Shadows]]:
    """An engine whose turns are replayed at once, and what is told of them: the workflow id and the error."""
    found: Told = []
    listener = Late()
    async with engine(workflows=WORKFLOWS, activities=[echo], listener=listener) as made:
        settings = Settings(cache=cache)
        listener.shadows = Shadows(
            made.store, REGISTRY, settings, clock, lambda run, error: found.append((run.facts.workflow_id, error))
        )
        try:
            yield made, found, listener.shadows
        finally:
            await listener.shadows.settle()


async def test_runs_that_replay_are_not_told_of(engine: Open, virtual_clock: VirtualClock) -> None:
    async with shadowed(engine, virtual_clock) as (made, found, _):
        assert await made.run(steady, 4) == "0123"
        assert await made.run(choosing) == "a"
        handle = await made.start(patient, id="p")
        await handle.signal("one", "1")
        await handle.signal("two", "2")
        assert await handle.result() == "12"
        cancelled = await made.start(patient, id="c")
        await cancelled.cancel()
        ended = await made.start(patient, id="t")
        await ended.terminate()
        await asyncio.sleep(0)
    assert found == []


async def test_a_turn_that_comes_out_differently_is_told_once_and_the_run_goes_on(
    engine: Open, virtual_clock: VirtualClock
) -> None:
    async with shadowed(engine, virtual_clock) as (made, found, _):
        handle = await made.start(forgetful, id="f")
        await handle.signal("on", "")
        await handle.result()
    ((id, error),) = found
    assert id == "f"
    assert isinstance(error, NondeterminismError)
    assert '["1"]' in str(error)
    assert '["2"]' in str(error)


async def test_a_shadow_that_was_given_up_for_room_reads_what_it_has_missed(
    engine: Open, virtual_clock: VirtualClock
) -> None:
    async with shadowed(engine, virtual_clock, cache=1) as (made, found, shadows):
        first = await made.start(late, id="l")
        other = await made.start(patient, id="p")
        await other.signal("one", "1")
        await asyncio.sleep(0)
        await first.signal("one", "")
        await asyncio.sleep(1)
        await shadows.settle()
        await first.terminate()
    assert [id for id, _ in found] == ["l"]


@pytest.mark.parametrize(("workflow_", "replays"), [(steady, True), (choosing, True), (forgetful, False)])
async def test_a_whole_run_is_rehearsed_from_what_was_sent_to_another_process(
    engine: Open, virtual_clock: VirtualClock, workflow_: Any, replays: bool
) -> None:
    async with engine(workflows=WORKFLOWS, activities=[echo]) as made:
        handle = await made.start(workflow_, *([2] if workflow_ is steady else []), id="r")
        if workflow_ is forgetful:
            await handle.signal("on", "")
        await handle.result()
        run: Run = await made.store.get_run("r")
        turns = await made.store.list_turns(run.number)
    sent = msgspec.json.decode(msgspec.json.encode(Recorded(run, turns)), type=Recorded)
    error = rehearse(sent, REGISTRY, Settings(), virtual_clock)
    assert (error is None) is replays
    if error is not None:
        assert isinstance(error, NondeterminismError)
