"""What it costs to find runs among a million: a page of 100 and a count, for the filters that people use.

Run it with `python -m bench.finding [--runs N] [--file F] [--rounds N] [--json] [--plans]`. The file is made first, in
about two minutes, unless it is there. Each figure is the worst of several rounds but for the first, which warms the
operating system's cache up and is shown beside. Exit code 1 if one takes longer than 200 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, cast
from uuid import UUID

import apsw

from perdure.clock import SystemClock, moment_of
from perdure.engine.filters import read_filter
from perdure.stores.records import Blocked, NewRun
from perdure.stores.sqlite import SqliteStore, lists, sql
from perdure.stores.sqlite.access import Access, Row, Value, to_json
from perdure.stores.sqlite.attributes import rows_of
from perdure.stores.sqlite.rows import State, facts_row, state_row

LIMIT_MS = 200
PAGE = 100
SECOND_US = 1_000_000
CHUNK = 20_000
STATUSES = {"completed": 880, "running": 60, "failed": 50, "cancelled": 6, "timed_out": 4}
TYPES = {"checkout": 50, "refund": 20, "report": 20, "signup": 9, "audit": 1}
FILTERS = (
    "",
    "status = 'completed'",
    "status = 'running'",
    "status = 'timed_out'",
    "status = 'terminated'",
    "status in ('failed', 'timed_out')",
    "status != 'completed'",
    "type = 'checkout'",
    "type = 'audit'",
    "type = 'checkout' and status = 'completed'",
    "type = 'checkout' and status = 'failed'",
    "type = 'audit' and status = 'running'",
    "started > '-1h'",
    "started > '-5d'",
    "started < '-11d'",
    "started > '-6d' and started < '-5d'",
    "closed > '-1h'",
    "closed < '-5d'",
    "closed > '-6d' and closed < '-5d' and status = 'failed'",
    "type = 'checkout' and status = 'completed' and started > '-6d' and started < '-2d'",
    "blocked = true",
    "blocked = true and type = 'checkout'",
    "blocked = false",
    "customer = 'c-77'",
    "region = 'eu'",
    "region = 'nowhere'",
    "region = 'eu' and status = 'completed'",
    "region = 'eu' and status = 'failed'",
    "region = 'eu' and status = 'terminated'",
    "region = 'eu' and type = 'checkout' and status = 'completed' and started > '-6d'",
    "region = 'eu' and closed < '-11d'",
    "region = 'eu' and blocked = true",
    "region = 'eu' and vip = true",
    "region in ('eu', 'us') and status = 'running'",
    "region != 'eu' and status = 'running'",
    "amount > 990",
    "amount > 100 and status = 'failed'",
    "id = 'order-777777'",
    "id like 'order-7777%'",
    "id like 'order-7777%' and status = 'completed'",
)


class Figure(NamedTuple):
    """How long a page and a count of a filter take, in milliseconds; `first`: the first time, both together."""

    filter: str
    found: int
    page: float
    counting: float
    first: float

    @property
    def holds(self) -> bool:
        return max(self.page, self.counting) <= LIMIT_MS


# --- the file ------------------------------------------------------------------------------------


def make(path: Path, amount: int) -> None:
    """A file of so many runs, one a second until now, as the store would have written it but for their turns."""

    async def open_once() -> None:
        store = SqliteStore(path, SystemClock(), threads=False)
        await store.open()
        await store.close()

    asyncio.run(open_once())
    with closing(apsw.Connection(str(path))) as connection:
        access = Access(connection)
        for pragma in ("synchronous = off", "cache_size = -400000"):
            access.write(f"pragma {pragma}")
        made = _runs(amount, SystemClock().now_us() - amount * SECOND_US)
        while chunk := [one for _, one in zip(range(CHUNK), made, strict=False)]:
            access.write("begin")
            access.write_many(sql.INSERT_RUN, [facts for facts, _, _ in chunk])
            access.write_many(sql.INSERT_STATE, [state for _, state, _ in chunk])
            access.write_many(sql.INSERT_ATTRIBUTE, [row for _, _, rows in chunk for row in rows])
            access.write("commit")


def _runs(amount: int, begin_us: int) -> Iterator[tuple[Row, Row, list[Row]]]:
    drawn = random.Random(7)
    for number in range(1, amount + 1):
        created_us = begin_us + number * SECOND_US
        (status,) = drawn.choices([*STATUSES], [*STATUSES.values()])
        (workflow,) = drawn.choices([*TYPES], [*TYPES.values()])
        attributes = to_json(
            {
                "customer": f"c-{drawn.randrange(100_000)}",
                "region": drawn.choice(("eu", "eu", "us", "asia")),
                "vip": drawn.random() < 0.3,
                "amount": drawn.randrange(1000),
            }
        )
        facts = NewRun(
            run_id=str(UUID(int=drawn.getrandbits(128), version=4)),
            workflow_id=f"order-{number:06}",
            workflow=workflow,
            seed=number,
            input=b'["order",1]',
            started=b'{"kind":"started"}',
            attributes=attributes,
        )
        state = State(number, facts.queue, workflow, 0, attributes=attributes, created_us=created_us)
        state.status = cast("Any", status)
        if status != "running":
            state.closed_us = created_us + drawn.randrange(3600) * SECOND_US
            state.result = b'{"total":990}'
        elif drawn.random() < 0.05:
            state.blocked = to_json(Blocked(kind="nondeterminism", reason="x" * 300, since_us=created_us))
        yield facts_row(number, facts, created_us), state_row(state), rows_of(number, attributes)


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
    pages: list[float] = []
    counts: list[float] = []
    found = 0
    for _ in range(rounds + 1):
        wanted = read_filter(text, moment_of(SystemClock().now_us()))
        began = time.perf_counter()
        await store.list_runs(wanted, PAGE)
        between = time.perf_counter()
        found = await store.count_runs(wanted)
        pages.append((between - began) * 1000)
        counts.append((time.perf_counter() - between) * 1000)
    return Figure(text, found, max(pages[1:]), max(counts[1:]), pages[0] + counts[0])


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
        print(f"{'found':>9} {'page ms':>9} {'count ms':>9} {'first ms':>9}  filter")
        for one in figures:
            missed = "" if one.holds else "  MISSED"
            print(
                f"{one.found:>9} {one.page:>9.1f} {one.counting:>9.1f} {one.first:>9.1f}  {one.filter or 'all'}{missed}"
            )
    print(json.dumps({"limit_ms": LIMIT_MS, "figures": [{**one._asdict(), "holds": one.holds} for one in figures]}))
    return 0 if all(one.holds for one in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
