"""The fixture `engine`: an engine in memory on virtual time, in tests that this plugin runs or another one does."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure import activity, now, receive, sleep, workflow
from perdure.errors import UsageError
from perdure.testing import Deadlock, VirtualClock, run_virtual

DAY = timedelta(days=1)
Opened = Callable[..., Any]


@activity
async def slowly(text: str) -> str:
    await asyncio.sleep(5)
    return text.upper()


@activity
def thread_name(text: str) -> str:
    return f"{text} in {threading.current_thread().name}"


@workflow
async def month() -> list[str]:
    said = [await slowly("a"), await thread_name("b")]
    began = now()
    for _ in range(30):
        await sleep("1d")
    return [*said, str(now() - began)]


@workflow
async def approval() -> str:
    return await receive("approve", str)


@workflow
async def reminded() -> str:
    return await receive("approve", str, timeout="30d", default="nobody came")


async def test_thirty_days_of_sleeping_pass(engine: Opened, virtual_clock: VirtualClock) -> None:
    before = virtual_clock.now
    async with engine(workflows=[month], activities=[slowly, thread_name]) as e:
        handle = await e.start(month, id="m-1")
        assert await handle.result() == ["A", "b in MainThread", "30 days, 0:00:00"]
    assert timedelta(days=30, seconds=5) <= virtual_clock.now - before < timedelta(days=30, seconds=6)


async def test_a_thousand_runs_sleep_through_a_month_together(engine: Opened, virtual_clock: VirtualClock) -> None:
    before = virtual_clock.now
    async with engine(workflows=[reminded]) as e:
        handles = [await e.start(reminded, id=f"r-{number}") for number in range(1000)]
        assert {await handle.result() for handle in handles} == {"nobody came"}
    assert 30 * DAY <= virtual_clock.now - before < 31 * DAY


async def test_a_test_lets_time_pass_by_sleeping(engine: Opened) -> None:
    async with engine(workflows=[reminded]) as e:
        answered, forgotten = await e.start(reminded, id="a"), await e.start(reminded, id="b")
        await asyncio.sleep(29 * 86_400)
        await answered.signal("approve", "yes")
        await asyncio.sleep(2 * 86_400)
        assert [(await handle.describe()).status for handle in (answered, forgotten)] == ["completed"] * 2
        assert (await answered.result(), await forgotten.result()) == ("yes", "nobody came")


async def test_the_wall_clock_starts_where_the_test_says(engine: Opened) -> None:
    start = datetime(2024, 2, 28, 12, tzinfo=UTC)

    @workflow
    async def tomorrow() -> str:
        await sleep("1d")
        return str(now())

    async with engine(workflows=[tomorrow], start=start) as e:
        handle = await e.start(tomorrow, id="t-1")
        assert (await handle.describe()).started == start
        assert await handle.result() == "2024-02-29 12:00:00+00:00"


async def test_a_time_limit_of_a_test_is_virtual_too(engine: Opened) -> None:
    async with engine(workflows=[approval]) as e:
        handle = await e.start(approval, id="a-1")
        with pytest.raises(TimeoutError):
            await handle.result(timeout=365 * 86_400)


async def test_waiting_for_what_nobody_sends_is_a_deadlock_that_says_what_the_runs_wait_for(engine: Opened) -> None:
    async def wait() -> None:
        async with engine(workflows=[approval]) as e:
            await (await e.start(approval, id="a-1")).result()

    with pytest.raises(Deadlock) as caught:
        await wait()
    assert re.search(
        r"\n  run a-1 \(approval\) waits for .*`approve` at .*test_engine_fixture.py:\d+\n", str(caught.value)
    )


async def test_waiting_for_a_run_that_is_blocked_is_a_deadlock_that_says_why(engine: Opened) -> None:
    broken = True

    @workflow
    async def changed() -> str:
        await sleep("1d")
        return str(time.monotonic()) if broken else "mended"

    async def wait() -> None:
        async with engine(workflows=[changed]) as e:
            await (await e.start(changed, id="c-1")).result()

    with pytest.raises(Deadlock) as caught:
        await wait()
    assert re.search(r"\n  run c-1 \(changed\) is blocked: .*time\.monotonic", str(caught.value))
    async with engine(workflows=[changed]) as e:
        handle = await e.start(changed, id="c-2")
        await asyncio.sleep(3 * 86_400)
        assert (await handle.describe()).blocked is not None
        broken = False
        assert await handle.result() == "mended", "it is tried again (K12)"


async def test_two_engines_share_a_store_and_the_time(engine: Opened) -> None:
    async with engine(url="memory://shared", workflows=[reminded], start=datetime(2026, 5, 1, tzinfo=UTC)) as one:
        handle = await one.start(reminded, id="r-1")
        await asyncio.sleep(86_400)
        async with engine(url="memory://shared", workflows=[reminded]) as two:
            other = await two.start(reminded, id="r-2")
            assert other.run_id != handle.run_id
            assert await two.handle("r-1").result() == "nobody came"
            assert await other.result() == "nobody came"


async def test_a_def_activity_in_a_thread_is_waited_for(engine: Opened, virtual_clock: VirtualClock) -> None:
    loop = asyncio.get_running_loop()

    @activity
    def in_thread() -> str:
        for _ in range(100):
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()
        return f"b in {threading.current_thread().name}"

    @workflow
    async def threaded() -> str:
        return await in_thread()

    before = virtual_clock.now
    async with engine(workflows=[threaded], activities=[in_thread], threads=True) as e:
        said = await (await e.start(threaded, id="t-1")).result(timeout=86_400)
    assert said.startswith("b in ")
    assert said != "b in MainThread"
    assert virtual_clock.now - before < timedelta(minutes=1)


def test_a_deadlock_tells_of_runs_too_where_the_engine_was_opened_by_a_task_that_has_ended(engine: Opened) -> None:
    """So do async fixtures of pytest-asyncio."""

    async def main() -> None:
        opened = engine(workflows=[approval])
        e = await asyncio.create_task(opened.__aenter__())
        await (await e.start(approval, id="a-1")).result()

    with pytest.raises(Deadlock, match=r"run a-1 \(approval\) waits for"):
        asyncio.run(main())


def test_an_engine_on_virtual_time_needs_an_event_loop_of_asyncios(engine: Opened) -> None:
    with pytest.raises(UsageError, match="there is none"):
        engine(workflows=[approval]).__aenter__().send(None)


def test_the_fixture_serves_a_loop_of_the_tests_own(engine: Opened) -> None:
    async def main() -> list[str]:
        async with engine(workflows=[month], activities=[slowly, thread_name]) as e:
            return await (await e.start(month, id="m-1")).result()

    assert run_virtual(main()) == asyncio.run(main())
