"""Places: which thread, which context, which name, and that virtual time stands still while a thread works (E4)."""

from __future__ import annotations

import asyncio
import gc
import threading
from contextvars import ContextVar

import pytest

from perdure import activity, activity_info
from perdure.define.performing import CURRENT
from perdure.engine.attempts import Place
from perdure.engine.places import InThreads, OnLoop
from perdure.model import jobs
from perdure.stores.records import Attempt, Task
from perdure.testing.clock import VirtualClock
from tests.engine.performing import Stage, inline_places, pause, really, until, value_of, virtual

TENANT: ContextVar[str] = ContextVar("tenant", default="nobody")


@activity(name="look")
async def looks(mark: str) -> list[str]:
    before = TENANT.get()
    TENANT.set(mark)
    await asyncio.sleep(0)
    return [before, TENANT.get()]


@activity(name="look")
def looks_plainly(mark: str) -> list[str]:
    before = TENANT.get()
    TENANT.set(mark)
    return [before, TENANT.get()]


@pytest.mark.parametrize("where", ["loop", "thread", "inline"])
def test_an_activity_sees_the_context_of_the_engine_and_what_it_sets_stays_its_own(where: str) -> None:
    async def main(clock: VirtualClock) -> None:
        chosen = looks if where == "loop" else looks_plainly
        reset = TENANT.set("acme")
        places = {"places": inline_places()} if where == "inline" else {}
        stage = Stage(clock, chosen, **places)
        TENANT.reset(reset)
        async with stage:
            for mark in "ab":
                assert value_of(await stage.perform(chosen, mark)) == ["acme", mark]

    virtual(main)


def test_threads_are_kept_for_the_next_and_named_after_what_they_do() -> None:
    names: list[str] = []
    threads: set[threading.Thread] = set()

    @activity
    def noted() -> None:
        threads.add(threading.current_thread())
        names.append(threading.current_thread().name)

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, noted, hold=True) as stage:
            for _ in range(20):
                await stage.perform(noted)

    virtual(main)
    assert len(threads) == 1
    assert set(names) == {"perdure-1 noted of order-1"}
    (thread,) = threads
    thread.join(30)
    assert not thread.is_alive(), "closing lets idle threads end"


def test_after_a_crowd_only_some_threads_are_kept() -> None:
    everybody = threading.Barrier(60)

    @activity
    def crowd() -> None:
        everybody.wait(30)

    def perdure_threads() -> int:
        return sum(thread.name.startswith("perdure-") for thread in threading.enumerate())

    async def main(clock: VirtualClock) -> None:
        before = perdure_threads()
        async with Stage(clock, crowd, hold=True) as stage:
            ids = [await stage.schedule(crowd) for _ in range(60)]
            for id in ids:
                await stage.answer(id)
            await really(lambda: perdure_threads() - before == 32)

    virtual(main)


def test_virtual_time_stands_still_while_a_thread_works_and_goes_on_when_it_is_abandoned() -> None:
    gate = threading.Event()

    @activity
    def works() -> None:
        gate.wait(30)

    async def main(clock: VirtualClock) -> None:
        places: dict[str, Place] = {"loop": OnLoop(), "thread": InThreads(clock.hold), "process": OnLoop()}
        async with Stage(clock, works, places=places, grace_seconds=0.0) as stage:
            id = await stage.schedule(works)
            await until(lambda: stage.runner.running)
            assert clock.held
            stage.runner.cancel(id)
            await stage.answer(id)
            assert not clock.held
            await pause(1_000_000)
            gate.set()
            await really(lambda: stage.runner.free == {"default": 100})

    virtual(main)


def test_a_thread_that_ends_lets_virtual_time_go_on() -> None:
    @activity
    def works() -> bool:
        return activity_info().cancelled

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, works, hold=True) as stage:
            assert value_of(await stage.perform(works)) is False
            assert not clock.held

    virtual(main)


def test_a_result_that_comes_after_the_loop_is_closed_is_dropped() -> None:
    gate = threading.Event()
    threads: list[threading.Thread] = []

    @activity
    def late() -> None:
        threads.append(threading.current_thread())
        gate.wait(30)

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, late) as stage:
            await stage.schedule(late)
            await really(lambda: threads)

    virtual(main)
    gate.set()
    threads[0].join(30)
    assert not threads[0].is_alive()


def test_a_task_that_outlives_its_loop_is_collected_without_a_word() -> None:
    """What a loop that was stopped leaves behind is closed by the garbage collector (warnings are errors here)."""
    ended: list[str] = []

    @activity
    async def works() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("closed")

    async def main() -> None:
        stage = Stage(VirtualClock(), works)
        await stage.store.open()
        stage.lease = await stage.store.open_lease("w-1", {}, 10)
        stage.runner.free["default"] -= 1
        task = Task(
            **dict.fromkeys(("id", "run_id", "workflow_id"), "x"),
            **dict.fromkeys(("run", "seq", "priority", "scheduled_us", "due_us"), 0),
            name="works",
            queue="default",
            input=b"[]",
            keywords=b"",
            options=b"{}",
        )
        stage.runner.start(task)
        while not stage.runner.running["x"].begun:
            await asyncio.sleep(0)

    loop = asyncio.SelectorEventLoop()
    loop.run_until_complete(main())
    loop.close()
    del loop
    gc.collect()
    assert ended == ["closed"]


@pytest.mark.parametrize("where", ["loop", "thread", "inline"])
def test_what_comes_of_an_activity_is_told_outside_it(where: str) -> None:
    """What the worker does then, and all that follows, is nothing that an activity does."""
    seen: list[object] = []

    class Watching(Stage):
        def answered(self, task: Task, job: jobs.Ended, attempt: Attempt) -> None:
            seen.append(CURRENT.get())
            super().answered(task, job, attempt)

    async def main(clock: VirtualClock) -> None:
        chosen = looks if where == "loop" else looks_plainly
        places = {"places": inline_places()} if where == "inline" else {}
        async with Watching(clock, chosen, **places) as stage:
            await stage.perform(chosen, "a")

    virtual(main)
    assert seen == [None]
