"""Acknowledged is flushed: one flush of the log for each group, none missing (E1)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.stores.records import EVERY
from perdure.stores.sqlite import SqliteStore
from perdure.testing.conformance.making import a_commit, a_start, a_task
from tests.stores.sqlite.counting import CountingVfs
from tests.stores.sqlite.files import begin, with_store


@pytest.fixture
def vfs() -> Iterator[CountingVfs]:
    vfs = CountingVfs("counting")
    yield vfs
    vfs.unregister()


def test_each_acknowledged_group_is_flushed_once(vfs: CountingVfs, tmp_path: Path) -> None:
    """One call after another: a flush each, before its answer. Many at once: fewer than calls, and at least one."""

    async def work(store: SqliteStore) -> None:
        for number in range(20):
            before = vfs.flushes["wal"]
            await store.start_run(a_start(f"alone-{number}"))
            assert vfs.flushes["wal"] == before + 1
        before = vfs.flushes["wal"]
        await asyncio.gather(*[store.start_run(a_start(f"together-{number}")) for number in range(100)])
        assert before + 1 <= vfs.flushes["wal"] <= before + 3

    with_store(tmp_path / "store.db", work, vfs="counting")


def test_a_group_of_turns_is_one_flush(vfs: CountingVfs, tmp_path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        lease = await store.open_lease("w-1", {}, 60.0)
        runs = [await begin(store, f"o-{number}", lease.number) for number in range(50)]
        before = vfs.flushes["wal"]
        tasks = [(a_task(run.facts.workflow_id, claimed=True),) for run in runs]
        commits = [a_commit(run, lease.number, new_tasks=new) for run, new in zip(runs, tasks, strict=True)]
        await store.commit_turns(commits)
        assert vfs.flushes["wal"] == before + 1

    with_store(tmp_path / "store.db", work, vfs="counting")


def test_what_changes_nothing_flushes_nothing(vfs: CountingVfs, tmp_path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        lease = await store.open_lease("w-1", {}, 60.0)
        before = vfs.flushes["wal"]
        await store.claim_runs(lease.number, ["default"], ["order"], 10)
        await store.list_runs(EVERY, 10)
        await store.end_dead_leases()
        assert vfs.flushes["wal"] == before

    with_store(tmp_path / "store.db", work, vfs="counting")


def test_without_threads_each_call_is_flushed_as_well(vfs: CountingVfs, tmp_path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        for number in range(5):
            before = vfs.flushes["wal"]
            await store.start_run(a_start(f"o-{number}"))
            assert vfs.flushes["wal"] == before + 1

    with_store(tmp_path / "store.db", work, vfs="counting", threads=False)
