"""What a turn costs: the kernel's figures, against the yardstick of bench/floor.py in the same run.

Run it with `make bench`, or `python -m bench.kernel [--json] [--rounds N]`. Each figure is the best of several
rounds, the yardstick's included, because machines are noisy. Exit code 1 if one misses.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
import tracemalloc
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from bench.floor import wake_seconds
from perdure import activity, codec, parallel, policies, receive, workflow
from perdure.define.workflow import definition_of
from perdure.kernel.executor import Executor, RunIdentity
from perdure.kernel.matching import Story, Strict
from perdure.model import jobs
from perdure.model.turns import TurnRecord

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUN = uuid.UUID("00000000-0000-4000-8000-000000000000")


@dataclass(frozen=True)
class Figure:
    """One figure, the bound that is promised (None: it is what others are compared with), and whether it holds."""

    name: str
    value: float
    unit: str
    limit: float | None = None

    @property
    def holds(self) -> bool:
        return self.limit is None or self.value <= self.limit


@activity
async def step(order: str, number: int) -> str: ...


@workflow
async def chain(steps: int) -> int:
    """Sequential activities."""
    total = 0
    for number in range(steps):
        total += len(await step("order-1", number))
    return total


@workflow
async def fan(width: int) -> int:
    """Activities side by side."""

    async def branch(number: int) -> str:
        return await step("order-1", number)

    return len(await parallel(*[branch(number) for number in range(width)]))


@workflow
async def parked(order: str) -> bool:
    """Waits for a signal."""
    return await receive("approve", bool)


def begin(flow: Any, *args: object) -> Executor:
    """A live copy that has not had a turn."""
    definition = definition_of(flow)
    encoded, keywords = definition.signature.bind(args, {})
    return Executor(definition.program, RunIdentity(RUN, 0, encoded, keywords), matcher=Strict(Story("bench", "run")))


def run_chain(steps: int) -> tuple[float, list[TurnRecord]]:
    """Seconds for a chain, live: each answer is encoded, matched with its call, and the next call is emitted."""
    executor = begin(chain, steps)
    records: list[TurnRecord] = [_record(executor.activate(NOW, [jobs.Started()]).record)]
    began = time.perf_counter()
    for seq in range(steps):
        answer = jobs.Resolved(seq, codec.encode("receipt", "value"))
        records.append(_record(executor.activate(NOW, [answer]).record))
    seconds = time.perf_counter() - began
    if not executor.ended:
        raise AssertionError("the chain has not ended")
    return seconds, records


def replay(steps: int, records: list[TurnRecord]) -> float:
    """Seconds for the replay of a recorded chain."""
    executor = begin(chain, steps)
    began = time.perf_counter()
    for record in records:
        executor.activate(record.now, record.jobs, record)
    seconds = time.perf_counter() - began
    if not executor.ended:
        raise AssertionError("the replay has not ended")
    return seconds


def run_fan(width: int) -> float:
    """Seconds for a fan-out and its join."""
    executor = begin(fan, width)
    answers = [jobs.Resolved(seq, codec.encode("receipt", "value")) for seq in range(width)]
    began = time.perf_counter()
    executor.activate(NOW, [jobs.Started()])
    executor.activate(NOW, answers)
    seconds = time.perf_counter() - began
    if not executor.ended:
        raise AssertionError("the fan-out has not ended")
    return seconds


def parked_bytes(runs: int) -> float:
    """Bytes that one parked run holds, the record of its first turn aside."""
    kept = [begin(parked, "order-1")]
    kept[0].activate(NOW, [jobs.Started()])
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(runs):
        executor = begin(parked, "order-1")
        executor.activate(NOW, [jobs.Started()])
        kept.append(executor)
    gc.collect()
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return held / runs


def choice_seconds(choices: int) -> float:
    """Seconds for one choice over 100 enabled actions, logged; a fresh list each time, as the kernel gives it."""
    tokens = [policies.Token(f"/p{number}") for number in range(100)]
    state: Any = policies.new("nondeterministic", seed=7)
    began = time.perf_counter()
    for _ in range(choices):
        _, state = policies.choose(list(tokens), state)
    return (time.perf_counter() - began) / choices


def import_milliseconds() -> float:
    """What `import perdure` adds to a bare interpreter, in processor time; the best of several.

    In isolation, so that the byte code is kept as it is for whatever is installed.
    """
    code = "import time; began = time.process_time(); import perdure; print(time.process_time() - began)"
    times = [float(subprocess.check_output([sys.executable, "-I", "-c", code])) for _ in range(8)]
    return min(times) * 1e3


def best(measure: Callable[[], float], rounds: int) -> float:
    """The least of several rounds."""
    return min(measure() for _ in range(rounds))


def figures(rounds: int) -> list[Figure]:
    """All figures of the kernel; what is compared is measured in turns, so that a noisy minute meets all alike."""
    steps, width = 5_000, 1_000
    records = run_chain(steps)[1]
    floors: list[float] = []
    turns: list[float] = []
    replays: list[float] = []
    fans: list[float] = []
    for _ in range(rounds):
        floors.append(wake_seconds())
        turns.append(run_chain(steps)[0] / steps)
        replays.append(replay(steps, records) / len(records))
        fans.append(best(lambda: run_fan(width) / width, 3))
    floor, turn = min(floors), min(turns)
    chains = [best(lambda count=count: run_chain(count)[0], 3) for count in (10_000, 20_000)]
    return [
        Figure("the yardstick: a woken task of asyncio", floor * 1e6, "µs"),
        Figure("one activity turn", turn / floor, "x yardstick", 6),
        Figure("one replayed turn", min(replays) / floor, "x yardstick", 5),
        Figure("one branch of a fan-out of 1,000", min(fans) / turn, "x turn", 1),
        Figure("20,000 activities against 10,000", chains[1] / chains[0], "times as long", 2.2),
        Figure("a parked run", parked_bytes(2_000) / 1024, "KB", 6),
        Figure("a choice over 100 actions, logged", best(lambda: choice_seconds(5_000), rounds) * 1e6, "µs", 10),
        Figure("import perdure", import_milliseconds(), "ms", 100),
    ]


def main() -> int:
    """Measure, and print the table and, on the last line, one JSON object; with --json that alone."""
    parser = argparse.ArgumentParser(description="The kernel's figures")
    parser.add_argument("--json", action="store_true", help="print only one JSON object")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    gc.freeze()
    measured = figures(options.rounds)
    summary = {"wake_us": measured[0].value, "figures": [asdict(one) | {"holds": one.holds} for one in measured]}
    if not options.json:
        print(f"{'figure':40} {'measured':>9} {'at most':>9}  unit")
        for one in measured:
            limit = "" if one.limit is None else f"{one.limit:.1f}"
            print(f"{one.name:40} {one.value:9.2f} {limit:>9}  {one.unit:14} {'' if one.holds else 'MISSED'}".rstrip())
        print()
    print(json.dumps(summary, ensure_ascii=False))
    return 0 if all(figure.holds for figure in measured) else 1


def _record(record: TurnRecord | None) -> TurnRecord:
    if record is None:
        raise AssertionError("a turn without a record")
    return record


if __name__ == "__main__":
    sys.exit(main())
