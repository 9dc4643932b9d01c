"""The memory store: what is its own beside the port: names, holders, threads, and what a call costs."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from perdure.errors import StoreUnavailable
from perdure.stores.memory import MemoryStore
from perdure.stores.records import EVERY
from perdure.testing.clock import VirtualClock
from perdure.testing.conformance.making import JOB, a_commit, a_retry, a_start, a_task, an_answer


async def opened(name: str | None = None, clock: VirtualClock | None = None) -> MemoryStore:
    store = MemoryStore(clock or VirtualClock(), name)
    await store.open()
    return store


def test_stores_of_one_name_share_their_rows_and_others_do_not(tmp_path: Path) -> None:
    async def play() -> None:
        one, two, other = await opened(f"{tmp_path}/a"), await opened(f"{tmp_path}/a"), await opened(f"{tmp_path}/b")
        await one.start_run(a_start("o-1"))
        assert [await store.count_runs(EVERY) for store in (one, two, other)] == [1, 1, 0]
        assert (one.url, one.others_possible) == (f"memory://{tmp_path}/a", True)

    asyncio.run(play())


def test_a_store_without_a_name_is_private() -> None:
    async def play() -> None:
        one, two = await opened(), await opened()
        await one.start_run(a_start("o-1"))
        assert [await store.count_runs(EVERY) for store in (one, two)] == [1, 0]
        assert (one.url, one.others_possible) == ("memory://", False)

    asyncio.run(play())


def test_rows_stay_for_the_life_of_the_process(tmp_path: Path) -> None:
    """Also while no store object of that name is open, or exists."""

    async def play() -> None:
        store = await opened(str(tmp_path))
        await store.start_run(a_start("o-1"))
        await store.close()
        del store
        gc.collect()
        assert await (await opened(str(tmp_path))).count_runs(EVERY) == 1

    asyncio.run(play())


def test_a_store_that_is_not_open_says_so() -> None:
    async def play() -> None:
        store = MemoryStore(VirtualClock(), "shop")
        with pytest.raises(StoreUnavailable, match="memory://shop is not open"):
            await store.counts()
        await store.open()
        await store.counts()
        await store.close()
        with pytest.raises(StoreUnavailable, match="memory://shop is not open"):
            await store.start_run(a_start("o-1"))

    asyncio.run(play())


@pytest.mark.parametrize("how", ["closed", "dropped"])
def test_the_leases_of_a_store_object_end_with_it_at_once(how: str, tmp_path: Path) -> None:
    """Its holder is known to be gone, so nobody has to wait until the lease has expired (E3)."""

    async def play() -> None:
        other = await opened(str(tmp_path))
        store = await opened(str(tmp_path))
        lease = await store.open_lease("w-1", {}, 1_000)
        await store.start_run(a_start("o-1", claim=lease.number))
        assert await other.end_dead_leases() == []
        if how == "closed":
            await store.close()
        else:
            del store
            gc.collect()
        assert await other.end_dead_leases() == [lease]
        assert (await other.get_run("o-1")).owner is None

    asyncio.run(play())


def test_several_event_loops_in_several_threads_may_use_one_name(tmp_path: Path) -> None:
    """Of what they send at the same time, nothing is lost and nothing doubled (E8)."""
    senders, each = 4, 200

    async def begin() -> int:
        return (await (await opened(str(tmp_path))).start_run(a_start("o-1"))).run.number

    async def send(sender: int) -> None:
        store = await opened(str(tmp_path))
        for i in range(each):
            await store.accept_message("o-1", None, b"%d" % (sender * each + i))

    async def read(number: int) -> list[bytes]:
        return [message.job for message in await (await opened(str(tmp_path))).list_messages(number, 0)]

    number = asyncio.run(begin())
    threads = [threading.Thread(target=asyncio.run, args=(send(i),)) for i in range(senders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, asyncio.run(read(number)))) == list(range(senders * each))


class Unscannable(dict[Any, Any]):
    """Rows that can be looked up, and not gone through."""

    def _refuse(self) -> NoReturn:
        raise AssertionError("this call goes through all rows, however many there are")

    def __iter__(self) -> Iterator[Any]:
        self._refuse()

    def __reversed__(self) -> NoReturn:
        self._refuse()

    def keys(self) -> NoReturn:
        self._refuse()

    def values(self) -> NoReturn:
        self._refuse()

    def items(self) -> NoReturn:
        self._refuse()

    def copy(self) -> NoReturn:
        self._refuse()


class UnscannableStore(MemoryStore):
    """A store of such rows."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        rows = self._state.rows
        rows.runs, rows.tasks, rows.messages, rows.turns = (Unscannable() for _ in range(4))


def test_what_happens_all_the_time_does_not_go_through_all_rows() -> None:
    """Starts, claims, messages, turns, tasks, and what a worker asks between them."""

    async def play() -> None:
        clock = VirtualClock()
        store = UnscannableStore(clock)
        await store.open()
        lease = (await store.open_lease("w-1", {}, 1_000)).number
        for i in range(30):
            await store.start_run(a_start(f"o-{i}", message=JOB))
        runs = await store.claim_runs(lease, ["default"], ["order"], 20)
        commits = [a_commit(run, lease, consumed=1, new_tasks=(a_task(run.facts.run_id),), park=True) for run in runs]
        await store.commit_turns(commits, ["order"])
        tasks = await store.claim_tasks(lease, "default", ["charge"], 20)
        await store.report_tasks([an_answer(task) for task in tasks[:10]])
        await store.report_tasks([a_retry(task, clock.now_us()) for task in tasks[10:]])
        await store.accept_message("o-1", None, JOB, claim=lease, claims=["order"])
        await store.list_pending(lease)
        await store.list_unknown(["default"], [], 10)
        await store.get_next_wake(["default"])
        await store.get_next_due(["default"])
        await store.list_cancelled(lease)
        await store.list_runs(EVERY, 10)
        await store.wake_blocked(["default"])
        await store.renew_lease(lease)
        await store.close_lease(lease)

    asyncio.run(play())
