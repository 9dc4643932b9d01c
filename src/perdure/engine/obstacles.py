"""Obstacles: what a worker does with a run that cannot go on: put aside with the reason, failed, or timed out (K12).

In:  engine.worker, with the error that a turn or a rebuild came to.
Out: the store; nothing that the run was told is lost, and it holds up nobody else.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from perdure.engine.blocking import blocked_by, kind_of
from perdure.engine.live import Live
from perdure.engine.parts import Host
from perdure.engine.patience import insist
from perdure.errors import Failure, LeaseLost, NondeterminismError, PerdureError
from perdure.kernel.executor import Vet
from perdure.stores.records import Closing, Report, Run

logger = logging.getLogger("perdure.engine")
write = msgspec.json.Encoder().encode
TOO_LONG = Failure("TimedOut", "the run took longer than its time limit", retryable=False)
TIMED_OUT = Closing("timed_out", write(TOO_LONG))


class Obstacles:
    """The hands of a worker for runs that cannot go on."""

    def __init__(self, worker: Host) -> None:
        self._worker = worker

    def turn_failed(self, live: Live, error: BaseException) -> None:
        """A turn failed, and the copy is spent."""
        reports = self.untaken(live)
        self._worker.cache.drop(live)
        self._worker.in_background(self._aside(live.run, live.blocked_tries + 1, reports, error))

    def not_rebuilt(self, run: Run, error: Exception) -> None:
        """A run that this worker owns could not be brought into memory."""
        live = self._worker.cache.lives.get(run.number)
        reports: Sequence[Report] = ()
        if live is not None:
            reports = self.untaken(live)
            self._worker.cache.drop(live)
        if not isinstance(error, LeaseLost):
            tries = 1 + (run.blocked.tries if run.blocked else 0)
            self._worker.in_background(self._aside(run, tries, reports, error))

    def untaken(self, live: Live) -> list[Report]:
        """The answers that a live copy was given and no turn has taken: as messages they outlive it."""
        owner = self._worker.owner()
        answers, live.answers = live.answers, []
        return [
            Report(run=one.task.run, id=one.task.id, owner=owner, attempt=one.attempt, job=write(one.job))
            for one in answers
        ]

    def time_out(self, run: Run) -> None:
        """A run has reached its time limit."""
        self._worker.in_background(self._close(run, TIMED_OUT))

    async def _aside(self, run: Run, tries: int, reports: Sequence[Report], error: BaseException) -> None:
        worker = self._worker
        definition = worker.site.registry.version_of(run.facts.workflow, run.facts.version)
        if isinstance(error, NondeterminismError) and definition and definition.on_nondeterminism == "fail":
            failure = Failure(type(error).__name__, str(error), retryable=False)
            await self._close(run, Closing("failed", write(failure)))
            return
        blocked = blocked_by(error, tries, worker.site.clock.now_us(), worker.site.settings, worker.site.rng)
        if tries > 1 and run.blocked is not None:
            blocked = replace(blocked, since_us=run.blocked.since_us)
        if run.facts.deadline_us is not None and blocked.retry_us is not None:
            blocked = replace(blocked, retry_us=min(blocked.retry_us, run.facts.deadline_us))  # it ends in time
        level = logging.ERROR if tries == 1 else logging.INFO  # said once; the run's row says it all the time
        logger.log(level, "run %s is blocked (%s): %s", run.facts.workflow_id, kind_of(error), error)
        try:
            await insist(
                lambda: worker.site.store.block_run(worker.owner(), run.number, blocked, reports),
                f"run {run.facts.workflow_id} is to be put aside",
            )
            worker.pump.expect(blocked.retry_us)
        except PerdureError as problem:
            logger.error("run %s could not be put aside: %s", run.facts.workflow_id, problem)
            for report in reports:
                worker.inbox.report(report)
            worker.pump.check_lease()

    async def _close(self, run: Run, closing: Closing) -> None:
        try:
            await insist(
                lambda: self._worker.site.store.close_run(run.facts.workflow_id, run.facts.run_id, closing),
                f"run {run.facts.workflow_id} is to end",
            )
        except PerdureError as error:
            logger.info("run %s: %s", run.facts.workflow_id, error)
        else:
            self._worker.inbox.closed(run.number, closing)
            self._worker.pump.look_around()


def vet(worker: Host, live: Live) -> Vet:
    """What a run may ask for here: an activity or workflow of a served queue has to be known (K14)."""

    def check(kind: str, name: str, options: Mapping[str, Any]) -> None:
        queue = options.get("queue") or live.run.facts.queue
        known = {
            "schedule_activity": worker.site.registry.activities,
            "start_child": worker.site.registry.workflows,
        }.get(kind)
        if queue not in worker.site.settings.queues or known is None or name in known:
            return
        what = "activity" if kind == "schedule_activity" else "workflow"
        raise live.executor.violation(
            f"{what} `{name}` is unknown to this worker, which serves its queue `{queue}`. "
            f"List it where the worker is made; it knows: {', '.join(sorted(known)) or 'none'}"
        )

    return check
