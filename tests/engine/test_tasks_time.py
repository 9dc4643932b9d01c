"""The time limits of activities, and what an activity knows of its attempt (E4)."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from perdure import ActivityInfo, Retry, UsageError, activity, activity_info, heartbeat, last_heartbeat
from perdure.errors import InvalidValue
from perdure.testing.clock import VirtualClock
from tests.engine.performing import Stage, pause, really, until, value_of, virtual

ONCE = Retry(attempts=1)


@activity
async def works(seconds: float) -> str:
    await pause(seconds)
    return "done"


@pytest.mark.parametrize(("timeout", "seconds"), [(5, 5), (20, 20)])
def test_start_to_close_limits_one_attempt(timeout: float, seconds: float) -> None:
    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, works) as stage:
            failure = await stage.failure(works, 60, timeout=timeout, retry=ONCE)
            assert (failure.type, failure.details) == ("Timeout", {"limit": "start_to_close", "seconds": timeout})
            assert failure.message == f"the start-to-close limit of {timeout} s (`timeout`) was over"
            assert stage.seconds() == seconds

    virtual(main)


def test_an_attempt_that_is_in_time_hears_nothing_of_its_limits() -> None:
    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, works) as stage:
            options = {"timeout": 10, "schedule_to_close": 12, "heartbeat": 11, "schedule_to_start": 3}
            assert value_of(await stage.perform(works, 9.9, **options)) == "done"
            await pause(100)
            assert stage.retries == []

    virtual(main)


def test_a_limit_of_one_attempt_is_tried_again_and_each_has_its_own() -> None:
    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, works) as stage:
            id = await stage.schedule(works, 60, timeout=5)
            _, attempts = await stage.answer(id)
            assert [one.outcome for one in attempts] == ["timed_out"] * 3
            assert stage.seconds() == 5 + 1 + 5 + 2 + 5
            assert [one.failure.type for one in attempts if one.failure] == ["Timeout"] * 3

    virtual(main)


def test_timeout_may_be_named_as_not_retryable() -> None:
    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, works) as stage:
            await stage.failure(works, 60, timeout=5, retry=Retry(non_retryable=("Timeout",)))
            assert stage.seconds() == 5

    virtual(main)


def test_schedule_to_close_limits_all_attempts_together_and_is_final() -> None:
    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, works) as stage:
            _, attempts = await stage.answer(
                await stage.schedule(works, 60, timeout=10, schedule_to_close=25, retry=Retry(attempts=None, jitter=0))
            )
            assert stage.seconds() == 25  # 10, wait 1, 10, wait 2, 2
            failures = [one.failure for one in attempts]
            assert [one and one.details for one in failures] == [
                {"limit": "start_to_close", "seconds": 10},
                {"limit": "start_to_close", "seconds": 10},
                {"limit": "schedule_to_close", "seconds": 25},
            ]

    virtual(main)


@pytest.mark.parametrize("limit", ["schedule_to_start", "schedule_to_close"])
def test_an_activity_that_waited_too_long_is_not_begun(limit: str) -> None:
    """It was in the store while no worker had room."""
    begun: list[int] = []

    @activity
    async def late() -> None:
        begun.append(1)

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, works, late, queues={"default": 1}) as stage:
            await stage.schedule(works, 60)
            _, (attempt,) = await stage.answer(await stage.schedule(late, **{limit: 30}))
            assert attempt.outcome == "timed_out"
            assert attempt.failure is not None
            assert attempt.failure.message == f"the {limit.replace('_', '-')} limit of 30 s (`{limit}`) was over"
            assert (begun, stage.seconds()) == ([], 60)
            await until(lambda: stage.runner.free == {"default": 1})

    virtual(main)


def test_schedule_to_start_is_over_once_the_first_attempt_began() -> None:
    tries: list[int] = []

    @activity
    async def flaky() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError
        return "through"

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, flaky) as stage:
            job = await stage.perform(flaky, schedule_to_start=2, retry=Retry(initial=30))
            assert value_of(job) == "through"

    virtual(main)


def test_a_thread_whose_limit_is_over_holds_up_no_final_answer() -> None:
    """Its slot is taken until it ends."""
    gate = threading.Event()

    @activity
    def hangs() -> None:
        gate.wait(30)

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, hangs) as stage:
            failure = await stage.failure(hangs, timeout=7, retry=ONCE)
            assert (failure.type, stage.seconds()) == ("Timeout", 7)
            await pause(100)
            assert (stage.runner.free, len(stage.runner.abandoned)) == ({"default": 99}, 1)
            gate.set()
            await really(lambda: stage.runner.free == {"default": 100})

    virtual(main)


def test_another_attempt_begins_only_after_the_one_before_has_ended_or_its_grace_is_over() -> None:
    """Two attempts of a well-behaved activity never overlap."""
    inside = 0
    most = 0

    @activity
    async def tidies_up() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        try:
            await pause(60)
        finally:
            await pause(3)
            inside -= 1

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, tidies_up) as stage:
            retry = Retry(attempts=2, initial=1, jitter=0)
            failure = await stage.failure(tidies_up, timeout=10, retry=retry)
            assert (failure.type, most) == ("Timeout", 1)
            assert stage.seconds() == 10 + 3 + 1 + 10

    virtual(main)


# --- what an activity knows of itself -----------------------------------------------------------


@pytest.mark.parametrize("plain", [False, True], ids=["async", "thread"])
def test_an_activity_knows_its_attempt(plain: bool) -> None:
    """K8: the key is the same on every attempt."""
    seen: list[ActivityInfo] = []

    @activity(name="look")
    async def look() -> None:
        seen.append(activity_info())
        if len(seen) == 1:
            raise ConnectionError

    @activity(name="look")
    def look_in_thread() -> None:
        seen.append(activity_info())
        if len(seen) == 1:
            raise ConnectionError

    async def main(clock: VirtualClock) -> None:
        chosen = look_in_thread if plain else look
        async with Stage(clock, chosen, hold=True) as stage:
            began = clock.now
            id = await stage.schedule(chosen, timeout=5, schedule_to_close=8, retry=Retry(initial=4, jitter=0))
            await stage.answer(id)
            assert [one.attempt for one in seen] == [1, 2]
            for one in seen:
                assert (one.key, one.token, one.name) == (id, f"{one.run_id}.{id}", "look")
                assert (one.workflow_id, one.run_id) == ("order-1", stage.run.facts.run_id)
            assert seen[0].deadline == began + timedelta(seconds=5)
            assert seen[1].deadline == began + timedelta(seconds=8)
            assert repr(seen[1]) == "<attempt 2 of activity look of run order-1>"

    virtual(main)


@pytest.mark.parametrize("call", [activity_info, heartbeat, last_heartbeat])
def test_outside_an_activity_there_is_nothing_to_know(call: Any) -> None:
    with pytest.raises(UsageError, match=rf"{call.__name__}\(\) was called outside an activity"):
        call()


def test_details_that_cannot_be_stored_are_refused_at_the_call() -> None:
    @activity
    async def beats() -> None:
        with pytest.raises(InvalidValue, match=r"heartbeat details\[0\]"):
            heartbeat([{1}])
        assert last_heartbeat() is None

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, beats) as stage:
            value_of(await stage.perform(beats))

    virtual(main)


def test_an_activity_without_limits_has_no_deadline() -> None:
    @activity
    async def looks() -> bool:
        info = activity_info()
        return info.deadline is None and not info.cancelled

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, looks) as stage:
            assert value_of(await stage.perform(looks)) is True

    virtual(main)
