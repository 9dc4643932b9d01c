"""Virtual time: timers pass in their order and at once, and a deadlock is an error."""

from __future__ import annotations

import asyncio
import logging
import math
import signal
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from perdure.errors import InvalidValue, UsageError
from perdure.testing import Deadlock, VirtualClock, VirtualLoop, run_virtual, virtual_time
from tests.testing.loops import DAY, Runner, now

# --- timers ---------------------------------------------------------------------------------


def test_thirty_days_pass_at_once(run: Runner) -> None:
    async def main() -> float:
        began = now()
        await asyncio.gather(*(asyncio.sleep(day * DAY) for day in range(31)))
        return now() - began

    assert run(main()) == 30 * DAY


def test_both_times_of_the_clock_and_the_loop_move_together(run: Runner) -> None:
    async def main() -> None:
        with virtual_time() as clock:
            assert clock.monotonic() == now()
            before, began = clock.now, now()
            await asyncio.sleep(DAY + 0.000_001)
            assert clock.monotonic() == now() >= began + DAY
            assert clock.now - before == timedelta(days=1, microseconds=1)
            clock.advance(60)
            assert now() == clock.monotonic()

    run(main())


def test_time_goes_on_after_a_hundred_years_and_ends_some_time_later() -> None:
    """A float of that size holds no nanosecond, by which asyncio asks whether a timer is due."""

    async def main() -> None:
        for _ in range(100):
            await asyncio.sleep(365 * DAY)
            await asyncio.sleep(0.125)
        with pytest.raises(Deadlock), virtual_time():
            await asyncio.sleep(100 * 365 * DAY)

    clock = VirtualClock()
    run_virtual(main(), clock=clock)
    assert clock.monotonic() == 100 * (365 * DAY + 0.125)


# --- deadlocks ------------------------------------------------------------------------------


def test_a_deadlock_is_raised_where_the_program_waits_and_says_where_that_is(run: Runner) -> None:
    async def wait_for_ever() -> None:
        await asyncio.Event().wait()

    async def outer() -> None:
        await wait_for_ever()

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(outer(), name="the waiting one")
            group.create_task(asyncio.sleep(math.inf), name="the sleeping one")

    with pytest.raises(Deadlock) as caught:
        run(main())
    text = str(caught.value)
    assert text.startswith("nothing is scheduled")
    assert "task the waiting one waits at " + __file__ in text
    assert "wait_for_ever, in Event.wait" in text
    assert "task the sleeping one" in text
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)


def test_what_was_opened_is_closed_and_time_passes_while_a_deadlock_unwinds(run: Runner) -> None:
    closed: list[str] = []

    async def main() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(DAY)
            closed.append("closed")

    with pytest.raises(Deadlock):
        run(main())
    assert closed == ["closed"]


def test_the_innermost_block_raises_a_deadlock_and_the_program_can_go_on(run: Runner) -> None:
    async def main() -> str:
        for _ in range(2):
            with pytest.raises(Deadlock), virtual_time():
                await asyncio.Event().wait()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(DAY)
        return "went on"

    assert run(main()) == "went on"


def test_a_deadlock_that_is_swallowed_ends_the_loop(run: Runner) -> None:
    async def main() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        run(main())


def test_a_deadlock_whose_interruption_is_swallowed_is_raised_all_the_same(run: Runner) -> None:
    async def main() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        run(main())


def test_an_error_while_a_deadlock_unwinds_tells_of_it(run: Runner) -> None:
    async def main() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("from tidying up")

    with pytest.raises(ValueError, match="from tidying up") as caught:
        run(main())
    assert caught.value.__notes__[0].startswith("nothing is scheduled")


def test_a_loop_of_somebodys_own_runner_raises_a_deadlock_too() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match="main"), asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main())


def test_a_signal_can_end_a_wait_and_so_it_is_no_deadlock(run: Runner) -> None:
    async def main() -> None:
        loop, told = asyncio.get_running_loop(), asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR1, told.set)
        threading.Timer(0.2, signal.raise_signal, [signal.SIGUSR1]).start()
        await told.wait()
        loop.remove_signal_handler(signal.SIGUSR1)

    run(main())


# --- a loop that runs already ---------------------------------------------------------------


def test_a_running_loop_is_given_back_as_it_was() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        before, began = dict(vars(loop)), now()
        with virtual_time() as outer:
            assert now() >= began
            with virtual_time() as inner:
                assert inner is outer
            await asyncio.sleep(DAY)
        assert now() - began < 3600
        after = dict(vars(loop))
        del before["_timer_cancelled_count"], after["_timer_cancelled_count"]
        assert after == before

    asyncio.run(main())


def test_timers_that_are_set_before_pass_virtually_and_those_left_over_go_on_really() -> None:
    fired: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(3 * DAY, fired.append, "before")
        loop.call_later(5 * DAY, fired.append, "not yet")
        with virtual_time(VirtualClock()):
            await asyncio.sleep(4 * DAY)
            left = loop.call_later(0.01, fired.append, "left over")
            assert fired == ["before"]
        assert left.when() - loop.time() < 1
        while len(fired) < 2:
            await asyncio.sleep(0)
        assert fired == ["before", "left over"]

    asyncio.run(main())


def test_a_clock_is_taken_from_loop_to_loop() -> None:
    clock = VirtualClock(datetime(2027, 1, 1, tzinfo=UTC))
    fired: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(2 * DAY, fired.append, "too soon")
        with virtual_time(clock):
            assert loop.time() == clock.monotonic()
            await asyncio.sleep(DAY)
        assert fired == []

    asyncio.run(main())
    asyncio.run(main())
    run_virtual(asyncio.sleep(DAY), clock=clock)
    assert clock.now == datetime(2027, 1, 4, tzinfo=UTC)


def test_another_clock_for_a_loop_on_virtual_time_is_refused() -> None:
    async def main() -> None:
        with virtual_time(VirtualClock()):
            pass

    with pytest.raises(UsageError, match="another clock"):
        run_virtual(main())


def test_a_block_starts_the_wall_clock_and_one_within_it_does_not_start_it_anew(run: Runner) -> None:
    start = datetime(2024, 2, 28, 12, tzinfo=UTC)

    async def main() -> None:
        with virtual_time(start=start) as clock:
            assert clock.now == start
            with pytest.raises(UsageError, match="leave out `start`"), virtual_time(start=start):
                pass
            await asyncio.sleep(DAY)
            assert clock.now == datetime(2024, 2, 29, 12, tzinfo=UTC)

    run(main())


def test_blocks_may_end_in_any_order() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        first, second = virtual_time(), virtual_time()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        await asyncio.sleep(DAY)
        second.__exit__(None, None, None)
        assert "time" not in vars(loop)

    asyncio.run(main())


def test_asyncios_debug_mode_has_nothing_to_say(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        with virtual_time():
            await asyncio.sleep(DAY)

    with caplog.at_level(logging.WARNING):
        asyncio.run(main(), debug=True)
    assert caplog.records == []


# --- the clock ------------------------------------------------------------------------------


def test_the_wall_clock_alone_can_be_set() -> None:
    clock = VirtualClock(datetime(2027, 1, 1, tzinfo=UTC))
    clock.advance(0.5)
    clock.set_wall(datetime(2020, 1, 1, tzinfo=UTC))
    assert (clock.now, clock.monotonic()) == (datetime(2020, 1, 1, tzinfo=UTC), 0.5)


def test_a_start_without_a_time_zone_is_refused() -> None:
    with pytest.raises(InvalidValue, match="time zone"):
        VirtualClock(datetime(2027, 1, 1))


@pytest.mark.parametrize("seconds", [-1, -0.001, math.nan])
def test_time_does_not_go_back(seconds: float) -> None:
    with pytest.raises(ValueError, match="time does not go back"):
        VirtualClock().advance(seconds)
