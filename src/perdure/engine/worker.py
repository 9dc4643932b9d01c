"""START HERE: the worker. It claims runs and activities, drives turns, and gives everything back when it stops.

One turn: jobs reach a live run (`deliver`, `answered`, a timer) → `_run_ready` runs the kernel over it (engine.turns)
→ engine.committer commits it with others → `_committed` starts what it ordered and gives the run back if nothing
local is left to do for it. What nobody here has in memory is found by engine.pump, which sweeps the store when
something is due or somebody else has written.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from perdure.clock import Clock
from perdure.define.registry import Registry
from perdure.engine.answering import Answering
from perdure.engine.attempts import Place
from perdure.engine.cache import Cache
from perdure.engine.leases import Keeper
from perdure.engine.live import Live
from perdure.engine.obstacles import Obstacles, vet
from perdure.engine.parts import OWNED_MAX, Listener
from perdure.engine.patience import insist
from perdure.engine.pump import Pump
from perdure.engine.queries import answer_question
from perdure.engine.rebuild import Rebuilder
from perdure.engine.settings import Settings
from perdure.engine.tasks import TaskRunner
from perdure.engine.turning import Turner
from perdure.errors import StoreUnavailable
from perdure.kernel.guards import install_audit_hook
from perdure.stores.port import Store
from perdure.stores.records import Closing, Lease, Message, Question, Report, Run

logger = logging.getLogger("perdure.engine")
write = msgspec.json.Encoder().encode
SLICE_SECONDS = 0.02  # turns run that long before the event loop goes on
STOP_SECONDS = 1.0  # for what is under way when the store does not answer


class Worker:
    """One worker: a lease, live runs, and the activities of its queues."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        settings: Settings,
        *,
        clock: Clock,
        rng: random.Random,
        name: str,
        places: Mapping[str, Place],
        keeper: Keeper,
        listener: Listener,
    ) -> None:
        self.store = store
        self.registry = registry
        self.settings = settings
        self.clock = clock
        self.rng = rng
        self.name = name
        self.lease: Lease | None = None
        self.stopping = False
        self.listener = listener
        self.rebuilder = Rebuilder(store, registry, settings, clock, partial(vet, self))
        self.tasks = TaskRunner(store, registry, settings, clock, rng, Answering(self), places)
        self.cache = Cache(store, self.rebuilder, settings.cache, self.owner, self.tasks.running)
        self.pump = Pump(self)
        self._turner = Turner(self)
        self._obstacles = Obstacles(self)
        self._keeper = keeper
        self._workflows = tuple(registry.workflows)
        self._taking_up: dict[int, asyncio.Task[None]] = {}
        self._again: set[int] = set()
        self._reports: list[Report] = []
        self._background: set[asyncio.Task[Any]] = set()

    # --- from start to stop -----------------------------------------------------------------------

    async def start(self) -> None:
        """Open a lease, free what the dead have left, and begin."""
        install_audit_hook()
        await self._open_lease()
        await self.store.end_dead_leases()
        await self.store.wake_blocked(list(self.settings.queues))
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
                await self.store.close_lease(self.lease.number)
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
        if self.stopping or await self.store.renew_lease(self.owner()):
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

    # --- what a run is told ------------------------------------------------------------------------

    def deliver(self, run: Run, claimed: bool, message: Message | None) -> None:
        """A run was started, or accepted a message; if it is this worker's, it goes on at once."""
        if self.lease is None or run.owner != self.lease.number or self.stopping:
            return
        live = self.cache.lives.get(run.number)
        busy = run.number in self._taking_up
        if live is not None and live.owned and not busy:
            live.reclaimed = live.reclaimed or (claimed and live.committed is not None)
            if message is not None and message.number == live.taken + 1:
                self._tell(live, message)
            elif message is None or message.number > live.taken:
                self.take_up(run)
        elif busy or not claimed:
            self.take_up(run)
        elif run.last_turn < 0 and (message is None or message.number == 1):
            self._begin(run, message)
        elif message is not None and message.number == run.consumed + 1 and (copy := self.cache.resume(run)):
            self._tell(copy, message)
        else:
            self.take_up(run)

    def take_up(self, run: Run) -> None:
        """Bring a run that this worker owns into memory, with everything that waits for it."""
        if run.number in self._taking_up:
            self._again.add(run.number)
        elif run.facts.deadline_us is not None and run.facts.deadline_us <= self.clock.now_us():
            self.time_out(run)
        elif run.accepted == run.consumed and (live := self.cache.resume(run)) is not None:
            self.pump.expect_live(live)
            self.ready(live)
        else:
            self._taking_up[run.number] = asyncio.get_running_loop().create_task(self._take_up(run))

    def ready(self, live: Live) -> None:
        """It has something to do."""
        self._turner.ready(live)

    def asked(self, question: Question) -> None:
        """Another process asked a query."""
        self.in_background(answer_question(self, question))

    def closed(self, number: int, closing: Closing) -> None:
        """A run has ended: by a turn, by its time limit, or by a client of this process."""
        live = self.cache.lives.get(number)
        if live is not None and live.owned:
            for task in live.tasks.values():
                if task.local:
                    self.tasks.cancel(task.id)
            self.cache.disown(live)
            if live.committed is None and not live.ended:
                self.cache.drop(live)
        self.listener.run_closed(number, closing)

    def turn_failed(self, live: Live, error: Exception) -> None:
        """A turn could not be, and the copy is spent."""
        self.in_background(self._obstacles.turn_failed(live, error))

    def time_out(self, run: Run) -> None:
        """A run has reached its time limit."""
        self.in_background(self._obstacles.time_out(run))

    def rebuild(self, live: Live) -> None:
        """A live copy is spent, but not its run: bring it up again from what is stored."""
        if not live.owned:
            self.cache.drop(live)
            return
        reports = self._obstacles.untaken(live)
        self.cache.drop(live)
        self.in_background(self._bring_back(live.number, reports))

    def in_background(self, work: Any) -> None:
        """Do it as a task that is waited for at the end."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._ended)

    # --- leaves -----------------------------------------------------------------------------------

    def _tell(self, live: Live, message: Message) -> None:
        live.messages.append(message)
        live.taken = message.number
        self.ready(live)

    def _begin(self, run: Run, message: Message | None) -> None:
        try:
            live = self.cache.begin(run)
        except Exception as error:
            self.in_background(self._obstacles.not_rebuilt(run, error))
            return
        if message is not None:
            self._tell(live, message)
        self.ready(live)

    async def _take_up(self, run: Run) -> None:
        try:
            live = await self.cache.bring_up(run)
            while True:
                self._again.discard(run.number)
                for message in await self.store.list_messages(run.number, live.taken):
                    live.messages.append(message)
                    live.taken = message.number
                if run.number not in self._again:
                    break
        except StoreUnavailable as error:
            logger.error("run %s waits for the store: %s", run.facts.workflow_id, error)
            self.in_background(self._bring_back(run.number, ()))
            return
        except Exception as error:
            await self._obstacles.not_rebuilt(run, error)
            return
        finally:
            self._taking_up.pop(run.number, None)
            self._again.discard(run.number)
        if self.cache.lives.get(run.number) is live and live.owned:
            self.pump.expect_live(live)
            self.ready(live)

    async def _bring_back(self, number: int, reports: Sequence[Report]) -> None:
        what = f"run number {number} is to be read again"
        if reports:
            await insist(lambda: self.store.report_tasks(reports), what)
        for run in await insist(lambda: self.store.get_runs([number]), what):
            if run.status == "running" and run.owner == self.owner() and not self.stopping:
                self.take_up(run)

    async def _open_lease(self) -> None:
        self.lease = await self.store.open_lease(self.name, self.settings.queues, self.settings.lease_seconds)
        self._keeper.keep(self.lease.number, self.pump.check_lease)
        self.pump.look_around()

    def report(self, report: Report) -> None:
        if not self._reports:
            asyncio.get_running_loop().call_soon(self._flush_reports)
        self._reports.append(report)

    def _flush_reports(self) -> None:
        reports, self._reports = self._reports, []
        if reports:
            self.in_background(self._write_reports(reports))

    async def _write_reports(self, reports: Sequence[Report]) -> None:
        await insist(lambda: self.store.report_tasks(reports), f"{len(reports)} answers of activities wait")
        self.pump.look_around()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("this is a bug in Perdure; please report it", exc_info=task.exception())

    async def _settle(self) -> None:
        await self._turner.settle()
        self._flush_reports()
        while self._background or self._taking_up:
            await asyncio.wait([*self._background, *self._taking_up.values()])
