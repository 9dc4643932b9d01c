"""Samples for K19: a workflow for every primitive of asyncio that pauses (K15), and what its units wait for.

How a sample says it is told in waiting_samples; `SAMPLES` here is the list of all, its own included.
"""

from __future__ import annotations

import asyncio

from perdure import promise, receive
from tests.kernel.telling import act
from tests.kernel.waiting_samples import SAMPLES, waits_for

__all__ = ["SAMPLES"]


@waits_for({"/": "timer (asyncio.sleep)"})
async def asyncio_sleep() -> None:
    await asyncio.sleep(3)  # at /


@waits_for({"/": "unit /t0", "/t0": "activity `act`"})
async def a_task() -> None:
    async def strand() -> None:
        await act("a")  # at /t0

    await asyncio.create_task(strand())  # at /


@waits_for({"/": "signal `go`", "/t0": "timer (asyncio.sleep)"})
async def a_task_without_a_line_of_its_own() -> None:
    task = asyncio.create_task(asyncio.sleep(3))  # at /t0
    await receive("go")  # at /
    await task


@waits_for({"/": "gather: unit /t0, activity `act`, unit /t1", "/t0": "activity `act`", "/t1": "signal `go`"})
async def gather() -> None:
    async def first() -> None:
        await act("a")  # at /t0

    async def second() -> None:
        await receive("go")  # at /t1

    await asyncio.gather(first(), act("b"), second())  # at /


@waits_for({"/": "wait: signal `go`, promise `paid`, unit /t0", "/t0": "activity `act`"})
async def wait() -> None:
    async def strand() -> None:
        await act("a")  # at /t0

    await asyncio.wait([asyncio.create_task(strand()), receive("go"), promise("paid")])  # at /


@waits_for({"/": "as_completed: unit /t0, activity `act`", "/t0": "signal `go`"})
async def as_completed() -> None:
    async def strand() -> str:
        return await receive("go")  # at /t0

    for one in asyncio.as_completed([strand(), act("a")]):
        await one  # at /


@waits_for({"/": "activity `act`"})
async def wait_for_an_activity() -> None:
    await asyncio.wait_for(act("a"), 9)  # at /


@waits_for({"/": "asyncio Event.wait"})
async def wait_for_an_event() -> None:
    await asyncio.wait_for(asyncio.Event().wait(), 9)  # at /


@waits_for({"/": "activity `act`"})
async def timeout() -> None:
    async with asyncio.timeout(9):
        await act("a")  # at /


@waits_for({"/": "TaskGroup: unit /t0, unit /t1", "/t0": "activity `act`", "/t1": "signal `go`"})
async def task_group() -> None:
    async def first() -> None:
        await act("a")  # at /t0

    async def second() -> None:
        await receive("go")  # at /t1

    async with asyncio.TaskGroup() as group:  # at /
        group.create_task(first())
        group.create_task(second())


@waits_for({"/": "asyncio Event.wait"})
async def event() -> None:
    await asyncio.Event().wait()  # at /


@waits_for({"/": "asyncio Lock.acquire"})
async def lock() -> None:
    held = asyncio.Lock()
    await held.acquire()
    async with held:  # at /
        pass


@waits_for({"/": "asyncio Semaphore.acquire"})
async def semaphore() -> None:
    async with asyncio.Semaphore(0):  # at /
        pass


@waits_for({"/": "asyncio Condition.wait"})
async def condition() -> None:
    held = asyncio.Condition()
    async with held:
        await held.wait()  # at /


@waits_for({"/": "asyncio Condition.wait_for"})
async def condition_with_a_predicate() -> None:
    held = asyncio.Condition()
    async with held:
        await held.wait_for(lambda: False)  # at /


@waits_for({"/": "asyncio Barrier.wait"})
async def barrier() -> None:
    await asyncio.Barrier(2).wait()  # at /


@waits_for({"/": "asyncio Queue.get"})
async def queue_that_is_empty() -> None:
    await asyncio.Queue[int]().get()  # at /


@waits_for({"/": "asyncio Queue.put"})
async def queue_that_is_full() -> None:
    queue = asyncio.Queue[int](1)
    await queue.put(1)
    await queue.put(2)  # at /


@waits_for({"/": "asyncio Queue.join"})
async def queue_that_is_not_done() -> None:
    queue = asyncio.Queue[int]()
    await queue.put(1)
    await queue.join()  # at /


@waits_for({"/": "shield: unit /t0", "/t0": "activity `act`"})
async def shield() -> None:
    async def strand() -> None:
        await act("a")  # at /t0

    await asyncio.shield(strand())  # at /


@waits_for({"/": "shield: activity `act`"})
async def shield_of_an_activity() -> None:
    await asyncio.shield(act("a"))  # at /


@waits_for({"/": "a future"})
async def a_future_of_its_own() -> None:
    await asyncio.get_running_loop().create_future()  # at /
