"""Workers in processes of their own on one file: killed, stopped, ended politely, told from elsewhere (E3, E8)."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure import Client, Engine
from tests.engine.worker_program import ACTIVITIES, WORKFLOWS, heard, quick, shout

PATIENCE_SECONDS = 30


class Process:
    """A worker process on a file."""

    def __init__(self, path: Path, lease: float) -> None:
        self.path = path
        self.said = path.with_suffix(".said")
        with self.said.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.engine.worker_program", str(path), str(lease)],
                stdout=output,
                stderr=output,
                env={**os.environ, "QUICK": "0"},
            )

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


Starting = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Starting]:
    """Start worker processes, which are ended by their process ids."""
    monkeypatch.setenv("QUICK", "1")
    made: list[Process] = []

    def begin(lease: float = 10) -> Process:
        made.append(Process(tmp_path / "shop.db", lease))
        return made[-1]

    yield begin
    for process in made:
        process.end()


async def until(true: Callable[[], Awaitable[Any]]) -> Any:
    """Look until it is so."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (found := await true()):
            await _moment()
        return found


async def _moment() -> None:
    """What is looked for is in another process, which tells nobody: look again soon."""
    waiter = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.01, waiter.set_result, None)
    await waiter


@asynccontextmanager
async def client_of(tmp_path: Path) -> AsyncGenerator[Client]:
    async with Client(f"sqlite:///{tmp_path}/shop.db", workflows=WORKFLOWS) as client:
        yield client


async def running_there(client: Client, run_id: str) -> Any:
    """Whether its activity runs in some process."""
    seen = await client.handle(run_id).describe()
    return [attempt for attempt in seen.attempts if attempt.outcome == "running"]


def test_what_a_killed_worker_held_goes_on_at_once(start: Starting, tmp_path: Path) -> None:
    """Rule E3: its lock on the side file is free, so its lease of a minute ends at once."""

    async def scene() -> None:
        process = start(lease=60)
        async with client_of(tmp_path) as client:
            await client.start(shout, "a", id="s")
            await until(lambda: running_there(client, "s"))
            process.end()
            began = time.monotonic()
            async with Engine(f"sqlite:///{tmp_path}/shop.db", workflows=WORKFLOWS, activities=ACTIVITIES) as engine:
                assert await engine.handle("s").result(timeout=PATIENCE_SECONDS) == "A"
                assert time.monotonic() - began < 5
                attempts = (await engine.handle("s").describe()).attempts
                assert [(one.attempt, one.outcome) for one in attempts] == [(1, "worker_died"), (2, "completed")]

    asyncio.run(scene())


def test_a_worker_that_lives_takes_over_from_one_that_is_killed(start: Starting, tmp_path: Path) -> None:
    """Rule E3."""

    async def scene() -> None:
        process = start(lease=60)
        async with client_of(tmp_path) as client:
            await client.start(shout, "a", id="s")
            await until(lambda: running_there(client, "s"))
            async with Engine(f"sqlite:///{tmp_path}/shop.db", workflows=WORKFLOWS, activities=ACTIVITIES) as engine:
                process.end()
                assert await engine.handle("s").result(timeout=5) == "A"

    asyncio.run(scene())


def test_a_worker_that_was_stopped_beyond_its_lease_writes_nothing_stale(start: Starting, tmp_path: Path) -> None:
    """Rules E3, I6: SIGSTOP, another one goes on, SIGCONT; the first one begins anew and works."""

    async def scene() -> None:
        process = start(lease=1)
        async with client_of(tmp_path) as client:
            await client.start(shout, "a", id="s")
            await client.start(heard, 1, id="h")
            await until(lambda: running_there(client, "s"))
            process.send(signal.SIGSTOP)
            async with Engine(
                f"sqlite:///{tmp_path}/shop.db", workflows=WORKFLOWS, activities=ACTIVITIES, lease=1
            ) as engine:
                assert await engine.handle("s").result(timeout=PATIENCE_SECONDS) == "A"
                await engine.handle("h").signal("go", 1)
                await engine.handle("h").result(timeout=PATIENCE_SECONDS)
            process.send(signal.SIGCONT)
            assert await client.run(quick, id="after") > 0, "it works again, under a new lease"
            assert process.process.poll() is None
            for run_id in ("s", "h", "after"):
                turns = await client.handle(run_id).history()
                assert [turn.turn for turn in turns] == list(range(len(turns)))
            assert [one.outcome for one in (await client.handle("s").describe()).attempts][-1] == "completed"
            assert await client.store.verify() == []

    asyncio.run(scene())


def test_a_worker_that_is_asked_to_end_hands_over_within_a_second(start: Starting, tmp_path: Path) -> None:
    """Rule E3: SIGTERM; what it held is free at once, and it says goodbye with 0."""

    async def scene() -> None:
        process = start(lease=60)
        async with client_of(tmp_path) as client:
            await client.start(shout, "a", id="s")
            await until(lambda: running_there(client, "s"))
            began = time.monotonic()
            process.send(signal.SIGTERM)
            code = await asyncio.to_thread(process.process.wait, PATIENCE_SECONDS)
            assert time.monotonic() - began < 2.0, "a second, and what a busy machine adds"
            assert code == 0, process.said.read_text()
            assert await client.store.list_leases() == []
            (task,) = (await client.handle("s").describe()).activities
            assert task.worker is None

    asyncio.run(scene())


def test_a_signal_from_another_process_is_noticed_soon(start: Starting, tmp_path: Path) -> None:
    """Within 20 ms where the machine has nothing else to do; the best of some shows it on a busy one."""
    count = 20

    async def scene() -> None:
        start()
        async with client_of(tmp_path) as client:
            handle = await client.start(heard, count, id="h")
            sent: list[float] = []
            for number in range(count):
                await until(lambda number=number: _has_turns(client, 2 * number + 1))
                sent.append(time.monotonic())
                await handle.signal("go", number)
            came = await handle.result(timeout=PATIENCE_SECONDS)
            delays = [there - here for here, there in zip(sent, came, strict=True)]
            assert min(delays) < 0.02
            assert statistics.median(delays) < 0.1

    async def _has_turns(client: Client, turns: int) -> bool:
        return (await client.handle("h").describe()).turns >= turns

    asyncio.run(scene())
