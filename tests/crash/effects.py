"""A process that forks engines and kills them with SIGKILL while activities write, pay, and wait for answers (E4, E5).

    python -m tests.crash.effects FOLDER KILLS [SEED]

Each life of the engine goes on with what the one before has left, and starts more. A `book` writes a row in its own
transaction; a `pay` pays at a bank outside, which forgets nothing, and is asked about whatever was interrupted; a
`review` is completed by token, in each life again until the ledger says so. This process only forks, so that a life
costs no imports. It prints a report as JSON.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import apsw
import msgspec

from perdure import Engine, Retry, activity, activity_info, complete_later, transaction, transient, workflow
from perdure.clock import SystemClock
from tests.crash.ledger import Ledger, entries
from tests.engine.performing import pause

OPEN = 8  # runs at a time
STEPS = 10
LIFE_SECONDS = (0.0, 0.2)  # of an engine, from when it is ready
READY_SECONDS = 30.0
TABLE = "create table if not exists booked (run text, step int)"
LEDGERS: list[Ledger] = []
PATHS: list[Path] = []
TOKENS: list[str] = []  # that nobody has answered yet


class Report(msgspec.Struct):
    """What a campaign came to."""

    kills: int = 0
    in_flight: int = 0  # kills that hit an activity between its beginning and its end
    runs: int = 0
    repeated: int = 0  # bookings that were begun more than once
    asked: int = 0  # payments that were asked about
    given_again: int = 0  # reviews whose function was called more than once
    wrong: list[str] = []


@activity(effect="transactional", retry=Retry(attempts=None, initial=0.01))
def book(step: int) -> int:
    about = activity_info()
    note("book", about.key)
    transaction().execute(TABLE)
    transaction().execute("insert into booked values (?, ?)", (about.workflow_id, step))
    rows = transaction().execute("select count(*) from booked where run = ?", (about.workflow_id,))
    note("booked", about.key)
    return rows[0][0]


@activity(effect="ask", retry=Retry(attempts=None, initial=0.01))
async def pay(step: int) -> str:
    key = activity_info().key
    note("call", key)
    await asyncio.sleep(0.002)
    note("paid", key)
    await asyncio.sleep(0.002)
    note("called", key)
    return key


@pay.reconcile
async def was_paid(step: int) -> str:
    key = activity_info().key
    if ["paid", key] in entries(PATHS[0]):
        note("asked", key, "yes")
        return key
    note("asked", key, "no")
    raise transient("the bank knows nothing of it")


@activity
async def review() -> str:
    note("token", activity_info().token)
    TOKENS.append(activity_info().token)
    complete_later()


@workflow
async def shopping() -> list[int]:
    counts: list[int] = []
    for step in range(STEPS):
        booking, paying = book(step), pay(step)
        counts.append(await booking)
        await paying
    if await review() != "fine":
        raise ValueError("somebody else answered")
    return counts


def note(*entry: Any) -> None:
    LEDGERS[0].note(*entry)


async def live(folder: Path, life: int, *, last: bool) -> None:
    """One life of the engine: go on, start as many as are missing, and end only if it is the last."""
    async with Engine(f"sqlite:///{folder}/effects.db", workflows=[shopping], activities=[book, pay, review]) as engine:
        running = [run.id async for run in engine.list("status = 'running'")]
        new = [f"run-{life}-{number}" for number in range(0 if last else OPEN - len(running))]
        for name in new:
            await engine.start(shopping, id=name)
        note("ready", life)
        answering = asyncio.create_task(answer(engine))
        if not last:
            await answering
        for run in [*running, *new]:
            await engine.handle(run).result(timeout=100)


async def answer(engine: Engine) -> None:
    """Complete what has a token, those of earlier lives again."""
    known = entries(PATHS[0])
    told = {entry[1] for entry in known if entry[0] == "told"}
    TOKENS[:0] = {entry[1] for entry in known if entry[0] == "token"} - told
    while True:
        for token in list(TOKENS):
            await engine.complete_activity(token, "fine")
            note("told", token)
            TOKENS.remove(token)
        await pause(0.005)


def campaign(folder: Path, kills: int, rng: random.Random) -> Report:
    """Kill so many lives, let the last one finish, and look."""
    report = Report()
    ledger = folder / "ledger"
    seen = 0
    for life in range(kills):
        child = _fork(folder, life, last=False)
        _until_ready(ledger, child, life)
        threading.Event().wait(rng.uniform(*LIFE_SECONDS))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        report.kills += 1
        known = entries(ledger)
        counts, seen = Counter(entry[0] for entry in known[seen:]), len(known)
        report.in_flight += counts["book"] > counts["booked"] or counts["call"] > counts["called"]
    _, status = os.waitpid(_fork(folder, kills, last=True), 0)
    if status:
        report.wrong.append(f"the last life ended with {status}")
    _audit(folder, report)
    return report


def _fork(folder: Path, life: int, *, last: bool) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        PATHS.append(folder / "ledger")
        LEDGERS.append(Ledger(PATHS[0]))
        asyncio.run(live(folder, life, last=last))
        code = 0
    finally:
        os._exit(code)


def _until_ready(ledger: Path, child: int, life: int) -> None:
    clock = SystemClock()
    give_up = clock.monotonic() + READY_SECONDS
    ready = b'["ready",%d]' % life
    while not ledger.exists() or ready not in ledger.read_bytes():
        if os.waitpid(child, os.WNOHANG) != (0, 0) or clock.monotonic() > give_up:
            raise RuntimeError(f"life {life} is not ready")
        threading.Event().wait(0.005)


def _audit(folder: Path, report: Report) -> None:
    known = entries(folder / "ledger")
    connection: Any = apsw.Connection(str(folder / "effects.db"))
    rows: Counter[tuple[str, int]] = Counter(connection.execute("select run, step from booked"))
    runs: dict[str, bytes | None] = dict(
        connection.execute("select workflow_id, result from runs join states using (number)")
    )
    connection.close()
    report.runs = len(runs)
    for run, result in runs.items():
        if result is None or msgspec.json.decode(result) != list(range(1, STEPS + 1)):
            report.wrong.append(f"{run} came to {result!r}")
        report.wrong += [
            f"{run} booked {step} {rows[run, step]} times" for step in range(STEPS) if rows[run, step] != 1
        ]
    if len(rows) != STEPS * len(runs):
        report.wrong.append(f"{len(rows)} bookings of {len(runs)} runs")
    paid = Counter(entry[1] for entry in known if entry[0] == "paid")
    if len(paid) != STEPS * len(runs):
        report.wrong.append(f"{len(paid)} payments of {len(runs)} runs")
    report.wrong += [f"{key} was paid {times} times" for key, times in paid.items() if times != 1]
    in_question: set[str] = set()
    for what, key, *answer in known:
        if what == "call":
            if key in in_question:
                report.wrong.append(f"{key} was called again, and nobody had said that it did not happen")
            in_question.add(key)
        elif what == "asked" and answer == ["no"]:
            in_question.discard(key)
    told = Counter(entry[1] for entry in known if entry[0] == "told")
    tokens = Counter(entry[1] for entry in known if entry[0] == "token")
    if not len(runs) == len(told) == len(tokens):
        report.wrong.append(f"{len(tokens)} reviews of {len(runs)} runs, {len(told)} of them completed")
    report.given_again = sum(times > 1 for times in tokens.values())
    report.asked = len({entry[1] for entry in known if entry[0] == "asked"})
    report.repeated = sum(times > 1 for times in Counter(entry[1] for entry in known if entry[0] == "book").values())


def main() -> None:
    """As a command."""
    folder, kills = Path(sys.argv[1]), int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(2**32)
    report = campaign(folder, kills, random.Random(seed))
    sys.stdout.write(msgspec.json.encode({"seed": seed, **msgspec.to_builtins(report)}).decode() + "\n")


if __name__ == "__main__":
    main()
