"""A restart with many open runs: how long after the start of a process it does new and old work (E10).

The runs are made by another process, which is killed with SIGKILL while it works. Then a new one opens the file; it is
ready when a new run has ended and one of the old ones, signalled, has too.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

from perdure import Engine, activity, receive, workflow
from perdure.engine.parts import Listener
from perdure.engine.turns import Prepared

RUNS = 100_000
BATCH = 1_000
WORKING = 50  # runs that were in the middle of an activity when their process was killed


@activity
async def touch(number: int) -> int:
    return number


@activity
async def hang() -> None:
    await asyncio.Event().wait()


@workflow
async def waiting(number: int) -> int:
    """A step, then a signal."""
    await touch(number)
    return await receive("go", int)


@workflow
async def working() -> None:
    """In the middle of an activity."""
    await hang()


@workflow
async def quick(number: int) -> int:
    """One step."""
    return await touch(number)


class Counting(Listener):
    """Counts the turns that are durable."""

    def __init__(self) -> None:
        self.turns = 0
        self.wanted = 0
        self.reached = asyncio.Event()

    def turn_committed(self, prepared: Prepared) -> None:
        self.turns += 1
        if self.turns >= self.wanted:
            self.reached.set()

    async def more(self, count: int) -> None:
        """Wait for so many more."""
        self.wanted += count
        if self.turns < self.wanted:
            self.reached.clear()
            await self.reached.wait()


def engine(path: str, listener: Listener) -> Engine:
    """On the file."""
    return Engine(
        f"sqlite:///{path}",
        workflows=[waiting, working, quick],
        activities=[touch, hang],
        queues={"default": 2 * BATCH},
        cache=BATCH,
        listener=listener,
    )


async def restart(folder: str) -> dict[str, Any]:
    """Make the runs, then measure."""
    path = os.path.join(folder, "restart.db")
    fill = [sys.executable, "-m", "bench.restart", "fill", path]
    began = time.perf_counter()
    filled = await asyncio.to_thread(subprocess.run, fill, check=False)
    if filled.returncode != -signal.SIGKILL:
        raise AssertionError(f"the process that makes the runs ended with {filled.returncode}")
    made = time.perf_counter()
    again = [sys.executable, "-m", "bench.restart", "again", path]
    opened = await asyncio.to_thread(subprocess.check_output, again, text=True)
    ready = time.perf_counter() - made
    return {"runs": RUNS, "made_s": round(made - began, 1), "ready_s": round(ready, 2), **json.loads(opened)}


async def fill(path: str) -> None:
    """Make the runs, and die."""
    counting = Counting()
    async with engine(path, counting) as perdure:
        for first in range(0, RUNS, BATCH):
            await asyncio.gather(
                *[perdure.start(waiting, number, id=f"waiting-{number}") for number in range(first, first + BATCH)]
            )
            await counting.more(2 * BATCH)
        for _ in range(WORKING):
            await perdure.start(working)
        await counting.more(WORKING)
        os.kill(os.getpid(), signal.SIGKILL)


async def again(path: str) -> dict[str, float]:
    """Open the file, and see old and new work done. In seconds: until it was open, then until that was done."""
    began = time.perf_counter()
    async with engine(path, Listener()) as perdure:
        opened = time.perf_counter()
        if await perdure.run(quick, 7) != 7:
            raise AssertionError("a new run came to something else")
        old = perdure.handle(f"waiting-{RUNS // 2}")
        await old.signal("go", 8)
        if await old.result() != 8:
            raise AssertionError("an old run came to something else")
        done = time.perf_counter()
        print(json.dumps({"open_s": round(opened - began, 3), "first_work_s": round(done - opened, 3)}), flush=True)
        os._exit(0)


if __name__ == "__main__":
    asyncio.run({"fill": fill, "again": again}[sys.argv[1]](sys.argv[2]))
