"""A store keeps in mind what it has written of a run, and sees when somebody else has written since (E1, E3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import LeaseLost
from perdure.stores.records import Committed, Run
from perdure.stores.sqlite import SqliteStore, sql
from perdure.testing.clock import VirtualClock
from perdure.testing.conformance.making import JOB, a_commit, a_task
from tests.stores.sqlite.files import begin, commit, end, look

Work = Callable[[SqliteStore, SqliteStore, Run, int, VirtualClock], Awaitable[None]]


def with_two(path: Path, work: Work) -> None:
    """Two stores on one file, and a run of the first one's worker, whose state that store has in mind."""

    async def run() -> None:
        clock = VirtualClock()
        ours, theirs = SqliteStore(path, clock, threads=False), SqliteStore(path, clock, threads=False)
        await ours.open()
        await theirs.open()
        owner = (await ours.open_lease("w-1", {}, 60.0)).number
        run = await commit(ours, await begin(ours, "o-1", owner), owner, new_tasks=(a_task("1", claimed=True),))
        run = await a_step(ours, run, owner, 1)
        await work(ours, theirs, run, owner, clock)
        assert await ours.verify() == []
        await ours.close()
        await theirs.close()

    asyncio.run(run())


async def a_step(store: SqliteStore, run: Run, owner: int, seq: int) -> Run:
    """A turn of a chain: one activity done, one begun."""
    done, new = a_task(str(seq)), a_task(str(seq + 1), seq=seq, claimed=True)
    return await commit(store, run, owner, finished=(done.id,), new_tasks=(new,))


async def answer_to(store: SqliteStore, run: Run, owner: int, **content: Any) -> Committed | Exception:
    """What the store says to the next turn."""
    (answer,) = await store.commit_turns([a_commit(run, owner, **content)])
    return answer


def test_a_step_does_not_read_what_the_step_before_has_written(tmp_path: Path) -> None:
    async def work(ours: SqliteStore, theirs: SqliteStore, run: Run, owner: int, clock: VirtualClock) -> None:
        writer = ours._writer  # type: ignore[reportPrivateUsage]  # what statements there are is the point
        assert writer is not None
        asked: list[str] = []

        def trace(_: object, statement: str, __: object) -> bool:
            asked.append(statement)
            return True

        writer.access.connection.exec_trace = trace
        run = await a_step(ours, run, owner, 2)
        writer.access.connection.exec_trace = None
        assert sql.STATE not in asked
        assert sql.UPDATE_STATE_KNOWN in asked

    with_two(tmp_path / "store.db", work)


def test_a_message_that_another_process_has_brought_is_there(tmp_path: Path) -> None:
    """For a turn that takes it, for one that does not, and for one that would park its run."""

    async def work(ours: SqliteStore, theirs: SqliteStore, run: Run, owner: int, clock: VirtualClock) -> None:
        for _ in range(2):
            await theirs.accept_message("o-1", None, JOB)
        run = await commit(ours, run, owner, consumed=1)
        assert (run.accepted, run.consumed, run.owner) == (2, 1, owner)
        run = await a_step(ours, run, owner, 2)
        await theirs.accept_message("o-1", None, JOB)
        assert await answer_to(ours, run, owner) == Committed(2)
        (run,) = await ours.get_runs([run.number])
        run = await commit(ours, run, owner, consumed=3)
        run = await commit(ours, run, owner, consumed=3)  # a second one, which is kept in mind
        await theirs.accept_message("o-1", None, JOB)
        assert await answer_to(ours, run, owner, consumed=3, finished=(a_task("3").id,), park=True) == Committed(1)
        (run,) = await ours.get_runs([run.number])
        assert (run.accepted, run.consumed, run.owner) == (4, 3, owner)

    with_two(tmp_path / "store.db", work)


@pytest.mark.parametrize("how", ["end", "death", "close", "take over"])
def test_a_run_that_was_taken_away_takes_no_turn(how: str, tmp_path: Path) -> None:
    async def work(ours: SqliteStore, theirs: SqliteStore, run: Run, owner: int, clock: VirtualClock) -> None:
        new = (a_task("3", seq=2, claimed=True),)
        late = a_commit(run, owner, finished=(a_task("2").id,), new_tasks=new)
        if how == "end":
            await theirs.close_lease(owner)
        elif how == "close":
            await end(theirs, run)
        else:
            clock.advance(61)
            assert len(await theirs.end_dead_leases()) == 1
            if how == "take over":
                other = (await theirs.open_lease("w-2", {}, 60.0)).number
                (taken,) = await theirs.claim_runs(other, ["default"], [run.facts.workflow], 10)
                await commit(theirs, taken, other, new_tasks=new)
        turns = look(tmp_path / "store.db", "select count(*) from turns")
        (answer,) = await ours.commit_turns([late])
        assert isinstance(answer, LeaseLost)
        assert look(tmp_path / "store.db", "select count(*) from turns") == turns

    with_two(tmp_path / "store.db", work)
