"""An engine on virtual time, in memory and without threads: what the fixture `engine` opens.

In:  perdure.testing.plugin, with the clock of the test.
Out: perdure.app.Engine, on the running loop, which perdure.testing.virtual puts on virtual time.

Nothing in it comes back regularly: its lease outlives every test, and a run that is blocked is tried again ever more
rarely. So days cost nothing, and a test that waits for what never comes is told so.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any

from perdure.app import Engine
from perdure.engine.settings import Settings
from perdure.stores.records import Compare
from perdure.testing.clock import VirtualClock
from perdure.testing.virtual import running_clock, virtual_time

AGES_SECONDS = 1000 * 365 * 86_400.0
RUNS_SHOWN_MAX = 10
SETTINGS = Settings(
    lease_seconds=AGES_SECONDS,
    death_check_seconds=None,
    retry_maximum_seconds=AGES_SECONDS,
    guard_names=True,
    blocked_loop_seconds=None,
)


@asynccontextmanager
async def virtual_engine(
    *,
    workflows: Iterable[object] = (),
    activities: Iterable[object] = (),
    start: datetime | None = None,
    url: str = "memory://",
    clock: VirtualClock | None = None,
    patience: float | None = None,
    **options: Any,
) -> AsyncGenerator[Engine]:
    """An engine on virtual time, which is closed, with what still runs, when the block ends.

    `start` is what its wall clock is set to. The other options are those of `Engine`; with `threads=True` a `def`
    activity runs in a thread, and the clock goes at real pace meanwhile. A deadlock tells what each run waits for.
    """
    block = virtual_time(running_clock() or clock, start=start, patience=patience)
    with block as shared:
        surroundings: dict[str, Any] = {
            "clock": shared,
            "hold": shared.hold,
            "threads": False,
            "rng": random.Random(block.number),
            "name": f"engine-{block.number}",
            "settings": SETTINGS,
        }
        async with Engine(url, workflows=workflows, activities=activities, **{**surroundings, **options}) as engine:
            block.notes = partial(_waits, engine)
            yield engine


def _waits(engine: Engine) -> list[str]:
    """What each run that is under way waits for; nothing, if its store cannot be read without waiting."""
    reading = _read_waits(engine)
    try:
        reading.send(None)
    except StopIteration as done:
        return done.value
    reading.close()
    return []


async def _read_waits(engine: Engine) -> list[str]:
    lines: list[str] = []
    for run in await engine.store.list_runs(Compare("status", "=", "running"), RUNS_SHOWN_MAX):
        seen = await engine.handle(run.facts.workflow_id).describe()
        if seen.blocked is not None:
            lines.append(f"run {seen.id} ({seen.type}) is blocked: {seen.blocked.reason}")
        lines += [f"run {seen.id} ({seen.type}) waits for {wait.what} at {wait.source}" for wait in seen.waiting]
    return lines
