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
from concurrent.futures import Future
from typing import Any, Literal, cast

from perdure.stores.port import OpenTransaction, Params, Store, TransactionStore
from perdure.stores.records import Report

# What begins so is a look at the store. Everything else may write: looking for work does where there is some.
LOOKS = ("get_", "list_", "count", "view_", "peek_", "verify")

PLAIN = frozenset({"on_change"})  # it gives something else than an awaitable
OF_TRANSACTIONS = frozenset({"execute", "commit"})
SHORT_CUTS = frozenset({"commit_turns_at_once"})  # what a store need not have


class Crashed(BaseException):
    """The process is dead as far as its store goes. Not an Exception, so that nobody takes it for one and goes on."""


class CrashingStore:
    """Any store, which dies at its n-th write (from 1); with `at` None it never does, and only counts.

    `before`: that write did not happen. `after`: it did, it is durable, and nobody was told. From then on every call
    raises `Crashed`, or never returns with `then="hang"`; what was under way in the store at that moment still ends
    there, and nobody is told of it either. `of` names the transitions that count, if not all of them do.

    Of a transaction of an activity each statement and the commit count, as `execute` and `commit`. Dying takes back
    what is open.
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
        unknown = [
            name for name in of or () if not (_may_write(name) and (hasattr(store, name) or name in OF_TRANSACTIONS))
        ]
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
        self._loop: asyncio.AbstractEventLoop | None = None
        self._transactions: list[OpenTransaction] = []
        if isinstance(store, TransactionStore):  # else this is none either
            self.begin_transaction = self._begin_transaction

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
            return await self._call(name, cast("Callable[..., Awaitable[Any]]", found), args, kwargs)

        return call

    def _begin_transaction(self, seconds: float) -> OpenTransaction:
        transaction = cast("TransactionStore", self._store).begin_transaction(seconds)
        self._transactions.append(transaction)
        return _CrashingTransaction(self.order, transaction)

    def order(self, name: str, make: Callable[[], Future[Any]]) -> Future[Any]:
        """Something of a transaction, in whatever thread, and what comes of it."""
        told: Future[Any] = Future()
        fatal = not self._dead and self._counts(name)
        if fatal and self._when == "before":
            self._die_on_any_thread()
        if self._dead:
            self._fall_silent(told)
            return told

        def ended(done: Future[Any]) -> None:
            if fatal:
                self._die_on_any_thread()
            if self._dead:
                self._fall_silent(told)
            elif (error := done.exception()) is not None:
                told.set_exception(error)
            else:
                told.set_result(done.result())

        make().add_done_callback(ended)
        return told

    async def _call(
        self, name: str, found: Callable[..., Awaitable[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        self._loop = asyncio.get_running_loop()
        await self._live()
        fatal = self._counts(name)
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
        raise self._crashed()

    def _fall_silent(self, told: Future[Any]) -> None:
        if self._then != "hang":
            told.set_exception(self._crashed())

    def _crashed(self) -> Crashed:
        return Crashed(f"the store is dead since its write {self._at} ({self._when}): {self.trail[-1:]}")

    def _counts(self, name: str) -> bool:
        """Count a write, and say whether it is the one."""
        if not (_may_write(name) if self._of is None else name in self._of):
            return False
        self.trail.append(name)
        return len(self.trail) == self._at

    def _die(self) -> None:
        self._dead = True
        for transaction in self._transactions:  # nothing, for one that has ended
            transaction.roll_back()
        self.death.set()

    def _die_on_any_thread(self) -> None:
        self._dead = True
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._die)


class _CrashingTransaction:
    """A transaction of an activity, in a store that may die."""

    def __init__(self, order: Callable[[str, Callable[[], Future[Any]]], Future[Any]], behind: OpenTransaction) -> None:
        self._order = order
        self._behind = behind

    def execute(self, sql: str, params: Params) -> Future[list[tuple[Any, ...]]]:
        return self._order("execute", lambda: self._behind.execute(sql, params))

    def commit(self, report: Report) -> Future[bool]:
        return self._order("commit", lambda: self._behind.commit(report))

    def roll_back(self) -> Future[None]:
        return self._behind.roll_back()


def _may_write(name: str) -> bool:
    return not name.startswith(LOOKS) and name not in {"open", "close"}
