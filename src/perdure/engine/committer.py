"""The committer: turns that are ready together share a transaction (E1).

In:  prepared turns from engine.worker.
Out: stores.TurnStore.commit_turns; each turn's outcome goes back to the worker, in the order of preparation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from perdure.engine.patience import insist
from perdure.engine.turns import Prepared
from perdure.stores.port import TurnStore
from perdure.stores.records import Committed

GROUP_MAX = 500


class Done(Protocol):
    """Who is told what became of a turn."""

    def __call__(self, prepared: Prepared, outcome: Committed | Exception, /) -> None: ...


class Committer:
    """Groups what is prepared in one go of the event loop."""

    def __init__(self, store: TurnStore, done: Done, claims: Callable[[], Sequence[str]]) -> None:
        self._store = store
        self._done = done
        self._claims = claims
        self._waiting: list[Prepared] = []
        self._flying: set[asyncio.Task[None]] = set()

    def add(self, prepared: Prepared) -> None:
        """Commit this turn with the next group."""
        self._waiting.append(prepared)

    def flush(self) -> None:
        """Commit the group."""
        waiting, self._waiting = self._waiting, []
        for first in range(0, len(waiting), GROUP_MAX):
            flying = asyncio.get_running_loop().create_task(self._commit(waiting[first : first + GROUP_MAX]))
            self._flying.add(flying)
            flying.add_done_callback(self._flying.discard)

    async def settle(self) -> None:
        """Wait until all that was added is committed."""
        self.flush()
        while self._flying:
            await asyncio.wait(self._flying)
            self.flush()

    async def _commit(self, group: list[Prepared]) -> None:
        commits = [prepared.commit for prepared in group]
        claims = self._claims()
        outcomes: list[Committed | Exception]
        try:
            outcomes = await insist(lambda: self._store.commit_turns(commits, claims), f"{len(group)} turns wait")
        except Exception as error:
            outcomes = [error] * len(group)
        for prepared, outcome in zip(group, outcomes, strict=True):
            self._done(prepared, outcome)
