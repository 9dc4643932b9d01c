"""A store's file that cannot be used, or is taken away while it is: clear errors, by an engine and the command line.

Section 6. What the store itself does about such files is tested beside it; here it is what a person gets to see.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import apsw
import pytest

from perdure import NotFound, PerdureError, StoreCorrupt, StoreUnavailable, UsageError, activity, receive, workflow
from perdure.app import Client, Engine, Worker
from perdure.stores.sqlite import opening
from perdure.testing.clock import VirtualClock
from perdure.testing.virtual import run_virtual
from tests.cli.stage import Shell

LINE_LENGTH_MAX = 700
HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("begin immediate")
print("held", flush=True)
sys.stdin.readline()
connection.execute("rollback")
print("free", flush=True)
"""


@activity
async def note(what: str) -> str:
    return what


@workflow
async def approval() -> str:
    return await note(await receive("approve", str))


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


def engine_on(path: Path, **options: Any) -> Engine:
    return Engine(url_of(path), workflows=[approval], activities=[note], **options)


def virtually(work: Callable[[VirtualClock], Coroutine[Any, Any, Any]]) -> Any:
    clock = VirtualClock()
    return run_virtual(work(clock), clock=clock)


def a_store(path: Path) -> None:
    """One with a run that waits."""

    async def fill(clock: VirtualClock) -> None:
        async with engine_on(path, clock=clock, threads=False) as e:
            await e.start(approval, id="there")

    virtually(fill)


# --- what is no store, or none that can be used ------------------------------------------------------


def a_folder(path: Path) -> None:
    path.mkdir()


def a_letter(path: Path) -> None:
    path.write_text("Dear Sir, " * 1000)


def a_picture(path: Path) -> None:
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40)


def a_database_of_another_program(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("create table orders (id)")
    connection.close()


def from_the_future(path: Path) -> None:
    a_store(path)
    _change(path, "pragma user_version = 99")


def a_header_alone(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0")


def cut_short(path: Path) -> None:
    a_store(path)
    _change(path, "pragma wal_checkpoint(truncate)")
    os.truncate(path, 6000)


def overwritten(path: Path) -> None:
    a_store(path)
    _change(path, "pragma wal_checkpoint(truncate)")
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 8000)


def without_a_table(path: Path) -> None:
    a_store(path)
    _change(path, "drop table states")


def a_link_to_nowhere(path: Path) -> None:
    path.symlink_to(path.parent / "no" / "where.db")


def a_name_that_is_too_long(path: Path) -> None:
    """There is none."""


def _change(path: Path, statement: str) -> None:
    connection = apsw.Connection(str(path))
    cursor: Any = connection.cursor()
    list(cursor.execute(statement))
    connection.close()


UNUSABLE: list[tuple[Callable[[Path], None], type[PerdureError], str]] = [
    (a_folder, StoreUnavailable, "is a folder"),
    (a_letter, StoreUnavailable, "is no SQLite database"),
    (a_picture, StoreUnavailable, "is no SQLite database"),
    (a_database_of_another_program, StoreUnavailable, "of another program"),
    (from_the_future, StoreUnavailable, "written by a newer Perdure"),
    (a_header_alone, StoreUnavailable, "is no SQLite database"),
    (cut_short, StoreCorrupt, "damaged"),
    (overwritten, StoreCorrupt, "damaged"),
    (a_link_to_nowhere, StoreUnavailable, "does not exist"),
    (a_name_that_is_too_long, StoreUnavailable, "cannot be opened"),
]


@pytest.mark.parametrize(("make", "error", "says"), UNUSABLE, ids=[make.__name__ for make, _, _ in UNUSABLE])
def test_a_file_that_cannot_be_used_is_refused_and_left_as_it_was(
    make: Callable[[Path], None], error: type[PerdureError], says: str, tmp_path: Path
) -> None:
    path = tmp_path / ("x" * 300 if make is a_name_that_is_too_long else "store.db")
    make(path)
    before = _content(tmp_path)

    async def try_all() -> None:
        for kind in (Engine, Client):
            for threads in (True, False):
                with pytest.raises(error) as caught:
                    async with kind(url_of(path), threads=threads):
                        pass
                assert says in str(caught.value)
                assert str(caught.value).isprintable()
        with pytest.raises(error, match=says):
            await Worker(url_of(path)).run()

    asyncio.run(try_all())
    shell = Shell(url_of(path))
    for typed in (["show", "there"], ["list"], ["start", "approval"], ["signal", "there", "approve"]):
        _assert_one_line(shell, typed)
    assert _content(tmp_path) == before


def _content(folder: Path) -> dict[str, bytes | None]:
    return {
        each.name: each.read_bytes() if each.is_file() else None
        for each in folder.iterdir()
        if not each.name.endswith(("-wal", "-shm"))
    }


def _assert_one_line(shell: Shell, typed: list[str], says: str = "") -> None:
    ended = shell(*typed, code=None)
    said = ended.err.splitlines()
    assert ended.code in (1, 2), (typed, ended)
    assert len(said) == 2, (typed, ended)
    assert said[0].startswith("error: ")
    assert said[1].startswith("hint: ")
    assert says in said[0]
    assert len(said[0]) < LINE_LENGTH_MAX
    assert ended.out == ""


def test_a_table_that_is_gone_is_named(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    without_a_table(path)

    async def work(clock: VirtualClock) -> None:
        with pytest.raises(StoreCorrupt, match=r"is damaged: no such table: .*states"):
            async with engine_on(path, clock=clock, threads=False):
                pass
        async with Client(url_of(path), clock=clock, threads=False) as client:
            for call in (client.start(approval), client.handle("there").describe(), client.count()):
                with pytest.raises(StoreCorrupt, match="no such table"):
                    await call

    virtually(work)
    shell = Shell(url_of(path))
    _assert_one_line(shell, ["show", "there"], "no such table")
    _assert_one_line(shell, ["list"], "no such table")
    assert shell("doctor", code=None).code == 1


# --- taken away while it is open -------------------------------------------------------------------


def removed(path: Path) -> None:
    for each in path.parent.glob("store.db*"):
        if each.is_file():
            each.unlink()


def replaced(path: Path) -> None:
    """By an older copy of itself, as somebody does who restores a backup under a program that runs."""
    copy = path.parent / "copy.db"
    shutil.copy(path, copy)
    os.replace(copy, path)


@pytest.mark.parametrize("take", [removed, replaced], ids=["removed", "replaced"])
@pytest.mark.parametrize("threads", [True, False], ids=["threads", "no threads"])
def test_a_file_that_is_taken_away_while_it_is_open_is_told_of_and_nothing_is_written_to_it(
    tmp_path: Path, take: Callable[[Path], None], threads: bool, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store.db"
    gone = "has been removed or replaced while it was open, and nothing more is written to it"

    async def work() -> None:
        async with engine_on(path, threads=threads) as e:
            handle = await e.start(approval, id="there")
            take(path)
            for call in (e.start(approval, id="new"), handle.signal("approve", "yes"), handle.terminate()):
                with pytest.raises(StoreUnavailable, match=gone):
                    await call
        if path.exists():  # the copy has the run as it stood, and none of what was refused
            async with engine_on(path, threads=threads) as e:
                assert await e.store.verify() == []
                with pytest.raises(NotFound):
                    await e.handle("new").describe()

    with caplog.at_level(logging.ERROR, "perdure"):
        asyncio.run(work())
    assert all(record.exc_info is None for record in caplog.records), caplog.text


def test_a_file_that_may_only_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the operating system says it to anybody but its administrator, who may do everything."""
    path = tmp_path / "store.db"
    a_store(path)
    allowed = os.access

    def access(asked: str, mode: int) -> bool:
        return asked != str(path) and allowed(asked, mode)

    monkeypatch.setattr(os, "access", access)

    async def work(clock: VirtualClock) -> None:
        for kind in (Engine, Client):
            with pytest.raises(StoreUnavailable, match="may not be read and written: give this user the right to"):
                async with kind(url_of(path), clock=clock, threads=False):
                    pass

    virtually(work)
    _assert_one_line(Shell(url_of(path)), ["show", "there"], "may not be read and written")
    monkeypatch.undo()
    assert "there" in Shell(url_of(path))("show", "there").out


# --- others on the same file ----------------------------------------------------------------------


def test_pythons_own_sqlite_on_the_file_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    """It would drop the locks that keep two processes apart. After the engine is closed it may look."""
    path = tmp_path / "store.db"

    async def work(clock: VirtualClock) -> None:
        async with engine_on(path, clock=clock, threads=False) as e:
            handle = await e.start(approval, id="there")
            for name in (str(path), path, os.fsencode(path), f"file:{path}?mode=ro", path.parent / "." / path.name):
                with pytest.raises(UsageError, match=r"Perdure has this file open .* transactional activity"):
                    sqlite3.connect(name, uri=str(name).startswith("file:"))
            sqlite3.connect(tmp_path / "another.db").close()
            await handle.signal("approve", "yes")
            assert await handle.result() == "yes"

    virtually(work)
    connection = sqlite3.connect(path)
    assert connection.execute("select count(*) from runs").fetchone() == (1,)
    connection.close()


@pytest.fixture
def holder(tmp_path: Path) -> Any:
    """Another process, which keeps the file locked until it is told to let go."""
    path = tmp_path / "store.db"
    a_store(path)
    popen = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert popen.stdout is not None
    assert popen.stdout.readline() == "held\n"
    yield popen
    popen.kill()
    popen.communicate()


def test_a_lock_that_another_program_keeps_is_named_and_waited_for(
    tmp_path: Path, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The patience of the store is cut short here; after that the caller decides."""
    path = tmp_path / "store.db"
    monkeypatch.setattr(opening, "PATIENCE_SECONDS", 0.05)
    says = r"another process has kept .*store\.db locked for too long .*look for a program that has the file open"

    async def work() -> None:
        async with Client(url_of(path)) as client:
            for call in (client.start(approval, id="new"), client.handle("there").signal("approve", "yes")):
                with pytest.raises(StoreUnavailable, match=says):
                    await call
            assert (await client.handle("there").describe()).status == "running"  # it can be read
            with pytest.raises(StoreUnavailable, match=says):
                async with engine_on(path):
                    pass
            monkeypatch.undo()
            waiting = asyncio.ensure_future(client.handle("there").signal("approve", "yes"))
            holder.communicate("let go\n")
            await waiting
            assert await client.count() == 1
        async with engine_on(path) as e:
            assert await e.handle("there").result(timeout=20) == "yes"

    _assert_one_line(Shell(url_of(path)), ["signal", "there", "approve"], "locked for too long")
    asyncio.run(work())
