"""Every commit boundary of transactional activities is crashed once: rows and results are there exactly once (E5, E8).

On a file, because rows and engine share its transactions. Each statement is a boundary as well.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import apsw
import pytest

from perdure import Retry, activity, activity_info, parallel, sleep, transaction, workflow
from perdure.stores.sqlite import SqliteStore
from perdure.testing import VirtualClock
from tests.engine import corpus
from tests.engine.boundaries import Stage, every_boundary
from tests.engine.stories import Story

TABLES = (
    "create table if not exists ledger (who text, cents int)",
    "create table if not exists balance (cents int)",
    "insert into balance select 0 where not exists (select 1 from balance)",
)
BOOK = "insert into ledger values (?, ?)"


@activity(effect="transactional")
async def book(cents: int) -> int:
    it = transaction()
    await it.execute(BOOK, (activity_info().workflow_id, cents))
    await it.execute("update balance set cents = cents + ?", (cents,))
    return cents


@activity(effect="transactional", retry=Retry(attempts=3, initial=1, jitter=0))
async def book_in_the_end(cents: int) -> int:
    """What it writes before it fails is taken back."""
    await transaction().execute(BOOK, (activity_info().workflow_id, cents))
    if corpus.FAILED.setdefault(activity_info().key, 0) < 1:
        corpus.FAILED[activity_info().key] += 1
        raise ConnectionError("again")
    await transaction().execute("update balance set cents = cents + ?", (cents,))
    return cents


@workflow
async def one_by_one() -> list[int]:
    first = await book(1)
    await sleep(5)
    return [first, await book(20)]


@workflow
async def side_by_side() -> list[int]:
    return await parallel(book(21), corpus.work(3))


@workflow
async def after_failing() -> int:
    return await book_in_the_end(21)


WORKFLOWS = [one_by_one, side_by_side, after_failing]


def booking(flow: Any) -> Story:
    async def tell(engine: Any) -> Any:
        with_rows(Path(engine.store.url.removeprefix("sqlite:///")), *TABLES)
        return await (await engine.start(flow, id="books")).result()

    return tell


@pytest.mark.parametrize("flow", WORKFLOWS, ids=lambda flow: flow.name)
def test_rows_are_written_exactly_once_whatever_commit_is_the_last(flow: Any, tmp_path: Path) -> None:
    """E5, E8; I7: the rows of an attempt and its result are there together, or neither is."""
    clock = VirtualClock()
    files: list[Path] = []

    def make(name: str) -> SqliteStore:
        files.append(tmp_path / f"{name}.db")
        return SqliteStore(files[-1], clock, threads=False)

    def check() -> None:
        rows = with_rows(files[-1], "select who, cents from ledger order by cents", "select 'all', cents from balance")
        booked = [cents for who, cents in rows if who == "books"]
        assert (booked in ([1, 20], [21]), rows[-1]) == (True, ("all", 21))

    every_boundary(booking(flow), Stage(clock, make, WORKFLOWS, [book, book_in_the_end, corpus.work]), check)


def with_rows(file: Path, *statements: str) -> list[Any]:
    """What these statements give, on a connection of somebody else's."""
    connection: Any = apsw.Connection(str(file))
    try:
        return list(itertools.chain.from_iterable(connection.execute(each).fetchall() for each in statements))
    finally:
        connection.close()
