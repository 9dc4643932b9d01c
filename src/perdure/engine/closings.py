"""Closings: who waits for the end of a run is told as soon as it is known, here or from another process.

In:  engine.handles asks; engine.worker tells what ended here; the store says that somebody else has written.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict

from perdure.engine.looks import Look, give_up
from perdure.stores.port import Store
from perdure.stores.records import Closing, Run


class Closings:
    """The ends of runs that somebody waits for, by the numbers of the runs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[int, set[asyncio.Future[Closing]]] = defaultdict(set)
        self._look = Look(self._read, lambda: bool(self._waiting), "whether a run has ended")

    async def wait(self, run: Run, *, told_here: bool = False) -> Closing:
        """How it ends, or has ended; `told_here`: it has not, and a turn of this process will tell."""
        if run.status != "running":
            return closing_of(run)
        told: asyncio.Future[Closing] = asyncio.get_running_loop().create_future()
        waiting = self._waiting[run.number]
        waiting.add(told)
        try:
            if not told_here:
                self.look()  # it may have ended since it was read
            return await told
        finally:
            waiting.discard(told)
            if not waiting:
                self._waiting.pop(run.number, None)

    def tell(self, number: int, closing: Closing) -> None:
        """A run has ended."""
        for told in self._waiting.pop(number, ()):
            if not told.done():
                told.set_result(closing)

    def look(self) -> None:
        """Somebody may have ended a run that is waited for."""
        self._look.ask()

    async def stop(self) -> None:
        """End; nobody is told any more, and who waits is told that."""
        await self._look.stop()
        give_up([told for waiting in self._waiting.values() for told in waiting], self._store)

    async def _read(self) -> None:
        for run in await self._store.get_runs(list(self._waiting)):
            if run.status != "running":
                self.tell(run.number, closing_of(run))


def closing_of(run: Run) -> Closing:
    """How a run has ended."""
    return Closing(run.status, run.result)
