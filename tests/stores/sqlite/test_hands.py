"""An activity that its turn's worker begins at once is kept in the run's state, a row for everybody else (E1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.errors import StoreCorrupt
from perdure.stores.records import Blocked, Run, Task, TaskCancel
from perdure.stores.sqlite import SqliteStore
from perdure.testing.clock import VirtualClock
from perdure.testing.conformance.making import a_beat, a_retry, a_task, an_answer
from tests.stores.sqlite.files import begin, commit, look, with_store


async def a_step(store: SqliteStore, owner: int) -> tuple[Run, Task]:
    """A run whose first turn has begun an activity."""
    run = await commit(store, await begin(store, "o-1", owner), owner, new_tasks=(a_task("1", claimed=True),))
    (task,) = await store.list_tasks(run.number)
    return run, task


async def rows(store: SqliteStore, path: Path) -> tuple[int, int]:
    """How many rows of tasks there are, and how many tasks the store counts."""
    ((amount,),) = look(path, "select count(*) from tasks")
    return amount, (await store.counts())["tasks"]


def test_a_chain_of_steps_writes_no_rows_of_tasks(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def work(store: SqliteStore) -> None:
        owner = (await store.open_lease("w-1", {}, 60.0)).number
        run, task = await a_step(store, owner)
        assert (task.id, task.attempt, task.owner) == (a_task("1").id, 1, owner)
        assert await rows(store, path) == (0, 1)
        for seq in range(1, 4):
            new = a_task(f"{seq + 1}", seq=seq, claimed=True)
            run = await commit(store, run, owner, finished=(task.id,), new_tasks=(new,))
            (task,) = await store.list_tasks(run.number)
            assert (task.id, task.seq) == (new.id, seq)
            assert await store.get_task(run.facts.run_id, new.id) == (run, task)
            assert await rows(store, path) == (0, 1)
        run = await commit(store, run, owner, finished=(task.id,), park=True)
        assert (await store.list_tasks(run.number), await rows(store, path)) == ([], (0, 0))
        assert await store.verify() == []

    with_store(path, work)


def test_what_is_beside_another_or_free_or_large_is_a_row(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def work(store: SqliteStore) -> None:
        owner = (await store.open_lease("w-1", {}, 60.0)).number
        run, _ = await a_step(store, owner)
        run = await commit(store, run, owner, new_tasks=(a_task("beside", seq=1, claimed=True),))
        assert await rows(store, path) == (1, 2)
        assert [task.seq for task in await store.list_tasks(run.number)] == [0, 1]
        free = await begin(store, "free", owner)
        await commit(store, free, owner, new_tasks=(a_task("free"),))
        large = await begin(store, "large", owner)
        await commit(store, large, owner, new_tasks=(a_task("large", claimed=True, input=b'["%s"]' % (b"x" * 1000)),))
        assert await rows(store, path) == (3, 4)
        assert await store.verify() == []

    with_store(path, work)


@pytest.mark.parametrize("what", ["answer", "retry", "beat", "cancel", "block", "release", "end", "death"])
def test_whoever_else_has_to_do_with_it_finds_a_row(what: str, tmp_path: Path) -> None:
    """And nothing is at hand of a run that nobody owns."""
    path, clock = tmp_path / "store.db", VirtualClock()

    async def work(store: SqliteStore) -> None:
        owner = (await store.open_lease("w-1", {}, 60.0)).number
        run, task = await a_step(store, owner)
        if what == "answer":
            assert await store.report_tasks([an_answer(task)]) == [True]
        elif what == "retry":
            assert await store.report_tasks([a_retry(task, clock.now_us())]) == [True]
        elif what == "beat":
            assert await store.beat_tasks([a_beat(task, b"7")]) == [False]
        elif what == "cancel":
            await commit(store, run, owner, cancels=(TaskCancel(task.id, answer=True),))
        elif what == "block":
            blocked = Blocked(kind="violation", reason="it may not", since_us=0, retry_us=clock.now_us() + 9)
            await store.block_run(owner, run.number, blocked, [])
        elif what == "release":
            await store.release_run(owner, run.number, None)
        elif what == "end":
            await store.close_lease(owner)
        else:
            clock.advance(61)
            assert len(await store.end_dead_leases()) == 1
        assert look(path, "select count(*) from states where at_hand is not null") == [(0,)]
        left = await store.list_tasks(run.number)
        assert len(left) == (0 if what == "answer" else 1)
        assert await rows(store, path) == (len(left), len(left))
        for one in left:
            assert one.owner == (None if what in ("retry", "end", "death") else owner)
            assert one.details == (b"7" if what == "beat" else None)
            assert one.cancel == (what == "cancel")
            assert [each.outcome for each in one.attempts] == {
                "retry": ["failed"],
                "end": ["handed_over"],
                "death": ["worker_died"],
            }.get(what, [])
        assert await store.verify() == []

    with_store(path, work, clock=clock, threads=False)


def test_what_is_at_hand_is_sealed_with_its_run(tmp_path: Path) -> None:
    """Damage to it stops its run, and says nothing of an activity that never was (E9)."""
    path = tmp_path / "store.db"

    async def start(store: SqliteStore) -> None:
        await a_step(store, (await store.open_lease("w-1", {}, 60.0)).number)

    async def find(store: SqliteStore) -> None:
        assert [damage.table for damage in await store.verify()] == ["states"]
        with pytest.raises(StoreCorrupt):
            await store.list_tasks(1)
        assert len(await store.end_dead_leases()) == 1  # which puts the run aside, and fails for nobody else

    with_store(path, start)
    look(path, "update states set at_hand = cast(replace(cast(at_hand as text), 'charge', 'refund') as blob)")
    with_store(path, find)
