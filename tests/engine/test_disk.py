"""A full disk under a whole engine: runs wait and say so, nothing is lost, and all goes on once there is room (§6)."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from perdure import NotFound, StoreUnavailable, activity, activity_info, receive, sleep, transaction, workflow
from perdure.app import Client, Engine
from perdure.clock import Clock, SystemClock
from perdure.stores.sqlite import SqliteStore
from perdure.testing import VirtualClock
from perdure.testing.virtual import run_virtual, running_clock
from tests.engine.performing import pause
from tests.stores.sqlite.counting import CountingVfs

PATIENCE_LOOKS = 100
POINTS = [number / 20 for number in range(20)]  # of a story's writes, at which room ends
DONE: list[tuple[str, str, int]] = []  # what activities did: the run, what, which attempt


@activity
async def note(what: str) -> str:
    DONE.append((activity_info().workflow_id, what, activity_info().attempt))
    return what


@workflow
async def errand(rounds: int) -> int:
    for number in range(rounds):
        await note(f"left {number}")
        await sleep(1)
        await note(f"back {number}")
    return rounds


@workflow
async def approval() -> str:
    answer = await receive("approve", str)
    return await note(answer)


@activity(effect="transactional")
async def put(number: int) -> int:
    rows = transaction()
    await rows.execute("create table if not exists mine (number integer)", ())
    await rows.execute("insert into mine values (?)", (number,))
    return len(await rows.execute("select * from mine", ()))


@activity(effect="ask")
async def pay(cents: int) -> int:
    DONE.append((activity_info().workflow_id, "pay", activity_info().attempt))
    return cents


@workflow
async def sale() -> tuple[int, int]:
    await sleep(5)
    rows, cents = put(1), pay(990)
    return await rows, await cents


@pytest.fixture
def vfs() -> Iterator[CountingVfs]:
    DONE.clear()
    vfs = CountingVfs("engine-filling")
    yield vfs
    vfs.unregister()


@asynccontextmanager
async def on_disk(path: Path, clock: Clock, **options: Any) -> AsyncGenerator[Engine]:
    """An engine on a disk that can be full."""
    threads = options.setdefault("threads", False)
    store = SqliteStore(path, clock, threads=threads, vfs="engine-filling")
    rng = random.Random(1)
    async with Engine(
        store, workflows=[errand, approval, sale], activities=[note, put, pay], clock=clock, rng=rng, **options
    ) as engine:
        yield engine


async def test_runs_wait_while_the_disk_is_full_and_go_on_when_there_is_room(
    virtual_clock: VirtualClock, vfs: CountingVfs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is lost, no activity is repeated, and the log says what is the matter."""
    assert running_clock() is virtual_clock
    async with on_disk(tmp_path / "store.db", virtual_clock) as e:
        handles = [await e.start(errand, 20, id=f"o-{number}") for number in range(5)]
        await asyncio.sleep(3.5)
        vfs.full = True
        begun = len(DONE)
        with caplog.at_level(logging.ERROR, "perdure"):
            await asyncio.sleep(120)
        assert len(DONE) == begun
        said = {record.getMessage() for record in caplog.records}
        assert any("the disk is full" in line and str(tmp_path / "store.db") in line for line in said), said
        assert not any(record.exc_info for record in caplog.records)
        assert (await handles[0].describe()).status == "running"  # what is there can be read
        vfs.full = False
        assert [await handle.result(timeout=600) for handle in handles] == [20] * 5
        assert sorted(DONE) == sorted(
            (f"o-{run}", f"{what} {number}", 1) for run in range(5) for number in range(20) for what in ("left", "back")
        )
        assert await e.store.verify() == []


def test_whatever_write_finds_no_room_the_outcome_is_the_same(tmp_path: Path) -> None:
    """Room ends after so many writes, in the midst of a transaction too, and is there again a minute later."""
    vfs = CountingVfs("engine-filling", careless=True)
    try:
        undisturbed, writes = run_virtual(_story(vfs, tmp_path / "whole.db", None))
        assert writes > len(POINTS)
        for part in POINTS:
            room = round(writes * part)
            vfs.room = None
            vfs.refused = 0
            outcome, _ = run_virtual(_story(vfs, tmp_path / f"{room}.db", room))
            assert outcome == undisturbed, room
            assert vfs.refused > 0, room
    finally:
        vfs.unregister()


async def _story(vfs: CountingVfs, path: Path, room: int | None) -> tuple[Any, int]:
    """What came of some runs and messages, what was done how often; and how many writes it took.

    Each call is tried until it is accepted.
    """
    DONE.clear()
    clock = running_clock()
    assert clock is not None
    async with on_disk(path, clock) as e:
        vfs.writes.clear()
        vfs.room = room
        making_room = asyncio.ensure_future(_make_room(vfs))
        handles = [await _insist(lambda number=number: e.start(errand, 2, id=f"o-{number}")) for number in range(3)]
        held = await _insist(lambda: e.start(approval, id="held"))
        await pause(1)
        await _insist(lambda: held.signal("approve", "yes", message_id="m-1"))
        results = [await handle.result(timeout=3600) for handle in (*handles, held)]
        making_room.cancel()
        writes = sum(vfs.writes.values())
        vfs.room = None
        assert await e.store.verify() == []
        turns = [len(await handle.history()) for handle in (*handles, held)]
        return (results, turns, sorted(DONE), (await e.store.counts())["runs"]), writes


async def _make_room(vfs: CountingVfs) -> None:
    while True:
        await pause(0.25)
        if vfs.room == 0:
            await pause(60)
            vfs.room = None


async def _insist(call: Callable[[], Any]) -> Any:
    while True:
        try:
            return await call()
        except StoreUnavailable:
            await pause(1)


CALLS: list[Callable[[Engine], Any]] = [
    lambda e: e.start(approval, id="new"),
    lambda e: e.signal_with_start(approval, id="new", signal="approve", signal_args=["yes"]),
    lambda e: e.handle("there").signal("approve", "yes", message_id="m-1"),
    lambda e: e.handle("there").update("nothing"),
    lambda e: e.handle("there").cancel(),
    lambda e: e.handle("there").terminate(),
]


async def test_calls_are_refused_while_the_disk_is_full_and_leave_nothing(
    virtual_clock: VirtualClock, vfs: CountingVfs, tmp_path: Path
) -> None:
    async with on_disk(tmp_path / "store.db", virtual_clock) as e:
        there = await e.start(approval, id="there")
        await asyncio.sleep(1)
        before = await e.store.counts()
        vfs.full = True
        for call in CALLS:
            with pytest.raises(StoreUnavailable, match=r"the disk is full: .* Nothing of this call was written"):
                await call(e)
        assert await e.store.counts() == before
        with pytest.raises(NotFound):
            await e.handle("new").describe()
        vfs.full = False
        for _ in range(2):  # tried again, as the message says, and once more
            await there.signal("approve", "yes", message_id="m-1")
        assert await there.result() == "yes"
        assert await e.run(errand, 0, id="new") == 0
        assert DONE == [("there", "yes", 1)]


async def test_an_engine_that_cannot_begin_says_why_and_another_one_can_later(
    virtual_clock: VirtualClock, vfs: CountingVfs, tmp_path: Path
) -> None:
    async with on_disk(tmp_path / "store.db", virtual_clock) as e:
        await e.start(approval, id="there")
    vfs.full = True
    with pytest.raises(StoreUnavailable, match="the disk is full"):
        async with on_disk(tmp_path / "store.db", virtual_clock):
            pass
    vfs.full = False
    async with on_disk(tmp_path / "store.db", virtual_clock) as e:
        await e.handle("there").signal("approve", "yes")
        assert await e.handle("there").result() == "yes"


async def test_a_store_on_a_full_disk_can_be_read(
    virtual_clock: VirtualClock, vfs: CountingVfs, tmp_path: Path
) -> None:
    async with on_disk(tmp_path / "store.db", virtual_clock) as e:
        await e.start(approval, id="there")
    vfs.full = True
    store = SqliteStore(tmp_path / "store.db", virtual_clock, threads=False, vfs="engine-filling")
    async with Client(store, clock=virtual_clock, threads=False) as client:
        assert (await client.handle("there").describe()).status == "running"
        assert [run.id async for run in client.list()] == ["there"]
        with pytest.raises(StoreUnavailable, match="the disk is full"):
            await client.handle("there").terminate()
    vfs.full = False


@pytest.mark.parametrize("begins", [4.5, 5.0])
async def test_effects_keep_their_word_on_a_full_disk(
    virtual_clock: VirtualClock, vfs: CountingVfs, tmp_path: Path, begins: float
) -> None:
    """Rows are written exactly once, and what may not be repeated is not (E5)."""
    async with on_disk(tmp_path / "store.db", virtual_clock) as e:
        handle = await e.start(sale, id="sale")
        await asyncio.sleep(begins)
        vfs.full = True
        await asyncio.sleep(60)
        vfs.full = False
        assert await handle.result(timeout=600) == (1, 990)
        assert DONE == [("sale", "pay", 1)]
        assert await e.store.verify() == []


async def test_what_could_not_be_flushed_is_not_acknowledged_and_is_done_again(
    virtual_clock: VirtualClock, vfs: CountingVfs, tmp_path: Path
) -> None:
    """Written is not durable (E1): a flush that fails is no commit, for a caller and for a turn."""
    async with on_disk(tmp_path / "store.db", virtual_clock) as e:
        handle = await e.start(errand, 3, id="there")
        await asyncio.sleep(0.5)
        vfs.flush_fails = True
        with pytest.raises(StoreUnavailable, match=r"store\.db cannot be read or written now: .* may be tried again"):
            await e.start(errand, 1, id="new")
        await asyncio.sleep(30)
        begun = len(DONE)
        with pytest.raises(NotFound):
            await e.handle("new").describe()
        vfs.flush_fails = False
        assert await handle.result(timeout=600) == 3
        assert (begun, len(DONE)) == (1, 6)
        assert [attempt for _, _, attempt in DONE] == [1] * 6
        assert await e.store.verify() == []


async def test_an_engine_can_be_closed_while_the_disk_is_full(
    virtual_clock: VirtualClock, vfs: CountingVfs, tmp_path: Path
) -> None:
    """What it could not write is done again by the next one."""
    async with on_disk(tmp_path / "store.db", virtual_clock) as e:
        await e.start(errand, 3, id="there")
        await asyncio.sleep(0.5)
        vfs.full = True
        await asyncio.sleep(5)
    vfs.full = False
    async with on_disk(tmp_path / "store.db", virtual_clock) as e:
        assert await e.handle("there").result(timeout=60) == 3
        assert {what for _, what, _ in DONE} == {f"{way} {n}" for way in ("left", "back") for n in range(3)}
        assert await e.store.verify() == []


@pytest.mark.parametrize("full_seconds", [0.1, 1.2])
def test_a_disk_may_be_full_for_longer_than_a_lease(vfs: CountingVfs, tmp_path: Path, full_seconds: float) -> None:
    """Nobody else has taken the runs over, so they stay with their worker, which goes on to renew its lease (E3)."""

    async def main() -> None:
        async with on_disk(tmp_path / "store.db", SystemClock(), threads=True, lease=0.5) as e:
            handles = [await e.start(approval, id=f"o-{number}") for number in range(20)]
            vfs.full = True
            with pytest.raises(StoreUnavailable, match="the disk is full"):
                await e.start(approval, id="new")
            await asyncio.to_thread(Event().wait, full_seconds)
            vfs.full = False
            for handle in handles:
                await handle.signal("approve", "yes")
            assert [await handle.result(timeout=20) for handle in handles] == ["yes"] * 20
            assert sorted(DONE) == sorted((f"o-{number}", "yes", 1) for number in range(20))
            assert await _is_renewed(e)
            assert await e.store.verify() == []

    asyncio.run(main())


async def _is_renewed(engine: Engine) -> bool:
    (lease,) = await engine.store.list_leases()
    for _ in range(PATIENCE_LOOKS):
        (now,) = await engine.store.list_leases()
        if now.expires_us > lease.expires_us:
            return True
        await asyncio.to_thread(Event().wait, 0.05)
    return False
