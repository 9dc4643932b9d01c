"""Tasks: the activities that run on this worker, within the limits of their queues and their time (E4).

In:  tasks from engine.worker, claimed in a turn's commit or from the store.
Out: engine.places and engine.processes run them; answers and retries go to the worker, heartbeats to engine.beats.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from perdure.clock import Clock
from perdure.define.activity import Activity
from perdure.define.registry import Registry
from perdure.engine.attempts import LIMITS, MICROS, Attempt, Place, Why
from perdure.engine.beats import Beats
from perdure.engine.calling import Callee, Outcome
from perdure.engine.processes import InProcesses, check_importable
from perdure.engine.retrying import PUT_OFF, RetryRule, backoff, rule_of, seconds_after_deaths, seconds_to_wait
from perdure.engine.settings import Settings
from perdure.errors import Failure, UsageError
from perdure.model import jobs
from perdure.stores.port import TaskStore
from perdure.stores.records import Attempt as AttemptRecord
from perdure.stores.records import Report, Task

logger = logging.getLogger("perdure.engine")
HANDED_BACK = RetryRule()
STOP_SECONDS = 0.1  # at the end, what was asked to stop has that long


class TaskHost(Protocol):
    """The worker, as far as activities concern it."""

    name: str

    def owner(self) -> int:
        """The lease under which tasks are claimed now."""
        ...

    def claimed(self, task: Task) -> None:
        """A task of a run that may be live here was claimed from the store."""
        ...

    def answered(self, task: Task, job: jobs.Ended, attempt: AttemptRecord) -> None:
        """A task is done."""
        ...

    def retried(self, task: Task, report: Report) -> None:
        """A task is to be tried again."""
        ...

    def wake(self) -> None:
        """There is something to claim."""
        ...


class TaskRunner:
    """Runs attempts; knows how many more each queue takes. A slot is taken until the function has really ended."""

    def __init__(
        self,
        store: TaskStore,
        registry: Registry,
        settings: Settings,
        clock: Clock,
        rng: random.Random,
        host: TaskHost,
        places: Mapping[str, Place],
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._host = host
        self._places = places
        self._callees = {name: _callee_of(activity, places) for name, activity in registry.activities.items()}
        self._names = list(self._callees)
        self._beats = Beats(store, host.owner, settings.beat_seconds, self._stop)
        self._saving: set[asyncio.Task[None]] = set()
        self._idle: asyncio.Future[None] | None = None  # set when nothing runs any more
        self._stopping = self._stopped = False
        self.free = dict(settings.queues)
        self.running: dict[str, Attempt] = {}
        self.abandoned: set[Attempt] = set()
        self.backlog: set[str] = set(settings.queues)  # queues that may hold free tasks
        self.next_due_us: int | None = None  # when a task that has to wait is due

    # --- slots ------------------------------------------------------------------------------------

    def reserve(self, queue: str, name: str) -> bool:
        """Take a slot for one more of these, if this worker knows it and has room."""
        free = self.free.get(queue, 0)
        if free <= 0 or self._stopping or queue in self.backlog or name not in self._callees:
            if queue in self.free:
                self.backlog.add(queue)
            return False
        self.free[queue] = free - 1
        return True

    def give_back(self, task: Task) -> None:
        """A task that was to start here does not."""
        self._freed(task.queue)

    async def claim(self) -> None:
        """Take what is free and due, as far as there is room."""
        for queue in sorted(self.backlog):
            if self.free[queue] > 0 and not self._stopping:
                await self._claim_from(queue)
        waiting = [queue for queue in self.free if queue not in self.backlog]  # the others wait for room
        self.next_due_us = await self._store.get_next_due(waiting) if waiting else None

    async def _claim_from(self, queue: str) -> None:
        owner, room = self._host.owner(), self.free[queue]
        self.backlog.discard(queue)
        self.free[queue] = 0
        tasks: Sequence[Task] = ()
        try:
            tasks = await self._store.claim_tasks(owner, queue, self._names, room)
        except BaseException:
            self.backlog.add(queue)
            raise
        finally:
            self.free[queue] += room - len(tasks)
        if len(tasks) == room:
            self.backlog.add(queue)
        for task in tasks:
            if self._stopping or owner != self._host.owner():  # it goes back with the lease
                self._freed(queue)
                continue
            if task.attempts and self._is_put_off(task):
                continue
            self._host.claimed(task)
            self.start(task)

    def _is_put_off(self, task: Task) -> bool:
        wait = seconds_after_deaths([attempt.outcome for attempt in task.attempts])
        if wait is None:
            return False
        logger.error(
            "activity `%s` of run %s: its last attempts all ended with their workers, so it may be what ends them; "
            "the next one is put off by %g s",
            task.name,
            task.workflow_id,
            wait,
        )
        now_us = self._clock.now_us()
        record = AttemptRecord(
            attempt=task.attempt, worker=self._host.name, started_us=now_us, ended_us=now_us, outcome=PUT_OFF
        )
        retry_us = now_us + round(wait * MICROS)
        report = Report(id=task.id, owner=self._host.owner(), attempt=record, retry_us=retry_us, counts=False)
        self._host.retried(task, report)
        self._freed(task.queue)
        return True

    # --- attempts ---------------------------------------------------------------------------------

    def start(self, task: Task) -> None:
        """Run a task that is claimed, and has its slot."""
        callee, place = self._callees[task.name]
        attempt = Attempt(task, callee, place, self, self._clock.now_us())
        self.running[task.id] = attempt
        if attempt.options and (late := attempt.is_late(attempt.started_us)):
            attempt.why = late
            self.ended(attempt, attempt.outcome_of_stop())
        elif place.perform(attempt):
            if attempt.options:
                self._watch(attempt)
        elif attempt.close_us is not None:
            self._limit(attempt, "schedule_to_close", attempt.close_us)

    def began(self, attempt: Attempt) -> None:
        """An attempt had to wait, and is run now: its own limits begin."""
        if attempt.why is None and not attempt.answered:
            attempt.started_us = attempt.heard_us = self._clock.now_us()
            self._watch(attempt)

    def cancel(self, task_id: str, why: Why = "cancel") -> None:
        """Ask a running activity to stop, if it is here."""
        attempt = self.running.get(task_id)
        if attempt is not None:
            self._stop(attempt, why)

    def ended(self, attempt: Attempt, outcome: Outcome) -> None:
        """An attempt's function has ended. If it was answered before, only its slot is free again."""
        attempt.over = True
        if attempt in self.abandoned:
            self.abandoned.discard(attempt)
            logger.info("%s has ended after all; its slot is free again", attempt)
        if attempt.answered:
            attempt.forget_timers()
        else:
            self._answer(attempt, outcome)
        self._freed(attempt.task.queue)

    def beat(self, attempt: Attempt, details: bytes | None) -> None:
        """A heartbeat."""
        if not attempt.answered:
            attempt.heard_us = self._clock.now_us()
            self._beats.add(attempt, details, attempt.heard_us)

    # --- the end ----------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Take no more; give what runs a moment, then ask it to stop. What is left is handed over with the lease."""
        self._stopping = True
        await self._until_idle(self._settings.drain_seconds)
        left = list(self.running.values())
        for attempt in left:
            self._stop(attempt, "stop")
        await self._until_idle(STOP_SECONDS)
        await self._beats.save(left)
        for attempt in list(self.running.values()):
            self._settle(attempt)
        self._stopped = True
        if self._saving:
            await asyncio.wait(self._saving)
        for place in set(self._places.values()):
            await place.close()

    def lose_all(self) -> None:
        """The lease is lost: what runs here is somebody else's now."""
        for attempt in list(self.running.values()):
            self._stop(attempt, "lost")

    async def _until_idle(self, seconds: float) -> None:
        if self.running:
            self._idle = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._idle], timeout=seconds)

    # --- limits -----------------------------------------------------------------------------------

    def _watch(self, attempt: Attempt) -> None:
        first = attempt.first_limit()
        if first is not None:
            self._limit(attempt, *first)
        silence = attempt.options.get("heartbeat")
        if silence is not None:
            self._listen(attempt, round(silence * MICROS))

    def _limit(self, attempt: Attempt, why: Why, due_us: int) -> None:
        if attempt.timer is not None:
            attempt.timer.cancel()
        seconds = max(0, due_us - self._clock.now_us()) / MICROS
        attempt.timer = attempt.loop.call_later(seconds, self._stop, attempt, why)

    def _listen(self, attempt: Attempt, limit_us: int) -> None:
        silent_us = self._clock.now_us() - attempt.heard_us
        if silent_us >= limit_us:
            self._stop(attempt, "heartbeat")
        else:
            attempt.pulse = attempt.loop.call_later((limit_us - silent_us) / MICROS, self._listen, attempt, limit_us)

    def _stop(self, attempt: Attempt, why: Why) -> None:
        if attempt.why is not None or attempt.answered:
            return
        attempt.why = why
        attempt.forget_timers()
        attempt.place.stop(attempt)
        if attempt.over:
            return
        attempt.timer = attempt.loop.call_later(self._settings.grace_seconds, self._abandon, attempt)
        if why == "lost" or (why in LIMITS and not self._may_be_retried(attempt)):
            self._answer(attempt, attempt.outcome_of_stop())  # nobody gains by waiting for its end

    def _abandon(self, attempt: Attempt) -> None:
        if attempt.over or self._stopped:
            return
        self.abandoned.add(attempt)
        what_is_left = attempt.place.abandon(attempt)
        logger.warning(
            "%s was asked to stop (%s) and did not within %g s: it is abandoned, and %s; "
            "its slot of queue `%s` stays taken until it ends, and so do %d in all",
            attempt,
            attempt.why,
            self._settings.grace_seconds,
            what_is_left,
            attempt.task.queue,
            len(self.abandoned),
        )
        if not attempt.answered:
            self._answer(attempt, attempt.outcome_of_stop())

    # --- outcomes ---------------------------------------------------------------------------------

    def _answer(self, attempt: Attempt, outcome: Outcome) -> None:
        """Settle it, and say what it came to; one that was handed over or lost says nothing."""
        self._settle(attempt)
        why, task = attempt.why, attempt.task
        if why == "lost" or (why == "stop" and outcome.value is None and self._stopping):
            return
        if why == "stop" and outcome.value is None:
            self._hand_back(attempt)
            return
        if why in LIMITS:
            outcome = attempt.outcome_of_stop()
        if outcome.value is not None:
            self._host.answered(task, jobs.Resolved(task.seq, outcome.value), self._record(attempt, "completed"))
        elif outcome.failure is None:
            self._host.answered(task, jobs.Cancelled(task.seq), self._record(attempt, "cancelled"))
        else:
            self._failed(attempt, outcome, outcome.failure)

    def _failed(self, attempt: Attempt, outcome: Outcome, failure: Failure) -> None:
        task = attempt.task
        record = self._record(attempt, "timed_out" if attempt.why in LIMITS else "failed", failure)
        retry_us = self._retry_us(attempt, outcome, failure, record.ended_us, self._rng.random())
        if retry_us is None:
            self._host.answered(task, jobs.Failed(task.seq, failure), record)
            return
        report = Report(id=task.id, owner=self._host.owner(), attempt=record, retry_us=retry_us)
        self._retry(attempt, report)

    def _hand_back(self, attempt: Attempt) -> None:
        """Its task was cancelled by somebody else, as when a loop shuts down: that is no failure of the activity."""
        record = self._record(attempt, "cancelled")
        wait = backoff(HANDED_BACK.initial, HANDED_BACK.factor, HANDED_BACK.maximum, attempt.task.attempt)
        retry_us = record.ended_us + round(wait * MICROS)
        report = Report(id=attempt.task.id, owner=self._host.owner(), attempt=record, retry_us=retry_us, counts=False)
        self._retry(attempt, report)

    def _retry(self, attempt: Attempt, report: Report) -> None:
        if attempt.unsaved is None:
            self._host.retried(attempt.task, report)
        else:  # the next attempt finds what this one said last
            saving = attempt.loop.create_task(self._save_and_retry(attempt, report))
            self._saving.add(saving)
            saving.add_done_callback(self._saving.discard)

    async def _save_and_retry(self, attempt: Attempt, report: Report) -> None:
        await self._beats.save([attempt])
        self._host.retried(attempt.task, report)

    def _may_be_retried(self, attempt: Attempt) -> bool:
        outcome = attempt.outcome_of_stop()
        assert outcome.failure is not None
        return self._retry_us(attempt, outcome, outcome.failure, self._clock.now_us(), 0) is not None

    def _retry_us(self, attempt: Attempt, outcome: Outcome, failure: Failure, now_us: int, draw: float) -> int | None:
        """When a failed attempt is tried again; None: never."""
        if attempt.why == "cancel":
            return None
        wait = seconds_to_wait(rule_of(attempt.options), attempt.task.failures + 1, failure, outcome.kinds, draw)
        retry_us = None if wait is None else now_us + round(wait * MICROS)
        if retry_us is not None and attempt.close_us is not None and retry_us >= attempt.close_us:
            return None
        return retry_us

    def _record(self, attempt: Attempt, outcome: str, failure: Failure | None = None) -> AttemptRecord:
        return AttemptRecord(
            attempt=attempt.task.attempt,
            worker=self._host.name,
            started_us=attempt.started_us,
            ended_us=self._clock.now_us(),
            outcome=outcome,
            failure=failure,
        )

    # --- leaves -----------------------------------------------------------------------------------

    def _settle(self, attempt: Attempt) -> None:
        attempt.answered = True
        if attempt.over:
            attempt.forget_timers()
        self.running.pop(attempt.task.id, None)
        if not self.running and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def _freed(self, queue: str) -> None:
        self.free[queue] += 1
        if queue in self.backlog:
            self._host.wake()


def _callee_of(activity: Activity[..., Any], places: Mapping[str, Place]) -> tuple[Callee, Place]:
    callee = Callee(activity)
    wanted = activity.defaults.get("executor")
    if callee.is_async and wanted is not None:
        raise UsageError(
            f"activity `{activity.name}` is `async def`, which runs on the event loop: leave executor={wanted!r} out, "
            "or make it a plain `def`"
        )
    place = places["loop" if callee.is_async else wanted or "thread"]
    if isinstance(place, InProcesses):
        check_importable(activity)
    return callee, place
