"""A program that tests kill: `python -m tests.pipelines.program FOLDER COUNT` copies numbers to a file, in two steps.

It says `ready`, and `done` once all of them are there. The files drop no duplicates.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from perdure import Engine
from perdure.pipelines import Pipeline, Prepared, not_applied

BATCH = 5


class Log:
    """A file of lines `[key, numbers]`, written at its end."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def append(self, key: str, numbers: list[int]) -> int:
        """Write a line, and answer a little later."""
        with self.path.open("ab") as file:
            file.write(json.dumps([key, numbers]).encode() + b"\n")
        await asyncio.sleep(0.002)
        return len(numbers)

    def lines(self) -> list[tuple[str, list[int]]]:
        """All of them."""
        return [tuple(json.loads(line)) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    async def find(self, key: str) -> int:
        """What was written under this key."""
        for known, numbers in self.lines():
            if known == key:
                return len(numbers)
        raise not_applied("no such line")


def pipeline(first: Log, second: Log, count: int) -> Pipeline:
    copy = Pipeline("copy")
    numbers, copied = copy.topic("numbers", int), copy.topic("copied", int)

    @copy.producer(every=0.01, publishes=[numbers])
    async def source(ctx: Any, state: int | None) -> int:
        begin = state or 0
        for number in range(begin, min(begin + BATCH, count)):
            await ctx.publish(numbers, number, message_id=str(number))
        return min(begin + BATCH, count)

    def consumer(topic: Any, log: Log, then: Any) -> type:
        class Copy:
            async def prepare(self, ctx: Any, state: int | None) -> Prepared:
                events = await ctx.peek(topic, limit=BATCH)
                return Prepared({topic: [one.id for one in events]}, [one.payload for one in events])

            async def mutate(self, ctx: Any, prepared: Prepared) -> int:
                return await ctx.perform(log.append, ctx.key, prepared.data)

            async def reconcile(self, ctx: Any, prepared: Prepared) -> int:
                return await log.find(ctx.key)

            async def next(self, ctx: Any, prepared: Prepared, outcome: Any) -> int | None:
                if outcome.status == "none":
                    return None
                for number in prepared.data if then is not None else ():
                    await ctx.publish(then, number, message_id=str(number))
                return outcome.result

        return Copy

    copy.consumer(numbers, publishes=[copied], name="First")(consumer(numbers, first, copied))
    copy.consumer(copied, name="Second")(consumer(copied, second, None))
    return copy


async def main(folder: Path, count: int) -> None:
    """Run until everything is copied."""
    first, second = Log(folder / "first"), Log(folder / "second")
    async with Engine(f"sqlite:///{folder / 'store.db'}", pipelines=[pipeline(first, second, count)]) as engine:
        _say("ready")
        while await _left(engine, count):
            await asyncio.sleep(0.02)
    _say("done")


async def _left(engine: Engine, count: int) -> bool:
    counts = await engine.store.count_events("copy")
    return dict(counts.get("copied", {})) != {"consumed": count}


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    os.umask(0o077)
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
