"""What a commit costs: the SQLite store's figures, against bare SQLite on the same disk in the same run.

Run it with `python -m bench.store [--json] [--rounds N] [--folder F]`. A step is what an engine commits for each step
of a chain of activities: a turn, a new task that is claimed already, and the task before it removed. Each figure is the
best of several rounds, the yardstick's included. Exit code 1 if one misses.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import apsw

from perdure.clock import SystemClock
from perdure.stores.checks import chain
from perdure.stores.records import Committed, NewRun, NewTask, Run, Start, Turn, TurnCommit
from perdure.stores.sqlite import SqliteStore

RECORD = b'{"jobs":[{"kind":"resolved","value":"%s"}],"commands":[{"kind":"activity","seq":42}]}' % (b"x" * 160)
INPUT = b'["order-1", 41]'


@dataclass(frozen=True)
class Figure:
    """One figure, the least that is promised (None: it is what others are compared with), and whether it holds."""

    name: str
    value: float
    unit: str
    least: float | None = None

    @property
    def holds(self) -> bool:
        return self.least is None or self.value >= self.least


class Chain:
    """A run of a chain of activities, as the engine commits it."""

    def __init__(self, run: Run, owner: int) -> None:
        self.run = run
        self._owner = owner
        self._last = run.last_turn
        self._checksum = run.checksum
        self._consumed = run.accepted
        self._task: tuple[str, ...] = ()

    def step(self) -> TurnCommit:
        """The next turn: the answer of the last activity is taken, and another one is scheduled."""
        number = self._last + 1
        turn = Turn(number=number, record=RECORD, checksum=chain(self._checksum, number, RECORD))
        task = NewTask(id=f"{self.run.facts.run_id}/{number}", seq=number, name="step", input=INPUT, claimed=True)
        commit = TurnCommit(
            run=self.run.number,
            owner=self._owner,
            turn=turn,
            previous=self._checksum,
            consumed=self._consumed,
            finished=self._task,
            new_tasks=(task,),
        )
        self._last, self._checksum, self._task = number, turn.checksum, (task.id,)
        return commit


def bare_commits(path: str, count: int) -> float:
    """Seconds for so many transactions of one row each, on SQLite without anything around it."""
    connection = apsw.Connection(path)
    cursor: Any = connection.cursor()
    cursor.execute("pragma journal_mode = wal; pragma synchronous = full").fetchall()
    cursor.execute("create table rows (number integer primary key, record blob)")
    began = time.perf_counter()
    for _ in range(count):
        cursor.execute("begin immediate")
        cursor.execute("insert into rows (record) values (?)", (RECORD,))
        cursor.execute("commit")
    seconds = time.perf_counter() - began
    connection.close()
    return seconds


def a_start(number: int, owner: int | None) -> Start:
    """The start of a run."""
    facts = NewRun(
        run_id=f"run-{number}", workflow_id=f"order-{number}", workflow="chain", seed=number, input=INPUT, started=b"{}"
    )
    return Start(facts=facts, claim=owner)


@contextmanager
def opened(folder: str) -> Generator[Callable[[Callable[[SqliteStore, int], Awaitable[float]]], float]]:
    """How to have something done with a new store and a lease in it."""
    with tempfile.TemporaryDirectory(dir=folder) as place:

        async def run(work: Callable[[SqliteStore, int], Awaitable[float]]) -> float:
            store = SqliteStore(os.path.join(place, "store.db"), SystemClock())
            await store.open()
            lease = await store.open_lease("bench", {"default": 10}, 600.0)
            try:
                return await work(store, lease.number)
            finally:
                await store.close_lease(lease.number)
                await store.close()

        yield lambda work: asyncio.run(run(work))


async def start_all(store: SqliteStore, owner: int | None, count: int) -> list[Run]:
    """Start so many runs at once."""
    begun = await asyncio.gather(*[store.start_run(a_start(number, owner)) for number in range(count)])
    return [each.run for each in begun]


async def commit(store: SqliteStore, commits: list[TurnCommit]) -> None:
    """Commit a group, which must be possible."""
    for each in await store.commit_turns(commits):
        if not isinstance(each, Committed):
            raise AssertionError(f"a turn was refused: {each!r}")


def steps(width: int, turns: int) -> Callable[[SqliteStore, int], Awaitable[float]]:
    """Seconds for so many turns of each of so many chains, side by side in one call."""

    async def work(store: SqliteStore, owner: int) -> float:
        chains = [Chain(run, owner) for run in await start_all(store, owner, width)]
        await commit(store, [each.step() for each in chains])
        groups = [[each.step() for each in chains] for _ in range(turns)]
        began = time.perf_counter()
        for group in groups:
            await commit(store, group)
        return time.perf_counter() - began

    return work


def starts(count: int) -> Callable[[SqliteStore, int], Awaitable[float]]:
    """Seconds for so many starts that wait in the queue together."""

    async def work(store: SqliteStore, owner: int) -> float:
        began = time.perf_counter()
        await start_all(store, owner, count)
        return time.perf_counter() - began

    return work


def signals(count: int) -> Callable[[SqliteStore, int], Awaitable[float]]:
    """Seconds for so many messages, one after another, that wake their runs."""

    async def work(store: SqliteStore, owner: int) -> float:
        runs = await start_all(store, None, count)
        began = time.perf_counter()
        for run in runs:
            await store.accept_message(run.facts.workflow_id, None, RECORD, claim=owner, claims=["chain"])
        return time.perf_counter() - began

    return work


def claims(count: int) -> Callable[[SqliteStore, int], Awaitable[float]]:
    """Seconds to claim so many runs that are due, a hundred at a time."""

    async def work(store: SqliteStore, owner: int) -> float:
        await start_all(store, None, count)
        claimed = 0
        began = time.perf_counter()
        while claimed < count:
            claimed += len(await store.claim_runs(owner, ["default"], ["chain"], 100))
        return time.perf_counter() - began

    return work


def looks(count: int) -> Callable[[SqliteStore, int], Awaitable[float]]:
    """Seconds for so many claims that find nothing."""

    async def work(store: SqliteStore, owner: int) -> float:
        began = time.perf_counter()
        for _ in range(count):
            await store.claim_runs(owner, ["default"], ["chain"], 100)
        return time.perf_counter() - began

    return work


def per_second(folder: str, count: int, work: Callable[[SqliteStore, int], Awaitable[float]]) -> float:
    """How many of it a new store does in a second."""
    with opened(folder) as run:
        return count / run(work)


def figures(folder: str, rounds: int) -> list[Figure]:
    """All figures; what is compared is measured in turns, so that a noisy minute meets all alike."""
    count, groups = 1_000, 30
    bare: list[float] = []
    measured: dict[str, list[float]] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(dir=folder) as place:
            bare.append(count / bare_commits(os.path.join(place, "bare.db"), count))
        for name, amount, work in (
            ("steps", count, steps(1, count)),
            ("grouped", groups * 100, steps(100, groups)),
            ("starts", count, starts(count)),
            ("signals", count, signals(count)),
            ("claims", count, claims(count)),
            ("looks", count, looks(count)),
        ):
            measured.setdefault(name, []).append(per_second(folder, amount, work))
    yardstick = max(bare)
    return [
        Figure("the yardstick: bare commits of SQLite", yardstick, "a second"),
        Figure("steps of one chain", max(measured["steps"]) / yardstick, "x yardstick", 0.5),
        Figure("steps of 100 chains, in groups", max(measured["grouped"]), "a second", 15_000),
        Figure("starts, 1,000 at once", max(measured["starts"]), "a second"),
        Figure("signals that wake, one at a time", max(measured["signals"]) / yardstick, "x yardstick", 0.4),
        Figure("claims, 100 at a time", max(measured["claims"]), "a second"),
        Figure("claims that find nothing", max(measured["looks"]), "a second"),
    ]


def main() -> int:
    """Measure, and print the table and, on the last line, one JSON object; with --json that alone."""
    parser = argparse.ArgumentParser(description="The SQLite store's figures")
    parser.add_argument("--json", action="store_true", help="print only one JSON object")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", default=".", help="where to put the files: on the disk that is to be measured")
    options = parser.parse_args()
    gc.freeze()
    measured = figures(options.folder, options.rounds)
    summary = {"figures": [asdict(one) | {"holds": one.holds} for one in measured]}
    if not options.json:
        print(f"{'figure':40} {'measured':>9} {'at least':>9}  unit")
        for one in measured:
            least = "" if one.least is None else f"{one.least:.1f}"
            print(f"{one.name:40} {one.value:9.2f} {least:>9}  {one.unit:14} {'' if one.holds else 'MISSED'}".rstrip())
        print()
    print(json.dumps(summary, ensure_ascii=False))
    return 0 if all(figure.holds for figure in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
