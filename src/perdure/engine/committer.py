"""The committer: turns that are ready together share a transaction (E1).

In:  prepared turns from engine.worker.
Out: stores.TurnStore.commit_turns; each turn's outcome goes back to the worker, in the order of preparation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

from perdure.engine.patience import insist
from perdure.engine.turns import Prepared
from perdure.errors import StoreUnavailable
from perdure.stores.port import TurnStore
from perdure.stores.records import Committed

GROUP_MAX = 500
Outcomes = list[Committed | Exception]
Ask = Callable[[], Awaitable[Outcomes]]


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
        self._flying: set[asyncio.Future[Outcomes]] = set()

    def add(self, prepared: Prepared) -> None:
        """Commit this turn with the next group."""
        self._waiting.append(prepared)

    def flush(self) -> None:
        """Commit the group."""
        waiting, self._waiting = self._waiting, []
        for first in range(0, len(waiting), GROUP_MAX):
            self._commit(waiting[first : first + GROUP_MAX])

    async def settle(self) -> None:
        """Wait until all that was added is committed."""
        self.flush()
        while self._flying:
            await asyncio.wait(self._flying)
            self.flush()

    def _commit(self, group: Sequence[Prepared]) -> None:
        """Hand it to the store in this go of the loop: a store that answers with a future needs no task."""
        ask = partial(self._store.commit_turns, [prepared.commit for prepared in group], self._claims())
        try:
            flying = asyncio.ensure_future(ask())
        except StoreUnavailable:
            flying = asyncio.ensure_future(insist(ask, _what(group)))
        self._follow(flying, group, ask)

    def _follow(self, flying: asyncio.Future[Outcomes], group: Sequence[Prepared], ask: Ask) -> None:
        self._flying.add(flying)
        flying.add_done_callback(partial(self._landed, group, ask))

    def _landed(self, group: Sequence[Prepared], ask: Ask, flying: asyncio.Future[Outcomes]) -> None:
        self._flying.discard(flying)
        if flying.cancelled():  # the loop shuts down, and nobody waits any more
            return
        error = flying.exception()
        if isinstance(error, StoreUnavailable):
            self._follow(asyncio.ensure_future(insist(ask, _what(group))), group, ask)
            return
        if error is not None and not isinstance(error, Exception):
            raise error
        outcomes = flying.result() if error is None else [error] * len(group)
        for prepared, outcome in zip(group, outcomes, strict=True):
            self._done(prepared, outcome)


def _what(group: Sequence[Prepared]) -> str:
    return f"{len(group)} turns wait"
