"""The committer: turns that are ready together share a transaction (E1).

In:  prepared turns from engine.turning.
Out: stores.TurnStore.commit_turns, or PromptStore.commit_turns_at_once for a lone small turn; each
     turn's outcome goes back to the worker, in the order of preparation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

from perdure.engine.patience import insist
from perdure.engine.turns import Prepared
from perdure.errors import StoreUnavailable
from perdure.stores.port import PromptStore, TurnStore
from perdure.stores.records import Committed

GROUP_MAX = 500
ORDERS_MAX = 8  # of a turn that is committed on the event loop
Outcomes = list[Committed | Exception]
Ask = Callable[[], Awaitable[Outcomes]]


class Done(Protocol):
    """Who is told what became of a turn."""

    def __call__(self, prepared: Prepared, outcome: Committed | Exception, /) -> None: ...


class Committer:
    """Groups what is prepared in one go of the event loop."""

    def __init__(self, store: TurnStore, done: Done, claims: Callable[[], Sequence[str]]) -> None:
        self._store = store
        self._prompt = store if isinstance(store, PromptStore) else None
        self._done = done
        self._claims = claims
        self._waiting: list[Prepared] = []
        self._flying: set[asyncio.Future[Outcomes]] = set()

    def add(self, prepared: Prepared) -> None:
        """Commit this turn with the next group."""
        self._waiting.append(prepared)

    def flush(self, *, alone: bool = False) -> None:
        """Commit the group; `alone`: whatever else this worker does waits for it."""
        waiting, self._waiting = self._waiting, []
        if alone and len(waiting) == 1 and not self._flying and self._commit_at_once(waiting[0]):
            return
        for first in range(0, len(waiting), GROUP_MAX):
            self._commit(waiting[first : first + GROUP_MAX])

    async def settle(self) -> None:
        """Wait until all that was added is committed."""
        self.flush()
        while self._flying:
            await asyncio.wait(self._flying)
            self.flush()

    def _commit_at_once(self, prepared: Prepared) -> bool:
        if self._prompt is None or not _is_small(prepared):
            return False
        outcomes = self._prompt.commit_turns_at_once([prepared.commit], self._claims())
        if outcomes is None:
            return False
        self._done(prepared, outcomes[0])
        return True

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


def _is_small(prepared: Prepared) -> bool:
    """Whether to write it takes no longer however large its run is."""
    live, commit = prepared.live, prepared.commit
    if commit.closing is not None and (live.tasks or live.has_children):
        return False
    told = len(commit.children) + len(commit.sent) + len(commit.promises) + len(commit.answers) + len(commit.events)
    return told + len(commit.new_tasks) + len(commit.cancels) + len(commit.lapsed) <= ORDERS_MAX


def _what(group: Sequence[Prepared]) -> str:
    return "a turn waits" if len(group) == 1 else f"{len(group)} turns wait"
