"""Owned: one pipeline that this worker runs; a scheduler's state, fed and obeyed (L5 to L9).

In:  pipelines.host: wake-ups, events of this process, deploys.
Out: pipelines.running, one run at a time; pipelines.reconciling, in the background.

Nothing comes back regularly: its task ends when nothing is due, and leaves one timer behind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from perdure.clock import moment_of
from perdure.engine.patience import insist
from perdure.errors import Failure, LeaseLost, UsageError
from perdure.pipelines import beginning, scheduling
from perdure.pipelines.contexts import HandlerContext, Place
from perdure.pipelines.declare import Declared, DeclaredConsumer, Pipeline
from perdure.pipelines.desk import RunDesk
from perdure.pipelines.means import Means
from perdure.pipelines.reconciling import Happened, answered, ask
from perdure.pipelines.records import blocked_of, deployment_of, refreshed, seen_run, taken_over, times_of
from perdure.pipelines.resuming import goes_on_at
from perdure.pipelines.running import Beginning, Ended, Running, read_prepared
from perdure.pipelines.states import State
from perdure.pipelines.validation import validate
from perdure.stores.pipeline_records import Decision, HandlerRun, PipelineView, RunBeginning, RunFailure, Times

T = TypeVar("T")
logger = logging.getLogger("perdure.pipelines")
CHAIN_MAX = 1_000
NEVER = datetime.max.replace(tzinfo=UTC)
STOP_SECONDS = 0.5
TROUBLE_SECONDS = 5.0  # after what should not be, it is looked at again


class Owned:
    """One pipeline, as long as this worker owns it; `gone` from then on."""

    def __init__(self, means: Means, pipeline: Pipeline, owner: int, view: PipelineView) -> None:
        self.pipeline = pipeline
        self.gone = False
        self._means = means
        self._owner = owner
        self._repairs: dict[str, int] = {}
        self._take(view)
        self._stale = False  # somebody else has written
        self._adrift = False  # it is not known how the pipeline stands
        self._called = False
        self._deploys: list[tuple[Pipeline, asyncio.Future[bool]]] = []
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    # --- what it is told --------------------------------------------------------------------

    def wake(self) -> None:
        """There may be something to do."""
        self._called = True
        if self._task is None and not self.gone:
            if self._timer is not None:
                self._timer.cancel()
            self._task = asyncio.get_running_loop().create_task(self._work(), name=f"pipeline {self.pipeline.name}")

    @property
    def busy(self) -> bool:
        """Whether it is at work."""
        return self._task is not None

    def look(self) -> None:
        """Somebody else has written: read again what stands in the store."""
        self._stale = True
        self.wake()

    def published(self, topics: Iterable[str]) -> None:
        """There are new events in these topics."""
        for topic in topics:
            self._state = scheduling.event(self._state, topic, self._means.now)
        self.wake()

    def deploy(self, pipeline: Pipeline) -> asyncio.Future[bool]:
        """Another declaration, as soon as no handler runs. Whether anything has changed."""
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._deploys.append((pipeline, done))
        self.wake()
        return done

    async def stop(self, seconds: float) -> None:
        """Begin nothing more; what does not end in time is cancelled, and stays as it is in the store."""
        self.gone = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=seconds)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=STOP_SECONDS)  # a handler may not want to end
        for _, done in self._deploys:
            done.cancel()

    # --- the loop ---------------------------------------------------------------------------

    async def _work(self) -> None:
        seconds: float | None = None
        try:
            while not self.gone:
                self._called = False
                moment = await self._step()
                if moment is not None and not self._called:
                    seconds = None if moment == NEVER else (moment - self._means.now).total_seconds()
                    break
        except LeaseLost as error:
            logger.warning("pipeline %s: %s", self.pipeline.name, error)
            self.gone = True
            self._means.lease_doubted()
        except Exception:
            logger.exception("pipeline %s: it is looked at again in %g s", self.pipeline.name, TROUBLE_SECONDS)
            self._adrift, seconds = True, TROUBLE_SECONDS
        finally:
            self._task = None
        if seconds is not None and not self.gone:
            self._timer = asyncio.get_running_loop().call_later(max(0.0, seconds), self.wake)

    async def _step(self) -> datetime | None:
        """Do one thing that is due. None: look again; otherwise nothing is due before that moment."""
        if self._adrift:
            self._take(await self._insist(lambda: self._means.store.view_pipeline(self.pipeline.name)))
            self._adrift = self._stale = False
        if self._stale:
            self._stale = False
            await self._refresh()
        if self._open is not None and self._open.status == "active":
            await self._bury(self._open)
            return None
        if self._deploys:
            await self._deploy(*self._deploys.pop(0))
            return None
        now = self._means.now
        self._state = scheduling.tick(self._state, now)
        decision = scheduling.decide(self._state, now)
        if isinstance(decision, scheduling.Start):
            if decision.handler not in {one.name for one in self.pipeline.handlers}:
                return NEVER  # a run whose handler is gone, and its outcome is not known: that handler is needed
            await self._run(self._declared(decision.handler), decision.retry_of is not None)
            return None
        return await self._wait_or_reconcile(decision.until, now)

    async def _wait_or_reconcile(self, until: datetime | None, now: datetime) -> datetime | None:
        run, blocked = self._open, self._state.blocked
        ledger = run.ledger if run is not None and run.status == "paused:reconciliation" else None
        if run is None or ledger is None or ledger.next_us is None or blocked is None or blocked.retry_at is not None:
            return until or NEVER
        asked_at = moment_of(ledger.next_us)
        if self._state.paused:
            return NEVER
        if asked_at > now:
            return asked_at
        await self._reconcile(run)
        return None

    # --- the store's word -------------------------------------------------------------------

    def _take(self, view: PipelineView) -> None:
        """Begin with what the store has."""
        self._state: State = taken_over(self.pipeline, view, self._means.policy, self._means.now)
        self._open: HandlerRun | None = view.open_run
        self._states = {one.facts.name: one.state for one in view.pipeline.handlers}
        self._seen = dict(view.newest)

    async def _refresh(self) -> None:
        view = await self._insist(lambda: self._means.store.view_pipeline(self.pipeline.name))
        if view.pipeline.owner != self._owner:
            raise LeaseLost(f"another worker runs the pipeline {self.pipeline.name!r} now")
        self._open = view.open_run
        self._state = refreshed(self._state, view)
        for topic, newest in view.newest.items():
            if newest > self._seen.get(topic, 0):
                self._seen[topic] = newest
                self._state = scheduling.event(self._state, topic, self._means.now)

    async def _bury(self, run: HandlerRun) -> None:
        """A run that was active when this worker took the pipeline over has crashed (L9)."""
        release = goes_on_at(run.stage, run.mutation) == "preparing"
        crash = RunFailure(
            run=run.id,
            status="crashed",
            stage=run.stage,
            mutation=run.mutation,
            error=Failure("Crashed", "its worker ended while it ran"),
            retry_us=self._means.clock.now_us(),
            release=release,
        )
        self._blocks(await self._insist(lambda: self._means.store.fail_run(self._owner, run.pipeline, crash)))

    async def _deploy(self, pipeline: Pipeline, done: asyncio.Future[bool]) -> None:
        try:
            deployed = await self._means.store.deploy_pipeline(deployment_of(pipeline), self._owner)
            view = await self._means.store.view_pipeline(pipeline.name)
        except Exception as error:
            if not done.done():
                done.set_exception(error)
            return
        self.pipeline = pipeline
        self._take(view)
        self._repairs.clear()
        if not done.done():
            done.set_result(deployed.changed)

    # --- runs -------------------------------------------------------------------------------

    async def _run(self, declared: Declared, retries: bool) -> None:
        old = self._open if retries else None
        run_id = self._means.new_id()
        self._state = scheduling.start(self._state, declared.name, self._means.now, run=run_id)
        begins = self._beginning(declared, run_id, old)
        run = await self._insist(lambda: self._means.store.begin_run(self._owner, self.pipeline.name, begins))
        if run is None:  # paused just now: what was to run is found again when that is lifted
            self._adrift = True
            return
        self._open = run
        transients, denials = (0, 0) if old is None else await self._chain(old)
        begun = Beginning(run, self._owner, self._states.get(declared.name), self._reckon, transients, denials)
        ended = await Running(self._means, declared, begun).to_end()
        if ended.failed is not None:
            self._blocks(ended.failed)
            logger.warning("pipeline %s: %s", self.pipeline.name, _told(ended.failed))
            await self._repair(ended.failed)
        else:
            self._committed(declared.name, ended)

    def _beginning(self, declared: Declared, run_id: str, old: HandlerRun | None) -> RunBeginning:
        times, key = self._times(declared.name), self._means.new_id()
        if old is None:
            return beginning.first(run_id, declared.name, key, times)
        reconciles = isinstance(declared, DeclaredConsumer) and declared.has("reconcile")
        return beginning.next_of(old, run_id, key, times, reconciles=reconciles)

    def _reckon(self, reserved: bool, wake_at: datetime | None) -> Times:
        """What is written with the commit of the run that is active."""
        handler = self._state.active or ""
        return self._times(handler, scheduling.commit(self._state, handler, self._means.now, reserved, wake_at))

    def _times(self, handler: str, state: State | None = None) -> Times:
        return times_of(next(one for one in (state or self._state).handlers if one.name == handler))

    def _committed(self, handler: str, ended: Ended) -> None:
        now = self._means.now
        pending: dict[str, datetime | None] = {name: moment_of(at) for name, at in ended.finished.pending.items()}
        self._state = scheduling.commit(self._state, handler, now, ended.reserved, ended.wake_at, pending)
        for topic in ended.finished.news:
            self._state = scheduling.event(self._state, topic, now)
        if ended.state is not None:
            self._states[handler] = ended.state
        self._open = None
        self._repairs.pop(handler, None)

    def _blocks(self, run: HandlerRun) -> None:
        """A run that could not go on, as the store has it now."""
        self._open = run
        self._state = replace(self._state, active=None, active_run=None, active_since=None, blocked=blocked_of(run))

    async def _chain(self, run: HandlerRun) -> tuple[int, int]:
        """How often in a row its attempts have failed for a while, and its mutation turned out not to have happened.

        Counted since a person has said "retry": that takes effect at once.
        """
        transients = denials = 0
        one: HandlerRun | None = run
        while one is not None and transients + denials < CHAIN_MAX:
            if one.status == "paused:transient" and one.retry_us != one.updated_us:
                transients += 1
            elif one.status == "paused:reconciliation" and one.mutation == "failure":
                denials += 1
            elif one.status != "crashed":
                break
            before = one.retry_of
            one = None if before is None else await self._means.store.get_handler_run(before)
        return transients, denials

    async def _repair(self, run: HandlerRun) -> None:
        """New code for a handler that has failed by a mistake of its code, if `on_logic_error` has any (L8)."""
        hook, name = self.pipeline.on_logic_error, self.pipeline.name
        done = self._repairs.get(run.handler, 0)
        if run.status != "failed:logic" or hook is None or done >= self._means.policy.repairs:
            return
        self._repairs[run.handler] = done + 1
        try:
            new = await hook(seen_run(run))
            if new is None:
                return
            repaired = validate(self.pipeline.repaired(run.handler, new))
        except Exception:
            logger.exception("pipeline %s: on_logic_error for %s came to nothing", name, run.handler)
            return
        self.pipeline = repaired
        await self._settle(Decision(run=run.id, decided_by="on_logic_error"))

    async def _settle(self, decision: Decision) -> None:
        """What has become known of the run that blocks; where a person was faster, their word counts."""
        try:
            self._blocks(await self._insist(lambda: self._means.store.settle_run(decision)))
        except UsageError:
            self._stale = True

    async def _reconcile(self, run: HandlerRun) -> None:
        """Ask once more what became of its mutation, in the background."""
        declared = self._declared(run.handler)
        if not isinstance(declared, DeclaredConsumer) or not declared.has("reconcile"):
            return
        ctx = HandlerContext(Place("reconcile", run.handler, run.key), RunDesk(self._means, self._owner, run))
        answer = await ask(declared.handler(), ctx, read_prepared(run.prepared, declared), self._means)
        error = run.error or Failure("Unknown", "its outcome is unknown")
        verdict = answered(run, answer, error, (await self._chain(run))[1], self._means)
        if isinstance(verdict, Happened):
            await self._settle(Decision(run=run.id, mutation="success", result=verdict.result))
            return
        try:
            self._blocks(await self._insist(lambda: self._means.store.fail_run(self._owner, run.pipeline, verdict)))
        except UsageError:
            self._stale = True

    # --- leaves -----------------------------------------------------------------------------

    def _declared(self, handler: str) -> Declared:
        return next(one for one in self.pipeline.handlers if one.name == handler)

    async def _insist(self, call: Callable[[], Awaitable[T]]) -> T:
        return await insist(call, f"pipeline {self.pipeline.name}")


def _told(run: HandlerRun) -> str:
    why = "" if run.error is None else f": {run.error.type}: {run.error.message}"
    return f"{run.handler} is {run.status} in stage {run.stage}{why}"
