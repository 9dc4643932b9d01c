"""Answers: who waits for what an update comes to is told as soon as it is known, here or from another process (M2).

In:  engine.runs asks, and tells what turns of this process have answered; the store says that somebody has written.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator

import msgspec

from perdure.engine.looks import Look, give_up
from perdure.model.turns import Answered
from perdure.stores.port import Store

read_answer = msgspec.json.Decoder(Answered).decode


class Answers:
    """The updates that somebody waits for, by the run's first generation and the update's id."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[tuple[str, str], tuple[str, list[asyncio.Future[Answered]]]] = {}
        self._look = Look(self._read, lambda: bool(self._waiting), "whether an update was answered")

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
        self._look.ask()

    async def stop(self) -> None:
        """End; nobody is told any more, and who waits is told that."""
        await self._look.stop()
        give_up([told for _, waiting in self._waiting.values() for told in waiting], self._store)

    async def _read(self) -> None:
        for (chain, update_id), (workflow_id, _) in list(self._waiting.items()):
            answer = await self._store.get_answer(workflow_id, chain, update_id)
            if answer is not None:
                self.tell(chain, read_answer(answer))
