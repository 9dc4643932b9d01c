"""Leases are locks that the operating system frees with their holder, and with nobody else (E3)."""

from __future__ import annotations

from pathlib import Path

import apsw

from perdure.clock import SystemClock
from perdure.stores.sqlite import SqliteStore
from tests.stores.sqlite.files import begin, with_store


def test_another_store_of_this_process_neither_ends_nor_drops_a_lease(tmp_path: Path) -> None:
    """Whatever it opens and closes."""
    path = tmp_path / "store.db"

    async def work(store: SqliteStore) -> None:
        lease = await store.open_lease("w-1", {}, 600.0)
        other = SqliteStore(path, SystemClock())
        await other.open()
        second = await other.open_lease("w-2", {}, 600.0)
        assert await other.end_dead_leases() == []
        await other.close_lease(second.number)
        await other.close()
        apsw.Connection(str(path)).close()
        third = SqliteStore(path, SystemClock(), threads=False)
        await third.open()
        assert await third.end_dead_leases() == []
        assert [each.number for each in await third.list_leases()] == [lease.number]
        await third.close()
        assert await store.renew_lease(lease.number)

    with_store(path, work)


def test_a_store_that_is_closed_leaves_leases_that_anybody_can_end(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def leave(store: SqliteStore) -> None:
        await begin(store, "o-1", (await store.open_lease("w-1", {}, 600.0)).number)

    async def find(store: SqliteStore) -> None:
        assert [lease.name for lease in await store.end_dead_leases()] == ["w-1"]
        assert (await store.get_run("o-1")).owner is None
        assert (await store.open_lease("w-2", {}, 600.0)).number == 2

    with_store(path, leave)
    with_store(path, find)


def test_files_without_a_lease_are_swept_up(tmp_path: Path) -> None:
    """A crash between making the file and writing the lease leaves one behind."""

    async def work(store: SqliteStore) -> None:
        folder = tmp_path / "store.db-leases"
        folder.mkdir()
        (folder / "77").touch()
        lease = await store.open_lease("w-1", {}, 600.0)
        await store.end_dead_leases()
        assert [each.name for each in folder.iterdir()] == [str(lease.number)]

    with_store(tmp_path / "store.db", work)
