"""Real processes with pipelines are killed with SIGKILL: nothing is lost or done twice (L7, L9, I13).

More of them: `PERDURE_PIPELINE_KILLS=500 pytest tests/pipelines/test_pipeline_kills.py`.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from pathlib import Path

from perdure import Client
from tests.pipelines.killing import audit, finish, running, still, until, wait_a_little
from tests.pipelines.program import Log

KILLS = int(os.environ.get("PERDURE_PIPELINE_KILLS", "8"))
COUNT = 10 * KILLS + 50
SEED = 9
LEASE_SECONDS = 10


def test_kills_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    """I13."""
    chosen = random.Random(SEED)
    for _ in range(KILLS):
        with running(tmp_path, COUNT):
            wait_a_little(chosen)
    with running(tmp_path, COUNT) as process:
        finish(process)
    audit(tmp_path, COUNT)


def test_another_worker_takes_over_at_once_when_the_owner_is_killed(tmp_path: Path) -> None:
    """L9, E3: the side file's lock is free, so no lease has to run out first."""
    count = 250
    log = Log(tmp_path / "second")
    with running(tmp_path, count) as first, running(tmp_path, count) as second:
        until(lambda: len(log.lines()) > 2)
        first.kill()
        killed, before = time.monotonic(), len(log.lines())
        until(lambda: len(log.lines()) > before + 2)
        assert time.monotonic() - killed < LEASE_SECONDS
        finish(second)
    audit(tmp_path, count)


def test_another_process_pauses_a_pipeline(tmp_path: Path) -> None:
    """L11: the owner learns of it as of any change."""

    async def pause() -> None:
        async with Client(f"sqlite:///{tmp_path / 'store.db'}") as client:
            await client.pipelines.pause("copy")

    with running(tmp_path, 10_000):
        log = Log(tmp_path / "first")
        until(lambda: len(log.lines()) > 2)
        asyncio.run(pause())
        until(lambda: still(log))
        assert still(log)
