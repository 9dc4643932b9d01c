"""Who waits for the end of a run, or for an answer, is told, however close that comes to a look (M2, E8)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from perdure.clock import SystemClock
from perdure.engine.answers import Answers
from perdure.engine.closings import Closings
from perdure.stores.memory import MemoryStore
from perdure.stores.records import Closing, NewRun, Run, Start

FACTS = NewRun(run_id="r-1", workflow_id="o-1", workflow="order", seed=1, input=b"[]", started=b"{}")


class EndsWhileLooked(MemoryStore):
    """A store in which somebody ends the run, or answers, just after it was read; then `told` is called."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.looks = 0
        self.told: list[Closings | Answers] = []

    async def get_runs(self, numbers: Sequence[int]) -> list[Run]:
        runs = await super().get_runs(numbers)
        if not self.looks:
            await self.close_run("o-1", None, Closing("completed", b"7"))
        self._looked()
        return runs

    async def get_answer(self, workflow_id: str, run_id: str | None, update_id: str) -> bytes | None:
        self._looked()
        return None if self.looks == 1 else b'{"kind":"update","id":"u-1","value":7}'

    def _looked(self) -> None:
        self.looks += 1
        if self.looks == 1:
            asyncio.get_running_loop().call_soon(self.told[0].look)


def test_an_end_that_is_told_of_just_when_a_look_has_ended_is_looked_for_again() -> None:
    async def wait() -> Closing:
        store = EndsWhileLooked()
        await store.open()
        closings = Closings(store)
        store.told.append(closings)
        run = (await store.start_run(Start(facts=FACTS))).run
        async with asyncio.timeout(10):
            return await closings.wait(run)

    assert asyncio.run(wait()) == Closing("completed", b"7")


def test_an_answer_that_is_told_of_just_when_a_look_has_ended_is_looked_for_again() -> None:
    async def wait() -> object:
        store = EndsWhileLooked()
        answers = Answers(store)
        store.told.append(answers)
        with answers.expected("r-1", "o-1", "u-1", told_here=False) as answered:
            async with asyncio.timeout(10):
                return (await answered).value

    assert asyncio.run(wait()) == 7
