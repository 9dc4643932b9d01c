"""What pipelines cost: events through two stages, publishing, looking among a million, idling, waking up.

Run it with `python -m bench.pipelines [--pending N] [--json] [FIGURE…]`. Everything is on an SQLite file with
synchronous FULL. Exit code 1 if a figure misses its floor.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from perdure import Engine
from perdure.pipelines import Pipeline, Prepared
from perdure.pipelines.policy import PipelinePolicy
from perdure.pipelines.records import deployment_of, taken_over
from perdure.pipelines.scheduling import decide, tick

BATCH = 100
EVENTS = 20_000
PUBLISHED = 100_000
PUBLISH_BATCH = 500
IDLE = 1_000
IDLE_SECONDS = 5.0
WAKES = 50
LOOKS = 50


class Figure(NamedTuple):
    """One figure, with the floor or the ceiling that it has to keep."""

    name: str
    value: float
    unit: str
    limit: float
    larger_is_better: bool

    @property
    def kept(self) -> bool:
        """Whether it is as good as it has to be."""
        return self.value >= self.limit if self.larger_is_better else self.value <= self.limit


def two_stages(done: Callable[[int], object]) -> Pipeline:
    """Batches of 100, and a mutation for each, twice."""
    pipeline = Pipeline("two-stages")
    first, second = pipeline.topic("first", int), pipeline.topic("second", int)

    async def write(numbers: list[int]) -> int:
        return len(numbers)

    @pipeline.consumer(first, publishes=[second])
    class First:
        async def prepare(self, ctx: Any, state: int | None) -> Prepared:
            events = await ctx.peek(first, limit=BATCH)
            return Prepared({first: [one.id for one in events]}, [one.payload for one in events])

        async def mutate(self, ctx: Any, prepared: Prepared) -> int:
            return await ctx.perform(write, prepared.data)

        async def next(self, ctx: Any, prepared: Prepared, outcome: Any) -> int:
            for number in prepared.data:
                await ctx.publish(second, number, message_id=str(number))
            return len(prepared.data)

    @pipeline.consumer(second)
    class Second:
        async def prepare(self, ctx: Any, state: int | None) -> Prepared:
            events = await ctx.peek(second, limit=BATCH)
            return Prepared({second: [one.id for one in events]}, [one.payload for one in events])

        async def mutate(self, ctx: Any, prepared: Prepared) -> int:
            return await ctx.perform(write, prepared.data)

        async def next(self, ctx: Any, prepared: Prepared, outcome: Any) -> int:
            done(len(prepared.data))
            return len(prepared.data)

    return pipeline


async def through_two_stages(path: Path) -> list[Figure]:
    """From published to consumed twice, each stage's transaction flushed."""
    left = EVENTS
    finished = asyncio.Event()

    def done(count: int) -> None:
        nonlocal left
        left -= count
        if left == 0:
            finished.set()

    pipeline = two_stages(done)
    async with Engine(f"sqlite:///{path}", pipelines=[pipeline]) as engine:
        await engine.pipelines.pause("two-stages")
        await publish(engine, pipeline.topics[0], EVENTS)
        began = time.perf_counter()
        await engine.pipelines.resume("two-stages")
        await finished.wait()
        seconds = time.perf_counter() - began
    return [Figure("two stages, batches of 100, a mutation each", EVENTS / seconds, "events/s", 3_000, True)]


async def publish(engine: Engine, topic: Any, count: int, batch: int = PUBLISH_BATCH) -> None:
    """So many numbers."""
    for begin in range(0, count, batch):
        await engine.pipelines.publish_many(topic, {str(n): n for n in range(begin, min(begin + batch, count))})


async def publishing(path: Path) -> list[Figure]:
    """In batches, one after another."""
    pipeline = two_stages(lambda count: None)
    async with Engine(f"sqlite:///{path}", pipelines=[pipeline]) as engine:
        await engine.pipelines.pause("two-stages")
        began = time.perf_counter()
        await publish(engine, pipeline.topics[0], PUBLISHED)
        seconds = time.perf_counter() - began
    return [Figure(f"published in batches of {PUBLISH_BATCH}", PUBLISHED / seconds, "events/s", 20_000, True)]


async def looking(path: Path, pending: int) -> list[Figure]:
    """peek(100), and the next decision from what the store says, among so many pending events."""
    pipeline = two_stages(lambda count: None)
    async with Engine(f"sqlite:///{path}", pipelines=[pipeline]) as engine:
        await engine.pipelines.pause("two-stages")
        await publish(engine, pipeline.topics[0], pending, 5_000)
        peeks: list[float] = []
        decisions: list[float] = []
        for _ in range(LOOKS):
            began = time.perf_counter()
            await engine.store.peek_events("two-stages", "first", 100)
            peeks.append(time.perf_counter() - began)
            began = time.perf_counter()
            now = datetime.now(UTC)
            view = await engine.store.view_pipeline("two-stages")
            decide(tick(taken_over(pipeline, view, PipelinePolicy(), now), now), now)
            decisions.append(time.perf_counter() - began)
    assert deployment_of(pipeline)
    return [
        Figure(f"peek(100) among {pending:,} pending", 1000 * statistics.median(peeks), "ms", 5, False),
        Figure(f"the next decision among {pending:,} pending", 1000 * statistics.median(decisions), "ms", 5, False),
    ]


def idle_one(number: int) -> Pipeline:
    """It looks every hour."""
    pipeline = Pipeline(f"idle-{number}")
    topic = pipeline.topic("inbox", int)

    @pipeline.producer(every="1h", publishes=[topic])
    async def poll(ctx: Any, state: None) -> None: ...

    @pipeline.consumer(topic)
    class Read:
        async def prepare(self, ctx: Any, state: None) -> Prepared:
            return Prepared({topic: [one.id for one in await ctx.peek(topic)]})

    return pipeline


async def settled(engine: Engine) -> None:
    """Each of them has run all its handlers once."""
    runs = 0
    while True:
        await asyncio.sleep(1)
        before, runs = runs, sum([len(await engine.pipelines.runs(f"idle-{n}")) for n in range(0, IDLE, 97)])
        if runs == before > 0:
            return


async def idling(path: Path) -> list[Figure]:
    """The share of a core that they take while nothing is due."""
    async with Engine(f"sqlite:///{path}", pipelines=[idle_one(number) for number in range(IDLE)]) as engine:
        await settled(engine)
        began, cpu = time.perf_counter(), time.process_time()
        await asyncio.sleep(IDLE_SECONDS)
        share = (time.process_time() - cpu) / (time.perf_counter() - began)
    return [Figure(f"{IDLE:,} idle pipelines", 100 * share, "% of a core", 2, False)]


async def waking(path: Path) -> list[Figure]:
    """From the call that publishes to the handler that is called, in one process; the median and the worst."""
    woken: asyncio.Queue[float] = asyncio.Queue()
    pipeline = Pipeline("waking")
    topic = pipeline.topic("inbox", int)

    @pipeline.consumer(topic)
    class Read:
        async def prepare(self, ctx: Any, state: None) -> Prepared:
            events = await ctx.peek(topic)
            if events:
                woken.put_nowait(time.perf_counter())
            return Prepared({topic: [one.id for one in events]})

    waits: list[float] = []
    async with Engine(f"sqlite:///{path}", pipelines=[pipeline]) as engine:
        await asyncio.sleep(0.2)
        for number in range(WAKES):
            await engine.pipelines.publish(topic, number)
            began = time.perf_counter()
            waits.append(await woken.get() - began)
            await asyncio.sleep(0.05)
    return [Figure("a published event wakes its consumer", 1000 * statistics.median(waits), "ms", 10, False)]


async def measure(wanted: list[str], pending: int) -> list[Figure]:
    """The figures that are asked for."""
    ways: dict[str, Callable[[Path], Awaitable[list[Figure]]]] = {
        "stages": through_two_stages,
        "publish": publishing,
        "look": lambda path: looking(path, pending),
        "idle": idling,
        "wake": waking,
    }
    found: list[Figure] = []
    for name, way in ways.items():
        if not wanted or name in wanted:
            with tempfile.TemporaryDirectory(dir=".") as folder:
                found += await way(Path(folder) / "store.db")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures", nargs="*", help="stages, publish, look, idle, wake")
    parser.add_argument("--pending", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = asyncio.run(measure(options.figures, options.pending))
    if options.json:
        print(json.dumps([figure._asdict() | {"kept": figure.kept} for figure in figures], indent=2))
    else:
        for figure in figures:
            sign = "at least" if figure.larger_is_better else "at most"
            verdict = "" if figure.kept else "   MISSED"
            print(f"{figure.name:<45} {figure.value:>10,.1f} {figure.unit} ({sign} {figure.limit:,g}){verdict}")
    return 0 if all(figure.kept for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
