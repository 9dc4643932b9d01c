"""Leases are kept off the user's event loop, and the line that blocks that loop is named (E3, E4)."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from perdure import Engine, activity, workflow
from perdure.clock import SystemClock
from perdure.engine.settings import Settings
from perdure.stores.sqlite import SqliteStore

LEASE_SECONDS = 0.4


@activity
async def hog(seconds: float) -> str:
    """An `async def` that blocks the loop, as a call of a library may."""
    threading.Event().wait(seconds)
    return "done"


@workflow
async def hogging(seconds: float) -> str:
    return await hog(seconds)


def test_a_loop_that_is_blocked_is_named_and_costs_no_lease(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Rules E3, E4: another worker that looks for the dead finds none, though the loop is blocked for three leases."""
    path = tmp_path / "shop.db"

    async def scene() -> None:
        settings = replace(Settings(), blocked_loop_seconds=0.1)
        looking = threading.Event()
        found: list[object] = []
        watcher = threading.Thread(target=lambda: found.extend(asyncio.run(look_for_the_dead(path, looking))))
        async with Engine(
            f"sqlite:///{path}", workflows=[hogging], activities=[hog], lease=LEASE_SECONDS, settings=settings
        ) as engine:
            watcher.start()
            looking.wait()
            handle = await engine.start(hogging, 3 * LEASE_SECONDS, id="h")
            assert await handle.result(timeout=20) == "done"
            looking.clear()
            await asyncio.to_thread(watcher.join)
            assert [(one.attempt, one.outcome) for one in (await handle.describe()).attempts] == [(1, "completed")]
        assert found == []

    with caplog.at_level(logging.WARNING, logger="perdure"):
        asyncio.run(scene())
    (told,) = [record.message for record in caplog.records if "has been blocked" in record.message]
    assert "test_leases.py" in told
    assert "in hog" in told


async def look_for_the_dead(path: Path, looking: threading.Event) -> list[object]:
    """What another worker would take over, looked at again and again while `looking`."""
    dead: list[object] = []
    store = SqliteStore(str(path), SystemClock(), threads=False)
    await store.open()
    looking.set()
    try:
        while looking.is_set():
            dead += await store.end_dead_leases()
            threading.Event().wait(0.05)
    finally:
        await store.close()
    return dead


def test_the_seed_of_an_engine_is_its_own_business() -> None:
    """Randomness is an argument: two engines with the same one draw the same ids."""

    async def first_id() -> str | None:
        async with Engine("memory://", workflows=[hogging], activities=[hog], rng=random.Random(7)) as engine:
            return (await engine.start(hogging, 0.0)).run_id

    assert asyncio.run(first_id()) == asyncio.run(first_id())
