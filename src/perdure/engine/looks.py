"""Looks: what somebody waits for is looked up in the store whenever it may have come: one look at a time.

In:  engine.closings and engine.answers, each with a look of its own; they ask for it when somebody has written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from perdure.errors import PerdureError, StoreUnavailable
from perdure.stores.port import Store

logger = logging.getLogger("perdure.engine")
RETRY_SECONDS = 0.5


class Look:
    """A look at the store, for as long as something is wanted; whoever asks while it goes on gets one more after it."""

    def __init__(self, read: Callable[[], Awaitable[None]], wanted: Callable[[], bool], what: str) -> None:
        self._read = read
        self._wanted = wanted
        self._what = what
        self._task: asyncio.Task[None] | None = None
        self._again = False

    def ask(self) -> None:
        """What is wanted may have come."""
        self._again = True
        if self._wanted() and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._go_on(), name=f"perdure: {self._what}")
            self._task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _go_on(self) -> None:
        while self._again and self._wanted():
            self._again = False
            try:
                await self._read()
            except PerdureError as error:
                logger.error("%s could not be read: %s", self._what, error)
                self._again = True
                await asyncio.sleep(RETRY_SECONDS)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if self._again and not task.cancelled():  # somebody asked when it had just come to its end
            self.ask()


def give_up(waiting: Iterable[asyncio.Future[Any]], store: Store) -> None:
    """Nobody of this process hears of it any more: its engine or client is closed."""
    for told in waiting:
        if not told.done():
            text = f"the engine or client on {store.url} was closed while a run was waited for; the run goes on"
            told.set_exception(StoreUnavailable(f"{text}, and a new client can wait for it"))
