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
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from perdure.clock import Clock, moment_of
from perdure.define.registry import Registry
from perdure.engine.attempts import Place
from perdure.engine.cache import Cache
from perdure.engine.committer import Committer
from perdure.engine.leases import Keeper
from perdure.engine.live import Live, LocalAnswer
from perdure.engine.obstacles import Obstacles
from perdure.engine.patience import insist
from perdure.engine.pump import Pump
from perdure.engine.queries import answer_question
from perdure.engine.rebuild import Rebuilder
from perdure.engine.settings import Settings
from perdure.engine.tasks import TaskRunner
from perdure.engine.turns import Circumstances, Prepared, prepare, take_jobs
from perdure.errors import LeaseLost, StoreUnavailable
from perdure.kernel.guards import install_audit_hook
from perdure.model import jobs
from perdure.stores.port import Store
from perdure.stores.records import Attempt, Closing, Committed, Lease, Message, Question, Report, Run, Task

logger = logging.getLogger("perdure.engine")
write = msgspec.json.Encoder().encode
SLICE_SECONDS = 0.02  # turns run that long before the event loop goes on
OWNED_MAX = 5_000
STOP_SECONDS = 1.0  # for what is under way when the store does not answer


class Listener:
    """Who is told what a worker does; the parts that nobody wants do nothing."""

    def turn_committed(self, prepared: Prepared) -> None:
        """A turn is durable."""

    def run_closed(self, number: int, closing: Closing) -> None:
        """A run has ended."""

    def others_closed(self) -> None:
        """Runs have ended with another one: children, with their parent."""


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
        self.obstacles = Obstacles(self)
        self.rebuilder = Rebuilder(store, registry, settings, clock, self.obstacles.vet)
        self.committer = Committer(store, self._committed, self.claims)
        self.tasks = TaskRunner(store, registry, settings, clock, rng, self, places)
        self.cache = Cache(store, self.rebuilder, settings.cache, self.owner, self.tasks.running)
        self.pump = Pump(self)
        self._keeper = keeper
        self._listener = listener
        self._workflows = tuple(registry.workflows)
        self._ready: deque[Live] = deque()
        self._scheduled = False
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
        self._run_ready()
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

    def wake(self) -> None:
        """There is something to claim."""
        self.pump.wake()

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
            self.in_background(self.obstacles.time_out(run))
        elif run.accepted == run.consumed and (live := self.cache.resume(run)) is not None:
            self.pump.expect_live(live)
            self.ready(live)
        else:
            self._taking_up[run.number] = asyncio.get_running_loop().create_task(self._take_up(run))

    def claimed(self, task: Task) -> None:
        """An activity was claimed from the store: if its run is live here, so is its answer."""
        live = self.cache.lives.get(task.run)
        if live is not None and live.owned and not live.ended:
            open_task = live.tasks.get(task.seq)
            if open_task is not None and not open_task.local:
                open_task.local = open_task.started = True
                live.local += 1

    def answered(self, task: Task, job: jobs.Ended, attempt: Attempt) -> None:
        """An activity of this worker is done: straight into the next turn, if its run is here."""
        live = self.cache.lives.get(task.run)
        if live is not None and live.owned and not live.ended:
            open_task = live.tasks.get(task.seq)
            if open_task is not None and open_task.local:
                open_task.local = False
                live.answers.append(LocalAnswer(task, job, attempt))
                self.ready(live)
                return
        self._report(Report(id=task.id, owner=self.owner(), attempt=attempt, job=write(job)))

    def retried(self, task: Task, report: Report) -> None:
        """An activity of this worker failed, and is tried again."""
        live = self.cache.lives.get(task.run)
        if live is not None and live.owned and task.seq in live.tasks and live.tasks[task.seq].local:
            live.tasks[task.seq].local = False
            live.local -= 1
            self.pump.release_soon(live)
        self._report(report)

    def ready(self, live: Live) -> None:
        """It has something to do."""
        if not live.queued:
            live.queued = True
            self._ready.append(live)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._run_ready)

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
        self._listener.run_closed(number, closing)

    def rebuild(self, live: Live) -> None:
        """A live copy is spent, but not its run: bring it up again from what is stored."""
        if not live.owned:
            self.cache.drop(live)
            return
        reports = self.obstacles.untaken(live)
        self.cache.drop(live)
        self.in_background(self._bring_back(live.number, reports))

    def in_background(self, work: Any) -> None:
        """Do it as a task that is waited for at the end."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._ended)

    # --- turns ------------------------------------------------------------------------------------

    def _run_ready(self) -> None:
        self._scheduled = False
        began = self.clock.monotonic()
        while self._ready:
            live = self._ready.popleft()
            live.queued = False
            if live.owned and live.committed is None:
                self._turn(live)
            if self._ready and self.clock.monotonic() - began > SLICE_SECONDS:
                self._scheduled = True
                asyncio.get_running_loop().call_soon(self._run_ready)
                break
        self.committer.flush()

    def _turn(self, live: Live) -> None:
        now_us = self.clock.now_us()
        if live.deadline_us is not None and live.deadline_us <= now_us:
            live.answers.clear()
            self.in_background(self.obstacles.time_out(live.run))
            return
        if not live.has_work(now_us):
            self.pump.release_soon(live)
            return
        taken = take_jobs(live, now_us)
        executor = live.executor
        try:
            prepared = prepare(
                live,
                taken,
                Circumstances(now_us, self.owner(), self.tasks, self.registry.workflows),
                lambda: self.rebuilder.activate(live, lambda: executor.activate(moment_of(now_us), taken.jobs)),
            )
        except Exception as error:
            live.answers[:0] = taken.answers
            self.in_background(self.obstacles.turn_failed(live, error))
            return
        live.committed = asyncio.get_running_loop().create_future()
        self.committer.add(prepared)

    def _committed(self, prepared: Prepared, outcome: Committed | Exception) -> None:
        live = prepared.live
        committed, live.committed = live.committed, None
        if committed is not None:
            committed.set_result(None)
        for report in prepared.reports:
            logger.warning("run %s: %s", live.run.facts.workflow_id, report)
        if isinstance(outcome, Exception):
            self._refused(prepared, outcome)
            return
        for task in prepared.starts:
            self.tasks.start(task)
        for cancel in prepared.commit.cancels:
            self.tasks.cancel(cancel.id)
        live.blocked_tries = 0
        unclaimed = {task.queue for task in prepared.commit.new_tasks if not task.claimed} & self.tasks.free.keys()
        if unclaimed:  # whoever has looked while the turn was being committed has not found them
            self.tasks.backlog |= unclaimed
            self.wake()
        if prepared.commit.closing is not None:
            self.closed(live.number, prepared.commit.closing)
        elif outcome.parked and not live.reclaimed:
            self.cache.disown(live)
            self.pump.expect(prepared.commit.wake_us)
        else:
            self._go_on(live, prepared, outcome)
        live.reclaimed = False
        self._told(outcome)
        self._listener.turn_committed(prepared)

    def _told(self, outcome: Committed) -> None:
        for told in outcome.told:
            self.deliver(told.run, told.claimed, told.message)
            if not told.claimed:
                self.pump.expect(told.run.wake_us)
        if outcome.ended:
            self.pump.look_around()
            self._listener.others_closed()

    def _go_on(self, live: Live, prepared: Prepared, outcome: Committed) -> None:
        self.pump.expect_live(live)
        if prepared.commit.consumed + outcome.pending > live.taken:
            self.take_up(live.run)
        elif live.has_work(self.clock.now_us()):
            self.ready(live)
        elif live.local == 0:
            self.pump.release_soon(live)

    def _refused(self, prepared: Prepared, error: Exception) -> None:
        live = prepared.live
        for task in prepared.starts:
            self.tasks.give_back(task)
        if not isinstance(error, LeaseLost):
            self.in_background(self.obstacles.turn_failed(live, error))
            return
        logger.info("run %s: a turn was dropped: %s", live.run.facts.workflow_id, error)
        for task in live.tasks.values():
            if task.local:
                self.tasks.cancel(task.id, "lost")
        self.cache.drop(live)
        self.pump.check_lease()

    # --- leaves -----------------------------------------------------------------------------------

    def _tell(self, live: Live, message: Message) -> None:
        live.messages.append(message)
        live.taken = message.number
        self.ready(live)

    def _begin(self, run: Run, message: Message | None) -> None:
        try:
            live = self.cache.begin(run)
        except Exception as error:
            self.in_background(self.obstacles.not_rebuilt(run, error))
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
            await self.obstacles.not_rebuilt(run, error)
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

    def _report(self, report: Report) -> None:
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
        await self.committer.settle()
        self._flush_reports()
        while self._background or self._taking_up:
            await asyncio.wait([*self._background, *self._taking_up.values()])
