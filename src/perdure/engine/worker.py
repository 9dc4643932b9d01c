"""START HERE: the worker, which claims runs and activities, drives turns, and gives everything back when it stops.

One turn: jobs reach a live run (engine.inbox, engine.answering, a timer) → engine.turning runs the kernel over it
(engine.turns) → engine.committer commits it with others → engine.turning starts what it ordered and gives the run back
if nothing local is left to do for it. What nobody here has in memory is found by engine.pump, which sweeps the store
when something is due or somebody else has written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from perdure.engine.answering import Answering
from perdure.engine.attempts import Place
from perdure.engine.cache import Cache
from perdure.engine.inbox import Inbox
from perdure.engine.leases import Keeper
from perdure.engine.obstacles import Obstacles, vet
from perdure.engine.parts import OWNED_MAX, Listener, Site
from perdure.engine.pump import Pump
from perdure.engine.rebuild import Rebuilder
from perdure.engine.tasks import TaskRunner
from perdure.engine.turning import Turner
from perdure.errors import StoreUnavailable
from perdure.kernel.guards import install_audit_hook
from perdure.stores.records import Lease

logger = logging.getLogger("perdure.engine")
STOP_SECONDS = 1.0  # for what is under way when the store does not answer


class Worker:
    """One worker: a lease, live runs, and the activities of its queues. It is the `Host` of its parts."""

    def __init__(self, site: Site, places: Mapping[str, Place], keeper: Keeper, listener: Listener) -> None:
        self.site = site
        self.lease: Lease | None = None
        self.stopping = False
        self.listener = listener
        self.rebuilder = Rebuilder(site.store, site.registry, site.settings, site.clock, partial(vet, self))
        self.tasks = TaskRunner(site.store, site.registry, site.settings, site.clock, site.rng, Answering(self), places)
        self.cache = Cache(site.store, self.rebuilder, site.settings.cache, self.owner, self.tasks.running)
        self.pump = Pump(self)
        self.turner = Turner(self)
        self.inbox = Inbox(self)
        self.obstacles = Obstacles(self)
        self._keeper = keeper
        self._workflows = tuple(site.registry.workflows)
        self._background: set[asyncio.Task[None]] = set()

    # --- from start to stop -----------------------------------------------------------------------

    async def start(self) -> None:
        """Open a lease, free what the dead have left, and begin."""
        install_audit_hook()
        await self._open_lease()
        await self.site.store.end_dead_leases()
        await self.site.store.wake_blocked(list(self.site.settings.queues))
        self.pump.start()

    async def stop(self) -> None:
        """Take nothing new, finish what is under way, hand the rest over (E3)."""
        self.stopping = True
        await self.tasks.stop()
        await self.pump.stop()
        settling = asyncio.ensure_future(self._settle())
        await asyncio.wait([settling], timeout=STOP_SECONDS)
        settling.cancel()
        await self._keeper.stop()
        if self.lease is not None:
            try:
                await self.site.store.close_lease(self.lease.number)
            except StoreUnavailable as error:
                logger.error("the lease could not be handed back, and will expire: %s", error)
        for live in list(self.cache.lives.values()):
            self.cache.drop(live)

    def owner(self) -> int:
        """The number of the lease under which everything is claimed now."""
        assert self.lease is not None
        return self.lease.number

    async def renew_or_begin_anew(self) -> None:
        """The lease may be lost: if it is, everything that was owned under it is somebody else's."""
        if self.stopping:
            return
        if await self.site.store.renew_lease(self.owner()):
            self._keeper.keep(self.owner(), self.pump.check_lease)  # it may have given up, while the store was away
            return
        logger.error("the lease of this worker was lost: it begins anew")
        self.tasks.lose_all()
        for live in [live for live in self.cache.lives.values() if live.owned]:
            self.cache.drop(live)
        await self._open_lease()

    def claims(self) -> tuple[int | None, Sequence[str]]:
        """What a client of this process passes along, so that a run comes here at once: the lease and the workflows."""
        if self.stopping or self.lease is None or self.cache.owned >= OWNED_MAX:
            return None, ()
        return self.lease.number, self._workflows

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it as a task that is waited for at the end."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._ended)

    # --- leaves -----------------------------------------------------------------------------------

    async def _open_lease(self) -> None:
        self.lease = await self.site.store.open_lease(
            self.site.name, self.site.settings.queues, self.site.settings.lease_seconds
        )
        self._keeper.keep(self.lease.number, self.pump.check_lease)
        self.pump.look_around()
        self.pump.tell_all()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("this is a bug in Perdure; please report it", exc_info=task.exception())

    async def _settle(self) -> None:
        await self.turner.settle()
        while self._background or self.inbox.busy:
            await self.inbox.settle()
            if self._background:
                await asyncio.wait(self._background)
