"""Workers: what they own, hand over, lose and take over; runs that cannot go on; on virtual time (E3, E8, E10, K12)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from perdure import (
    InvalidValue,
    NondeterminismError,
    NotFound,
    RunFailed,
    RunTimedOut,
    activity,
    receive,
    sleep,
    workflow,
)
from perdure.app import Client

Opened = Callable[..., Any]
NAMES = (f"memory://workers-{number}" for number in itertools.count())


@activity
async def slowly(text: str) -> str:
    await asyncio.sleep(30)
    return text.upper()


@workflow
async def shout(text: str) -> str:
    return await slowly(text)


@workflow
async def collecting(count: int) -> list[int]:
    return [await receive("number", int) for _ in range(count)]


@workflow
async def napping(times: int) -> int:
    for _ in range(times):
        await sleep("1h")
    return times


async def test_evicted_runs_go_on_from_their_history(engine: Opened) -> None:
    """Rule E10."""

    async with engine(workflows=[collecting, napping], cache=0) as e:
        handles = [await e.start(collecting, 3) for _ in range(20)]
        naps = [await e.start(napping, 5) for _ in range(20)]
        for number in range(3):
            await asyncio.sleep(60)
            for handle in handles:
                await handle.signal("number", number)
        assert [await handle.result() for handle in handles] == [[0, 1, 2]] * 20
        assert [await nap.result() for nap in naps] == [5] * 20


async def test_a_worker_that_stops_hands_everything_over_at_once(engine: Opened) -> None:
    """Rule E3."""

    url = next(NAMES)
    async with engine(url=url, workflows=[shout, collecting], activities=[slowly]) as one:
        shouting = await one.start(shout, "a", id="s")
        waiting = await one.start(collecting, 1, id="c")
        await asyncio.sleep(1)
    async with engine(url=url, workflows=[shout, collecting], activities=[slowly]) as two:
        handle = two.handle(shouting.id)
        assert await handle.result(timeout=40) == "A"
        attempts = (await handle.describe()).attempts
        assert [attempt.outcome for attempt in attempts] == ["handed_over", "completed"]
        await two.handle(waiting.id).signal("number", 7)
        assert await two.handle(waiting.id).result(timeout=1) == [7]


async def test_two_workers_share_the_work_and_each_run_is_owned_by_one(engine: Opened) -> None:
    """Rule E3."""

    url = next(NAMES)
    async with engine(url=url, workflows=[napping]) as one, engine(url=url, workflows=[napping]) as two:
        handles = [await one.start(napping, 10) for _ in range(50)]
        handles += [await two.start(napping, 10) for _ in range(50)]
        assert [await one.handle(handle.id).result() for handle in handles] == [10] * 100
        histories = [await one.handle(handle.id).history() for handle in handles]
        assert [len(history) for history in histories] == [11] * 100


async def test_a_client_starts_and_signals_runs_of_a_worker_elsewhere(engine: Opened, virtual_clock: Any) -> None:
    url = next(NAMES)
    client = Client(url, workflows=[collecting], clock=virtual_clock, threads=False)
    async with engine(url=url, workflows=[collecting]), client:
        handle = await client.start(collecting, 2, id="c")
        await handle.signal("number", 1)
        await handle.signal("number", 2)
        assert await handle.result(timeout=5) == [1, 2]


async def test_an_activity_of_another_workers_queue_runs_there(engine: Opened) -> None:
    url = next(NAMES)

    @activity(queue="gpu")
    async def render(text: str) -> str: ...

    @workflow
    async def rendering(text: str) -> str:
        return await render(text)

    @activity(name="render", queue="gpu")
    async def really(text: str) -> str:
        return f"<{text}>"

    async with engine(url=url, workflows=[rendering]) as one:
        handle = await one.start(rendering, "a")
        await asyncio.sleep(60)
        (waiting,) = (await handle.describe()).activities
        assert (waiting.queue, waiting.worker) == ("gpu", None)
        async with engine(url=url, activities=[really], queues=["gpu"]):
            assert await handle.result(timeout=5) == "<a>"


async def test_a_run_that_breaks_is_blocked_holds_up_nobody_and_goes_on_once_mended(engine: Opened) -> None:
    """Rule K12."""

    broken = True

    @activity
    async def work(step: int) -> int:
        return step

    @workflow
    async def fragile() -> int:
        first = await work(1)
        await receive("go", bool)
        if broken:
            import time

            time.time()
        return first + await work(2)

    async with engine(workflows=[fragile, napping], activities=[work]) as e:
        handle = await e.start(fragile, id="f")
        await handle.signal("go", True)
        await asyncio.sleep(10)
        blocked = (await handle.describe()).blocked
        assert blocked is not None
        assert blocked.kind == "violation"
        assert "time.time" in blocked.reason
        assert await e.run(napping, 1) == 1
        broken = False
        assert await handle.result(timeout=3600) == 3
        assert (await handle.describe()).blocked is None


async def test_nondeterminism_blocks_with_both_sides_and_fails_where_it_was_asked_to(engine: Opened) -> None:
    """Rule K12."""

    url = next(NAMES)

    def version(name: str, seconds: int, on: Any) -> Any:
        @workflow(name=name, on_nondeterminism=on)
        async def waits() -> str:
            await sleep(seconds)
            await receive("go", bool)
            return name

        return waits

    first = [version("patient", 10, "block"), version("strict", 10, "fail")]
    async with engine(url=url, workflows=first) as one:
        handles = [await one.start(workflow, id=workflow.name) for workflow in first]
        await asyncio.sleep(60)
    second = [version("patient", 20, "block"), version("strict", 20, "fail")]
    async with engine(url=url, workflows=second) as two:
        for handle in handles:
            await two.handle(handle.id).signal("go", True)
        with pytest.raises(RunFailed) as caught:
            await two.handle("strict").result(timeout=5)
        assert caught.value.failure.type == NondeterminismError.__name__
        blocked = (await two.handle("patient").describe()).blocked
        assert blocked is not None
        assert blocked.kind == "nondeterminism"
        assert "10" in blocked.reason
        assert "20" in blocked.reason
    async with engine(url=url, workflows=first) as three:
        assert await three.handle("patient").result(timeout=5) == "patient", "a deploy is tried at once"


async def test_a_workflow_that_nobody_knows_blocks_its_run_until_a_worker_knows_it(
    engine: Opened, virtual_clock: Any
) -> None:
    """Rule K14."""

    url = next(NAMES)
    client = Client(url, clock=virtual_clock, threads=False)
    async with engine(url=url, workflows=[collecting]), client:
        handle = await client.start("napping", 1, id="n")
        await asyncio.sleep(10)
        blocked = (await handle.describe()).blocked
        assert blocked is not None
        assert blocked.kind == "unknown_workflow"
        assert "napping" in blocked.reason
        async with engine(url=url, workflows=[napping]):
            assert await handle.result(timeout=3700) == 1


async def test_what_goes_to_a_queue_of_others_need_not_be_known_here(engine: Opened) -> None:
    """Section 6: only what this engine has to know is refused at the call."""

    async with engine(workflows=[collecting]) as one:
        for named in (napping, "napping"):
            with pytest.raises(NotFound, match="unknown to this engine"):
                await one.start(named, 1)
        handle = await one.start(napping, 1, queue="theirs")
        assert (await handle.describe()).queue == "theirs"


async def test_an_activity_that_nobody_knows_blocks_its_run(engine: Opened) -> None:
    """Rule K14."""

    async with engine(workflows=[shout]) as e:
        handle = await e.start(shout, "a")
        await asyncio.sleep(1)
        blocked = (await handle.describe()).blocked
        assert blocked is not None
        assert blocked.kind == "violation"
        assert "slowly" in blocked.reason


async def test_a_blocked_run_says_since_when_however_often_it_was_tried_and_times_out_in_time(engine: Opened) -> None:
    """Rule K12: what a person reads is how long it has been so, not when it was tried last."""

    async with engine(workflows=[shout]) as e:
        handle = await e.start(shout, "a", timeout=1000)
        await asyncio.sleep(1)
        first = (await handle.describe()).blocked
        await asyncio.sleep(900)
        described = await handle.describe()
        assert first is not None
        assert described.blocked is not None
        assert described.blocked.tries > 5
        assert described.blocked.since == first.since
        with pytest.raises(RunTimedOut):
            await handle.result()
        closed = (await handle.describe()).closed
        assert closed is not None
        assert 1000 <= (closed - described.started).total_seconds() < 1001


async def test_input_that_cannot_be_decoded_blocks_that_run_only(engine: Opened, virtual_clock: Any) -> None:
    """Section 6."""

    url = next(NAMES)
    client = Client(url, clock=virtual_clock, threads=False)
    async with engine(url=url, workflows=[napping]) as e, client:
        with pytest.raises(InvalidValue):
            await e.start("napping", "many")
        handle = await client.start("napping", "many", id="n")
        await asyncio.sleep(1)
        blocked = (await handle.describe()).blocked
        assert blocked is not None
        assert blocked.kind == "undecodable"
        assert await e.run(napping, 1) == 1
