"""Sample workflows for asyncio's locks and queues (K15).

A part of `asyncio_samples`, with the same promise.
"""

from __future__ import annotations

import asyncio
from typing import Any

from perdure import workflow
from tests.kernel.asyncio_samples import act, chain, note


@workflow
async def event() -> list[str]:
    seen: list[str] = []
    opened = asyncio.Event()

    async def waiter(name: str) -> None:
        await opened.wait()
        await note(seen, name)

    async def opener() -> None:
        await note(seen, "key")
        opened.set()
        await note(seen, "opener")

    await asyncio.gather(waiter("a"), opener(), waiter("b"), waiter("c"))
    opened.clear()
    return [*seen, str(opened.is_set())]


@workflow
async def lock() -> list[str]:
    seen: list[str] = []
    one_at_a_time = asyncio.Lock()

    async def worker(name: str) -> None:
        await note(seen, f"comes {name}")
        async with one_at_a_time:
            await note(seen, f"holds {name}")
        await note(seen, f"leaves {name}")

    tasks = [asyncio.create_task(worker(name)) for name in "abcde"]
    await act("first")
    tasks[1].cancel()
    await asyncio.wait(tasks)
    return seen


@workflow
async def semaphore() -> list[str]:
    seen: list[str] = []
    two_at_a_time = asyncio.Semaphore(2)

    async def worker(name: str) -> None:
        async with two_at_a_time:
            await note(seen, f"holds {name}")
        await note(seen, f"leaves {name}")

    tasks = [asyncio.create_task(worker(name)) for name in "abcdef"]
    await act("first")
    for index in (0, 3):
        tasks[index].cancel()
    await asyncio.wait(tasks)
    return [*seen, str(two_at_a_time.locked())]


@workflow
async def bounded_semaphore() -> list[str]:
    seen: list[str] = []
    bound = asyncio.BoundedSemaphore(1)

    async def worker(name: str) -> None:
        try:
            async with asyncio.timeout(3):
                await bound.acquire()
        except TimeoutError:
            seen.append(f"late {name}")
            return
        try:
            await chain(seen, name)
        finally:
            bound.release()

    await asyncio.gather(*(worker(name) for name in "abc"))
    try:
        bound.release()
    except ValueError:
        seen.append("bounded")
    return seen


@workflow
async def queue_with_producers() -> list[str]:
    seen: list[str] = []
    queue: asyncio.Queue[str] = asyncio.Queue(maxsize=2)

    async def producer(name: str) -> None:
        for number in range(3):
            await queue.put(await act(f"{name}{number}"))
            seen.append(f"put {name}{number}")

    async def consumer(name: str) -> None:
        while True:
            item = await queue.get()
            await note(seen, f"{name} {item}")
            queue.task_done()

    consumers = [asyncio.create_task(consumer(name)) for name in "xy"]
    await asyncio.gather(producer("a"), producer("b"))
    await queue.join()
    for task in consumers:
        task.cancel()
    await asyncio.wait(consumers)
    return [*seen, str(queue.qsize())]


@workflow
async def queue_within_a_time() -> list[str]:
    seen: list[str] = []
    queue: asyncio.Queue[str] = asyncio.Queue()

    async def consumer(name: str) -> None:
        try:
            seen.append(f"{name} {await asyncio.wait_for(queue.get(), 5)}")
        except TimeoutError:
            seen.append(f"{name} late")

    consumers = [asyncio.create_task(consumer(name)) for name in "xyz"]
    for name in "ab":
        queue.put_nowait(await act(name))
    await asyncio.wait(consumers)
    return [*seen, str(queue.qsize())]


@workflow
async def queues_with_an_order() -> list[str]:
    seen: list[str] = []
    best_first: asyncio.PriorityQueue[tuple[int, str]] = asyncio.PriorityQueue()
    last_first: asyncio.LifoQueue[str] = asyncio.LifoQueue()

    async def put(number: int) -> None:
        value = await act(f"item {number}")
        await best_first.put((-number, value))
        await last_first.put(value)

    await asyncio.gather(*(put(number) for number in range(5)))
    while not best_first.empty():
        seen.append((await best_first.get())[1])
        seen.append(last_first.get_nowait())
        await act("next")
    return seen


@workflow
async def condition() -> list[str]:
    seen: list[str] = []
    changed = asyncio.Condition()
    items: list[str] = []

    async def waiter(name: str) -> None:
        async with changed:
            await changed.wait()
            await note(seen, name)

    async def patient(name: str) -> None:
        async with changed:
            await changed.wait_for(lambda: len(items) > 1)
            await note(seen, name)

    tasks = [asyncio.create_task(waiter(name)) for name in "abcd"]
    tasks += [asyncio.create_task(patient("patient"))]
    for number in range(3):
        item = await act(f"item{number}")
        async with changed:
            items.append(item)
            changed.notify(1)
    tasks[3].cancel()
    await act("all")
    async with changed:
        changed.notify_all()
    await asyncio.wait(tasks)
    return seen


@workflow
async def condition_cancelled_when_notified() -> list[str]:
    seen: list[str] = []
    changed = asyncio.Condition()

    async def waiter(name: str) -> None:
        async with changed:
            try:
                await changed.wait()
            finally:
                seen.append(f"woken {name}")
            await note(seen, name)

    tasks = [asyncio.create_task(waiter(name)) for name in "abc"]
    await act("first")
    async with changed:
        changed.notify(1)
        await act("held")
        tasks[0].cancel()
    await act("second")
    async with changed:
        changed.notify(1)
    await act("third")
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return seen


@workflow
async def barrier() -> list[str]:
    seen: list[str] = []
    meeting = asyncio.Barrier(3)

    async def party(name: str) -> None:
        await note(seen, name)
        position = await meeting.wait()
        await note(seen, f"{name} went through as {position}")

    await asyncio.gather(*(party(name) for name in "abcdef"))
    return seen


SAMPLES: tuple[Any, ...] = (
    event,
    lock,
    semaphore,
    bounded_semaphore,
    queue_with_producers,
    queue_within_a_time,
    queues_with_an_order,
    condition,
    condition_cancelled_when_notified,
    barrier,
)
