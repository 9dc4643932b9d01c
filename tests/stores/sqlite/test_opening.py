"""What cannot be opened is refused with the file, the reason and the remedy, and is left as it was (section 6)."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import apsw
import pytest

from perdure.cli.opening import check_store
from perdure.clock import SystemClock
from perdure.errors import PerdureError, StoreCorrupt, StoreUnavailable, UsageError
from perdure.stores.sqlite import SqliteStore
from perdure.stores.sqlite.opening import open_writer
from perdure.stores.urls import store_of
from tests.stores.sqlite.files import begin, look, with_store


async def nothing(_: SqliteStore) -> None:
    """Opening is all there is to it."""


def a_folder(path: Path) -> None:
    path.mkdir()


def no_database(path: Path) -> None:
    path.write_bytes(b"orders,amounts\n" * 400)


def of_another_program(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("create table orders (id)")
    connection.close()


def from_the_future(path: Path) -> None:
    with_store(path, nothing)
    look(path, "pragma user_version = 99")


def with_other_tables(path: Path) -> None:
    from perdure.stores.sqlite.rows import sealed

    with_store(path, nothing)
    row = sealed("migrations", (1, "of another release"))
    look(path, "update migrations set script = ?, seal = ? where number = 1", *row[1:])


def without_its_migrations(path: Path) -> None:
    with_store(path, nothing)
    look(path, "delete from migrations")


REFUSALS: list[tuple[Callable[[Path], None], type[PerdureError], str]] = [
    (a_folder, StoreUnavailable, "is a folder: name a file in it"),
    (no_database, StoreUnavailable, "is no SQLite database: name another file"),
    (of_another_program, StoreUnavailable, "an SQLite database of another program, and was left as it is: name a file"),
    (from_the_future, StoreUnavailable, "written by a newer Perdure: its schema is version 99.*Upgrade Perdure"),
    (with_other_tables, StoreUnavailable, "tables that this Perdure does not know.*Use the release that made the file"),
    (without_its_migrations, StoreCorrupt, "migrations, row 1: it is missing"),
]


@pytest.mark.parametrize(("make", "kind", "text"), REFUSALS, ids=[make.__name__ for make, _, _ in REFUSALS])
@pytest.mark.parametrize("threads", [True, False])
def test_a_file_that_is_not_ours_is_refused_and_left_alone(
    make: Callable[[Path], None], kind: type[PerdureError], text: str, threads: bool, tmp_path: Path
) -> None:
    path = tmp_path / "store.db"
    make(path)
    before = None if path.is_dir() else path.read_bytes()
    with pytest.raises(kind, match=text) as caught:
        with_store(path, nothing, threads=threads)
    assert kind is StoreCorrupt or str(path) in str(caught.value)
    assert path.is_dir() or path.read_bytes() == before


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"the folder .*/no does not exist: create it"):
        with_store(tmp_path / "no" / "store.db", nothing)


def test_what_may_not_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the operating system says so; for whoever may do everything, it never does."""
    path = tmp_path / "store.db"
    with_store(path, nothing)
    refused: list[str] = []

    def access(asked: str, _: int) -> bool:
        return asked not in refused

    monkeypatch.setattr(os, "access", access)
    for place in (path, tmp_path):
        refused[:] = [str(place)]
        with pytest.raises(StoreUnavailable, match="may not be"):
            with_store(path, nothing)
    refused.clear()
    with_store(path, nothing)


def test_an_empty_file_becomes_a_store_and_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch()
    with_store(path, lambda store: begin(store, "o-1"))
    assert look(path, "pragma journal_mode") == [("wal",)]
    assert look(path, "select number, run_id is not null from runs") == [(1, 1)]
    with_store(path, lambda store: store.get_run("o-1"))


def test_a_file_that_another_makes_into_a_store_meanwhile_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes may open a new file at once: neither takes the other's half-seen tables for another program's."""
    path = str(tmp_path / "store.db")
    other = Thread(target=lambda: open_writer(path).close())

    def pause(_: object, statement: str, __: object) -> bool:
        if "user_version" in statement and not other.ident:
            other.start()
            other.join(0.3)  # it ends if it may
        return True

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = pause

    monkeypatch.setattr(apsw, "connection_hooks", [watch])
    open_writer(path).close()
    other.join()
    assert look(tmp_path / "store.db", "select count(*) from runs") == [(0,)]


def test_a_file_that_vanishes_takes_no_more_turns(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def work(store: SqliteStore) -> None:
        await begin(store, "o-1")
        path.rename(tmp_path / "elsewhere.db")
        with pytest.raises(StoreUnavailable, match="removed or replaced"):
            await begin(store, "o-2")
        (tmp_path / "elsewhere.db").rename(path)
        await begin(store, "o-2")

    with_store(path, work)


def test_a_store_that_is_not_open_says_so(tmp_path: Path) -> None:
    async def work(store: SqliteStore) -> SqliteStore:
        return store

    store = with_store(tmp_path / "store.db", work)
    call = store.get_run("o-1")
    with pytest.raises(StoreUnavailable, match="is not open"):
        call.send(None)


def test_a_value_that_no_column_takes_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        wrongs: list[dict[str, Any]] = [{"priority": 2**70}, {"workflow": "\ud800"}]
        for wrong in wrongs:
            with pytest.raises(UsageError, match="cannot be stored"):
                await begin(store, "o-1", **wrong)
        assert (await store.counts())["runs"] == 0

    with_store(tmp_path / "store.db", work)


def as_itself(path: Path) -> object:
    return path


def as_uri(path: Path) -> str:
    return f"file:{path}?mode=ro"


@pytest.mark.parametrize("named", [as_itself, str, os.fsencode, as_uri, os.path.relpath])
def test_pythons_own_sqlite3_on_an_open_file_is_refused(named: Callable[[Path], Any], tmp_path: Path) -> None:
    """It would drop the locks that keep two processes apart."""
    path = tmp_path / "store.db"

    async def work(store: SqliteStore) -> None:
        with pytest.raises(UsageError, match=r"Perdure has this file open.*Client or the command line"):
            sqlite3.connect(named(path), uri=named is as_uri)
        sqlite3.connect(tmp_path / "another.db").close()
        sqlite3.connect(":memory:").close()

    with_store(path, work)
    sqlite3.connect(path).close()


def test_a_command_in_the_same_process_drops_no_lock(tmp_path: Path) -> None:
    """Closing a file drops all locks that its process has on it: another process would take the store for its own."""
    path = tmp_path / "store.db"
    alone = (  # what SQLite asks for before it removes the log of a file that nobody else has open
        "import fcntl, os\n"
        f"file = os.open({str(path)!r}, os.O_RDWR)\n"
        "fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)"
    )

    async def work(store: SqliteStore) -> None:
        await begin(store, "o-1")
        check_store(f"sqlite:///{path}")
        other = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", alone], capture_output=True, text=True)
        assert "BlockingIOError" in other.stderr

    with_store(path, work)


def test_a_url_names_a_file(tmp_path: Path) -> None:
    assert store_of(f"sqlite:///{tmp_path}/store.db", SystemClock()).url == f"sqlite:///{tmp_path}/store.db"
    for wrong in ("sqlite://store.db", "sqlite:///", "postgres:///x", 7):
        with pytest.raises(UsageError, match=r"sqlite:///file\.db"):
            store_of(wrong, SystemClock())
