"""The audit of a crash test: what the ledger says, and what the store says, have to agree (I1 to I4, I6 to I8, I14)."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from perdure.clock import SystemClock
from perdure.engine.descriptions import attempts_of, read_record
from perdure.model import jobs
from perdure.stores.records import Run, Turn
from perdure.stores.sqlite import SqliteStore
from tests.crash.ledger import entries
from tests.crash.program import SIGNALS

EXPECTED: dict[str, Any] = {
    "chain": SIGNALS,
    "fan": sum(range(1, SIGNALS + 1)) + 2,
    "listening": list(range(SIGNALS)),
    "napping": SIGNALS,
    "windowed": sum(range(1, SIGNALS + 1)),
    "family": SIGNALS * 2 + 1,
    "generations": list(range(SIGNALS)),
    "promised": 42,
    "Counter": 6,
}


def audit(folder: Path) -> list[str]:
    """Everything that does not hold; of a sound store, nothing."""
    known = entries(folder / "ledger")
    return [*_of_ledger(known), *asyncio.run(_of_store(folder, known))]


def _of_ledger(known: list[list[Any]]) -> list[str]:
    wrong: list[str] = []
    started = {entry[1] for entry in known if entry[0] == "started"}
    ended = [entry for entry in known if entry[0] == "ended"]
    wrong += [f"I1: run {name} was acknowledged and has not ended" for name in started - {entry[1] for entry in ended}]
    wrong += [f"I1: run {entry[1]} gave {entry[2]}" for entry in ended if entry[2] != EXPECTED[entry[1].split("-")[0]]]
    steps: dict[tuple[str, int, str], set[str]] = defaultdict(set)
    for entry in known:
        if entry[0] == "did":
            steps[entry[1], entry[3], entry[2]].add(entry[1])
    answers: dict[tuple[str, int], set[int]] = defaultdict(set)
    for entry in known:
        if entry[0] == "updated":
            answers[entry[1], entry[2]].add(entry[3])
    wrong += [f"M2: update {key} was answered {values}" for key, values in answers.items() if len(values) > 1]
    return wrong


async def _of_store(folder: Path, known: list[list[Any]]) -> list[str]:
    store = SqliteStore(str(folder / "crash.db"), SystemClock(), threads=False)
    await store.open()
    try:
        wrong = [f"E9: {damage}" for damage in await store.verify()]
        runs: dict[str, list[Run]] = defaultdict(list)
        taken: Counter[str] = Counter()
        for number in range(1, (await store.counts())["runs"] + 1):
            (run,) = await store.get_runs([number])
            turns = await store.list_turns(number)
            runs[run.facts.workflow_id].append(run)
            wrong += _of_history(run, turns)
            for turn in turns:
                for attempt in attempts_of(turn):
                    taken[attempt.key] += 1
            if run.status == "running":
                wrong.append(f"I1: run {run.facts.workflow_id} is still open")
            if await store.list_tasks(number):
                wrong.append(f"I1: run {run.facts.workflow_id} left activities behind")
    finally:
        await store.close()
    for entry in known:
        if entry[0] == "started" and entry[1] not in runs:
            wrong.append(f"I2: run {entry[1]} was acknowledged and is lost")
    began = Counter(entry[1] for entry in known if entry[0] == "began")
    last = {entry[1]: entry[4] for entry in known if entry[0] == "began"}
    for key, count in began.items():
        if taken[key] < count or taken[key] < last[key]:
            wrong.append(f"I14: activity {key} began {count} times, {taken[key]} attempts are recorded")
    return wrong


def _of_history(run: Run, turns: list[Turn]) -> list[str]:
    wrong: list[str] = []
    records = [read_record(turn.record) for turn in turns]
    name = run.facts.workflow_id
    if [record.turn for record in records] != list(range(len(records))):
        wrong.append(f"I3: the history of {name} has a gap")
    answered = Counter(job.seq for record in records for job in record.jobs if isinstance(job, jobs.Ended | jobs.Fired))
    wrong += [f"I4: answer {seq} of {name} came {count} times" for seq, count in answered.items() if count > 1]
    signals = Counter(
        job.message_id
        for record in records
        for job in record.jobs
        if isinstance(job, jobs.Signalled) and job.message_id
    )
    wrong += [f"I7: signal {one} of {name} came {count} times" for one, count in signals.items() if count > 1]
    due: dict[int, float] = {}
    for record in records:
        for command in record.commands:
            if command.kind == "start_timer" and command.seq is not None:
                due[command.seq] = record.now.timestamp() + command.input[0]
        for job in record.jobs:
            if isinstance(job, jobs.Fired) and record.now.timestamp() < due[job.seq] - 1e-6:
                wrong.append(f"I8: timer {job.seq} of {name} fired early")
    return wrong
