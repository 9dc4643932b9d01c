"""Every commit boundary of two producers and three consumers is crashed once; nothing is lost or doubled (I13, L9)."""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import Any, Literal

from perdure.app import Engine
from perdure.stores.memory import MemoryStore
from perdure.stores.records import EVERY
from perdure.testing import VirtualClock, run_virtual
from perdure.testing.crashing import Crashed, CrashingStore
from tests.pipelines import corpus

NUMBERS = itertools.count()
GRAVES: list[Engine] = []  # what is left of a killed engine hangs, until the loop ends
STORY_SECONDS = 660.0
PAIRS = 40
When = Literal["before", "after"]
WHENS: tuple[When, When] = ("before", "after")


def _engine(store: Any, clock: VirtualClock, world: corpus.World) -> Engine:
    engine = Engine(
        store,
        workflows=[corpus.archive],
        pipelines=[corpus.pipeline(world)],
        clock=clock,
        threads=False,
        rng=random.Random(next(NUMBERS)),
        lease="30d",  # of a store that dies, it ends at once
    )
    GRAVES.append(engine)
    return engine


async def _told(engine: Engine) -> None:
    async with engine:
        await asyncio.sleep(STORY_SECONDS)


async def _crashed(clock: VirtualClock, *crashes: tuple[int, When]) -> int:
    """Run it until that write, again until that one, and then to its end; how many writes that took."""
    name, world = f"pipelines-{next(NUMBERS)}", corpus.World()
    keeper = MemoryStore(clock, name)
    for at, when in crashes:
        crashing = CrashingStore(MemoryStore(clock, name), at=at, when=when, then="hang")
        before = asyncio.all_tasks()
        telling = asyncio.ensure_future(_told(_engine(crashing.as_store(), clock, world)))
        dying = asyncio.ensure_future(crashing.death.wait())
        await asyncio.wait([telling, dying], return_when=asyncio.FIRST_COMPLETED)
        dying.cancel()
        if crashing.death.is_set():
            await kill(asyncio.all_tasks() - before)
            await crashing.bury()
    counting = CrashingStore(MemoryStore(clock, name))
    await _told(_engine(counting.as_store(), clock, world))
    await check(keeper, world)
    return counting.writes


async def kill(tasks: set[asyncio.Task[Any]]) -> None:
    """What a process leaves behind when it dies: nothing of it runs any more."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=10)
    for task in tasks:
        if task.done() and not task.cancelled():
            error = task.exception()
            assert error is None or isinstance(error, Crashed | TimeoutError | asyncio.CancelledError), error


async def check(store: MemoryStore, world: corpus.World, *, calm: bool = True) -> None:
    """Once each, in order; every event consumed, nothing reserved, no run open, each attempt linked (L7, L9)."""
    world.audit()
    await store.open()
    view = await store.view_pipeline("desk")
    assert (view.open_run, view.pending) == (None, {})
    counts = await store.count_events("desk")
    assert counts == {"letters": {"consumed": 3}, "calls": {"consumed": 2}, "lines": {"consumed": 5}}
    runs = await store.list_handler_runs("desk", 100_000)
    ids = {run.id for run in runs}
    if calm:
        assert all(run.status in ("committed", "crashed", "paused:reconciliation") for run in runs)
    assert all(run.retry_of in ids for run in runs if run.retry_of is not None)
    successors = [run.retry_of for run in runs if run.retry_of is not None]
    assert sorted(successors) == sorted(run.id for run in runs if run.status != "committed")
    started = await store.list_runs(EVERY, 100)
    assert {run.status for run in started} == {"completed"}
    assert len(started) == len(world.digests)
    await store.close()


def test_a_crash_at_any_commit_loses_nothing_and_doubles_nothing() -> None:
    """I13, L7, L9."""
    clock = VirtualClock()

    async def all_of_them() -> int:
        writes = await _crashed(clock)
        for crash in itertools.product(range(1, writes + 1), WHENS):
            await _noted(clock, crash)
        return writes

    assert run_virtual(all_of_them(), clock=clock) > 60
    GRAVES.clear()


def test_a_crash_of_the_recovery_loses_nothing_and_doubles_nothing() -> None:
    """I13, L9: a sample of pairs, and of three in a row."""
    clock = VirtualClock()

    async def some_of_them() -> None:
        chosen = random.Random(13)
        for number in range(PAIRS):
            first: tuple[int, When] = (chosen.randrange(5, 60), chosen.choice(WHENS))
            again: list[tuple[int, When]] = [
                (chosen.randrange(3, 12), chosen.choice(WHENS)) for _ in range(1 + number % 2)
            ]
            await _noted(clock, first, *again)

    run_virtual(some_of_them(), clock=clock)
    GRAVES.clear()


async def _noted(clock: VirtualClock, *crashes: tuple[int, When]) -> None:
    try:
        await _crashed(clock, *crashes)
    except BaseException as error:
        error.add_note(f"crashed {', then '.join(f'{when} write {at}' for at, when in crashes)}")
        raise
