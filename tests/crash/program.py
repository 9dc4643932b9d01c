"""The program that is killed: an engine with a load of runs, which notes what it does and learns in the ledger.

    python -m tests.crash.program FOLDER WANTED

It keeps WANTED runs in flight, signals and updates them, and notes what was acknowledged before it goes on. What it
sends has ids, so that the next process can send it again. `start` lines come before the call, `started` after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from pathlib import Path
from typing import Any

from perdure import (
    Engine,
    Retry,
    activity,
    activity_info,
    child,
    continue_as_new,
    each,
    info,
    parallel,
    promise,
    receive,
    signal,
    sleep,
    update,
    wait_until,
    workflow,
)
from perdure.engine.parts import Listener
from perdure.engine.turns import Prepared
from tests.crash.ledger import Ledger, entries

SIGNALS = 5
LEDGER: list[Ledger] = []


def note(*entry: Any) -> None:
    LEDGER[0].note(*entry)


def _note_activity(what: str, step: int) -> None:
    about = activity_info()
    note(what, about.key, about.workflow_id, step, about.attempt)


@activity(retry=Retry(attempts=None, initial=0.01, maximum=0.05))
async def work(step: int) -> int:
    _note_activity("began", step)
    await asyncio.sleep(random.Random(activity_info().key).random() * 0.02)
    _note_activity("did", step)
    return step + 1


@activity
def grind(step: int) -> int:
    _note_activity("began", step)
    _note_activity("did", step)
    return step + 1


@activity(retry=Retry(attempts=None, initial=0.01, maximum=0.02))
async def flaky(step: int) -> int:
    _note_activity("began", step)
    if activity_info().attempt < 3:
        raise ConnectionError("not yet")
    _note_activity("did", step)
    return step + 1


@workflow
async def chain(length: int) -> int:
    total = 0
    while total < length:
        total = await work(total)
    return total


@workflow
async def fan(width: int) -> int:
    return sum(await parallel(*(grind(step) for step in range(width)), work(0), flaky(0)))


@workflow
async def listening(count: int) -> list[int]:
    heard = [await receive("number", int) for _ in range(count)]
    await work(0)
    return heard


@workflow
async def napping(times: int) -> int:
    for step in range(times):
        await sleep(0.02)
        await work(step)
    return times


@workflow
async def windowed(count: int) -> int:
    return sum([value async for value in each(range(count), work, limit=3)])


@workflow
async def family(count: int) -> int:
    return sum(await parallel(*(chain(2) for _ in range(count)), child(napping, 1, id=f"{info().workflow_id}/nap")))


@workflow
async def generations(heard: list[int], count: int) -> list[int]:
    heard = [*heard, await receive("number", int)]
    await work(len(heard))
    if len(heard) < count:
        return continue_as_new(heard, count)
    return heard


@workflow
async def promised(_: int) -> int:
    return await work(await promise("answer", int, key=f"promise of {info().workflow_id}"))


@workflow
class Counter:
    def __init__(self) -> None:
        self.total = 0
        self.closed = False

    async def run(self, _: int) -> int:
        await wait_until(lambda: self.closed)
        return self.total

    @signal
    def close(self) -> None:
        self.closed = True

    @update
    async def add(self, amount: int) -> int:
        await grind(amount)
        self.total += amount
        return self.total


FLOWS: dict[str, Any] = {
    "chain": chain,
    "fan": fan,
    "listening": listening,
    "napping": napping,
    "windowed": windowed,
    "family": family,
    "generations": generations,
    "promised": promised,
    "Counter": Counter,
}
ACTIVITIES = [work, grind, flaky]


async def _lead(engine: Engine, name: str) -> Any:
    """Drive one run from its start to its end; every call may have been made before."""
    kind = name.partition("-")[0]
    note("start", name)
    if kind == "generations":
        handle: Any = await engine.start(generations, list[int](), SIGNALS, id=name)
    else:
        handle = await engine.start(FLOWS[kind], SIGNALS, id=name)
    note("started", name)
    if kind in ("listening", "generations"):
        for number in range(SIGNALS):
            await handle.signal("number", number, message_id=f"{name} {number}")
            note("signalled", name, number)
    elif kind == "Counter":
        for number in (1, 2, 3):
            note("updated", name, number, await handle.update("add", number, id=f"{name} {number}"))
        await handle.signal("close", message_id=f"{name} close")
    elif kind == "promised":
        await engine.resolve_promise(f"promise of {name}", 41)
    return await handle.result()


class Noting(Listener):
    """Notes which runs' turns are durable."""

    def turn_committed(self, prepared: Prepared) -> None:
        note("turn", prepared.live.run.facts.workflow_id, prepared.commit.turn.number)


async def main(folder: Path, wanted: int) -> None:
    """Go on where the ledger says that the one before was."""
    known = entries(folder / "ledger") if (folder / "ledger").exists() else []
    LEDGER.append(Ledger(folder / "ledger"))
    ended = {entry[1] for entry in known if entry[0] == "ended"}
    names = sorted(
        {entry[1] for entry in known if entry[0] == "start"} - ended, key=lambda name: int(name.split("-")[1])
    )
    number = sum(entry[0] == "start" for entry in known)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, stopping.set)  # the driver has closed it: finish what was begun
    async with Engine(
        f"sqlite:///{folder}/crash.db", workflows=FLOWS.values(), activities=ACTIVITIES, listener=Noting()
    ) as engine:
        note("ready")
        leading: set[asyncio.Task[None]] = set()

        async def lead(name: str) -> None:
            note("ended", name, await _lead(engine, name))

        while names or leading or not stopping.is_set():
            while len(leading) < wanted and (names or not stopping.is_set()):
                name = names.pop(0) if names else f"{list(FLOWS)[number % len(FLOWS)]}-{number}"
                number += 1
                leading.add(asyncio.create_task(lead(name)))
            waited = asyncio.create_task(stopping.wait())
            done, _ = await asyncio.wait({*leading, waited}, return_when=asyncio.FIRST_COMPLETED)
            waited.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waited
            if stopping.is_set():
                loop.remove_reader(sys.stdin)
            for task in done & leading:
                task.result()
            leading -= done
    note("finished")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
