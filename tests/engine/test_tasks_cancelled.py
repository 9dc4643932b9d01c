"""Cancelling activities on the loop and in threads: asked, given their grace, abandoned (E4, M6)."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from perdure import activity, activity_info, heartbeat
from perdure.model import jobs
from perdure.testing.clock import VirtualClock
from tests.engine.performing import Stage, inline_places, pause, really, until, value_of, virtual


@activity
async def waits() -> str:
    await pause(1_000)
    return "done"


async def begun(stage: Stage, id: str) -> None:
    await until(lambda: id in stage.runner.running and stage.runner.running[id].begun)


def test_an_async_activity_is_cancelled_where_it_awaits() -> None:
    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, waits) as stage:
            id = await stage.schedule(waits)
            await pause(10)
            stage.runner.cancel(id)
            job, (attempt,) = await stage.answer(id)
            assert job == jobs.Cancelled(1)
            assert (attempt.outcome, stage.seconds()) == ("cancelled", 10)
            assert stage.runner.free == {"default": 100}

    virtual(main)


def test_a_cancellation_in_the_store_is_learned_of_with_a_heartbeat() -> None:
    """So that one in another process needs no other way."""

    @activity
    async def beats() -> None:
        while True:
            heartbeat()
            await pause(2)

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, beats) as stage:
            id = await stage.schedule(beats)
            await pause(9)
            await stage.cancel(id)
            job, _ = await stage.answer(id)
            assert (job, stage.seconds()) == (jobs.Cancelled(1), 10)

    virtual(main)


def test_an_activity_that_nobody_wants_any_more_stops_and_says_nothing() -> None:
    """Its task was taken away, as with cancellation="try": what it does is nobody's business."""
    ended: list[int] = []

    @activity
    async def beats() -> None:
        try:
            while True:
                heartbeat()
                await pause(2)
        finally:
            ended.append(1)

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, beats) as stage:
            id = await stage.schedule(beats)
            await pause(9)
            await stage.cancel(id, answer=False)
            await until(lambda: ended)
            assert not stage.answers[id].done()
            assert stage.runner.free == {"default": 100}

    virtual(main)


def test_one_that_has_not_begun_is_never_called() -> None:
    called: list[int] = []

    @activity
    async def work() -> None:
        called.append(1)

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, work) as stage:
            id = await stage.schedule(work)
            stage.runner.backlog.add("default")
            await stage.runner.claim()
            assert not stage.runner.running[id].begun
            stage.runner.cancel(id)
            assert (await stage.answer(id))[0] == jobs.Cancelled(1)
            await pause(1)
            assert (called, stage.runner.free) == ([], {"default": 100})

    virtual(main)


def test_inline_one_that_has_not_begun_is_never_called() -> None:
    called: list[int] = []

    @activity
    def work() -> None:
        called.append(1)

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, work, places=inline_places()) as stage:
            id = await stage.schedule(work)
            stage.runner.backlog.add("default")
            await stage.runner.claim()
            stage.runner.cancel(id)
            assert (await stage.answer(id))[0] == jobs.Cancelled(1)
            await pause(1)
            assert (called, stage.runner.free) == ([], {"default": 100})

    virtual(main)


@pytest.mark.parametrize("how", ["value", "failure"])
def test_one_that_ends_otherwise_within_its_grace_says_how_and_is_not_retried(how: str) -> None:
    """With cancellation="wait", the workflow gets to know."""

    @activity
    async def finishes() -> str:
        try:
            await pause(1_000)
        except asyncio.CancelledError:
            await pause(4)
            if how == "failure":
                raise ConnectionError("cannot undo") from None
        return "undone"

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, finishes) as stage:
            id = await stage.schedule(finishes)
            await begun(stage, id)
            await stage.cancel(id)
            stage.runner.cancel(id)
            job, _ = await stage.answer(id)
            if how == "value":
                assert value_of(job) == "undone"
            else:
                assert isinstance(job, jobs.Failed)
                assert str(job.failure) == "ConnectionError: cannot undo"
            assert (stage.retries, stage.seconds()) == ([], pytest.approx(4, abs=0.1))

    virtual(main)


def test_an_async_activity_that_swallows_its_cancellation_is_abandoned_and_its_slot_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """E4."""
    cancels: list[float] = []

    @activity
    async def stubborn() -> None:
        loop = asyncio.get_running_loop()
        while len(cancels) < 2 or loop.time() < 100:
            try:
                await pause(100)
            except asyncio.CancelledError:
                cancels.append(round(loop.time(), 3))

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, stubborn, queues={"default": 2}) as stage:
            id = await stage.schedule(stubborn)
            await pause(1)
            stage.runner.cancel(id)
            assert (await stage.answer(id))[0] == jobs.Cancelled(1)
            assert (stage.seconds(), cancels[0]) == (6, 1)
            assert (stage.runner.free, len(stage.runner.abandoned)) == ({"default": 1}, 1)
            await pause(200)
            assert cancels == [1, 6]  # and once more when it was abandoned
            assert (stage.runner.free, len(stage.runner.abandoned)) == ({"default": 2}, 0)

    with caplog.at_level(logging.INFO):
        virtual(main)
    warning, later = [record.getMessage() for record in caplog.records if "`stubborn`" in record.getMessage()]
    assert warning == (
        "attempt 1 of activity `stubborn` of run order-1 was asked to stop (cancel) and did not within 5 s: "
        "it is abandoned, and its task goes on on the event loop; "
        "its slot of queue `default` stays taken until it ends, and so do 1 in all"
    )
    assert later == "attempt 1 of activity `stubborn` of run order-1 has ended after all; its slot is free again"


# --- threads ------------------------------------------------------------------------------------


@pytest.mark.parametrize("learns", ["heartbeat", "info"])
def test_a_thread_learns_of_its_cancellation_from_its_heartbeat_and_from_its_info(learns: str) -> None:
    """E4."""
    started = threading.Event()
    asked = threading.Event()

    @activity
    def polite() -> str:
        started.set()
        assert asked.wait(30)
        if learns == "heartbeat":
            with pytest.raises(asyncio.CancelledError, match="activity `polite` was asked to stop"):
                heartbeat()
        assert activity_info().cancelled
        raise asyncio.CancelledError

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, polite, hold=True) as stage:
            id = await stage.schedule(polite)
            await really(started.is_set)
            assert not stage.runner.running[id].cancelled
            stage.runner.cancel(id)
            asked.set()
            assert (await stage.answer(id))[0] == jobs.Cancelled(1)

    virtual(main)


def test_a_thread_that_ignores_its_cancellation_is_abandoned_its_slot_counted_and_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """E4."""
    gate = threading.Event()

    @activity
    def deaf(wait: bool) -> str:
        if wait:
            gate.wait(30)
        return "done"

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, deaf, queues={"default": 2}) as stage:
            id = await stage.schedule(deaf, True)
            await begun(stage, id)
            stage.runner.cancel(id)
            assert (await stage.answer(id))[0] == jobs.Cancelled(1)
            assert stage.seconds() >= stage.settings.grace_seconds
            assert (stage.runner.free, stage.runner.running) == ({"default": 1}, {})
            with clock.hold():
                assert value_of(await stage.perform(deaf, False)) == "done"  # in another thread
            gate.set()
            await really(lambda: stage.runner.free == {"default": 2})
            assert stage.runner.abandoned == set()

    virtual(main)
    assert "activity `deaf` of run order-1 was asked to stop (cancel) and did not within 5 s" in caplog.text
    assert "its thread goes on in the background; its slot of queue `default` stays taken" in caplog.text


def test_threads_that_hang_use_up_the_queue_and_no_more() -> None:
    """A worker never does more at once than its queues allow, and goes on when they end."""
    gate = threading.Event()
    begun: list[int] = []

    @activity
    def hangs() -> None:
        begun.append(1)
        gate.wait(30)

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, hangs, queues={"default": 2}) as stage:
            ids = [await stage.schedule(hangs, timeout=5) for _ in range(6)]
            await pause(500)
            assert (len(begun), stage.runner.free) == (2, {"default": 0})
            assert len(stage.retries) == 2
            gate.set()
            with clock.hold():
                await asyncio.wait([stage.answers[id] for id in ids])
            for id in ids:
                assert isinstance((await stage.answer(id))[0], jobs.Resolved)
            await really(lambda: stage.runner.free == {"default": 2})

    virtual(main)


def test_what_an_abandoned_thread_comes_to_later_does_not_count_and_it_cannot_beat() -> None:
    gate = threading.Event()
    told: list[Any] = []

    @activity
    def late() -> str:
        if activity_info().attempt > 1:
            return "second"
        gate.wait(30)
        try:
            heartbeat("stale")
        except asyncio.CancelledError:
            told.append("stopped")
        return "first"

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, late) as stage:
            id = await stage.schedule(late, timeout=5)
            job, attempts = await stage.answer(id)
            assert (value_of(job), [one.outcome for one in attempts]) == ("second", ["timed_out", "completed"])
            gate.set()
            await really(lambda: stage.runner.free == {"default": 100})
            assert told == ["stopped"]

    virtual(main)


def test_a_stop_leaves_hanging_threads_behind_within_a_second() -> None:
    """E3, E4: they are daemons."""
    gate = threading.Event()
    threads: list[threading.Thread] = []

    @activity
    def hangs() -> None:
        threads.append(threading.current_thread())
        gate.wait(30)

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, hangs) as stage:
            await stage.schedule(hangs)
            await really(lambda: threads)
            before = stage.seconds()
            await stage.runner.stop()
            assert stage.seconds() - before <= 1
            assert threads[0].daemon

    virtual(main)
    gate.set()
    threads[0].join(30)
    assert not threads[0].is_alive()
