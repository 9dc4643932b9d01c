"""Walking: one letter goes from a mailbox to a sheet, the engine dies at a chosen write, and another one goes on."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from perdure.app import Engine
from perdure.pipelines import Pipeline
from perdure.stores.memory import MemoryStore
from perdure.testing import VirtualClock, run_virtual
from perdure.testing.crashing import CrashingStore
from tests.pipelines.mailing import Desk, mail_to_sheet
from tests.pipelines.test_pipeline_boundaries import kill

NUMBERS = itertools.count()
When = Literal["before", "after"]
Act = Callable[["Walk", Any], Awaitable[None]]
OF_RUNS = {"begin_run", "save_prepared", "begin_mutation", "end_mutation", "commit_run", "fail_run", "settle_run"}

# The writes of a letter's way, after those of the consumers that find nothing yet.
POLL_BEGINS, POLL_COMMITTED, BEGINS, PREPARED, IN_FLIGHT, MUTATED, COMMITTED = range(7, 14)


class Walk:
    """What becomes of the letter."""

    def __init__(self, made: Callable[[Desk], Pipeline] = mail_to_sheet) -> None:
        self.desk = Desk()
        self.desk.mails = self.desk.mails[:1]
        self.clock = VirtualClock()
        self.runs: list[Any] = []
        self.events: dict[str, list[Any]] = {}
        self.status: Any = None
        self._made = made
        self._name = f"walk-{next(NUMBERS)}"
        self._graves: list[Engine] = []

    def play(
        self,
        at: int | None = None,
        when: When = "before",
        *,
        away: float = 0,
        lives: float = 60,
        then: Act | None = None,
    ) -> Walk:
        """Die at that write, be away for so many seconds, and live for so many; then do something, and live again."""
        run_virtual(self._play(at, when, away, lives, then), clock=self.clock)
        self._graves.clear()
        return self

    def chain(self, handler: str = "Sheet") -> list[str]:
        """The attempts of a handler, but for those that found nothing to do; each after the first follows the last."""
        found = [run for run in self.runs if run.handler == handler and (handler == "poll" or self._worked(run))]
        assert all(run.retry_of in (None, before.id) for before, run in itertools.pairwise(found))
        return [f"{run.stage} {run.status} {run.mutation}" for run in found]

    @property
    def rows(self) -> list[str]:
        return [subject for _, subject in self.desk.rows]

    def states(self, topic: str) -> list[str]:
        """What became of the events of a topic, and how often they were tried."""
        return [f"{event.status} {event.attempt}" for event in self.events[topic]]

    def _worked(self, run: Any) -> bool:
        return run.status != "committed" or run.mutation != "none"

    async def _play(self, at: int | None, when: When, away: float, lives: float, then: Act | None) -> None:
        keeper = MemoryStore(self.clock, self._name)
        if at is not None:
            crashing = CrashingStore(MemoryStore(self.clock, self._name), at, when, of=OF_RUNS, then="hang")
            before = asyncio.all_tasks()
            living = asyncio.ensure_future(self._live(self._engine(crashing.as_store()), 3600))
            await crashing.death.wait()
            await kill(asyncio.all_tasks() - before)
            await crashing.bury()
            assert living.cancelled()
            await asyncio.sleep(away)
        await self._live(self._engine(MemoryStore(self.clock, self._name)), lives, then)
        await keeper.open()
        await keeper.close()

    def _engine(self, store: Any) -> Engine:
        engine = Engine(
            store,
            pipelines=[self._made(self.desk)],
            clock=self.clock,
            threads=False,
            rng=random.Random(next(NUMBERS)),
            lease="30d",  # of a store that dies, it ends at once
        )
        self._graves.append(engine)
        return engine

    async def _live(self, engine: Engine, seconds: float, then: Act | None = None) -> None:
        async with engine:
            await asyncio.sleep(seconds)
            if then is not None:
                await then(self, engine)
                await asyncio.sleep(seconds)
            self.runs = await engine.pipelines.runs("mail")
            self.events = {topic: await engine.pipelines.events("mail", topic) for topic in ("inbox", "rows")}
            self.status = await engine.pipelines.status("mail")
