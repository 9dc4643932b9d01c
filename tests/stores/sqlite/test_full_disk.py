"""A full disk is said clearly, nothing is written by halves, and all goes on once there is room (section 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.errors import NotFound, StoreUnavailable
from perdure.stores.sqlite import SqliteStore
from perdure.testing.conformance.making import JOB, a_commit, a_start, a_task
from tests.stores.sqlite.counting import CountingVfs
from tests.stores.sqlite.files import begin, with_store


@pytest.fixture
def vfs() -> Iterator[CountingVfs]:
    vfs = CountingVfs("filling")
    yield vfs
    vfs.unregister()


@pytest.mark.parametrize("threads", [True, False])
def test_a_full_disk_refuses_clearly_and_goes_on_later(vfs: CountingVfs, tmp_path: Path, threads: bool) -> None:
    async def work(store: SqliteStore) -> None:
        lease = await store.open_lease("w-1", {}, 60.0)
        run = await begin(store, "o-1", lease.number)
        vfs.full = True
        with pytest.raises(StoreUnavailable, match=r"disk is full: .*store\.db .*Nothing of this call was written"):
            await store.start_run(a_start("o-2", message=JOB))
        turn = a_commit(run, lease.number, new_tasks=(a_task("t"),))
        with pytest.raises(StoreUnavailable, match="disk is full"):
            await store.commit_turns([turn])
        assert await store.get_run("o-1") == run
        assert await store.list_tasks(run.number) == []
        with pytest.raises(NotFound):
            await store.get_run("o-2")
        vfs.full = False
        assert (await store.start_run(a_start("o-2", message=JOB))).message == 1
        (answer,) = await store.commit_turns([turn])
        assert not isinstance(answer, Exception)
        assert await store.verify() == []

    with_store(tmp_path / "store.db", work, vfs="filling", threads=threads)


def test_all_who_wait_are_told(vfs: CountingVfs, tmp_path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        vfs.full = True
        calls = [store.start_run(a_start(f"o-{number}")) for number in range(20)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(answer, StoreUnavailable) for answer in answers)
        vfs.full = False
        assert (await store.counts())["runs"] == 0

    with_store(tmp_path / "store.db", work, vfs="filling")


def test_a_lease_that_could_not_be_written_leaves_no_lock(vfs: CountingVfs, tmp_path: Path) -> None:
    """Its number may be given to somebody else, who would then be taken for this one (E3)."""

    async def work(store: SqliteStore) -> None:
        vfs.full = True
        with pytest.raises(StoreUnavailable):
            await store.open_lease("w-1", {}, 60.0)
        assert not (tmp_path / "store.db-leases").exists()
        vfs.full = False

    with_store(tmp_path / "store.db", work, vfs="filling")
