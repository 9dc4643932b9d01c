"""What is asked again and again is answered from an index, however much is stored (E10)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from perdure.stores.sqlite import SqliteStore, deadlines, sql
from perdure.testing.conformance.making import a_start
from tests.stores.sqlite.files import with_store
from tests.stores.sqlite.plans import filled, plan

INDEXES = {
    "STATE": "states USING INTEGER PRIMARY KEY",
    "RUN": "runs USING INTEGER PRIMARY KEY",
    "RUN_BY_RUN_ID": "runs USING INDEX sqlite_autoindex_runs_1",
    "RUN_ID_TAKEN": "runs USING COVERING INDEX sqlite_autoindex_runs_1",
    "NEWEST_RUN": "runs USING INDEX runs_by_workflow_id (workflow_id=?)",
    "NEWEST_OF_CHAIN": "runs USING COVERING INDEX runs_by_chain (chain=?)",
    "CHILDREN": "runs USING INDEX runs_by_parent (parent=?)",
    "PRIORITY_BELOW": "states USING INDEX states_due (queue=? AND priority<?)",
    "DUE_OF": "states USING INDEX states_due (queue=? AND priority=? AND wake_us>? AND wake_us<?)",
    "DUE_UNKNOWN": "states USING INDEX states_due (queue=? AND priority=? AND wake_us>? AND wake_us<?)",
    "FIRST_WAKE": "states USING INDEX states_due (queue=? AND priority=?",
    "PENDING": "states USING INDEX states_pending (owner=?)",
    "BLOCKED": "states USING INDEX states_blocked (queue=?)",
    "OWNED_RUNS": "states USING COVERING INDEX states_",
    "TURNS": "turns USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
    "TURN_CHAIN": "turns USING INTEGER PRIMARY KEY",
    "MESSAGES": "messages USING PRIMARY KEY (run=? AND number>? AND number<?)",
    "DELETE_MESSAGES": "messages USING PRIMARY KEY (run=? AND number<?)",
    "MESSAGE_ID": "message_ids USING PRIMARY KEY (chain=? AND message_id=?)",
    "UPDATE": "updates USING PRIMARY KEY (chain=? AND id=?)",
    "OPEN_UPDATES": "updates USING INDEX updates_open (chain=?)",
    "PROMISE": "promises USING PRIMARY KEY (run=? AND name=?)",
    "PROMISE_BY_KEY": "promises USING INDEX promises_by_key (key=?)",
    "TASK": "tasks USING PRIMARY KEY (id=?)",
    "FINISH_TASK": "tasks USING PRIMARY KEY (id=?)",
    "TASKS_OF_RUN": "tasks USING INDEX tasks_of_run (run=?)",
    "TASK_PRIORITY_BELOW": "tasks USING INDEX tasks_due (queue=? AND priority<?)",
    "TASKS_DUE_OF": "tasks USING INDEX tasks_due (queue=? AND priority=? AND due_us<?)",
    "FIRST_DUE": "tasks USING INDEX tasks_due (queue=? AND priority=?",
    "LEASE": "leases USING INTEGER PRIMARY KEY",
    "QUESTION": "questions USING INTEGER PRIMARY KEY",
}
SCANNED = {
    "OWNED_TASKS": "tasks USING COVERING INDEX tasks_of_run",  # when a lease has ended; each step is cheaper for it
}


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    """A file with something in every table."""
    with filled(tmp_path_factory.mktemp("plans")) as connection:
        yield connection


@pytest.mark.parametrize(("name", "index"), INDEXES.items(), ids=INDEXES.keys())
def test_a_statement_is_served_by_its_index(connection: apsw.Connection, name: str, index: str) -> None:
    steps = plan(connection, getattr(sql, name))
    assert any(f"SEARCH {index}" in step for step in steps), steps
    assert not any(step.startswith("SCAN") and "json_each" not in step for step in steps), steps


@pytest.mark.parametrize("name", ["NEXT_DEADLINE", "FIRST_OVERDUE", "OVERDUE"])
def test_deadlines_are_found_by_their_moment(connection: apsw.Connection, name: str) -> None:
    """What has a limit and is open is a table of its own, in the order of time."""
    first, *more = [step for step in plan(connection, getattr(deadlines, name)) if step.startswith(("SEARCH", "SCAN"))]
    assert first.startswith("SEARCH deadlines USING PRIMARY KEY (deadline_us")
    assert all(step.startswith("SEARCH states USING INTEGER PRIMARY KEY") for step in more)


@pytest.mark.parametrize(("name", "index"), SCANNED.items(), ids=SCANNED.keys())
def test_what_is_rare_is_looked_through_in_a_narrow_index(connection: apsw.Connection, name: str, index: str) -> None:
    assert plan(connection, getattr(sql, name)) == [f"SCAN {index}"]


def test_many_sleeping_runs_cost_a_claim_nothing(tmp_path: Path) -> None:
    """Steps of SQLite's machine, which are the same on every machine: those of a claim do not grow with what sleeps."""

    async def steps_of_a_claim(store: SqliteStore) -> int:
        lease = await store.open_lease("w-1", {}, 60.0)
        counted: list[int] = []
        for sleeping in (10, 400):
            for number in range(sleeping):
                await store.start_run(a_start(f"{sleeping}-{number}", wake_us=2**62, priority=number % 2))
            writer = store._connections[0]  # pyright: ignore[reportPrivateUsage]
            ticks: list[None] = []
            writer.set_progress_handler(lambda ticks=ticks: bool(ticks.append(None)), 1)
            assert await store.claim_runs(lease.number, ["default"], ["order"], 10) == []
            writer.set_progress_handler(None)
            counted.append(len(ticks))
        return counted[1] - counted[0]

    assert with_store(tmp_path / "store.db", steps_of_a_claim, threads=False) < 20
