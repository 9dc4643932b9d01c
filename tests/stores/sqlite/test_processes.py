"""Several processes on one file: nobody is told that it is locked, and what one writes another one notices."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from perdure.stores.sqlite import SqliteStore
from perdure.testing.conformance.making import a_start
from tests.stores.sqlite.files import begin, with_store
from tests.tree import TREE

Spawn = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Spawn]:
    """Start another process on the file; each is ended with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(what: str, number: int = 0) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.stores.sqlite.other_process", tmp_path / "store.db", what, str(number)]
        process = subprocess.Popen(command, cwd=TREE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def line(process: subprocess.Popen[str]) -> str:
    """The next line that it says."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go(process: subprocess.Popen[str]) -> None:
    """Have it go on."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_several_writers_wait_for_each_other_and_nobody_fails(spawn: Spawn, tmp_path: Path) -> None:
    """No process ever sees that the file is locked (E3), and nothing of any of them is lost."""
    count = 60

    async def work(store: SqliteStore) -> None:
        others = [spawn("write", count)]
        assert [line(other) for other in others] == ["ready"]
        for other in others:
            go(other)
        for number in range(count):
            await store.start_run(a_start(f"mine-{number}"))
        assert [await asyncio.to_thread(line, other) for other in others] == ["[]"]
        assert (await store.counts())["runs"] == 2 * count
        assert (await store.counts())["messages"] == count
        assert await store.verify() == []

    with_store(tmp_path / "store.db", work)


def test_two_processes_may_make_the_file_at_the_same_time(spawn: Spawn) -> None:
    both = [spawn("write", 1), spawn("write", 1)]
    assert [line(each) for each in both] == ["ready", "ready"]


def test_what_another_process_writes_is_noticed_within_20_ms(spawn: Spawn, tmp_path: Path) -> None:
    """The quickest of many counts, as this machine has other work too; the usual one is not far behind."""
    count = 30

    async def work(store: SqliteStore) -> None:
        await begin(store, "o-1")
        told = asyncio.Event()
        noticed: list[float] = []

        def notice() -> None:
            noticed.append(time.monotonic())
            told.set()

        stop = store.on_change(notice)
        other = spawn("tell", count)
        assert await asyncio.to_thread(line, other) == "ready"
        delays: list[float] = []
        for _ in range(count):
            told.clear()
            noticed.clear()
            go(other)
            written = float(await asyncio.to_thread(line, other))
            await asyncio.wait_for(told.wait(), 30)
            delays.append(noticed[0] - written)
        assert min(delays) < 0.02, delays
        assert sorted(delays)[count // 2] < 0.1, delays
        stop()

    with_store(tmp_path / "store.db", work)


def test_a_killed_worker_frees_its_work_at_once(spawn: Spawn, tmp_path: Path) -> None:
    """Its lease has ten minutes to go, and its lock none (E3)."""

    async def work(store: SqliteStore) -> None:
        other = spawn("hold")
        number = int(await asyncio.to_thread(line, other))
        assert await store.end_dead_leases() == []
        other.kill()
        other.wait()
        assert [lease.number for lease in await store.end_dead_leases()] == [number]
        lease = await store.open_lease("me", {}, 60.0)
        assert lease.number > number
        (run,) = await store.claim_runs(lease.number, ["default"], ["order"], 10)
        (task,) = await store.claim_tasks(lease.number, "default", ["charge"], 10)
        assert (run.facts.workflow_id, task.attempt) == ("o-1", 2)
        assert [attempt.outcome for attempt in task.attempts] == ["worker_died"]
        assert [each.name for each in (tmp_path / "store.db-leases").iterdir()] == [str(lease.number)]
        await store.close_lease(lease.number)
        assert not (tmp_path / "store.db-leases").exists()

    with_store(tmp_path / "store.db", work)


def test_a_process_that_a_killed_worker_forked_off_does_not_keep_its_lease(spawn: Spawn, tmp_path: Path) -> None:
    """Activities in processes may outlive their worker; its lease does not (E3)."""

    async def work(store: SqliteStore) -> None:
        other = spawn("fork")
        number = int(await asyncio.to_thread(line, other))
        assert await store.end_dead_leases() == []
        other.kill()
        other.wait()
        assert [lease.number for lease in await store.end_dead_leases()] == [number]

    with_store(tmp_path / "store.db", work)


def test_a_killed_writer_leaves_the_store_whole(spawn: Spawn, tmp_path: Path) -> None:
    """At whatever moment it is killed (E8)."""
    with_store(tmp_path / "store.db", lambda store: begin(store, "o-1"))
    for _ in range(3):
        other = spawn("write", 100_000)
        assert line(other) == "ready"
        go(other)
        with suppress(subprocess.TimeoutExpired):
            other.wait(0.1)
        other.kill()
        other.wait()

        async def work(store: SqliteStore) -> None:
            assert await store.verify() == []

        with_store(tmp_path / "store.db", work)
