"""Tasks: the activities that run on this worker, within the limits of their queues and their time (E4).

In:  tasks from engine.worker, claimed in a turn's commit or from the store.
Out: engine.places and engine.processes run them; answers and retries go to the worker, heartbeats to engine.beats.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping, Sequence
from typing import Any

from perdure.clock import Clock
from perdure.define.activity import Activity
from perdure.define.registry import Registry
from perdure.engine.attempts import LIMITS, MICROS, Attempt, Place, Why
from perdure.engine.beats import Beats
from perdure.engine.calling import Callee, Outcome
from perdure.engine.concluding import Concluding, TaskHost
from perdure.engine.effects import asks_of, is_given_out, limit_of_later
from perdure.engine.processes import InProcesses, check_importable
from perdure.engine.retrying import PUT_OFF, seconds_after_deaths
from perdure.engine.settings import Settings
from perdure.errors import UsageError
from perdure.stores.port import OpenTransaction, TaskStore, TransactionStore
from perdure.stores.records import NEVER_US, Report, Task
from perdure.stores.records import Attempt as AttemptRecord

logger = logging.getLogger("perdure.engine")
TRANSACTION_SHARE = 1 / 3  # of the lease, which cannot be renewed meanwhile
STOP_SECONDS = 0.1  # at the end, what was asked to stop has that long


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
        self._host = host
        self._places = places
        _refuse_transactions(registry.activities, store)
        self._known = {name: Known(activity, places) for name, activity in registry.activities.items()}
        self._names = list(self._known)
        self._beats = Beats(store, host.owner, settings.beat_seconds, self._stop)
        self._concluding = Concluding(host, clock, rng, self._beats, settings.payload_bytes_max)
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
        if free <= 0 or self._stopping or queue in self.backlog or name not in self._known:
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
        due_us = await self._store.get_next_due(waiting) if waiting else None
        self.next_due_us = None if due_us == NEVER_US else due_us

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
        report = Report(
            run=task.run, id=task.id, owner=self._host.owner(), attempt=record, retry_us=retry_us, counts=False
        )
        self._host.retried(task, report)
        self._freed(task.queue)
        return True

    # --- attempts ---------------------------------------------------------------------------------

    def start(self, task: Task) -> None:
        """Run a task that is claimed, and has its slot."""
        known = self._known[task.name]
        if task.attempts and known.asks_about(task):
            if known.asking is None:
                self._concluding.nobody_to_ask(task)
                self._freed(task.queue)
                return
            callee, place = known.asking
        else:
            callee, place = known.calling
        attempt = Attempt(task, callee, place, self, self._clock.now_us())
        self.running[task.id] = attempt
        if attempt.options and (late := self._late(attempt)):
            attempt.why = late
            self.ended(attempt, attempt.outcome_of_stop())
        elif place.perform(attempt):
            if attempt.options:
                self._watch(attempt)
        elif attempt.close_us is not None:
            self._limit(attempt, "schedule_to_close", attempt.close_us)

    def _late(self, attempt: Attempt) -> Why | None:
        """Which limit was over before it could begin, or while the outside had it."""
        if not is_given_out(attempt.task.attempts):
            return None if attempt.callee.asks else attempt.is_late(attempt.started_us)
        attempt.begun = True
        given_out = attempt.task.attempts[-1]
        limit = limit_of_later(attempt.options, attempt.task.scheduled_us, given_out)
        return None if limit is None else limit[0]

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

    def begin_transaction(self) -> OpenTransaction:
        """A transaction of an attempt begins, as soon as nobody else writes."""
        assert isinstance(self._store, TransactionStore)
        return self._store.begin_transaction(self._settings.lease_seconds * TRANSACTION_SHARE)

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
            if attempt.transacting is not None:
                attempt.transacting.roll_back()  # so that the lease can be handed back
        self._stopped = True
        if self._concluding.saving:
            await asyncio.wait(self._concluding.saving)
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
        if why == "lost" or (
            why in LIMITS and attempt.effect != "ask" and not self._concluding.may_be_retried(attempt)
        ):
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

    def _answer(self, attempt: Attempt, outcome: Outcome) -> None:
        """Settle it, and say what it came to."""
        self._settle(attempt)
        self._concluding.conclude(attempt, outcome, stopping=self._stopping)

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


class Known:
    """An activity that this worker knows: how its function is called and where, and the one that says what became."""

    def __init__(self, activity: Activity[..., Any], places: Mapping[str, Place]) -> None:
        self._is_asked = activity.defaults.get("effect") == "ask"
        self.calling = _callee_of(activity, places)
        self.asking: tuple[Callee, Place] | None = None
        if activity.reconciler is not None:
            asking = Callee(activity, activity.reconciler)
            self.asking = asking, places["loop" if asking.is_async else "thread"]

    def asks_about(self, task: Task) -> bool:
        """Whether it is in question what became of it."""
        return self._is_asked and asks_of(task.attempts) is not None


def _refuse_transactions(activities: Mapping[str, Activity[..., Any]], store: TaskStore) -> None:
    for activity in activities.values():
        if activity.defaults.get("effect") != "transactional":
            continue
        if not isinstance(store, TransactionStore):
            raise UsageError(
                f'activity `{activity.name}` has effect="transactional", and this store has no transactions for it: '
                'open the engine on a file, such as "sqlite:///app.db"'
            )
        if activity.defaults.get("executor") == "process":
            raise UsageError(
                f'activity `{activity.name}` has effect="transactional" and executor="process": another process cannot '
                "be part of a transaction here. Leave the executor out"
            )


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
