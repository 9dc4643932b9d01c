"""Turning: runs the turns of live runs that have something to do, and carries out what was committed (E1).

In:  live runs that are `ready`: something was told to them, or is due.
Out: engine.turns runs the kernel; engine.committer commits; then tasks start, and the run parks or goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from perdure.clock import moment_of
from perdure.engine.committer import Committer
from perdure.engine.live import Live, LocalAnswer
from perdure.engine.parts import OWNED_MAX, Host
from perdure.engine.turns import Circumstances, Prepared, prepare, take_jobs
from perdure.errors import LeaseLost
from perdure.stores.records import Committed

logger = logging.getLogger("perdure.engine")
SLICE_SECONDS = 0.02  # turns run that long before the event loop goes on


class Turner:
    """The turns of one worker."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._workflows = tuple(host.site.registry.workflows)
        self._committer = Committer(host.site.store, self._committed, self._claims)
        self._ready: deque[Live] = deque()
        self._taken: dict[Live, list[LocalAnswer]] = {}  # by the turns that are being committed
        self._scheduled = False

    def ready(self, live: Live) -> None:
        """It has something to do."""
        if not live.queued:
            live.queued = True
            self._ready.append(live)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._run_ready)

    async def settle(self) -> None:
        """Run what is ready, and wait until it is committed."""
        self._run_ready()
        await self._committer.settle()

    # --- a turn -----------------------------------------------------------------------------------

    def _run_ready(self) -> None:
        host = self._host
        self._scheduled = False
        began = host.site.clock.monotonic()
        while self._ready:
            live = self._ready.popleft()
            live.queued = False
            if live.owned and not live.committing:
                self._turn(live)
            if self._ready and host.site.clock.monotonic() - began > SLICE_SECONDS:
                self._scheduled = True
                asyncio.get_running_loop().call_soon(self._run_ready)
                break
        self._committer.flush(alone=not self._ready and not host.tasks.running)

    def _turn(self, live: Live) -> None:
        host = self._host
        now_us = host.site.clock.now_us()
        if live.deadline_us is not None and live.deadline_us <= now_us:
            live.answers.clear()
            host.obstacles.time_out(live.run)
            return
        if not live.has_work(now_us):
            host.pump.release_soon(live)
            return
        taken = take_jobs(live, now_us)
        executor = live.executor
        try:
            prepared = prepare(
                live,
                taken,
                Circumstances(
                    now_us,
                    host.owner(),
                    host.tasks,
                    host.site.registry.workflows,
                    host.site.settings.payload_bytes_max,
                ),
                lambda: host.rebuilder.activate(live, lambda: executor.activate(moment_of(now_us), taken.jobs)),
            )
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # an exit() in a workflow ends no worker
            live.answers[:0] = taken.answers
            host.obstacles.turn_failed(live, error)
            return
        if taken.answers:
            self._taken[live] = taken.answers
        live.committing = True
        self._committer.add(prepared)

    def _committed(self, prepared: Prepared, outcome: Committed | Exception) -> None:
        host = self._host
        live = prepared.live
        live.is_committed()
        answers = self._taken.pop(live, [])
        for report in prepared.reports:
            logger.warning("run %s: %s", live.run.facts.workflow_id, report)
        if isinstance(outcome, Exception):
            live.answers[:0] = answers
            self._refused(prepared, outcome)
            return
        for task in prepared.starts:
            host.tasks.start(task)
        for cancel in prepared.commit.cancels:
            host.tasks.cancel(cancel.id)
        live.blocked_tries = 0
        unclaimed = {task.queue for task in prepared.commit.new_tasks if not task.claimed} & host.tasks.free.keys()
        if unclaimed:  # whoever has looked while the turn was being committed has not found them
            host.tasks.backlog |= unclaimed
            host.pump.wake()
        if prepared.commit.closing is not None:
            host.inbox.closed(live.number, prepared.commit.closing)
        elif outcome.parked and not live.reclaimed:
            host.cache.disown(live)
            for report in host.obstacles.untaken(live):  # of activities that were claimed and done meanwhile
                host.inbox.report(report)
            host.pump.expect(prepared.commit.wake_us)
        else:
            self._go_on(live, prepared, outcome)
        live.reclaimed = False
        self._told(outcome)
        host.listener.turn_committed(prepared)

    def _told(self, outcome: Committed) -> None:
        host = self._host
        for told in outcome.told:
            host.inbox.deliver(told.run, told.claimed, told.message)
            if not told.claimed:
                host.pump.expect(told.run.wake_us)
        if outcome.ended:
            host.pump.look_around()
            host.listener.others_closed()

    def _go_on(self, live: Live, prepared: Prepared, outcome: Committed) -> None:
        host = self._host
        host.pump.expect_live(live)
        if prepared.commit.consumed + outcome.pending > live.taken:
            host.inbox.take_up(live.run)
        elif live.has_work(host.site.clock.now_us()):
            self.ready(live)
        elif live.local == 0:
            host.pump.release_soon(live)

    def _refused(self, prepared: Prepared, error: Exception) -> None:
        host = self._host
        live = prepared.live
        for task in prepared.starts:
            host.tasks.give_back(task)
        if not isinstance(error, LeaseLost):
            host.obstacles.turn_failed(live, error)
            return
        logger.info("run %s: a turn was dropped: %s", live.run.facts.workflow_id, error)
        host.inbox.rebuild(live)  # activities run on, and what they come to is kept: their lease may be alive
        host.pump.check_lease()

    def _claims(self) -> tuple[str, ...]:
        return () if self._host.stopping or self._host.cache.owned >= OWNED_MAX else self._workflows
