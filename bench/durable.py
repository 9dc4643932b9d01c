"""When what a message told a run is durable: the moment until which a round trip is measured."""

from __future__ import annotations

import asyncio

from perdure.engine.parts import Listener
from perdure.engine.turns import Prepared


class Durable(Listener):
    """Counts the messages that committed turns have taken."""

    def __init__(self) -> None:
        self.taken = 0
        self._waiting: asyncio.Future[None] | None = None
        self._wanted = 0

    def turn_committed(self, prepared: Prepared) -> None:
        self.taken = max(self.taken, prepared.commit.consumed)
        if self._waiting is not None and self.taken >= self._wanted and not self._waiting.done():
            self._waiting.set_result(None)

    async def until(self, wanted: int) -> None:
        """Wait until a turn that has taken so many messages is durable."""
        if self.taken < wanted:
            self._wanted = wanted
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
