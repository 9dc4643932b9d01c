"""A store that dies before or after a chosen write, and stays dead for whoever holds it, as for a killed process.

With one for each n that a scenario reaches, every commit boundary is crashed once:

    crashing = CrashingStore(store, at=n, when="after")
    ... run an engine on crashing.as_store() until it ends, or until `await crashing.death.wait()` returns ...
    await crashing.bury()                       # what the system does when a process ends
    ... run a new engine on the same data, and compare the outcome ...
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Literal, cast

from perdure.stores.port import Store

# What begins so is a look at the store. Everything else may write: looking for work does where there is some.
LOOKS = ("get_", "list_", "count", "view_", "peek_", "verify")

PLAIN = frozenset({"on_change", "begin_transaction"})  # they give something else than an awaitable
SHORT_CUTS = frozenset({"commit_turns_at_once"})  # what a store need not have


class Crashed(BaseException):
    """The process is dead as far as its store goes. Not an Exception, so that nobody takes it for one and goes on."""


class CrashingStore:
    """Any store, which dies at its n-th write (from 1); with `at` None it never does, and only counts.

    `before`: that write did not happen. `after`: it did, it is durable, and nobody was told. From then on every call
    raises `Crashed`, or never returns with `then="hang"`; what was under way in the store at that moment still ends
    there, and nobody is told of it either. `of` names the transitions that count, if not all of them do.
    """

    def __init__(
        self,
        store: Store,
        at: int | None = None,
        when: Literal["before", "after"] = "before",
        *,
        of: Collection[str] | None = None,
        then: Literal["raise", "hang"] = "raise",
    ) -> None:
        unknown = [name for name in of or () if not (_may_write(name) and hasattr(store, name))]
        if unknown:
            raise ValueError(f"no transitions of this store that write: {', '.join(unknown)}")
        self.trail: list[str] = []  # the writes so far, by name
        self.death = asyncio.Event()
        self._store = store
        self._at = at
        self._when = when
        self._of = None if of is None else frozenset(of)
        self._then = then
        self._dead = False

    @property
    def writes(self) -> int:
        """How many there were."""
        return len(self.trail)

    def as_store(self) -> Store:
        """This, as what it answers to: all of the port, handed through to the store."""
        return cast("Store", self)

    async def bury(self) -> None:
        """Close the store behind, as the system does when a process is killed: nothing is handed back."""
        self._dead = True
        await self._store.close()

    async def close(self) -> None:
        """Close the store behind; nothing where it is dead: `bury` it."""
        if not self._dead:
            await self._store.close()

    def __getattr__(self, name: str) -> Any:
        if name in SHORT_CUTS:
            raise AttributeError(f"{name}: a store that may die has no short cuts")
        found = getattr(self._store, name)
        if not callable(found) or name in PLAIN:
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await self._call(name, found, args, kwargs)

        return call

    async def _call(
        self, name: str, found: Callable[..., Awaitable[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        await self._live()
        fatal = False
        if _may_write(name) if self._of is None else name in self._of:
            self.trail.append(name)
            fatal = len(self.trail) == self._at
        if fatal and self._when == "before":
            self._die()
        await self._live()
        try:
            answer = await found(*args, **kwargs)
        finally:
            if fatal:
                self._die()
        await self._live()
        return answer

    async def _live(self) -> None:
        if not self._dead:
            return
        if self._then == "hang":
            await asyncio.get_running_loop().create_future()
        raise Crashed(f"the store is dead since its write {self._at} ({self._when}): {self.trail[-1:]}")

    def _die(self) -> None:
        self._dead = True
        self.death.set()


def _may_write(name: str) -> bool:
    return not name.startswith(LOOKS) and name not in {"open", "close"}
