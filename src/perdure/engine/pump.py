"""The pump: finds what is due in the store, and sees to leases; it sleeps until something is due or somebody calls.

In:  engine.worker, which is called back with what was found; the store's `on_change`.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
from collections.abc import Callable, Sequence
from functools import partial

from perdure.engine.blocking import blocked_by
from perdure.engine.live import Live
from perdure.engine.obstacles import TIMED_OUT
from perdure.engine.parts import OWNED_MAX, Host
from perdure.engine.patience import insist
from perdure.engine.rebuild import UnknownWorkflow
from perdure.errors import LeaseLost, PerdureError, StoreUnavailable

logger = logging.getLogger("perdure.engine")
RETRY_SECONDS = 1.0
LEFT_OVER_MICROS = 1_000_000  # after which something that was due and could not be claimed here is looked at again
LEFT_TO_OTHERS_MICROS = 2_000_000
TIMED_OUT_MAX = 100  # runs that are ended in one transaction


class Pump:
    """One task of the worker's event loop."""

    def __init__(self, worker: Host) -> None:
        self._worker = worker
        self._called = asyncio.Event()
        self._changed = True  # somebody else may have written
        self._sweep_us: int | None = 0  # when a parked run is due
        self._tasks_us: int | None = None  # when an activity that waits in the store is due
        self._deadline_us: int | None = None  # when a run times out, whoever serves its queue and knows its workflow
        self._live_due: list[tuple[int, int]] = []  # when an owned run is due
        self._check_lease = False
        self._others = False
        self._deaths_checked = 0.0
        self._releases: set[Live] = set()
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self.on_change: list[Callable[[], object]] = []

    def start(self) -> None:
        """Begin."""
        self._unsubscribe = self._worker.site.store.on_change(self._on_change)
        self._task = asyncio.get_running_loop().create_task(self._work(), name="perdure pump")

    async def stop(self) -> None:
        """End, once what is under way is done."""
        if self._unsubscribe is not None:
            self._unsubscribe()
        self._called.set()
        if self._task is not None:
            await self._task

    def wake(self) -> None:
        """Look now."""
        self._called.set()

    def expect(self, wake_us: int | None) -> None:
        """A run that nobody owns is due then."""
        if wake_us is not None and (self._sweep_us is None or wake_us < self._sweep_us):
            self._sweep_us = wake_us
            self._called.set()

    def expect_end(self, deadline_us: int | None) -> None:
        """A run that need not be this worker's times out then."""
        if deadline_us is not None and (self._deadline_us is None or deadline_us < self._deadline_us):
            self._deadline_us = deadline_us
            self._called.set()

    def expect_live(self, live: Live) -> None:
        """A run that this worker owns is due at its own time."""
        wake_us = live.wake_us()
        if wake_us is None or (live.expected_us is not None and live.expected_us <= wake_us):
            return
        live.expected_us = wake_us
        earliest = not self._live_due or wake_us < self._live_due[0][0]
        heapq.heappush(self._live_due, (wake_us, live.number))
        if earliest:
            self._called.set()

    def release_soon(self, live: Live) -> None:
        """Nothing local is left to do for it: give it back."""
        if live.owned and live.local == 0 and not live.committing:
            self._releases.add(live)
            self._called.set()

    def check_lease(self) -> None:
        """A commit was refused: see whether it was this worker's own lease that is lost."""
        self._check_lease = True
        self._called.set()

    def look_around(self) -> None:
        """Something was written that concerns runs or activities which are not in memory."""
        self._changed = True
        self._called.set()

    # --- the work ---------------------------------------------------------------------------------

    async def _work(self) -> None:
        while not self._worker.stopping:
            self._called.clear()
            try:
                await self._once()
                wait = self._seconds_to_wait()
            except StoreUnavailable as error:
                logger.error("the store is not available, tried again in %g s: %s", RETRY_SECONDS, error)
                wait = self._again()
            except PerdureError as error:
                logger.error("%s: %s", type(error).__name__, error)
                wait = self._again()
            if wait is not None:
                self._timer = asyncio.get_running_loop().call_later(wait, self._called.set)
            await self._called.wait()
            if self._timer is not None:
                self._timer.cancel()

    async def _once(self) -> None:
        worker = self._worker
        if self._check_lease:
            await worker.renew_or_begin_anew()
            self._check_lease = False
        changed, self._changed = self._changed, False
        if changed:
            worker.tasks.backlog.update(worker.tasks.free)
            await self._look_around()
        await self._bury_dead()
        self._fire()
        await self._release()
        now_us = worker.site.clock.now_us()
        if changed or (self._deadline_us is not None and self._deadline_us <= now_us):
            await self._time_out()
        if changed or (self._sweep_us is not None and self._sweep_us <= now_us):
            await self._sweep()
        if self._tasks_us is not None and self._tasks_us <= now_us:
            worker.tasks.backlog.update(worker.tasks.free)
        if worker.tasks.backlog:
            await self._claim_tasks()

    def _again(self) -> float:
        """What was not found for the store's sake is looked for anew."""
        self._changed = True
        return RETRY_SECONDS

    def _seconds_to_wait(self) -> float | None:
        now_us = self._worker.site.clock.now_us()
        moments = [self._sweep_us, self._tasks_us, self._deadline_us]
        if self._live_due:
            moments.append(self._live_due[0][0])
        due = [moment for moment in moments if moment is not None]
        waits = [max(0.0, (min(due) - now_us) / 1_000_000)] if due else []
        every = self._worker.site.settings.death_check_seconds
        if self._others and every is not None:
            waits.append(every)
        return min(waits) if waits else None

    def _fire(self) -> None:
        now_us = self._worker.site.clock.now_us()
        while self._live_due and self._live_due[0][0] <= now_us:
            moment, number = heapq.heappop(self._live_due)
            live = self._worker.cache.lives.get(number)
            if live is None or live.expected_us != moment:
                continue
            live.expected_us = None
            if live.owned:
                self._worker.turner.ready(live)

    async def _time_out(self) -> None:
        """End what has reached its time limit: its queue may have no worker, or none that knows its workflow."""
        store, now_us = self._worker.site.store, self._worker.site.clock.now_us()
        self._deadline_us = None  # who comes from now on may not be in what is read, and is expected
        deadline_us = await store.get_next_deadline()
        while deadline_us is not None and deadline_us <= now_us:
            ended = await store.time_out_runs(TIMED_OUT, TIMED_OUT_MAX)
            for run in ended:
                self._worker.inbox.closed(run.number, TIMED_OUT)
            if not ended:  # somebody was faster, or a row is damaged: no busy loop over it
                deadline_us = now_us + LEFT_OVER_MICROS
                break
            self._worker.listener.others_closed()
            self._sweep_us = 0  # their parents are due
            deadline_us = await store.get_next_deadline()
        self._deadline_us = _earlier(self._deadline_us, deadline_us)

    # --- what can be claimed ----------------------------------------------------------------------

    async def _sweep(self) -> None:
        """Claim the runs that are due, and see to those that nobody knows."""
        worker = self._worker
        queues = list(worker.site.settings.queues)
        self._sweep_us = None  # what comes from now on may not be in what is read, and is expected
        wake_us = await worker.site.store.get_next_wake(queues)
        now_us = worker.site.clock.now_us()
        if wake_us is None or wake_us > now_us:
            self._sweep_us = _earlier(self._sweep_us, wake_us)
            return
        while not worker.stopping:
            room = min(worker.site.settings.claims_max, OWNED_MAX - worker.cache.owned)
            if room <= 0:
                break
            runs = await worker.site.store.claim_runs(
                worker.owner(), queues, tuple(worker.site.registry.workflows), room
            )
            for run in runs:
                worker.inbox.take_up(run, sure=True)
            if len(runs) < room:
                break
        self.expect(await self._next_wake(queues, now_us))

    async def _next_wake(self, queues: Sequence[str], swept_us: int) -> int | None:
        """When to sweep again. What was due already, and was left, is not for this worker: no busy loop over it."""
        wake_us = await self._worker.site.store.get_next_wake(queues)
        if wake_us is None or wake_us > swept_us:
            return wake_us
        if self._worker.cache.owned < OWNED_MAX:
            await self._put_unknown_aside(queues, swept_us)
        return swept_us + LEFT_OVER_MICROS

    async def _put_unknown_aside(self, queues: Sequence[str], now_us: int) -> None:
        """Runs of workflows that nobody here knows: another worker may, and gets a moment to claim them (K14)."""
        worker = self._worker
        for run in await worker.site.store.list_unknown(
            queues, tuple(worker.site.registry.workflows), worker.site.settings.claims_max
        ):
            if self._others and now_us - (run.wake_us or 0) < LEFT_TO_OTHERS_MICROS:
                continue
            error = UnknownWorkflow(
                f"no worker that serves queue `{run.facts.queue}` knows workflow `{run.facts.workflow}`: "
                "list it where a worker is made"
            )
            blocked = blocked_by(error, 1, now_us, worker.site.settings, worker.site.rng)
            logger.error("run %s is blocked: %s", run.facts.workflow_id, error)
            with contextlib.suppress(LeaseLost):  # somebody was faster
                await worker.site.store.block_run(None, run.number, blocked, ())

    async def _claim_tasks(self) -> None:
        tasks, now_us = self._worker.tasks, self._worker.site.clock.now_us()
        await tasks.claim()
        due_us = tasks.next_due_us
        self._tasks_us = (
            None if due_us is None else max(due_us, now_us + LEFT_OVER_MICROS) if due_us <= now_us else due_us
        )

    async def _release(self) -> None:
        while self._releases:
            live = self._releases.pop()
            now_us = self._worker.site.clock.now_us()
            if live.owned and live.local == 0 and not live.committing and not live.has_work(now_us):
                wake_us = live.wake_us()
                self._worker.cache.disown(live)
                await insist(
                    partial(self._worker.site.store.release_run, self._worker.owner(), live.number, wake_us),
                    f"run {live.run.facts.workflow_id} is to be given back",
                )
                self._sweep_us = 0  # a message may have come meanwhile

    # --- what others did --------------------------------------------------------------------------

    def tell_all(self) -> None:
        """Others have written, or have died, or this worker has another lease."""
        for call in self.on_change:
            call()

    def _on_change(self) -> None:
        self.look_around()
        self.tell_all()

    async def _look_around(self) -> None:
        """Somebody else has written: messages for runs that are here, cancelled activities, questions, workers."""
        worker = self._worker
        for run in await worker.site.store.list_pending(worker.owner()):
            live = worker.cache.lives.get(run.number)
            if live is None or not live.owned or run.accepted > live.taken:
                worker.inbox.take_up(run)
        if worker.tasks.running:
            for task_id in await worker.site.store.list_cancelled(worker.owner()):
                worker.tasks.cancel(task_id)
        for question in await worker.site.store.list_questions(tuple(worker.site.registry.workflows)):
            worker.inbox.asked(question)
        leases = await worker.site.store.list_leases()
        self._others = worker.site.store.others_possible and any(lease.number != worker.owner() for lease in leases)

    async def _bury_dead(self) -> None:
        now = self._worker.site.clock.monotonic()
        every = self._worker.site.settings.death_check_seconds
        if not self._others or every is None or now - self._deaths_checked < every:
            return
        self._deaths_checked = now
        dead = await self._worker.site.store.end_dead_leases()
        if dead:
            logger.warning("took over from %s", ", ".join(lease.name for lease in dead))
            self._sweep_us = 0
            self.look_around()
            self.tell_all()


def _earlier(one: int | None, other: int | None) -> int | None:
    """The first of two moments that may be none."""
    return min((moment for moment in (one, other) if moment is not None), default=None)
