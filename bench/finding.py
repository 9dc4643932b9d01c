"""What it costs to find runs among a million: pages of 100 and a count, for the filters of `bench.finding_runs`.

Run it with `python -m bench.finding [--runs N] [--file F] [--rounds N] [--json] [--plans]`. The file is made first, in
about two minutes, unless it is there. Measured are the first page, the second, the 500th (or the last), and the count:
the worst of several rounds but for the first, which warms the operating system's cache up and is shown beside. Exit
code 1 if one takes longer than 200 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, TypeVar

import apsw

from bench.finding_runs import FILTERS, make
from perdure.clock import SystemClock, moment_of
from perdure.engine.filters import read_filter
from perdure.stores.records import Condition
from perdure.stores.sqlite import SqliteStore, lists
from perdure.stores.sqlite.access import Access, Row, Value

LIMIT_MS = 200
PAGE = 100
UP_TO_PAGE_500 = (1, 98, 100, 100, 100, 100)  # how many are read at once
T = TypeVar("T")


class Took(NamedTuple):
    """Milliseconds by the clock, and of the processor."""

    wall: float
    cpu: float


NO_TIME = Took(0.0, 0.0)


class Figure(NamedTuple):
    """How long pages and a count take, in milliseconds; `first`: the first page and the count, the first time."""

    filter: str
    found: int
    page: float
    page_2: float
    page_500: float  # or the last one
    counting: float
    cpu: float  # what of a count the processor has worked: less than that it cannot take on a busier machine
    first: float

    @property
    def holds(self) -> bool:
        return max(self.page, self.page_2, self.page_500, self.counting) <= LIMIT_MS


# --- measuring -----------------------------------------------------------------------------------


async def measure(path: Path, rounds: int) -> list[Figure]:
    """Every filter, as people write it, through the store as an engine opens it."""
    store = SqliteStore(path, SystemClock())
    await store.open()
    try:
        return [await _figure(store, text, rounds) for text in FILTERS]
    finally:
        await store.close()


async def _figure(store: SqliteStore, text: str, rounds: int) -> Figure:
    wanted = read_filter(text, moment_of(SystemClock().now_us()))
    warming, _ = await _timed(store.list_runs(wanted, PAGE))
    counting, amount = await _timed(store.count_runs(wanted))
    first = warming.wall + counting.wall
    second, far = await _marks(store, wanted)
    pages, seconds, fars, counts = ([NO_TIME] for _ in range(4))
    for _ in range(rounds):
        pages.append((await _timed(store.list_runs(wanted, PAGE)))[0])
        seconds.append((await _timed(store.list_runs(wanted, PAGE, second)))[0])
        fars.append((await _timed(store.list_runs(wanted, PAGE, far)))[0])
        counts.append((await _timed(store.count_runs(wanted)))[0])
    walls = [max(took.wall for took in each) for each in (pages, seconds, fars, counts)]
    return Figure(text, amount, *walls, cpu=max(took.cpu for took in counts), first=first)


async def _timed(call: Awaitable[T]) -> tuple[Took, T]:
    began, worked = time.perf_counter(), time.process_time()
    given = await call
    return Took((time.perf_counter() - began) * 1000, (time.process_time() - worked) * 1000), given


async def _marks(store: SqliteStore, wanted: Condition) -> tuple[int | None, int | None]:
    """Before which runs the second page begins, and the far one, as a list that is read on would ask for them."""
    second = far = None
    for pages in UP_TO_PAGE_500:
        runs = await store.list_runs(wanted, PAGE * pages, far)
        far = runs[-1].number if runs else far
        second = far if second is None else second
        if len(runs) < PAGE * pages:
            break
    return second, far


class Listening(Access):
    """Notes what is asked."""

    def __init__(self, connection: apsw.Connection) -> None:
        super().__init__(connection)
        self.asked: list[tuple[str, tuple[Value, ...]]] = []

    def row(self, sql: str, *values: Value) -> Row | None:
        self.asked.append((sql, values))
        return super().row(sql, *values)

    def rows(self, sql: str, *values: Value) -> list[Row]:
        self.asked.append((sql, values))
        return super().rows(sql, *values)


def print_plans(path: Path) -> None:
    """How SQLite goes about each filter."""
    with closing(apsw.Connection(str(path))) as connection:
        for text in FILTERS:
            listening = Listening(connection)
            wanted = read_filter(text, moment_of(SystemClock().now_us()))
            lists.list_runs(listening, wanted, PAGE, None)
            lists.count_runs(listening, wanted)
            print(f"\n{text or 'all'}")
            for statement, values in listening.asked:
                print(f"  {' '.join(statement.split())[:150]}")
                for row in Access(connection).rows(f"explain query plan {statement}", *values):
                    print(f"      {row[3]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--file", type=Path, help="keep the file here, and take it if it is there")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print only one JSON object")
    parser.add_argument("--plans", action="store_true", help="print how SQLite goes about each filter")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path: Path = options.file or Path(folder) / "finding.db"
        if not path.exists():
            make(path, options.runs)
        if options.plans:
            print_plans(path)
        figures = asyncio.run(measure(path, options.rounds))
    if not options.json:
        heads = ("page ms", "2nd ms", "500th ms", "count ms", "its cpu", "first ms")
        print(f"{'found':>8} {' '.join(f'{each:>8}' for each in heads)}  filter")
        for one in figures:
            columns = (one.page, one.page_2, one.page_500, one.counting, one.cpu, one.first)
            missed = "" if one.holds else "  MISSED"
            print(f"{one.found:>8} {' '.join(f'{each:>8.1f}' for each in columns)}  {one.filter or 'all'}{missed}")
    print(json.dumps({"limit_ms": LIMIT_MS, "figures": [{**one._asdict(), "holds": one.holds} for one in figures]}))
    return 0 if all(one.holds for one in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
