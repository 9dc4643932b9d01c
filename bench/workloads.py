"""The workloads of bench/engine.py: each on a new file, in a process of its own, its figures printed as JSON.

`python -m bench.workloads chain-1 [--folder F]`. Steps are activities that return a small JSON value: what is measured
is the engine. Everything is on SQLite in WAL mode with synchronous FULL: a step that has been done survives `kill -9`
and the loss of power.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from bench.bare import Bare
from bench.durable import Durable
from bench.restart import restart
from perdure import Engine, activity, child, parallel, receive, signal, update, wait_until, workflow

Figures = dict[str, Any]
Measured = Callable[[str], Coroutine[Any, Any, Figures]]

stepped: list[float] = []  # when each step was done


@activity
async def step(number: int) -> dict[str, int]:
    stepped.append(time.perf_counter())
    return {"i": number}


@workflow
async def chain(steps: int) -> int:
    """Sequential steps."""
    for number in range(steps):
        await step(number)
    return steps


@workflow
async def fan(width: int) -> int:
    """Steps side by side."""
    results = await parallel(*[step(number) for number in range(width)])
    return sum(one["i"] for one in results)


@workflow
async def single(number: int) -> int:
    """One step."""
    return (await step(number))["i"]


@workflow
async def leaf(number: int) -> int:
    """A child that has nothing to do."""
    return number


@workflow
async def parent(width: int) -> int:
    """Children side by side."""
    return sum(await parallel(*[child(leaf, number) for number in range(width)]))


@workflow
async def receiver(count: int) -> int:
    """Signals, one after another."""
    for number in range(count):
        if await receive("sig", dict[str, int]) != {"i": number}:
            raise ValueError(f"signal {number} did not come as the next one")
    return count


@workflow
async def parked(number: int) -> bool:
    """Waits for a signal that never comes."""
    return await receive("never", bool)


@workflow
class Counter:
    """Counts the signals and the updates that it gets."""

    def __init__(self) -> None:
        self.seen = 0
        self.closed = False

    async def run(self) -> int:
        """Until it is closed."""
        await wait_until(lambda: self.closed)
        return self.seen

    @update
    async def add(self, number: int) -> int:
        """By an update."""
        self.seen += number
        return self.seen

    @signal
    def count(self, number: int) -> None:
        """By a signal."""
        self.seen += number

    @signal
    def close(self) -> None:
        """The end."""
        self.closed = True


WORKFLOWS = (chain, fan, single, leaf, parent, receiver, parked, Counter)


def engine(folder: str, **options: Any) -> Engine:
    """An engine on a new file. A careful user raises the concurrency of a queue of such short steps."""
    settings: dict[str, Any] = {"queues": {"default": 2_000}} | options
    url = f"sqlite:///{os.path.join(folder, 'bench.db')}"
    return Engine(url, workflows=WORKFLOWS, activities=[step], **settings)


def percentiles(seconds: Sequence[float]) -> Figures:
    """The median and the 99th percentile, in milliseconds."""
    ordered = sorted(seconds)
    return {
        f"p{share}_ms": round(ordered[min(len(ordered) - 1, share * len(ordered) // 100)] * 1e3, 3)
        for share in (50, 99)
    }


def expect(found: object, wanted: object) -> None:
    """A figure of wrong results is none."""
    if found != wanted:
        raise AssertionError(f"{found!r} came out, where {wanted!r} was wanted")


# --- those that every engine of the comparison runs ----------------------------------------------


async def chain_1(folder: str) -> Figures:
    """One workflow at a time, and before each five of them what the disk does with single commits.

    Both logs have been gone round once when the clock starts, so that neither is extended any more. The share is that
    of the medians: others who use the disk meet both alike.
    """
    rounds, workflows, steps = 5, 5, 20
    between: list[float] = []
    chains: list[float] = []
    commits: list[float] = []
    bare = Bare(os.path.join(folder, "bare.db"))
    async with engine(folder) as perdure:
        for _ in range(12):
            await perdure.run(chain, steps)
        for _ in range(rounds):
            commits += [bare.commit(100) for _ in range(workflows)]
            for _ in range(workflows):
                stepped.clear()
                began = time.perf_counter()
                expect(await perdure.run(chain, steps), steps)
                chains.append(steps / (time.perf_counter() - began))
                between += [later - earlier for earlier, later in pairwise(stepped)]
    bare.close()
    return {
        "steps_per_s": round(len(chains) / sum(1 / rate for rate in chains), 1),
        **percentiles(between),
        "bare_commits_per_s": round(len(commits) / sum(1 / rate for rate in commits), 1),
        "share_of_bare": round(median(chains) / median(commits), 3),
    }


async def chain_100(folder: str) -> Figures:
    """A hundred workflows in flight."""
    workflows, steps, in_flight = 200, 20, 100
    async with engine(folder) as perdure:
        await perdure.run(chain, steps)
        slots = asyncio.Semaphore(in_flight)

        async def one() -> int:
            async with slots:
                return await perdure.run(chain, steps)

        began = time.perf_counter()
        expect(await asyncio.gather(*[one() for _ in range(workflows)]), [steps] * workflows)
        return {"steps_per_s": round(workflows * steps / (time.perf_counter() - began), 1)}


async def fanout(folder: str) -> Figures:
    """One workflow with many steps at once."""
    width = 500
    async with engine(folder) as perdure:
        await perdure.run(fan, 5)
        began = time.perf_counter()
        expect(await perdure.run(fan, width), sum(range(width)))
        return {"steps_per_s": round(width / (time.perf_counter() - began), 1)}


async def start(folder: str) -> Figures:
    """Many short workflows, enqueued as fast as possible, then drained."""
    workflows = 2_000
    async with engine(folder) as perdure:
        await perdure.run(single, 0)
        began = time.perf_counter()
        handles = await asyncio.gather(*[perdure.start(single, number) for number in range(workflows)])
        enqueued = time.perf_counter()
        expect(await asyncio.gather(*[handle.result() for handle in handles]), list(range(workflows)))
        took = time.perf_counter() - began
    return {
        "workflows_per_s": round(workflows / took, 1),
        "enqueue_s": round(enqueued - began, 3),
        "total_s": round(took, 3),
    }


async def signals(folder: str) -> Figures:
    """Round trips: the signal is durable, and so is the turn that has taken it."""
    count = 500
    durable = Durable()
    async with engine(folder, listener=durable) as perdure:
        handle = await perdure.start(receiver, count)
        took: list[float] = []
        for number in range(count):
            began = time.perf_counter()
            await handle.signal("sig", {"i": number})
            await durable.until(number + 1)
            took.append(time.perf_counter() - began)
        expect(await handle.result(), count)
    return percentiles(took)


async def long(folder: str) -> Figures:
    """One workflow with more and more steps; the growth is that of the best of three, taken in turns."""
    took: dict[int, list[float]] = {250: [], 500: [], 1_000: [], 2_000: []}
    async with engine(folder) as perdure:
        await perdure.run(chain, 20)
        for _ in range(3):
            for steps, seconds in took.items():
                began = time.perf_counter()
                expect(await perdure.run(chain, steps), steps)
                seconds.append(time.perf_counter() - began)
    firsts = {f"s_{steps}": round(seconds[0], 3) for steps, seconds in took.items()}
    return {**firsts, "growth": round(min(took[2_000]) / min(took[1_000]), 2)}


async def park(folder: str) -> Figures:
    """What parked workflows cost in memory: as they come, and those beyond the cache."""
    workflows, more = 5_000, 20_000
    async with engine(folder) as perdure:
        await perdure.run(chain, 5)
        before = resident_bytes()
        await start_parked(perdure, workflows)
        between = resident_bytes()
        await start_parked(perdure, 10_000)  # until what SQLite keeps of the file is full
        filled = resident_bytes()
        await start_parked(perdure, more)
        after = resident_bytes()
    return {
        "rss_bytes_per_workflow": round((between - before) / workflows),
        "rss_bytes_per_evicted_workflow": round((after - filled) / more),
    }


# --- those of this engine's own promises ---------------------------------------------------------


async def children(folder: str) -> Figures:
    """A thousand children of one parent, started and joined."""
    width = 1_000
    async with engine(folder) as perdure:
        await perdure.run(parent, 5)
        began = time.perf_counter()
        expect(await perdure.run(parent, width), sum(range(width)))
        return {"children_per_s": round(width / (time.perf_counter() - began), 1)}


async def updates(folder: str) -> Figures:
    """Round trips of updates and of signals, in turns."""
    count = 300
    durable = Durable()
    by_update: list[float] = []
    by_signal: list[float] = []
    async with engine(folder, listener=durable) as perdure:
        handle = await perdure.start(Counter)
        for number in range(count):
            began = time.perf_counter()
            await handle.update(Counter.add, 1)
            answered = time.perf_counter()
            await handle.signal(Counter.count, 1)
            await durable.until(2 * number + 2)
            by_update.append(answered - began)
            by_signal.append(time.perf_counter() - answered)
        await handle.signal(Counter.close)
        expect(await handle.result(), 2 * count)
    update_ms, signal_ms = percentiles(by_update), percentiles(by_signal)
    return {
        "update_p50_ms": update_ms["p50_ms"],
        "signal_p50_ms": signal_ms["p50_ms"],
        "ratio": round(update_ms["p50_ms"] / signal_ms["p50_ms"], 2),
    }


async def open_steps(folder: str) -> Figures:
    """A step of a run that waits for 10,000 others at once, against one of 1,000 (E10)."""
    took: dict[int, float] = {}
    async with engine(folder, queues={"default": 10_000}) as perdure:
        await perdure.run(fan, 5)
        for width in (1_000, 10_000):
            began = time.perf_counter()
            expect(await perdure.run(fan, width), sum(range(width)))
            took[width] = (time.perf_counter() - began) / width
    per_step = {f"us_of_{width}": round(each * 1e6, 1) for width, each in took.items()}
    return {**per_step, "growth": round(took[10_000] / took[1_000], 2)}


async def long_20000(folder: str) -> Figures:
    """The last thousand steps of a run of 20,000, against its second thousand (E10)."""
    steps = 20_000
    async with engine(folder) as perdure:
        await perdure.run(chain, 100)
        stepped.clear()
        expect(await perdure.run(chain, steps), steps)
    second, last = stepped[2_000] - stepped[1_000], stepped[-1] - stepped[-1_001]
    return {"s_second": round(second, 3), "s_last": round(last, 3), "growth": round(last / second, 2)}


async def start_parked(perdure: Engine, count: int) -> None:
    """Start workflows that wait, and see them parked."""
    for first in range(0, count, 250):
        await asyncio.gather(*[perdure.start(parked, number) for number in range(first, first + 250)])
    await until_none_is_due(perdure)


async def until_none_is_due(perdure: Engine) -> None:
    """Wait until the store has nothing to run, and what was under way is over."""
    due: int | None = 0
    while due is not None:
        await asyncio.sleep(0.5)
        due = await perdure.store.get_next_wake(["default"])


def resident_bytes() -> int:
    """What the process holds of memory."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


WORKLOADS: dict[str, Measured] = {
    "chain-1": chain_1,
    "chain-100": chain_100,
    "fanout": fanout,
    "start": start,
    "signal": signals,
    "long": long,
    "parked": park,
    "children": children,
    "update": updates,
    "open-steps": open_steps,
    "long-20000": long_20000,
    "restart": restart,
}


def main() -> int:
    """Run one, and print its figures."""
    parser = argparse.ArgumentParser(description="One workload of the engine")
    parser.add_argument("workload", choices=list(WORKLOADS))
    parser.add_argument("--folder", default=".", help="where to put the file: on the disk that is to be measured")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        gc.freeze()
        print(json.dumps(asyncio.run(WORKLOADS[options.workload](folder))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
