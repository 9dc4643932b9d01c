"""Every commit boundary of a corpus of stories is crashed once; each outcome equals the undisturbed one (E1, E8).

I1 to I4, I6 to I8 and I14 of the invariants: nothing acknowledged is lost, every accepted run ends once, history has no
gaps, no answer is delivered twice, a repeated activity has the same key.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import Any

import pytest

from perdure.app import Engine
from perdure.engine.descriptions import read_record
from perdure.model import jobs
from perdure.stores.memory import MemoryStore
from perdure.stores.port import Store
from perdure.testing import VirtualClock, run_virtual
from perdure.testing.crashing import Crashed, CrashingStore
from tests.engine import corpus, stories

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


def _engine(store: Any, clock: VirtualClock) -> Engine:
    return Engine(
        store,
        workflows=corpus.WORKFLOWS,
        activities=corpus.ACTIVITIES,
        clock=clock,
        threads=False,
        rng=random.Random(next(NUMBERS)),
        lease="30d",  # of a store that dies, it ends at once
    )


async def _told(tell: stories.Story, engine: Engine) -> Any:
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


def _check_history(records: list[Any]) -> None:
    """No gap, and no answer twice."""
    assert [record.turn for record in records] == list(range(len(records)))
    answered = [job.seq for record in records for job in record.jobs if isinstance(job, jobs.Ended | jobs.Fired)]
    assert len(answered) == len(set(answered))


async def _undisturbed(tell: stories.Story, clock: VirtualClock) -> tuple[Outcome, int]:
    _forget()
    name = f"boundaries-{next(NUMBERS)}"
    keeper = MemoryStore(clock, name)  # so that the data outlives the engine's own store object
    counting = CrashingStore(MemoryStore(clock, name))
    told = await _told(tell, _engine(counting.as_store(), clock))
    return await _outcome(told, keeper), counting.writes


async def _crashed(tell: stories.Story, clock: VirtualClock, at: int, when: Any) -> Outcome:
    _forget()
    name = f"boundaries-{next(NUMBERS)}"
    keeper = MemoryStore(clock, name)
    crashing = CrashingStore(MemoryStore(clock, name), at=at, when=when, then="hang")
    before = asyncio.all_tasks()
    engine = _engine(crashing.as_store(), clock)
    telling = asyncio.ensure_future(_told(tell, engine))
    dying = asyncio.ensure_future(crashing.death.wait())
    await asyncio.wait([telling, dying], return_when=asyncio.FIRST_COMPLETED)
    if crashing.death.is_set():
        await _kill(asyncio.all_tasks() - before)
        _bury(engine)
        await crashing.bury()
        told = await _told(tell, _engine(MemoryStore(clock, name), clock))
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


def test_the_corpus_is_large_enough() -> None:
    assert len(stories.STORIES) >= 30
    assert len(corpus.WORKFLOWS) >= 30


@pytest.mark.parametrize("name", stories.STORIES)
def test_a_crash_at_any_commit_changes_nothing(name: str) -> None:
    """Rules E1, E8; I1 to I4, I6 to I8, I14."""
    tell = stories.STORIES[name]

    clock = VirtualClock()

    async def all_of_them() -> None:
        expected, writes = await _undisturbed(tell, clock)
        assert writes > 3
        for at, when in itertools.product(range(1, writes + 1), ("before", "after")):
            try:
                outcome = await _crashed(tell, clock, at, when)
            except BaseException as error:
                error.add_note(f"crashed {when} write {at} of {writes}")
                raise
            assert outcome.as_compared() == expected.as_compared(), f"crashed {when} write {at} of {writes}"
            keys = {(run, what): key for key, run, what in outcome.done}
            assert all(keys[run, what] == key for key, run, what in outcome.done), "a repeated activity keeps its key"

    run_virtual(all_of_them(), clock=clock)
