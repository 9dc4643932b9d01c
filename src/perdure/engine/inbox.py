"""The inbox: what reaches the runs of a worker: messages, runs that it has claimed, their ends.

In:  engine.runs (clients of this process), engine.pump (the store), engine.turning (what turns have told other runs).
Out: engine.cache brings a run into memory; engine.turning runs its turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress

from perdure.engine.live import Live
from perdure.engine.parts import Host
from perdure.engine.patience import insist
from perdure.engine.queries import answer_question
from perdure.errors import PerdureError, StoreUnavailable
from perdure.stores.records import Closing, Message, Question, Report, Run

logger = logging.getLogger("perdure.engine")


class Inbox:
    """perdure.engine.parts.Receiving."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._taking_up: dict[int, asyncio.Task[None]] = {}
        self._again: set[int] = set()
        self._reports: list[Report] = []

    def deliver(self, run: Run, claimed: bool, message: Message | None) -> None:
        """A run was started, or accepted a message; if it is this worker's, it goes on at once."""
        host = self._host
        if host.stopping or run.owner != host.owner():
            if run.owner is None:  # nobody has it: this worker has no room for it now, or does not know it
                host.pump.expect(run.wake_us)
                host.pump.expect_end(run.facts.deadline_us)
            return
        live = host.cache.lives.get(run.number)
        busy = run.number in self._taking_up
        if live is not None and live.owned and not busy:
            live.reclaimed = live.reclaimed or (claimed and live.committing)
            if message is not None and message.number == live.taken + 1:
                self._tell(live, message)
            elif message is None or message.number > live.taken:
                self.take_up(run)
        elif busy or not claimed:
            self.take_up(run)
        elif run.last_turn < 0 and (message is None or message.number == 1):
            self._begin(run, message)
        elif message is not None and message.number == run.consumed + 1 and (copy := host.cache.resume(run)):
            self._tell(copy, message)
        else:
            self.take_up(run, sure=True)

    def take_up(self, run: Run, *, sure: bool = False) -> None:
        """Bring a run that this worker owns into memory, with everything that waits for it.

        What was read aside of the writing may be overtaken: the run is another's, or nobody's. Not `sure` is asked.
        """
        host = self._host
        if run.number in self._taking_up:
            self._again.add(run.number)
        elif run.facts.deadline_us is not None and run.facts.deadline_us <= host.site.clock.now_us():
            host.obstacles.time_out(run)
        elif sure and run.accepted == run.consumed and (live := host.cache.resume(run)) is not None:
            host.pump.expect_live(live)
            host.turner.ready(live)
        else:
            self._taking_up[run.number] = asyncio.get_running_loop().create_task(self._take_up(run, sure))

    def closed(self, number: int, closing: Closing) -> None:
        """A run has ended: by a turn, by its time limit, or by a client of this process."""
        host = self._host
        live = host.cache.lives.get(number)
        if live is not None and live.owned:
            for task in live.tasks.values():
                if task.local:
                    host.tasks.cancel(task.id)
            host.cache.disown(live)
            if not live.committing and not live.ended:
                host.cache.drop(live)
        host.listener.run_closed(number, closing)

    def asked(self, question: Question) -> None:
        """Another process asked a query."""
        host = self._host
        host.in_background(answer_question(host, question))

    def told_perhaps(self, started: str | None) -> None:
        """Whoever was to deliver something was cancelled while it was written: a message, or a run with this id."""
        if not self._host.stopping:
            self._host.in_background(self._look_for(started))

    def rebuild(self, live: Live) -> None:
        """A live copy is spent, but not its run: bring it up again from what is stored."""
        host = self._host
        if not live.owned:
            host.cache.drop(live)
            return
        reports = host.obstacles.untaken(live)
        host.cache.drop(live)
        host.in_background(self._bring_back(live.number, reports))

    def report(self, report: Report) -> None:
        """What an attempt came to whose run is not here."""
        if not self._reports:
            asyncio.get_running_loop().call_soon(self._flush_reports)
        self._reports.append(report)

    @property
    def busy(self) -> bool:
        """Whether anything is being brought into memory, or to be written."""
        return bool(self._taking_up or self._reports)

    async def settle(self) -> None:
        """Wait until what is being brought into memory is there, and what was reported is written."""
        self._flush_reports()
        while self._taking_up:
            await asyncio.wait(self._taking_up.values())

    # --- leaves -----------------------------------------------------------------------------------

    def _tell(self, live: Live, message: Message) -> None:
        host = self._host
        live.messages.append(message)
        live.taken = message.number
        host.turner.ready(live)

    def _begin(self, run: Run, message: Message | None) -> None:
        host = self._host
        try:
            live = host.cache.begin(run)
        except Exception as error:
            host.obstacles.not_rebuilt(run, error)
            return
        if message is not None:
            self._tell(live, message)
        host.turner.ready(live)

    async def _take_up(self, run: Run, sure: bool) -> None:
        host = self._host
        live: Live | None = None
        try:
            while True:
                self._again.discard(run.number)
                live = host.cache.lives.get(run.number)
                if live is None or not live.owned:
                    owned = run if sure else await host.site.store.claim_run(host.owner(), run.number)
                    live = None if owned is None else await host.cache.bring_up(owned)
                if live is not None:
                    await self._hand_messages(live)
                if run.number not in self._again:
                    break
                sure = False
        except StoreUnavailable as error:
            logger.error("run %s waits for the store: %s", run.facts.workflow_id, error)
            host.in_background(self._bring_back(run.number, ()))
            return
        except Exception as error:
            host.obstacles.not_rebuilt(run, error)
            return
        finally:
            self._taking_up.pop(run.number, None)
            self._again.discard(run.number)
        if live is not None and host.cache.lives.get(run.number) is live and live.owned:
            host.pump.expect_live(live)
            host.turner.ready(live)

    async def _hand_messages(self, live: Live) -> None:
        for message in await self._host.site.store.list_messages(live.number, live.taken):
            if live.owned:  # a turn that was being committed may have parked it
                live.messages.append(message)
                live.taken = message.number

    async def _bring_back(self, number: int, reports: Sequence[Report]) -> None:
        host = self._host
        what = f"run number {number} is to be read again"
        if reports:
            await insist(lambda: host.site.store.report_tasks(reports), what)
            host.pump.look_around()
        for run in await insist(lambda: host.site.store.get_runs([number]), what):
            if run.status == "running" and run.owner == host.owner() and not host.stopping:
                self.take_up(run)

    async def _look_for(self, started: str | None) -> None:
        """What was asked for before is written once the lease is: the store keeps the order."""
        host, what = self._host, "what a caller wrote who was cancelled"
        await insist(lambda: host.site.store.renew_lease(host.owner()), what)
        host.pump.look_around()
        if started is not None:
            with suppress(PerdureError):  # it was not started, after all
                run = await insist(lambda: host.site.store.get_run(started), what)
                if run.status == "running" and run.owner == host.owner() and not host.stopping:
                    self.take_up(run)

    def _flush_reports(self) -> None:
        host = self._host
        reports, self._reports = self._reports, []
        if reports:
            host.in_background(self._write_reports(reports))

    async def _write_reports(self, reports: Sequence[Report]) -> None:
        host = self._host
        what = "the answer of an activity waits" if len(reports) == 1 else f"{len(reports)} answers of activities wait"
        await insist(lambda: host.site.store.report_tasks(reports), what)
        host.pump.look_around()
