"""The slots of activities on a worker, their order, and the end of the worker (E3, E4)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from perdure import activity, heartbeat
from perdure.model import jobs
from perdure.stores.records import Task
from perdure.testing.clock import VirtualClock
from tests.engine.performing import Stage, pause, really, until, value_of, virtual


@activity
async def price(amount: int) -> int:
    return amount


both = pytest.mark.parametrize("plain", [False, True], ids=["async", "thread"])


@both
def test_a_queue_runs_no_more_at_once_than_its_limit(plain: bool) -> None:
    """E4: named queues with a limit per worker."""
    now: dict[str, int] = {"a": 0, "b": 0}
    most = dict(now)
    lock = threading.Lock()
    gate = threading.Event()

    def count(queue: str, by: int) -> None:
        with lock:
            now[queue] += by
            most[queue] = max(most[queue], now[queue])

    @activity(name="work")
    async def work(queue: str) -> None:
        count(queue, 1)
        await pause(1)
        count(queue, -1)

    @activity(name="work")
    def work_in_thread(queue: str) -> None:
        count(queue, 1)
        if now == {"a": 3, "b": 1}:
            gate.set()
        assert gate.wait(10)
        count(queue, -1)

    async def main(clock: VirtualClock) -> None:
        chosen = work_in_thread if plain else work
        async with Stage(clock, chosen, queues={"a": 3, "b": 1}, hold=True) as stage:
            ids = [await stage.schedule(chosen, queue, queue=queue) for queue in "abab" * 5]
            for id in ids:
                assert isinstance((await stage.answer(id))[0], jobs.Resolved)
            assert most == {"a": 3, "b": 1}
            assert stage.runner.free == {"a": 3, "b": 1}
            if not plain:
                assert stage.seconds() == 10  # ten in b, one after the other

    virtual(main)


def test_the_larger_priority_goes_first_and_what_is_due_later_waits() -> None:
    """E4: priority, delayed start."""
    order: list[str] = []

    @activity
    async def noted(name: str) -> None:
        order.append(name)
        await pause(1)

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, noted, queues={"default": 1}) as stage:
            first = await stage.schedule(noted, "first")
            await until(lambda: order)
            due_us = clock.now_us() + 60_000_000
            ids = [
                await stage.schedule(noted, name, **options)
                for name, options in {
                    "low": {"priority": -1},
                    "late": {"priority": 9, "due_us": due_us},
                    "plain": {},
                    "high": {"priority": 5},
                }.items()
            ]
            for id in [first, *ids]:
                await stage.answer(id)
            assert order == ["first", "high", "plain", "low", "late"]
            late = (await stage.answer(ids[1]))[1][0]
            assert late.started_us == due_us

    virtual(main)


def test_a_hundred_at_once_of_each_kind() -> None:
    """Every one is performed once, beside the others."""
    started = threading.Semaphore(0)
    everybody = threading.Event()

    @activity
    async def soft(n: int) -> int:
        await pause(100 - n)
        return n

    @activity
    def hard(n: int) -> int:
        started.release()
        assert everybody.wait(30)
        return -n

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, soft, hard, queues={"default": 100, "threads": 100}) as stage:
            ids = [await stage.schedule(soft, n) for n in range(100)]
            ids += [await stage.schedule(hard, n, queue="threads") for n in range(100)]
            for _ in range(100):
                await really(lambda: started.acquire(blocking=False))
            everybody.set()
            values = [value_of((await stage.answer(id))[0]) for id in ids]
            assert values == [*range(100), *(-n for n in range(100))]
            assert {task.attempt for task in stage.claims} == {1}

    virtual(main)


def test_starting_and_ending_costs_the_same_however_many_run() -> None:
    """O(1) per task: ten thousand in one go."""
    gate = asyncio.Event()

    @activity
    async def one() -> None:
        await gate.wait()

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, one, queues={"default": 10_000}) as stage:
            ids = [await stage.schedule(one) for _ in range(10_000)]
            await until(lambda: len(stage.runner.running) == 10_000)
            gate.set()
            for id in ids:
                await stage.answer(id)
            await until(lambda: len(stage.accepted) == 10_000)
            assert await stage.store.list_tasks(stage.run.number) == []

    virtual(main)


def test_a_slot_is_reserved_only_where_it_is_free_and_nobody_waits_for_it() -> None:
    """A task in the store goes before one that a turn schedules now."""

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, price, queues={"default": 2}) as stage:
            await until(lambda: not stage.runner.backlog)
            reserve = stage.runner.reserve
            assert [reserve("default", "price"), reserve("other", "price"), reserve("default", "unknown")] == [
                True,
                False,
                False,
            ]
            assert not reserve("default", "price"), "one that is unknown here was put off: it may be waiting"
            await stage.runner.claim()
            assert [reserve("default", "price") for _ in range(2)] == [True, False]

    virtual(main)


def test_a_queue_that_was_full_is_asked_again_once_there_is_room() -> None:
    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, price, queues={"default": 2}) as stage:
            await until(lambda: not stage.runner.backlog)
            ids = [await stage.schedule(price, n) for n in range(2)]
            stage.runner.backlog.add("default")
            await stage.runner.claim()
            assert (stage.runner.free, stage.runner.backlog) == ({"default": 0}, {"default"})
            for id in ids:
                await stage.answer(id)

    virtual(main)


def test_what_was_claimed_under_a_lease_that_is_lost_meanwhile_is_not_begun() -> None:
    """E3."""

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, price) as stage:
            await until(lambda: not stage.runner.backlog)
            real = stage.store.claim_tasks

            async def claim_and_lose(owner: int, queue: str, names: Sequence[str], limit: int) -> list[Task]:
                tasks = await real(owner, queue, names, limit)
                if tasks:
                    stage.lease = await stage.store.open_lease("w-1", stage.settings.queues, 10)
                return tasks

            stage.store.claim_tasks = claim_and_lose
            id = await stage.schedule(price, 1)
            await pause(1)
            assert (stage.claims, stage.runner.running, stage.runner.free) == ([], {}, {"default": 100})
            assert not stage.answers[id].done()

    virtual(main)


def test_a_store_that_cannot_be_reached_leaves_the_slots_free_and_the_work_to_be_claimed() -> None:
    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, price) as stage:
            await until(lambda: not stage.runner.backlog)
            await stage.store.close()
            stage.runner.backlog.add("default")
            with pytest.raises(Exception, match="not open"):
                await stage.runner.claim()
            assert (stage.runner.free, stage.runner.backlog) == ({"default": 100}, {"default"})
            await stage.store.open()

    virtual(main)


# --- the end ------------------------------------------------------------------------------------


def test_a_polite_stop_lets_activities_finish_and_hands_over_what_does_not() -> None:
    """E3: what was handed over is free at once, with its heartbeat, and its failure is not counted."""

    @activity
    async def quick() -> str:
        await pause(0.2)
        return "done"

    @activity
    async def long() -> None:
        heartbeat("started")
        await pause(0.1)
        heartbeat("half-way")
        await pause(1_000)

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, quick, long) as stage:
            done, left = await stage.schedule(quick), await stage.schedule(long)
            await until(lambda: len(stage.runner.running) == 2)
            before = stage.seconds()
            await stage.runner.stop()
            assert stage.seconds() - before <= 1
            assert value_of((await stage.answer(done))[0]) == "done"
            assert not stage.answers[left].done()
            await stage.store.close_lease(stage.lease.number)
            (task,) = await stage.store.list_tasks(stage.run.number)
            assert (task.owner, task.failures, task.details) == (None, 0, b'"half-way"')
            assert [one.outcome for one in task.attempts] == ["handed_over"]
            assert not stage.runner.reserve("default", "quick")

    virtual(main)


def test_a_lost_lease_stops_what_runs_and_says_nothing_about_it() -> None:
    """E3."""
    ends: list[str] = []

    @activity
    async def work() -> None:
        try:
            await pause(1_000)
        finally:
            ends.append("stopped")

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, work) as stage:
            id = await stage.schedule(work)
            await until(lambda: stage.runner.running)
            await asyncio.sleep(0)
            stage.runner.lose_all()
            await until(lambda: ends)
            assert not stage.answers[id].done()
            assert (stage.retries, stage.runner.free) == ([], {"default": 100})

    virtual(main)


def test_a_task_of_a_loop_that_shuts_down_did_not_fail() -> None:
    """Somebody cancels all tasks: the activity goes back uncounted, and is performed again."""
    calls: list[int] = []

    @activity
    async def work() -> str:
        calls.append(1)
        if len(calls) == 1:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        await pause(1)
        return "done"

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, work) as stage:
            job, attempts = await stage.answer(await stage.schedule(work))
            assert value_of(job) == "done"
            assert [one.outcome for one in attempts] == ["cancelled", "completed"]
            assert [report.counts for report in stage.retries] == [False]

    virtual(main)
