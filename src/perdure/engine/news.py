"""News: who waits for what becomes of runs is told as soon as it is known, in this process or by the store.

In:  engine.turning and engine.inbox, whose listener this is; the store, when somebody else has written.
Out: engine.closings (ends of runs), engine.answers (of updates), and events for whoever watches.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator

from perdure.engine.answers import Answers
from perdure.engine.closings import Closings
from perdure.engine.parts import Listener
from perdure.engine.turns import Prepared
from perdure.stores.port import Store
from perdure.stores.records import Closing


class News(Listener):
    """What happens to the runs of one store."""

    def __init__(self, store: Store) -> None:
        self.closings = Closings(store)
        self.answers = Answers(store)
        self._watchers: set[asyncio.Event] = set()

    @contextlib.contextmanager
    def watching(self) -> Generator[asyncio.Event]:
        """An event that is set whenever a turn was committed, or somebody else has written."""
        changed = asyncio.Event()
        self._watchers.add(changed)
        try:
            yield changed
        finally:
            self._watchers.discard(changed)

    def turn_committed(self, prepared: Prepared) -> None:
        """A turn of this process is durable."""
        if prepared.answers:
            facts = prepared.live.run.facts
            for answered in prepared.answers:
                self.answers.tell(facts.chain or facts.run_id, answered)
        self._changed()

    def run_closed(self, number: int, closing: Closing) -> None:
        """A run has ended."""
        self.closings.tell(number, closing)
        self.answers.look()
        self._changed()

    def others_closed(self) -> None:
        """Somebody else has written, or runs have ended with another one."""
        self.closings.look()
        self.answers.look()
        self._changed()

    async def stop(self) -> None:
        """Nobody is told any more."""
        await self.closings.stop()
        await self.answers.stop()

    def _changed(self) -> None:
        for changed in self._watchers:
            changed.set()


async def until(changed: asyncio.Event, seconds: float) -> None:
    """Wait for an event, so long at most."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await changed.wait()
