"""The yardstick: what bare asyncio needs for one answered future and one woken task.

Measured in the same run as everything that is compared with it (bench/kernel.py): only the ratios count.
"""

from __future__ import annotations

import asyncio
import time

WAKES = 20_000


async def _wakes(count: int) -> float:
    """Seconds for: create a future, await it in a task, answer it, be woken; `count` times."""
    loop = asyncio.get_running_loop()
    waiting: list[asyncio.Future[int]] = []

    async def sleeper() -> int:
        total = 0
        for _ in range(count):
            future: asyncio.Future[int] = loop.create_future()
            waiting.append(future)
            total += await future
        return total

    task = loop.create_task(sleeper())
    await asyncio.sleep(0)
    began = time.perf_counter()
    for _ in range(count):
        waiting.pop().set_result(1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    seconds = time.perf_counter() - began
    if await task != count:
        raise AssertionError("the sleeper was not woken as often as it was answered")
    return seconds


def wake_seconds() -> float:
    """Seconds for one answered future and one woken task."""
    return asyncio.run(_wakes(WAKES)) / WAKES
