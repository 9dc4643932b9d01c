"""Closings: who waits for the end of a run is told as soon as it is known, here or from another process.

In:  engine.handles asks; engine.worker tells what ended here; the store says that somebody else has written.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from perdure.errors import PerdureError, StoreUnavailable
from perdure.stores.port import Store
from perdure.stores.records import Closing, Run

logger = logging.getLogger("perdure.engine")
RETRY_SECONDS = 0.5


class Closings:
    """The ends of runs that somebody waits for, by the numbers of the runs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[int, set[asyncio.Future[Closing]]] = defaultdict(set)
        self._look: asyncio.Task[None] | None = None
        self._again = False

    async def wait(self, run: Run) -> Closing:
        """How it ends, or has ended."""
        if run.status != "running":
            return closing_of(run)
        told: asyncio.Future[Closing] = asyncio.get_running_loop().create_future()
        waiting = self._waiting[run.number]
        waiting.add(told)
        try:
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
        self._again = True
        if self._waiting and self._look is None:
            self._look = asyncio.get_running_loop().create_task(self._look_up(), name="perdure closings")
            self._look.add_done_callback(self._looked)

    async def stop(self) -> None:
        """End; nobody is told any more, and who waits is told that."""
        if self._look is not None:
            self._look.cancel()
            await asyncio.wait([self._look])
        give_up([told for waiting in self._waiting.values() for told in waiting], self._store)

    async def _look_up(self) -> None:
        while self._again and self._waiting:
            self._again = False
            try:
                for run in await self._store.get_runs(list(self._waiting)):
                    if run.status != "running":
                        self.tell(run.number, closing_of(run))
            except PerdureError as error:
                logger.error("whether a run has ended could not be read: %s", error)
                self._again = True
                await asyncio.sleep(RETRY_SECONDS)

    def _looked(self, task: asyncio.Task[None]) -> None:
        self._look = None
        if self._again and not task.cancelled():  # somebody asked when it had just come to its end
            self.look()


def give_up(waiting: Iterable[asyncio.Future[Any]], store: Store) -> None:
    """Nobody of this process hears of it any more: its engine or client is closed."""
    for told in waiting:
        if not told.done():
            text = f"the engine or client on {store.url} was closed while a run was waited for; the run goes on"
            told.set_exception(StoreUnavailable(f"{text}, and a new client can wait for it"))


def closing_of(run: Run) -> Closing:
    """How a run has ended."""
    return Closing(run.status, run.result)
