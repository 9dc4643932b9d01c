"""Answers: who waits for what an update comes to is told as soon as it is known, here or from another process (M2).

In:  engine.runs asks, and tells what turns of this process have answered; the store says that somebody has written.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Generator

import msgspec

from perdure.engine.closings import give_up
from perdure.errors import PerdureError
from perdure.model.turns import Answered
from perdure.stores.port import Store

logger = logging.getLogger("perdure.engine")
read_answer = msgspec.json.Decoder(Answered).decode
RETRY_SECONDS = 0.5


class Answers:
    """The updates that somebody waits for, by the run's first generation and the update's id."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[tuple[str, str], tuple[str, list[asyncio.Future[Answered]]]] = {}
        self._look: asyncio.Task[None] | None = None
        self._again = False

    @contextlib.contextmanager
    def expected(
        self, chain: str, workflow_id: str, update_id: str, *, told_here: bool
    ) -> Generator[asyncio.Future[Answered]]:
        """A future of the answer, for as long as somebody waits for it; `told_here`: a turn of this process has it."""
        told: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        key = (chain, update_id)
        _, waiting = self._waiting.setdefault(key, (workflow_id, []))
        waiting.append(told)
        if not told_here:
            self.look()  # it may have been answered since it was accepted
        try:
            yield told
        finally:
            waiting.remove(told)
            if not waiting and self._waiting.get(key, (None, None))[1] is waiting:
                del self._waiting[key]

    def tell(self, chain: str, answered: Answered) -> None:
        """An update was answered."""
        if answered.kind not in ("update", "update_rejected"):
            return
        _, waiting = self._waiting.get((chain, answered.id), ("", ()))
        for told in waiting:
            if not told.done():
                told.set_result(answered)

    def look(self) -> None:
        """Somebody may have answered what is waited for."""
        self._again = True
        if self._waiting and self._look is None:
            self._look = asyncio.get_running_loop().create_task(self._look_up(), name="perdure answers")
            self._look.add_done_callback(self._looked)

    async def stop(self) -> None:
        """End; nobody is told any more, and who waits is told that."""
        if self._look is not None:
            self._look.cancel()
            await asyncio.wait([self._look])
        give_up([told for _, waiting in self._waiting.values() for told in waiting], self._store)

    async def _look_up(self) -> None:
        while self._again and self._waiting:
            self._again = False
            try:
                for (chain, update_id), (workflow_id, _) in list(self._waiting.items()):
                    answer = await self._store.get_answer(workflow_id, chain, update_id)
                    if answer is not None:
                        self.tell(chain, read_answer(answer))
            except PerdureError as error:
                logger.error("whether an update was answered could not be read: %s", error)
                self._again = True
                await asyncio.sleep(RETRY_SECONDS)

    def _looked(self, task: asyncio.Task[None]) -> None:
        self._look = None
        if self._again and not task.cancelled():  # somebody asked when it had just come to its end
            self.look()
