"""Heartbeats: their limit, their details, and how they reach the store (E4)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import Retry, activity, activity_info, heartbeat, last_heartbeat
from perdure.testing.clock import VirtualClock
from tests.engine.performing import Stage, pause, until, value_of, virtual

ONCE = Retry(attempts=1)


def test_silence_longer_than_the_limit_ends_the_attempt() -> None:
    @activity
    async def falls_silent() -> None:
        for _ in range(4):
            await pause(4)
            heartbeat()
        await pause(60)

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, falls_silent) as stage:
            failure = await stage.failure(falls_silent, heartbeat=5, retry=ONCE)
            assert failure.details == {"limit": "heartbeat", "seconds": 5}
            assert stage.seconds() == 16 + 5

    virtual(main)


def test_the_next_attempt_finds_the_details_of_the_last_heartbeat() -> None:
    """E4: resumable details, also those that were not written yet when the attempt failed."""
    found: list[object] = []

    @activity
    async def copies(upto: int) -> int:
        before = last_heartbeat(int) or 0
        found.append(before)
        for row in range(before + 1, upto + 1):
            heartbeat(row)
            if row % 3 == 0:
                raise ConnectionError
        return upto

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, copies) as stage:
            assert value_of(await stage.perform(copies, 7)) == 7
            assert found == [0, 3, 6]

    virtual(main)


def test_a_heartbeat_without_details_keeps_those_before() -> None:
    @activity
    async def beats() -> Any:
        if activity_info().attempt == 1:
            heartbeat({"row": 7})
            heartbeat()
            await pause(5)
            heartbeat()
            raise ConnectionError
        return last_heartbeat()

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, beats) as stage:
            assert value_of(await stage.perform(beats)) == {"row": 7}

    virtual(main)


def test_an_attempt_sees_its_own_details_too() -> None:
    @activity
    async def beats() -> Any:
        before = last_heartbeat()
        heartbeat([1, 2])
        return [before, last_heartbeat(tuple[int, int])]

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, beats) as stage:
            assert value_of(await stage.perform(beats)) == [None, [1, 2]]

    virtual(main)


def test_heartbeats_are_written_at_most_once_in_a_while_and_the_newest_is_never_left_out() -> None:
    @activity
    async def beats() -> None:
        for n in range(1, 2_501):
            heartbeat(n)
            await pause(0.001)
        await pause(60)

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, beats) as stage:
            written: list[object] = []
            real = stage.store.beat_tasks

            async def noted(beats: Any) -> Any:
                written.extend(beat.details for beat in beats)
                return await real(beats)

            stage.store.beat_tasks = noted
            await stage.schedule(beats)
            await pause(30)
            assert written[0] == b"1"
            assert written[-1] == b"2500"
            assert len(written) == 4  # at 0, 1, 2 and 3 seconds

    virtual(main)


def test_heartbeats_of_many_activities_are_written_together() -> None:
    @activity
    async def beats() -> None:
        await pause(1)
        heartbeat(1)
        await pause(1)

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, beats) as stage:
            groups: list[int] = []
            real = stage.store.beat_tasks

            async def noted(beats: Any) -> Any:
                groups.append(len(beats))
                return await real(beats)

            stage.store.beat_tasks = noted
            ids = [await stage.schedule(beats) for _ in range(50)]
            for id in ids:
                await stage.answer(id)
            assert groups == [50]

    virtual(main)


def test_a_thread_beats_from_its_thread_and_from_those_it_makes() -> None:
    """However often: one call to the loop is under way at a time."""

    @activity
    def beats() -> Any:
        if activity_info().attempt == 2:
            return last_heartbeat()
        for n in range(10_000):
            heartbeat(n)
        raise ConnectionError

    @activity
    async def beats_beside() -> None:
        await asyncio.to_thread(heartbeat, "from beside")
        if activity_info().attempt == 1:
            raise ConnectionError
        assert last_heartbeat() == "from beside"

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, beats, beats_beside, hold=True) as stage:
            assert value_of(await stage.perform(beats)) == 9_999
            value_of(await stage.perform(beats_beside))

    virtual(main)


def test_a_store_that_fails_loses_no_heartbeat_for_good(caplog: pytest.LogCaptureFixture) -> None:
    @activity
    async def beats() -> None:
        heartbeat("one")
        await pause(5)
        heartbeat()
        await pause(5)

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, beats) as stage:
            id = await stage.schedule(beats)
            await until(lambda: stage.runner.running)
            await stage.store.close()
            await until(lambda: "were not written" in caplog.text)
            await stage.store.open()
            await until(lambda: stage.seconds() > 6)
            (task,) = await stage.store.list_tasks(stage.run.number)
            assert (task.id, task.details) == (id, b'"one"')

    virtual(main)
