"""A thousand generations and a thousand children, while the worker is killed again and again (M1, M7, M8, E8)."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from perdure import Client, RunCancelled
from perdure.stores.records import Run
from tests.crash.worker import WORKFLOWS, finite_tree, rolling, tree

GENERATIONS = 1_000
WIDTH = [10, 100]
KILLS = 8
PATIENCE_SECONDS = 180


class Killed:
    """A worker process that is killed at random instants, and started again, until it is let alone."""

    def __init__(self, path: Path, life: tuple[float, float]) -> None:
        self._path = path
        self._rng = random.Random(str(path.name))
        self._life = life
        self._process = self._start()
        self.kills = 0

    async def kill_until(self, enough: asyncio.Event) -> None:
        while not enough.is_set() and self.kills < KILLS:
            try:
                async with asyncio.timeout(self._rng.uniform(*self._life)):  # the instant is what is random here
                    await enough.wait()
            except TimeoutError:
                self.end()
                self.kills += 1
                self._process = self._start()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._path.with_suffix(".said").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.crash.worker", str(self._path)], stdout=output, stderr=output
            )


def play(path: Path, scene: Callable[[Client, Killed], Awaitable[None]], life: tuple[float, float]) -> None:
    """The scene beside a worker that is killed meanwhile, each time within these seconds."""

    async def playing() -> None:
        enough = asyncio.Event()
        async with Client(f"sqlite:///{path}", workflows=WORKFLOWS) as client, asyncio.timeout(PATIENCE_SECONDS):
            killed = Killed(path, life)
            killing = asyncio.create_task(killed.kill_until(enough))
            try:
                await scene(client, killed)
                assert killed.kills > 0
                assert await client.store.verify() == []
            finally:
                enough.set()
                await killing
                killed.end()

    asyncio.run(playing())


async def runs_of(client: Client) -> list[Run]:
    return await client.store.get_runs(range(1, (await client.store.counts())["runs"] + 1))


def test_signals_pass_through_a_thousand_generations_in_order_and_once(tmp_path: Path) -> None:
    """Rules M1, M8, E8; I7. Some are sent twice, as a sender does that was killed before it knew."""

    async def scene(client: Client, killed: Killed) -> None:
        handle = await client.start(rolling, list[int](), GENERATIONS, id="chain")
        for number in range(GENERATIONS):
            for _ in range(1 + (number % 10 == 0)):
                await handle.signal("number", number, message_id=f"m-{number}")
        assert await handle.result() == list(range(GENERATIONS))
        assert [run.status for run in await runs_of(client)] == ["continued"] * (GENERATIONS - 1) + ["completed"]

    play(tmp_path / "chain.db", scene, (0.4, 1.0))


def test_a_tree_of_a_thousand_children_gives_its_sum(tmp_path: Path) -> None:
    """Rules M7, E8; I12."""

    async def scene(client: Client, killed: Killed) -> None:
        assert await client.run(finite_tree, WIDTH, id="tree") == WIDTH[0] * WIDTH[1]
        runs = await runs_of(client)
        assert len(runs) == 1 + WIDTH[0] + WIDTH[0] * WIDTH[1]
        assert {run.status for run in runs} == {"completed"}

    play(tmp_path / "tree.db", scene, (0.3, 0.6))


def test_cancelling_a_tree_of_a_thousand_children_ends_all_of_it(tmp_path: Path) -> None:
    """Rules M6, M7, E8; I11, I12."""

    async def scene(client: Client, killed: Killed) -> None:
        handle = await client.start(tree, WIDTH, id="tree")
        while killed.kills < 2 or len(await runs_of(client)) < 1 + WIDTH[0] + WIDTH[0] * WIDTH[1]:
            await _moment()
        await handle.cancel("enough")
        with pytest.raises(RunCancelled):
            await handle.result()
        while any(run.status == "running" for run in await runs_of(client)):
            await _moment()
        assert {run.status for run in await runs_of(client)} <= {"cancelled", "terminated"}

    async def _moment() -> None:
        with_nothing = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.05, with_nothing.set_result, None)
        await with_nothing

    play(tmp_path / "cancelled.db", scene, (0.3, 0.6))
