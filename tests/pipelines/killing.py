"""Killing: the program of pipelines as a process, begun, killed at a random instant, and its files audited."""

from __future__ import annotations

import asyncio
import random
import select
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from perdure.clock import SystemClock
from perdure.stores.sqlite import SqliteStore
from tests.pipelines.program import Log

ROOT = Path(__file__).parents[2]
LIFE_SECONDS = (0.0, 0.25)  # of a process, from when it is ready
READY_SECONDS = 30.0
FINISH_SECONDS = 120.0


@contextmanager
def running(folder: Path, count: int) -> Generator[subprocess.Popen[bytes]]:
    """The program, from when it is ready; it is gone when the block ends."""
    command = [sys.executable, "-m", "tests.pipelines.program", str(folder), str(count)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], READY_SECONDS)[0], "the program did not begin in time"
            assert process.stdout.readline() == b"ready\n", f"the program has ended with {process.wait()}"
            yield process
        finally:
            process.kill()


def wait_a_little(chosen: random.Random) -> None:
    """Until a random instant."""
    time.sleep(chosen.uniform(*LIFE_SECONDS))


def finish(process: subprocess.Popen[bytes]) -> None:
    """Let it come to its end."""
    output, _ = process.communicate(timeout=FINISH_SECONDS)
    assert (process.returncode, output) == (0, b"done\n")


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for it."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def still(log: Log) -> bool:
    """Whether nothing is written to a file for a while."""
    before = len(log.lines())
    time.sleep(0.3)
    return len(log.lines()) == before


def audit(folder: Path, count: int) -> None:
    """Both files have every number once and in order; the store is whole, and all events are consumed."""
    for name in ("first", "second"):
        lines = Log(folder / name).lines()
        assert [number for _, numbers in lines for number in numbers] == list(range(count)), name
        assert len({key for key, _ in lines}) == len(lines)

    async def look() -> None:
        store = SqliteStore(folder / "store.db", SystemClock())
        await store.open()
        assert await store.verify() == []
        counts = await store.count_events("copy")
        assert counts == {"numbers": {"consumed": count}, "copied": {"consumed": count}}
        runs = await store.list_handler_runs("copy", 100_000)
        assert {run.status for run in runs[:-1]} <= {"committed", "crashed", "paused:reconciliation"}
        await store.close()

    asyncio.run(look())
