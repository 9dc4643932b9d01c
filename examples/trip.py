"""A trip that is booked in parts, and undone when one of them cannot be had: a saga with retries and compensation.

python examples/trip.py [FILE]
"""

from __future__ import annotations

import asyncio
import sys

from perdure import (
    ActivityFailed,
    ApplicationError,
    Engine,
    Retry,
    RunFailed,
    activity,
    activity_info,
    shielded,
    workflow,
)


@activity(retry=Retry(attempts=3, initial="50ms", non_retryable=("SoldOut",)), timeout="10s")
def book(what: str) -> str:
    if what == "car":
        raise ApplicationError("no car is left", type="SoldOut")
    if what == "hotel" and activity_info().attempt == 1:
        raise ConnectionError("the hotel's telephone is busy")
    print(f"booked {what} (attempt {activity_info().attempt})", flush=True)
    return what


@activity(retry=Retry(attempts=None, initial="50ms"))
def release(what: str) -> None:
    print(f"released {what}", flush=True)


@workflow
async def trip(parts: list[str]) -> list[str]:
    booked: list[str] = []
    try:
        for part in parts:
            done = await book(part)
            booked.append(done)
    except (ActivityFailed, asyncio.CancelledError):
        async with shielded():
            for part in reversed(booked):
                await release(part)
        raise
    return booked


async def main(file: str) -> None:
    """A trip that works, and one that does not."""
    async with Engine(f"sqlite:///{file}", workflows=[trip], activities=[book, release]) as engine:
        print("went:", await engine.run(trip, ["flight", "hotel"], id="trip-1"))
        handle = await engine.start(trip, ["flight", "hotel", "car"], id="trip-2")
        try:
            await handle.result()
        except RunFailed as error:
            print("did not go:", error.failure.cause)
        tried = [f"{seen.activity} {seen.attempt} {seen.outcome}" for seen in (await handle.describe()).attempts]
        print("attempts:", ", ".join(tried))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "trip.db"))
