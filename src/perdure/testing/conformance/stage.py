"""The stage of a case: store objects on one set of data, a clock under control, and workers as a store sees them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from perdure.clock import Clock
from perdure.stores.port import Store
from perdure.stores.records import Begun, Committed, Run, Task
from perdure.testing.clock import VirtualClock
from perdure.testing.conformance.expecting import NotConforming, only
from perdure.testing.conformance.making import a_commit, a_start

MakeStore = Callable[[Clock], Store]
KillStore = Callable[[Store], Awaitable[None]]

LEASE_SECONDS = 10.0


async def let_go(store: Store) -> None:
    """How a store is killed if nothing better is given: it is closed, and its leases are not handed back."""
    await store.close()


class Stores:
    """Store objects on one set of data, which is empty at first, all on one clock that moves only when told to."""

    def __init__(self, make: MakeStore, kill: KillStore = let_go) -> None:
        self.clock = VirtualClock()
        self.healthy = True  # a case that has damaged something on purpose says so
        self._make = make
        self._kill = kill
        self._open: list[Store] = []

    async def open(self) -> Store:
        """Another store object on the same data, as another process would have one."""
        store = self._make(self.clock)
        await store.open()
        self._open.append(store)
        return store

    async def close(self, store: Store) -> None:
        self._open.remove(store)
        await store.close()

    async def reopen(self, store: Store) -> Store:
        """Close it, and open the data anew."""
        await self.close(store)
        return await self.open()

    async def kill(self, store: Store) -> None:
        """End it as SIGKILL ends a process: what it has acknowledged stays, its leases are not handed back."""
        self._open.remove(store)
        await self._kill(store)

    async def close_all(self) -> None:
        for store in reversed(self._open):
            await store.close()
        self._open.clear()


class Worker:
    """A worker as a store sees it: a lease, and what is done under it."""

    def __init__(self, store: Store, lease: int) -> None:
        self.store = store
        self.lease = lease

    async def claim(
        self, limit: int = 100, *, queues: Sequence[str] = ("default",), workflows: Sequence[str] = ("order",)
    ) -> list[Run]:
        return await self.store.claim_runs(self.lease, queues, workflows, limit)

    async def claim_tasks(
        self, limit: int = 100, *, queue: str = "default", names: Sequence[str] = ("charge",)
    ) -> list[Task]:
        return await self.store.claim_tasks(self.lease, queue, names, limit)

    async def begin(self, workflow_id: str, **facts: Any) -> Run:
        """Start a run and own it."""
        run = (await self.store.start_run(a_start(workflow_id, **facts))).run
        return await self.own(run)

    async def own(self, run: Run) -> Run:
        """Own a run, which must be free."""
        owned = await self.store.claim_run(self.lease, run.number)
        if owned is None:
            raise NotConforming(f"run {run.number} was free, and could not be claimed")
        return owned

    async def try_commit(self, run: Run, **content: Any) -> Committed | Exception:
        """Commit the next turn of a run, whose content is that of a TurnCommit."""
        return only(await self.store.commit_turns([a_commit(run, self.lease, **content)]))

    async def commit(self, run: Run, **content: Any) -> Run:
        """Commit the next turn of a run, which must be possible; the run as it stands then."""
        answer = await self.try_commit(run, **content)
        if not isinstance(answer, Committed):
            raise NotConforming(f"turn {run.last_turn + 1} of run {run.number} was refused: {answer!r}")
        return await reread(self.store, run)


async def hire(store: Store, name: str = "w-1", seconds: float = LEASE_SECONDS) -> Worker:
    """Open a lease."""
    lease = await store.open_lease(name, {"default": 10}, seconds)
    return Worker(store, lease.number)


async def begin(store: Store, workflow_id: str, **facts: Any) -> Run:
    """Start a run that is new."""
    begun: Begun = await store.start_run(a_start(workflow_id, **facts))
    return begun.run


async def reread(store: Store, run: Run) -> Run:
    """The run as it stands now."""
    return only(await store.get_runs([run.number]))


async def task_of(store: Store, run: Run) -> Task:
    """The one open task of a run."""
    tasks = await store.list_tasks(run.number)
    if len(tasks) != 1:
        raise NotConforming(f"run {run.number} has {len(tasks)} open tasks, and should have one")
    return tasks[0]


def numbers(runs: Iterable[Run]) -> list[int]:
    """What a store calls these runs."""
    return [run.number for run in runs]


def workflow_ids(runs: Iterable[Run]) -> list[str]:
    """What users call these runs."""
    return [run.facts.workflow_id for run in runs]
