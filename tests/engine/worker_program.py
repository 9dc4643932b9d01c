"""A worker in a process of its own, for tests that kill, stop and end it: python -m … FILE LEASE."""

from __future__ import annotations

import asyncio
import os
import sys
import time

import perdure
from perdure import activity, receive, workflow


@activity
async def slowly(text: str) -> str:
    if os.environ.get("QUICK") != "1":
        await asyncio.sleep(60)
    return text.upper()


@activity
async def instant() -> float:
    return time.monotonic()


@workflow
async def shout(text: str) -> str:
    return await slowly(text)


@workflow
async def quick() -> float:
    return await instant()


@workflow
async def heard(count: int) -> list[float]:
    moments: list[float] = []
    for _ in range(count):
        await receive("go", int)
        moments.append(await instant())
    return moments


WORKFLOWS = [shout, heard, quick]
ACTIVITIES = [slowly, instant]


async def main(path: str, lease: float) -> None:
    worker = perdure.Worker(f"sqlite:///{path}", workflows=WORKFLOWS, activities=ACTIVITIES, lease=lease)
    await worker.run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
