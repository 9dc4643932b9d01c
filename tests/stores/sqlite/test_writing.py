"""A lone small call is made by the event loop that asks, on a connection that its thread lends (decision 8)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import get_ident
from typing import Any

import apsw
import pytest

from perdure.clock import SystemClock
from perdure.errors import StoreUnavailable
from perdure.stores.sqlite.access import Access
from perdure.stores.sqlite.bells import Bell
from perdure.stores.sqlite.groups import LOG_PAGES_MAX, Writer
from perdure.stores.sqlite.lines import TICK_SECONDS, resolve
from perdure.stores.sqlite.opening import open_writer
from perdure.stores.sqlite.transactions import Transaction
from perdure.stores.sqlite.writing import SHORT_SECONDS, WritingLine

Work = Callable[[WritingLine, Writer, "Stopwatch"], Awaitable[None]]


class Stopwatch:
    """What a line takes for the time: each look is so much later than the one before."""

    def __init__(self) -> None:
        self.now = 0.0
        self.step = 0.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def with_line(path: Path, work: Work) -> None:
    """A line on a new file, whose calls have been quick so far."""

    async def run() -> None:
        writer = Writer(str(path), open_writer(str(path)), SystemClock(), lambda: None)
        writer.access.write("create table notes (id integer primary key, text text)")
        bell, watch = Bell(resolve), Stopwatch()
        line = WritingLine("test", writer, watch, bell)
        for _ in range(50):
            await line.call(who, ())
        await work(line, writer, watch)
        await line.stop()
        bell.close()
        writer.access.connection.close()

    asyncio.run(run())


def who(access: Access, text: str = "") -> int:
    """Write something, and say on which thread."""
    access.write("insert into notes (text) values (?)", text)
    return get_ident()


def test_a_lone_call_is_made_here_and_those_that_come_together_share_a_transaction(tmp_path: Path) -> None:
    async def work(line: WritingLine, writer: Writer, watch: Stopwatch) -> None:
        here = get_ident()
        assert await line.call_small(who, ()) == here
        assert await line.call(who, ()) != here  # what may take long never is
        together = await asyncio.gather(*[line.call_small(who, (f"{number}",)) for number in range(3)])
        assert len(set(together)) == 1
        assert here not in together
        made = line.call_now(who, ())
        assert made is not None
        assert made.outcome == here
        assert writer.access.row("select count(*) from notes") == (56,)

    with_line(tmp_path / "notes.db", work)


def test_it_comes_after_all_that_was_asked_before(tmp_path: Path) -> None:
    async def work(line: WritingLine, writer: Writer, watch: Stopwatch) -> None:
        first = line.call(who, ("first",))
        assert line.call_now(who, ("now",)) is None
        second = line.call_small(who, ("second",))
        third = line.call_small(who, ("third",))
        fourth = line.call(who, ("fourth",))
        await asyncio.gather(first, second, third, fourth)
        put_off = line.call_small(who, ("fifth",))
        assert line.call_now(who, ("now",)) is None
        sixth = line.call(who, ("sixth",))
        await asyncio.gather(put_off, sixth)
        texts = [row[0] for row in writer.access.rows("select text from notes where text <> '' order by id")]
        assert texts == ["first", "second", "third", "fourth", "fifth", "sixth"]

    with_line(tmp_path / "notes.db", work)


def test_a_disk_that_is_slow_is_left_to_the_thread_until_it_is_quick_again(tmp_path: Path) -> None:
    async def work(line: WritingLine, writer: Writer, watch: Stopwatch) -> None:
        here = get_ident()
        watch.step = SHORT_SECONDS * 10
        assert await line.call_small(who, ()) == here  # nobody could know
        assert await line.call_small(who, ()) != here
        watch.step = 0.0
        waited = 0
        while await line.call_small(who, ()) != here:
            waited += 1
        assert 0 < waited < 20

    with_line(tmp_path / "notes.db", work)


def test_nobody_is_waited_for_on_the_event_loop(tmp_path: Path) -> None:
    """While another connection writes, the thread is patient, and the loop goes on."""

    async def work(line: WritingLine, writer: Writer, watch: Stopwatch) -> None:
        other: Any = apsw.Connection(str(tmp_path / "notes.db"))
        other.execute("begin immediate")
        asked = line.call_small(who, ())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not asked.done()
        other.execute("commit")
        other.close()
        assert await asked != get_ident()
        assert await line.call_small(who, ()) == get_ident()

    with_line(tmp_path / "notes.db", work)


def test_a_transaction_has_the_connection_for_itself(tmp_path: Path) -> None:
    async def work(line: WritingLine, writer: Writer, watch: Stopwatch) -> None:
        transaction = Transaction(writer, str(tmp_path / "notes.db"), 60.0)
        line.hold(transaction)
        assert line.call_now(who, ()) is None
        asked = line.call_small(who, ("after",))
        row = await asyncio.wrap_future(transaction.execute("insert into notes (text) values ('within')", ()))
        assert row == []
        assert not asked.done()
        await asyncio.wrap_future(transaction.roll_back())
        assert await asked != get_ident()
        assert writer.access.rows("select text from notes where text <> ''") == [("after",)]

    with_line(tmp_path / "notes.db", work)


def test_what_fails_is_made_again_by_the_thread_which_says_why(tmp_path: Path) -> None:
    async def work(line: WritingLine, writer: Writer, watch: Stopwatch) -> None:
        def refused(access: Access) -> None:
            raise StoreUnavailable("not today")

        with pytest.raises(StoreUnavailable, match="not today"):
            await line.call_small(refused, ())
        assert line.call_now(refused, ()) is None
        (tmp_path / "notes.db").rename(tmp_path / "elsewhere.db")
        watch.now += TICK_SECONDS  # it is looked for so often
        assert line.call_now(who, ()) is None
        with pytest.raises(StoreUnavailable, match="has been removed or replaced"):
            await line.call_small(who, ())

    with_line(tmp_path / "notes.db", work)


def test_the_thread_shortens_the_log_that_the_loop_has_made_long(tmp_path: Path) -> None:
    async def work(line: WritingLine, writer: Writer, watch: Stopwatch) -> None:
        long, shortened = writer.shorten_log, asyncio.Event()
        loop, threads = asyncio.get_running_loop(), list[int]()

        def shorten_log() -> None:
            threads.append(get_ident())
            long()
            loop.call_soon_threadsafe(shortened.set)

        writer.shorten_log = shorten_log
        while not writer.log_is_long:
            assert line.call_now(who, ("x" * 100_000,)) is not None
        await shortened.wait()
        assert get_ident() not in threads
        log, copied = writer.access.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        assert log == copied >= LOG_PAGES_MAX

    with_line(tmp_path / "notes.db", work)
