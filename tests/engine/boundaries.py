"""Boundaries: a story is told, and crashed once before and after every write of its store (E1, E8).

tests/engine/test_boundaries.py tells the whole corpus on memory, test_transactional_boundaries.py what needs a file.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from perdure.app import Engine
from perdure.engine.descriptions import read_record
from perdure.model import jobs
from perdure.stores.port import Store
from perdure.testing import VirtualClock, run_virtual
from perdure.testing.crashing import Crashed, CrashingStore
from tests.engine import corpus
from tests.engine.stories import Story

NUMBERS = itertools.count()
LIMIT_SECONDS = 3_600


class Outcome:
    """What a story came to: what it was told, what the runs became, what activities did."""

    def __init__(self, told: Any, runs: dict[tuple[str, int], Any], done: list[tuple[str, str, str]]) -> None:
        self.told = told
        self.runs = runs
        self.done = done

    def as_compared(self) -> Any:
        return self.told, self.runs, sorted({(run, what) for _, run, what in self.done})


@dataclass(frozen=True)
class Stage:
    """Where stories are told: `make` gives store objects on one set of data, which is new for each name."""

    clock: VirtualClock
    make: Callable[[str], Store]
    workflows: Sequence[object]
    activities: Sequence[object]


def _engine(store: Any, stage: Stage) -> Engine:
    return Engine(
        store,
        workflows=stage.workflows,
        activities=stage.activities,
        clock=stage.clock,
        threads=False,
        rng=random.Random(next(NUMBERS)),
        lease="30d",  # of a store that dies, it ends at once
    )


async def _told(tell: Story, engine: Engine) -> Any:
    async with asyncio.timeout(LIMIT_SECONDS), engine:
        told = await tell(engine)
        await asyncio.sleep(LIMIT_SECONDS / 2)  # what is left behind ends too
        return told


async def _outcome(told: Any, store: Store) -> Outcome:
    await store.open()
    try:
        assert await store.verify() == []
        runs: dict[tuple[str, int], Any] = {}
        names: dict[str, str] = {}  # by run id: a child whose id follows from its parent's is named after that one
        for run in await store.get_runs(range(1, 1000)):
            turns = await store.list_turns(run.number)
            _check_history([read_record(turn.record) for turn in turns])
            assert await store.list_tasks(run.number) == []
            facts = run.facts
            derived = facts.parent is not None and facts.workflow_id in (facts.run_id, facts.chain)
            name = f"{names[facts.parent.run_id]}/{facts.parent.seq}" if derived and facts.parent else facts.workflow_id
            names[facts.run_id] = names[facts.workflow_id] = name
            generation = sum(key[0] == name for key in runs)
            runs[name, generation] = (facts.workflow, run.status, run.result if run.status == "completed" else None)
        return Outcome(told, runs, [(key, names[workflow_id], what) for key, workflow_id, what in corpus.LOG])
    finally:
        await store.close()


def every_boundary(tell: Story, stage: Stage, check: Callable[[], object] = bool) -> None:
    """Crash every write of a story once, before and after it; `check` looks at what each has left."""

    async def all_of_them() -> None:
        expected, writes = await undisturbed(tell, stage)
        check()
        assert writes > 3
        for at, when in itertools.product(range(1, writes + 1), ("before", "after")):
            try:
                outcome = await crashed(tell, stage, at, when)
                check()
            except BaseException as error:
                error.add_note(f"crashed {when} write {at} of {writes}")
                raise
            assert outcome.as_compared() == expected.as_compared(), f"crashed {when} write {at} of {writes}"
            keys = {(run, what): key for key, run, what in outcome.done}
            assert all(keys[run, what] == key for key, run, what in outcome.done), "a repeated activity keeps its key"

    run_virtual(all_of_them(), clock=stage.clock)


def _check_history(records: list[Any]) -> None:
    """No gap, and no answer twice."""
    assert [record.turn for record in records] == list(range(len(records)))
    answered = [job.seq for record in records for job in record.jobs if isinstance(job, jobs.Ended | jobs.Fired)]
    assert len(answered) == len(set(answered))


async def undisturbed(tell: Story, stage: Stage) -> tuple[Outcome, int]:
    """What a story comes to, and in how many writes."""
    _forget()
    name = f"boundaries-{next(NUMBERS)}"
    keeper = stage.make(name)  # so that the data outlives the engine's own store object
    counting = CrashingStore(stage.make(name))
    told = await _told(tell, _engine(counting.as_store(), stage))
    return await _outcome(told, keeper), counting.writes


async def crashed(tell: Story, stage: Stage, at: int, when: Any) -> Outcome:
    """What a story comes to that is told again from its beginning after a crash at this write."""
    _forget()
    name = f"boundaries-{next(NUMBERS)}"
    keeper = stage.make(name)
    crashing = CrashingStore(stage.make(name), at=at, when=when, then="hang")
    before = asyncio.all_tasks()
    engine = _engine(crashing.as_store(), stage)
    telling = asyncio.ensure_future(_told(tell, engine))
    dying = asyncio.ensure_future(crashing.death.wait())
    await asyncio.wait([telling, dying], return_when=asyncio.FIRST_COMPLETED)
    if crashing.death.is_set():
        await _kill(asyncio.all_tasks() - before)
        _bury(engine)
        await crashing.bury()
        told = await _told(tell, _engine(stage.make(name), stage))
    else:
        dying.cancel()
        told = telling.result()
    return await _outcome(told, keeper)


async def _kill(tasks: set[asyncio.Task[Any]]) -> None:
    """What a process leaves behind when it dies: nothing of it runs any more."""
    for task in tasks:
        task.cancel()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=1)
    for task in tasks:
        if task.done() and not task.cancelled():
            error = task.exception()
            assert error is None or isinstance(error, Crashed | TimeoutError | asyncio.CancelledError), error


def _bury(engine: Engine) -> None:
    """Close the coroutines of its runs, which die with a process; here they would be left to the garbage collector."""
    worker = engine._worker  # pyright: ignore[reportPrivateUsage]
    for live in list(worker.cache.lives.values()):
        worker.cache.drop(live)


def _forget() -> None:
    corpus.LOG.clear()
    corpus.FAILED.clear()
