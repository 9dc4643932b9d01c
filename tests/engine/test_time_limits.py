"""Time limits of runs: kept by every worker on the store, whatever queues and workflows it knows (E8, M7)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import ChildFailed, Client, RunTimedOut, activity, child, receive, sleep, workflow
from perdure.testing import VirtualClock

Opened = Callable[..., Any]
NAMES = itertools.count()


@activity
async def nothing() -> None:
    return None


@workflow
async def waits() -> None:
    await receive("never", str)


@workflow
async def stranger() -> None:
    """What no engine here is given."""


@workflow
async def raises_a_family() -> str:
    try:
        await child(stranger, id="kid", queue="far away", timeout="1h")
    except ChildFailed as failed:
        return failed.failure.type
    return "the child has ended"


@pytest.fixture(params=["memory", "sqlite"])
def url(request: Any, tmp_path: Path) -> str:
    if request.param == "memory":
        return f"memory://time-limits-{next(NAMES)}"
    return f"sqlite:///{tmp_path / 'a.db'}"


async def test_a_run_times_out_that_no_worker_serves(engine: Opened, url: str) -> None:
    """Its queue has no worker, and nobody knows its workflow; this one has started it."""
    async with engine(url=url, activities=[nothing]) as e:
        handle = await e.start("stranger", id="r", queue="far away", timeout="1h")
        unlimited = await e.start("stranger", id="u", queue="far away")
        began = asyncio.get_running_loop().time()
        with pytest.raises(RunTimedOut, match="longer than its time limit"):
            await handle.result()
        assert asyncio.get_running_loop().time() - began == pytest.approx(3600, abs=1)
        assert (await unlimited.describe()).status == "running"
        assert await e.store.verify() == []


async def test_a_run_times_out_that_another_process_has_started(
    engine: Opened, url: str, virtual_clock: VirtualClock
) -> None:
    """The worker hears of it by the store; whoever waits hears of its end."""
    client = Client(url, clock=virtual_clock, threads=False)
    async with engine(url=url, activities=[nothing]), client:
        await asyncio.sleep(1)
        handle = await client.start("stranger", id="r", queue="far away", timeout="1h")
        with pytest.raises(RunTimedOut):
            await handle.result(timeout="2h")


async def test_what_became_overdue_while_nobody_was_there_times_out_at_once(
    engine: Opened, url: str, virtual_clock: VirtualClock
) -> None:
    """However much of it there is."""
    async with Client(url, clock=virtual_clock, threads=False) as client:
        for number in range(250):
            await client.start("stranger", id=f"r-{number}", queue="far away", timeout="1h")
        await asyncio.sleep(7200)
        assert await client.count("status = 'running'") == 250
        async with engine(url=url, activities=[nothing]):
            await asyncio.sleep(1)
            assert await client.count("status = 'timed_out'") == 250
            assert await client.store.verify() == []


async def test_a_child_that_nobody_serves_times_out_and_its_parent_hears_of_it(engine: Opened, url: str) -> None:
    """M7."""
    async with engine(url=url, workflows=[raises_a_family]) as e:
        handle = await e.start(raises_a_family, id="p")
        assert await handle.result() == "TimedOut"
        assert (await e.handle("kid").describe()).status == "timed_out"


async def test_a_run_that_was_parked_times_out_after_its_worker_has_gone(engine: Opened, url: str) -> None:
    """It has taken turns, and waits; who is left does not know it."""
    async with engine(url=url, queues=["other"], activities=[nothing]) as left:
        async with engine(url=url, workflows=[waits]) as e:
            await e.start(waits, id="r", timeout="1h")
            await asyncio.sleep(60)
        with pytest.raises(RunTimedOut):
            await left.handle("r").result(timeout="2h")


async def test_a_run_that_is_served_times_out_as_before_and_once(engine: Opened, url: str) -> None:
    """Beside a worker that does not know it: either may end it."""
    async with engine(url=url, queues=["other"], activities=[nothing]), engine(url=url, workflows=[waits]) as e:
        handles = [await e.start(waits, id=f"r-{number}", timeout="1h") for number in range(20)]
        for handle in handles:
            with pytest.raises(RunTimedOut):
                await handle.result(timeout="2h")


async def test_a_run_that_works_has_its_turn_before_its_limit(engine: Opened) -> None:
    """What ends in time is not touched, and leaves no limit behind."""

    @workflow
    async def naps() -> str:
        await sleep("30m")
        return "rested"

    async with engine(workflows=[naps]) as e:
        assert await e.run(naps, timeout="1h") == "rested"
        assert await e.store.get_next_deadline() is None
