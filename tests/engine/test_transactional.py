"""Activities with effect="transactional" (E5): what they write and their result are one transaction."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from perdure import (
    Engine,
    InvalidValue,
    Retry,
    TransactionFailed,
    UsageError,
    activity,
    activity_info,
    complete_later,
    transaction,
    transient,
    workflow,
)
from perdure.pipelines import Pipeline
from perdure.stores.sqlite.transactions import our_tables
from tests.engine.performing import pause
from tests.engine.transacting import CREATE, INSERT, ledger, played, read, transactional, url_of

Opened = Callable[..., Any]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path


# --- what it writes ----------------------------------------------------------------------------------


def test_rows_and_result_of_a_plain_function_are_there_together(path: Path) -> None:
    """api.md: `.execute(sql, params)` returns the rows, a plain call in a `def`."""

    def work() -> list[Any]:
        it = transaction()
        assert it.execute(CREATE) == []
        it.execute(INSERT, (activity_info().workflow_id, 1))
        it.execute("insert into ledger values (:who, :n)", {"who": "named", "n": 2})
        rows = transaction().execute("select who, n from ledger order by n")
        assert (len(rows), rows[0], list(rows)) == (2, ("r", 1), [("r", 1), ("named", 2)])
        assert ledger(path) == []  # nobody else sees it yet
        return [list(row) for row in rows]

    assert played(path, work) == [["r", 1], ["named", 2]]
    assert ledger(path) == [("r", 1), ("named", 2)]


def test_it_is_awaited_in_an_async_function(path: Path) -> None:
    async def work() -> int:
        await transaction().execute(CREATE)
        await transaction().execute(INSERT, ("r", 1))
        await asyncio.sleep(0)
        [(count,)] = await transaction().execute("select count(*) from ledger")
        return count

    assert played(path, work) == 1
    assert ledger(path) == [("r", 1)]


def test_a_statement_that_is_not_awaited_is_said_and_nothing_is_written(path: Path) -> None:
    async def work() -> None:
        await transaction().execute(CREATE)
        rows = transaction().execute(INSERT, ("r", 1))
        assert "not awaited" in repr(rows)
        with pytest.raises(UsageError, match="await transaction"):
            len(rows)

    kind, message = played(path, work)
    assert (kind, INSERT in message) == ("UsageError", True)
    assert ledger(path) == []


@pytest.mark.parametrize("error", [ValueError("no"), transient("no")], ids=["fails", "is tried again"])
def test_what_raises_has_written_nothing(path: Path, error: Exception) -> None:
    goes: list[int] = []

    def work() -> int:
        transaction().execute(CREATE)
        transaction().execute(INSERT, ("r", activity_info().attempt))
        goes.append(activity_info().attempt)
        if activity_info().attempt < 3:
            raise error
        return activity_info().attempt

    assert played(path, work, retry=Retry(initial=0.01)) == 3
    assert (ledger(path), goes) == ([("r", 3)], [1, 2, 3])


def test_a_result_that_cannot_be_stored_takes_everything_back(path: Path) -> None:
    def work() -> Any:
        transaction().execute(CREATE)
        return object()

    assert played(path, work)[0] == "InvalidValue"
    assert ledger(path) == []


def test_one_that_executes_nothing_is_like_any_other(path: Path) -> None:
    assert played(path, lambda: 7) == 7


def test_an_activity_that_is_cancelled_has_written_nothing(path: Path) -> None:
    begun = threading.Event()

    async def work() -> None:
        await transaction().execute(CREATE)
        await transaction().execute(INSERT, ("r", 1))
        begun.set()
        await asyncio.get_running_loop().create_future()

    async def act(_: Any, handle: Any) -> str:
        while not begun.is_set():
            await pause(0.01)
        await handle.cancel()
        while (seen := await handle.describe()).status == "running":
            await pause(0.01)
        return seen.status

    assert played(path, work, act, lease=0.6) == "cancelled"
    assert ledger(path) == []


# --- what it may not do ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "begin",
        "commit",
        "rollback",
        "end",
        "savepoint a",
        "attach ':memory:' as other",
        "detach main",
        "pragma user_version = 7",
        "vacuum",
        "create temp table t (a)",
        "select * from tasks",
        "select count(*) from RUNS",
        "delete from turns",
        "update states set status = 'completed'",
        "insert into migrations values (9, '', x'')",
        "drop table leases",
        "alter table runs add column mine",
        "create index its on messages (job)",
        "create trigger its after insert on turns begin select 1; end",
        "select 1; delete from tasks",
        "with t as (select * from updates) select * from t",
        "insert into mine select run from promises",
    ],
)
def test_what_is_not_an_activitys_own_is_refused(path: Path, statement: str) -> None:
    """E5: BEGIN, COMMIT, ATTACH, PRAGMA and our tables; the statement did nothing, and the transaction goes on."""

    def work() -> str:
        transaction().execute(CREATE)
        transaction().execute("create table if not exists mine (a)")
        with pytest.raises(UsageError, match="transactional activity may not use") as refused:
            transaction().execute(statement)
        transaction().execute(INSERT, ("r", 1))
        return str(refused.value)

    assert " ".join(statement.split())[:40] in played(path, work)
    assert ledger(path) == [("r", 1)]


def test_our_tables_are_reached_through_no_view_or_trigger_either(path: Path) -> None:
    def work() -> None:
        transaction().execute("create table mine (a)")
        transaction().execute("create view seen as select * from runs")
        with pytest.raises(UsageError, match="own table `runs`"):
            transaction().execute("select * from seen")
        transaction().execute("create trigger sly after insert on mine begin delete from turns; end")
        with pytest.raises(UsageError, match="own table `turns`"):
            transaction().execute("insert into mine values (1)")

    assert played(path, work) is None


def test_the_tables_that_are_ours_are_all_there_are(path: Path) -> None:
    """A migration that adds a table is noticed by the authorizer."""
    played(path, lambda: 7)
    there = {row[0] for row in read(path, "select name from sqlite_schema where type = 'table'")}
    assert {name for name in there if not str(name).startswith("sqlite_")} == our_tables()


def test_engine_calls_inside_are_refused(path: Path) -> None:
    """E5: they would wait for the transaction that they are in."""
    engines: list[Any] = []
    mail = Pipeline("mail")
    inbox = mail.topic("inbox", int)

    async def work() -> list[str]:
        await transaction().execute(CREATE)
        e, handle = engines[0], engines[0].handle("r")
        refused: list[str] = []
        for call in (
            lambda: e.start("flow"),
            lambda: handle.signal("s"),
            lambda: handle.cancel(),
            lambda: handle.terminate(),
            lambda: handle.update("u"),
            lambda: e.resolve_promise("p"),
            lambda: e.complete_activity("a.b"),
            lambda: handle.resolve_activity("key", "happened"),
            lambda: e.pipelines.deploy(mail),
            lambda: e.pipelines.run_now("mail"),
            lambda: e.pipelines.pause("mail"),
            lambda: e.pipelines.resume("mail"),
            lambda: e.pipelines.publish(inbox, 1),
            lambda: e.pipelines.publish_many(inbox, {"m": 1}),
            lambda: e.pipelines.resolve("run", "skip"),
            lambda: e.pipelines.skip_event("mail", "inbox", "m"),
        ):
            with pytest.raises(UsageError, match="within a transactional activity") as error:
                await call()
            refused.append(str(error.value))
        with pytest.raises(UsageError, match="complete_later"):
            complete_later()
        return refused

    async def act(e: Any, handle: Any) -> Any:
        engines.append(e)
        return await handle.result(timeout=30)

    async def late(*_: Any) -> Any:
        while not engines:
            await pause(0.01)
        return await work()

    assert len(played(path, late, act)) == 16


def test_engine_calls_from_a_thread_are_refused_too(path: Path) -> None:
    about: list[Any] = []

    def work() -> str:
        transaction().execute(CREATE)
        e, loop = about
        with pytest.raises(UsageError, match="within a transactional activity") as refused:
            asyncio.run_coroutine_threadsafe(e.handle("r").signal("s"), loop).result(10)
        return str(refused.value)

    async def late() -> None:
        while not about:
            await pause(0.01)

    made, first = transactional(work), activity(late)

    @workflow
    async def flow() -> str:
        await first()
        return await made()

    async def main() -> str:
        async with Engine(url_of(path), workflows=[flow], activities=[made, first]) as e:
            handle = await e.start(flow, id="r")
            about.extend([e, asyncio.get_running_loop()])
            return await handle.result(timeout=30)

    assert "telling a run" in asyncio.run(main())


def test_what_sql_refuses_is_an_error_after_which_it_goes_on(path: Path) -> None:
    def work() -> list[str]:
        transaction().execute(CREATE)
        transaction().execute(INSERT, ("r", 1))
        said: list[str] = []
        for sql, params in ((INSERT, ("twice", 1)), ("selekt", ()), (INSERT, (1,)), ("select * from nothing", ())):
            with pytest.raises(TransactionFailed) as failed:
                transaction().execute(sql, params)
            assert isinstance(failed.value.__cause__, apsw.Error)
            said.append(str(failed.value))
        for sql, params in ((7, ()), (INSERT, "ab"), (INSERT, 7), (INSERT, ("r", object())), (INSERT, ("r", 2**70))):
            with pytest.raises((InvalidValue, TransactionFailed)):
                transaction().execute(sql, params)  # type: ignore[arg-type]
        transaction().execute(INSERT, ("r", 2))
        return said

    assert "UNIQUE" in played(path, work)[0]
    assert ledger(path) == [("r", 1), ("r", 2)]
