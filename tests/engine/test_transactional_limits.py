"""Transactional activities beside all others (E5): for how long, in which order, and where they cannot be."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import (
    Client,
    Engine,
    TransactionTimeout,
    UsageError,
    activity_info,
    parallel,
    race,
    receive,
    sleep,
    transaction,
    workflow,
)
from tests.engine.performing import pause
from tests.engine.transacting import CREATE, INSERT, ledger, played, transactional, url_of

Opened = Callable[..., Any]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path


# --- limits, others ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["waits", "asks again", "computes"])
def test_it_has_a_third_of_the_lease(path: Path, how: str) -> None:
    """E5: at most, then a typed failure; everything is rolled back, and others go on."""

    def work() -> None:
        transaction().execute(CREATE)
        transaction().execute(INSERT, ("r", 1))
        if how == "computes":
            transaction().execute(
                "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n"
            )
        over = threading.Event()
        over.wait(0.6)
        if how == "asks again":
            with pytest.raises(TransactionTimeout):
                transaction().execute(INSERT, ("r", 2))

    kind, message = played(path, work, lease=1.2)
    assert (kind, "a third of the lease" in message) == ("TransactionTimeout", True)
    assert ledger(path) == []


def test_others_wait_and_then_go_on(path: Path) -> None:
    """The writer's queue keeps: whatever is written meanwhile is written afterwards, in this process and another."""
    began, go_on = threading.Event(), threading.Event()

    def work() -> int:
        transaction().execute(CREATE)
        transaction().execute(INSERT, ("r", 1))
        began.set()
        go_on.wait(10)
        return 1

    @workflow
    async def waiting() -> str:
        return await receive("word", str)

    made = transactional(work)

    @workflow
    async def flow() -> int:
        return await made()

    async def main() -> list[Any]:
        url = url_of(path)
        async with Engine(url, workflows=[waiting, flow], activities=[made]) as e, Client(url) as other:
            handle = await e.start(flow, id="r")
            while not began.is_set():
                await pause(0.01)
            tasks = [asyncio.ensure_future(e.start(waiting, id=f"w-{n}")) for n in range(5)]
            tasks += [asyncio.ensure_future(other.start("waiting", id=f"o-{n}")) for n in range(5)]
            await pause(0.05)
            assert not any(task.done() for task in tasks)
            go_on.set()
            handles = await asyncio.gather(*tasks)
            for one in handles:
                await one.signal("word", "on")
            return [await handle.result(timeout=30), *[await one.result(timeout=30) for one in handles]]

    assert asyncio.run(main()) == [1, *["on"] * 10]
    assert ledger(path) == [("r", 1)]


@pytest.mark.parametrize("threads", [True, False])
def test_many_at_once_take_turns(path: Path, threads: bool) -> None:
    """Each is alone with the database from its first statement to its end."""

    async def work(n: int) -> int:
        await transaction().execute(CREATE)
        [(before,)] = await transaction().execute("select count(*) from ledger")
        await asyncio.sleep(0)
        await transaction().execute(INSERT, ("r", before))
        return before

    made = transactional(work)

    @workflow
    async def flow() -> list[int]:
        return await parallel(*[made(n) for n in range(20)])

    async def main() -> list[int]:
        async with Engine(url_of(path), workflows=[flow], activities=[made], threads=threads) as e:
            return await e.run(flow)

    assert sorted(asyncio.run(main())) == list(range(20))
    assert [n for _, n in ledger(path)] == list(range(20))


def test_a_lost_lease_takes_everything_back(path: Path) -> None:
    """What an attempt wrote that is not this worker's any more is not written."""
    began, go_on = threading.Event(), threading.Event()
    goes: list[int] = []

    def work() -> int:
        goes.append(activity_info().attempt)
        if len(goes) == 1:
            began.set()
            go_on.wait(10)
        transaction().execute(CREATE)
        transaction().execute(INSERT, ("r", len(goes)))
        return len(goes)

    async def act(e: Any, handle: Any) -> Any:
        while not began.is_set():
            await pause(0.01)
        (lease,) = await e.store.list_leases()
        await e.store.close_lease(lease.number)
        go_on.set()
        return await handle.result(timeout=30)

    assert played(path, work, act) == 2
    assert ledger(path) == [("r", 2)]


def test_a_worker_that_stops_waits_for_no_transaction(path: Path) -> None:
    """E3: it hands over within a second, and what an attempt wrote that did not end is not written."""
    began, over = threading.Event(), threading.Event()

    def work() -> None:
        transaction().execute(CREATE)
        transaction().execute(INSERT, ("r", 1))
        began.set()
        over.wait(60)

    made = transactional(work)

    @workflow
    async def flow() -> None:
        await made()

    async def main() -> float:
        async with Engine(url_of(path), workflows=[flow], activities=[made], lease=90) as e:
            await e.start(flow, id="r")
            while not began.is_set():
                await pause(0.01)
            since = asyncio.get_running_loop().time()
        return asyncio.get_running_loop().time() - since

    assert asyncio.run(main()) < 5
    over.set()
    assert ledger(path) == []


def test_a_race_that_it_loses_leaves_nothing(path: Path) -> None:
    async def work() -> None:
        await transaction().execute(CREATE)
        await transaction().execute(INSERT, ("r", 1))
        await asyncio.get_running_loop().create_future()

    made = transactional(work)

    @workflow
    async def flow() -> int:
        index, _ = await race(made(), sleep(0.1))
        return index

    async def main() -> int:
        async with Engine(url_of(path), workflows=[flow], activities=[made], lease=0.6) as e:
            return await e.run(flow)

    assert asyncio.run(main()) == 1
    assert ledger(path) == []


# --- where it cannot be --------------------------------------------------------------------------------


async def test_a_store_in_memory_has_no_transactions_and_says_so(engine: Opened) -> None:
    """Refused when the engine is made, before anything was accepted."""
    with pytest.raises(UsageError, match='`work` has effect="transactional", and this store has no transactions'):
        async with engine(activities=[transactional(lambda: 1)]):
            pass


def test_another_process_has_no_transaction(path: Path) -> None:
    with pytest.raises(UsageError, match='executor="process"'):
        Engine(url_of(path), activities=[transactional(lambda: 1, executor="process")])


def test_other_activities_have_no_transaction(path: Path) -> None:
    def work() -> None:
        transaction()

    kind, message = played(path, work, effect="repeatable")
    assert (kind, 'effect="transactional"' in message) == ("UsageError", True)
    with pytest.raises(UsageError, match="outside an activity"):
        transaction()
