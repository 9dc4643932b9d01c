"""Everything at once, by a seed: crashes, an outside that fails in every way, a person who answers (I13, L3 to L9).

More of it: `PERDURE_PIPELINE_SEEDS=1000 pytest tests/pipelines/test_pipeline_chaos.py`.
"""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

import pytest

from perdure.app import Engine
from perdure.pipelines import needs_approval, not_applied, transient
from perdure.stores.memory import MemoryStore
from perdure.testing import VirtualClock, run_virtual
from perdure.testing.crashing import CrashingStore
from tests.pipelines import corpus
from tests.pipelines.test_pipeline_boundaries import GRAVES, check, kill

SEEDS = int(os.environ.get("PERDURE_PIPELINE_SEEDS", "8"))
CRASHES = 12
LIFE_SECONDS = (0.01, 400.0)
REST_SECONDS = 86_400.0


class Moody(corpus.World):
    """An outside that fails while it is moody."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.rng = rng
        self.moody = True
        self.met: set[str] = set()

    async def write(self, log: list[tuple[str, Any]], key: str, value: Any) -> int:
        """Write it, or not, and say so, or not."""
        mood = self.rng.choice(MOODS) if self.moody else "well"
        self.met.add(mood)
        match mood:
            case "transient":
                raise transient("busy")
            case "approval":
                raise needs_approval("log in")
            case "refused":
                raise not_applied("refused")
            case "lost before":
                raise ConnectionError("nobody knows")
            case "lost after":
                await super().write(log, key, value)
                raise ConnectionError("nobody knows")
            case "hangs after":
                await super().write(log, key, value)
                await asyncio.sleep(self.rng.uniform(0, 300))
                raise TimeoutError
            case _:
                return await super().write(log, key, value)

    async def find(self, log: list[tuple[str, Any]], key: str) -> Any:
        """What is known of it, or sometimes nothing."""
        if self.moody and self.rng.random() < 0.4:
            if self.rng.random() < 0.5:
                raise ConnectionError("it cannot be looked up")
            return None
        return await super().find(log, key)

    def happened(self, key: str) -> bool:
        """What a person sees who looks."""
        return any(known == key for log in (self.sheet, self.board, self.digests) for known, _ in log)


MOODS = ("well", "well", "transient", "approval", "refused", "lost before", "lost after", "hangs after")


async def person(engine: Engine, world: Moody) -> None:
    """Comes by every ten minutes, and answers truly what is asked."""
    while True:
        await asyncio.sleep(600)
        if (await engine.pipelines.status("desk")).status != "Needs attention":
            continue
        run = (await engine.store.view_pipeline("desk")).open_run
        assert run is not None
        if run.status == "paused:reconciliation":
            await engine.pipelines.resolve(run.id, "happened" if world.happened(run.key) else "did_not_happen", 1)
        else:
            await engine.pipelines.resolve(run.id, "retry")


async def life(name: str, clock: VirtualClock, world: Moody, seconds: float, *, dies: bool) -> None:
    """An engine, and the person beside it."""
    store = CrashingStore(MemoryStore(clock, name), then="hang")
    before = asyncio.all_tasks()
    engine = Engine(
        store.as_store(),
        workflows=[corpus.archive],
        pipelines=[corpus.pipeline(world)],
        clock=clock,
        threads=False,
        rng=world.rng,
        lease="90d",
    )
    GRAVES.append(engine)
    await engine.open()
    beside = asyncio.ensure_future(person(engine, world))
    await asyncio.sleep(seconds)
    if dies:
        await store.bury()
        await kill(asyncio.all_tasks() - before)
        return
    beside.cancel()
    await engine.close()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_happens_each_thing_is_done_once_and_in_order(seed: int) -> None:
    clock = VirtualClock()

    async def story() -> None:
        rng = random.Random(seed)
        name, world = f"chaos-{seed}-{id(clock)}", Moody(rng)
        keeper = MemoryStore(clock, name)
        for _ in range(CRASHES):
            await life(name, clock, world, rng.uniform(*LIFE_SECONDS), dies=True)
        world.moody = rng.random() < 0.5  # half of them only calm down in the end
        await life(name, clock, world, REST_SECONDS, dies=False)
        world.moody = False
        await life(name, clock, world, REST_SECONDS, dies=False)
        await check(keeper, world, calm=False)

    run_virtual(story(), clock=clock)
    GRAVES.clear()
