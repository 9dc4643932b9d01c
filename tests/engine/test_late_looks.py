"""What is read of the store aside of the writing comes late: nothing is lost by it, and nobody waits for ever (E1, E3).

Three workers share a store whose looks are told some milliseconds after they were taken, in any order, and whose
transitions are told in their order, as with a file and its two connections.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import random
from typing import Any

import pytest

from perdure import Engine, Retry, RunTimedOut, activity, activity_info, parallel, receive, sleep, workflow
from perdure.stores.memory import MemoryStore
from perdure.testing import VirtualClock, run_virtual

NUMBERS = itertools.count()
RUNS = 30
LIMIT_SECONDS = 60


@activity
async def nap(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


@activity(retry=Retry(attempts=3, initial=0.004))
async def second_time_lucky(seconds: float) -> float:
    await asyncio.sleep(seconds)
    if activity_info().attempt == 1:
        raise ValueError("not yet")
    return seconds


@workflow
async def restless(seed: int) -> list[int]:
    """It parks and goes on all the time, and tells in which order its signals came."""
    chance = random.Random(seed)
    seen: list[int] = []
    for _ in range(8):
        length = chance.random() * 0.01
        match chance.randrange(4):
            case 0:
                await sleep(length)
            case 1:
                await parallel(nap(length), sleep(chance.random() * 0.01))
            case 2:
                await parallel(second_time_lucky(length), nap(chance.random() * 0.01))
            case _:
                seen.append(await receive("number", int))
    while len(seen) < 10:
        seen.append(await receive("number", int))
    return seen


@workflow
async def doubled(number: int) -> int:
    return number * 2


class LateLooks:
    """A store, with answers that take their time."""

    def __init__(self, store: MemoryStore, chance: random.Random) -> None:
        self._store = store
        self._chance = chance

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not inspect.iscoroutinefunction(found) and name != "commit_turns":
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            answer = await found(*args, **kwargs)
            looked = name.startswith(("list_", "get_"))
            await asyncio.sleep(self._chance.random() * 0.01 if looked else 0.002)
            return answer

        return call


@pytest.mark.parametrize("seed", range(4))
def test_no_answer_and_no_signal_is_lost_by_what_was_read_too_early(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Runs that several workers claim in turn, while they are told things: each ends, with its signals in order.

    Most are evicted in between, also while they are being brought up to date (E10); none is blocked by that.
    """
    clock, chance = VirtualClock(), random.Random(seed)

    def engine(name: str) -> Engine:
        return Engine(
            LateLooks(MemoryStore(clock, name), chance),  # type: ignore[arg-type]
            workflows=[restless],
            activities=[nap, second_time_lucky],
            clock=clock,
            threads=False,
            cache=2,
            rng=random.Random(next(NUMBERS)),
        )

    async def tell(of: list[Engine], number: int) -> list[int]:
        handle = await chance.choice(of).start(restless, number, id=f"r-{number}")
        for signal in range(10):
            await chance.choice(of).handle(handle.id).signal("number", signal)
            await asyncio.sleep(chance.random() * 0.01)
        return await handle.result(timeout=LIMIT_SECONDS)

    async def scene() -> None:
        name = f"late-looks-{next(NUMBERS)}"
        async with engine(name) as one, engine(name) as two, engine(name) as three:
            told = await asyncio.gather(*[tell([one, two, three], number) for number in range(RUNS)])
            assert told == [list(range(10))] * RUNS

    run_virtual(scene(), clock=clock)
    assert [record.message for record in caplog.records if "is blocked" in record.message] == []


class LateLook:
    """A store whose look of this name is told a second after it was taken."""

    def __init__(self, store: MemoryStore, name: str) -> None:
        self._store = store
        self._name = name
        self.taken = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name != self._name:
            return found

        async def call(*args: Any) -> Any:
            answer = await found(*args)
            self.taken.set()
            await asyncio.sleep(1)
            return answer

        return call


def test_a_run_is_due_that_came_while_the_next_one_was_looked_up() -> None:
    """E1. Only this worker writes: nobody else makes it look again."""
    clock = VirtualClock()

    async def scene() -> None:
        store = LateLook(MemoryStore(clock, f"late-looks-{next(NUMBERS)}"), "get_next_wake")
        async with Engine(store, workflows=[doubled], clock=clock, threads=False) as engine:  # type: ignore[arg-type]
            await store.taken.wait()
            handle = await engine.start(doubled, 2, delay=10)
            assert await handle.result(timeout=LIMIT_SECONDS) == 4

    run_virtual(scene(), clock=clock)


def test_a_run_times_out_that_came_while_the_next_limit_was_looked_up() -> None:
    """E8. Its queue has no worker, and only this one writes."""
    clock = VirtualClock()

    async def scene() -> None:
        store = LateLook(MemoryStore(clock, f"late-looks-{next(NUMBERS)}"), "get_next_deadline")
        async with Engine(store, workflows=[doubled], clock=clock, threads=False) as engine:  # type: ignore[arg-type]
            await store.taken.wait()
            handle = await engine.start("stranger", queue="far away", timeout=10)
            with pytest.raises(RunTimedOut):
                await handle.result(timeout=LIMIT_SECONDS)

    run_virtual(scene(), clock=clock)
