"""Damage to the deadlines of runs is named, and ends nobody too early (E9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.stores.records import Closing
from perdure.stores.sqlite import SqliteStore
from perdure.testing import VirtualClock
from tests.stores.sqlite.files import begin, look, with_store

SECOND = 1_000_000
OVER = Closing("timed_out", b"{}")
DAMAGES = {
    "one was changed": "update deadlines set deadline_us = 1 where run = 1",
    "one was given to another run": "update deadlines set run = 3 where run = 1",
    "one was lost": "delete from deadlines where run = 1",
    "one was made up": "insert into deadlines values (1, 3)",
    "one was made up for a run that is not there": "insert into deadlines values (1, 9)",
    "one was made up for a run that has ended": "insert into deadlines values (1, 4)",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_to_a_deadline_is_named_and_ends_no_run_before_its_time(damage: str, tmp_path: Path) -> None:
    """What it is about is stopped; the others time out when they have to."""
    path, clock = tmp_path / "store.db", VirtualClock()

    async def make(store: SqliteStore) -> None:
        await begin(store, "o-1", deadline_us=clock.now_us() + 5 * SECOND)
        await begin(store, "o-2", deadline_us=clock.now_us() + 7 * SECOND)
        await begin(store, "o-3")
        await begin(store, "o-4", deadline_us=clock.now_us() + 7 * SECOND)
        await store.close_run("o-4", None, Closing("completed", b"1"))

    async def check(store: SqliteStore) -> None:
        assert {one.table for one in await store.verify()} in ({"deadlines"}, {"runs", "states"})
        for _ in range(3):
            assert await store.time_out_runs(OVER, 10) == []
        overdue = await store.get_next_deadline()
        assert overdue is None or overdue > clock.now_us()
        clock.advance(7)
        ended = [run.number for run in await store.time_out_runs(OVER, 10)]
        assert ended in ([2], [1, 2])
        assert [run.status for run in await store.get_runs([3, 4])] == ["running", "completed"]
        overdue = await store.get_next_deadline()
        assert overdue is None or overdue > clock.now_us()

    with_store(path, make, clock=clock, threads=False)
    look(path, damage)
    with_store(path, check, clock=clock, threads=False)


def test_a_deadline_that_was_changed_stops_its_run_and_only_it(tmp_path: Path) -> None:
    path, clock = tmp_path / "store.db", VirtualClock()

    async def make(store: SqliteStore) -> None:
        for number in (1, 2):
            await begin(store, f"o-{number}", deadline_us=clock.now_us() + 5 * SECOND)

    async def check(store: SqliteStore) -> None:
        assert await store.time_out_runs(OVER, 10) == []
        stopped, other = await store.get_runs([1, 2])
        assert stopped.blocked is not None
        assert (stopped.status, stopped.blocked.kind, other.blocked) == ("running", "corrupt", None)
        assert "deadlines" in stopped.blocked.reason

    with_store(path, make, clock=clock, threads=False)
    look(path, "update deadlines set deadline_us = 1 where run = 1")
    with_store(path, check, clock=clock, threads=False)
