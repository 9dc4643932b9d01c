"""Calls that wait together are one transaction, each of them whole or not at all (E1)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from perdure.clock import SystemClock
from perdure.errors import AlreadyExists, InternalError, StoreCorrupt, StoreUnavailable
from perdure.stores.sqlite import SqliteStore, lines, opening
from perdure.stores.sqlite.access import Access
from perdure.stores.sqlite.groups import Call, Writer
from perdure.stores.sqlite.lines import ThreadLine, answer
from perdure.stores.sqlite.opening import open_writer
from perdure.stores.sqlite.troubles import PROTOCOL_TRIES, patiently
from perdure.testing.conformance.making import a_start
from tests.stores.sqlite.files import begin, look, with_store

INSERT = "insert into counters values (?, 0, 0, x'00')"


def put(access: Access, name: str) -> str:
    access.write(INSERT, name)
    return name


def put_and_fail(access: Access, name: str, error: Exception) -> None:
    access.write(INSERT, name)
    raise error


def names(path: Path) -> list[str]:
    return [name for (name,) in look(path, "select name from counters where seal = x'00' order by name")]


@pytest.mark.parametrize(
    ("error", "kind"), [(StoreCorrupt("torn"), StoreCorrupt), (ZeroDivisionError("a bug"), InternalError)]
)
def test_one_that_fails_half_way_takes_nothing_of_the_others_away(
    error: Exception, kind: type[Exception], tmp_path: Path
) -> None:
    """And leaves nothing of its own."""
    path, changed = tmp_path / "store.db", list[int]()
    writer = Writer(str(path), open_writer(str(path)), SystemClock(), lambda: changed.append(1))
    calls = [Call(put, ("a",)), Call(put_and_fail, ("b", error)), Call(put, ("a",)), Call(put, ("c",))]
    writer.run(calls)
    assert [calls[0].outcome, calls[3].outcome] == ["a", "c"]
    assert isinstance(calls[1].outcome, kind)
    assert isinstance(calls[2].outcome, StoreCorrupt)  # a row is in its way
    assert changed == [1]
    writer.access.connection.close()
    assert names(path) == ["a", "c"]


def test_a_page_that_cannot_be_read_fails_only_who_reads_it(tmp_path: Path) -> None:
    def broken(_: Access) -> None:
        raise apsw.CorruptError("database disk image is malformed")

    path = tmp_path / "store.db"
    writer = Writer(str(path), open_writer(str(path)), SystemClock(), lambda: None)
    calls = [Call(put, ("a",)), Call(broken, ()), Call(put, ("c",))]
    writer.run(calls)
    assert isinstance(calls[1].outcome, StoreCorrupt)
    writer.access.connection.close()
    assert names(path) == ["a", "c"]


def test_what_a_group_was_refused_is_undone_outside_too(tmp_path: Path) -> None:
    undone: list[str] = []

    def lock(access: Access) -> None:
        access.undo.append(lambda: undone.append("lock"))

    def broken(_: Access) -> None:
        raise apsw.FullError("no room")

    path = tmp_path / "store.db"
    writer = Writer(str(path), open_writer(str(path)), SystemClock(), lambda: None)
    writer.run([Call(lock, ())])
    assert undone == []
    writer.run([Call(lock, ()), Call(broken, ())])
    assert undone == ["lock"]  # of the group; tried by itself, the first one stands
    writer.access.connection.close()


def test_answers_go_back_to_the_loops_they_came_from_with_one_call_for_each(tmp_path: Path) -> None:
    """Whoever awaits, on any loop in any thread, goes on there; a loop is woken once for a group."""
    held, groups, woken = threading.Event(), list[int](), list[int]()

    def run(calls: Any) -> None:
        held.wait()
        groups.append(len(calls))
        for call in calls:
            call.outcome = threading.get_ident()

    line = ThreadLine("test", run, SystemClock().monotonic)

    async def wait_for_all() -> set[int]:
        loop = asyncio.get_running_loop()
        wake: Callable[..., Any] = loop.call_soon_threadsafe

        def counting(call: Callable[..., Any], *given: Any, **more: Any) -> Any:
            if call.__module__ == lines.__name__:  # and not asyncio's own
                woken.append(1)
            return wake(call, *given, **more)

        setattr(loop, "call_soon_threadsafe", counting)  # noqa: B010  (a method, to the type checker)
        first = asyncio.ensure_future(line.call(len, ()))
        await asyncio.sleep(0)
        rest = [asyncio.ensure_future(line.call(len, ())) for _ in range(50)]
        await asyncio.sleep(0)
        held.set()
        return set(await asyncio.gather(first, *rest))

    async def both() -> None:
        elsewhere = asyncio.get_running_loop().run_in_executor(None, lambda: asyncio.run(wait_for_all()))
        assert len(await wait_for_all() | await elsewhere) == 1
        await line.stop()

    asyncio.run(both())
    assert sum(groups) == 102
    assert len(woken) - 1 <= 2 * len(groups) < 20  # one is for the end of the thread


def test_a_loop_that_was_closed_meanwhile_harms_nobody(tmp_path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        def give_up() -> None:
            async def ask() -> None:
                asyncio.ensure_future(store.start_run(a_start("o-1")))  # noqa: RUF006  (nobody waits for it)
                await asyncio.sleep(0)

            asyncio.run(ask())

        await asyncio.to_thread(give_up)
        await begin(store, "o-2")
        assert (await store.get_run("o-1")).number == 1

    with_store(tmp_path / "store.db", work)
    answer([])


def test_refusals_among_many_calls_are_those_of_their_callers(tmp_path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        calls = [store.start_run(a_start("same", id_policy="reject", run=str(number))) for number in range(20)]
        calls += [store.start_run(a_start(f"o-{number}")) for number in range(20)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(isinstance(outcome, AlreadyExists) for outcome in outcomes) == 19
        assert (await store.counts())["runs"] == 21

    with_store(tmp_path / "store.db", work)


def test_a_bug_in_the_thread_is_told_and_the_thread_goes_on() -> None:
    def run(calls: Any) -> None:
        if calls[0].work is len:
            raise ZeroDivisionError("a bug")

    async def work() -> None:
        line = ThreadLine("test", run, SystemClock().monotonic)
        with pytest.raises(InternalError, match="ZeroDivisionError: a bug"):
            await line.call(len, ())
        assert await line.call(max, ()) is None
        await line.stop()

    asyncio.run(work())


def test_a_tick_that_is_taken_away_just_now_ends_no_thread() -> None:
    """The last subscriber of a store may go at any moment, while others write through the same line."""

    async def work() -> None:
        def now() -> float:
            line.tick(None)
            return 1.0

        line = ThreadLine("test", lambda _: None, now)
        line.tick(lambda: None)
        for _ in range(2):
            await asyncio.wait_for(line.call(len, ()), 5)
        await line.stop()

    asyncio.run(work())


def test_a_place_in_the_log_that_is_not_found_at_once_is_looked_for_again() -> None:
    """SQLite gives up after ten seconds at most, while others open, close, recover; nobody is to see that."""
    tried: list[int] = []

    def begin_reading() -> str:
        tried.append(1)
        if len(tried) < PROTOCOL_TRIES:
            raise apsw.ProtocolError("locking protocol")
        return "begun"

    assert patiently(begin_reading) == "begun"
    with pytest.raises(apsw.ProtocolError):
        patiently(partial(_raise, apsw.ProtocolError("locking protocol")))
    with pytest.raises(apsw.BusyError):  # that one has been patient already
        patiently(partial(_raise, apsw.BusyError("database is locked")))


def _raise(error: Exception) -> None:
    raise error


def test_patience_with_a_writer_that_never_ends_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it is said who is in the way, and all goes on once it has gone."""
    monkeypatch.setattr(opening, "PATIENCE_SECONDS", 0.05)
    path = tmp_path / "store.db"

    async def work(store: SqliteStore) -> None:
        other = apsw.Connection(str(path))
        cursor: Any = other.cursor()
        cursor.execute("begin immediate")
        with pytest.raises(StoreUnavailable, match=r"another process has kept .*store\.db locked for too long"):
            await begin(store, "o-1")
        cursor.execute("rollback")
        other.close()
        await begin(store, "o-1")

    with_store(path, work)


def test_durability_is_what_it_says(tmp_path: Path) -> None:
    """The write-ahead log, flushed at each commit (architecture: WAL, synchronous FULL)."""
    connection = open_writer(str(tmp_path / "store.db"))
    access = Access(connection)
    assert access.row("pragma journal_mode") == ("wal",)
    assert access.number("pragma synchronous") == 2
    connection.close()
