"""Concluding: what an attempt has come to becomes an answer for its run, another attempt, or a question (E4, E5).

In:  engine.tasks, once for each attempt.
Out: its host, which tells the run or the store; heartbeats that are not written yet go before.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Coroutine
from typing import Any, Protocol

import msgspec

from perdure.clock import Clock
from perdure.engine.attempts import LIMITS, MICROS, Attempt
from perdure.engine.beats import Beats
from perdure.engine.calling import Outcome, outcome_of_error
from perdure.engine.effects import (
    LATER,
    NOT_HAPPENED,
    NOT_KNOWN,
    UNCERTAIN,
    asks_of,
    limit_of_later,
    seconds_to_ask_again,
)
from perdure.engine.retrying import PUT_OFF, RetryRule, backoff, rule_of, seconds_to_wait
from perdure.engine.settings import over_limit
from perdure.errors import Failure, PerdureError, UsageError
from perdure.model import jobs
from perdure.stores.port import OpenTransaction
from perdure.stores.records import NEVER_US, Report, Task
from perdure.stores.records import Attempt as AttemptRecord

logger = logging.getLogger("perdure.engine")
HANDED_BACK = RetryRule()
NOT_COMMITTED = LIMITS | {"lost"}
write = msgspec.json.Encoder().encode


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

    def taken(self, task: Task) -> None:
        """A task is done, and its answer is in the store already."""
        ...

    def wake(self) -> None:
        """There is something to claim."""
        ...


class Concluding:
    """What attempts come to, on one worker."""

    def __init__(self, host: TaskHost, clock: Clock, rng: random.Random, beats: Beats, payload_bytes_max: int) -> None:
        self._host = host
        self._clock = clock
        self._rng = rng
        self._beats = beats
        self._payload_bytes_max = payload_bytes_max
        self.saving: set[asyncio.Task[None]] = set()

    def conclude(self, attempt: Attempt, outcome: Outcome, *, stopping: bool) -> None:
        """Say what it came to; one that was handed over or lost says nothing."""
        why = attempt.why
        outcome = self._sized(attempt, outcome)
        if attempt.transacting is not None:
            if outcome.value is not None and why not in NOT_COMMITTED:
                self._later(attempt, self._commit(attempt, attempt.transacting, outcome))
                return
            attempt.transacting.roll_back()
        if why == "lost":
            return
        if why == "stop" and outcome.value is None and outcome.word is None:
            if not stopping:
                self._hand_back(attempt)
            elif attempt.effect == "ask" and not attempt.begun:  # handed over with the lease, it would be uncertain
                record = self._record(attempt, PUT_OFF)
                self._free(attempt, record, record.ended_us)
        elif attempt.callee.asks:
            self._conclude_question(attempt, outcome)
        elif attempt.effect == "ask" and attempt.begun and outcome.word != "later":
            self._conclude_ask(attempt, outcome)
        elif why in LIMITS:
            self._fail(attempt, attempt.outcome_of_stop())
        elif outcome.word == "later" and why != "cancel":
            self._give_out(attempt)
        else:
            self._take(attempt, outcome)

    def may_be_retried(self, attempt: Attempt) -> bool:
        """Whether there may be another attempt after one that a limit has ended."""
        outcome = attempt.outcome_of_stop()
        return self._retry_us(attempt, outcome, self._clock.now_us(), 0) is not None

    def nobody_to_ask(self, task: Task) -> None:
        """Whether it happened is not known, and no function here says so: a person decides."""
        now_us = self._clock.now_us()
        text = f"its worker ended while it ran, and activity `{task.name}` has no reconcile function"
        record = AttemptRecord(
            attempt=task.attempt,
            worker=self._host.name,
            started_us=now_us,
            ended_us=now_us,
            outcome=NOT_KNOWN,
            failure=Failure("OutcomeUnknown", text),
        )
        self._say_who_decides(task)
        report = Report(
            run=task.run, id=task.id, owner=self._host.owner(), attempt=record, retry_us=NEVER_US, counts=False
        )
        self._host.retried(task, report)

    # --- what an attempt may come to --------------------------------------------------------------

    def _take(self, attempt: Attempt, outcome: Outcome) -> None:
        task = attempt.task
        if outcome.value is not None:
            self._host.answered(task, jobs.Resolved(task.seq, outcome.value), self._record(attempt, "completed"))
        elif outcome.failure is None:
            self._host.answered(task, jobs.Cancelled(task.seq), self._record(attempt, "cancelled"))
        else:
            self._fail(attempt, outcome)

    def _fail(self, attempt: Attempt, outcome: Outcome, called: str = "failed") -> None:
        """It failed: it is tried again, or the run is told."""
        failure = outcome.failure
        assert failure is not None
        record = self._record(attempt, "timed_out" if failure.type == "Timeout" else called, failure)
        retry_us = self._retry_us(attempt, outcome, record.ended_us, self._rng.random())
        if retry_us is None:
            task = attempt.task
            self._host.answered(task, jobs.Failed(task.seq, failure), record)
        else:
            self._free(attempt, record, retry_us, counts=True)

    async def _commit(self, attempt: Attempt, transaction: OpenTransaction, outcome: Outcome) -> None:
        """What it wrote, and its result: durable together, or its failure."""
        task = attempt.task
        assert outcome.value is not None
        try:
            if attempt.unawaited:
                statement = next(iter(attempt.unawaited.values()))
                raise UsageError(f"`{statement}` was not awaited: in an `async def`, write `await …execute(…)`")
            job = write(jobs.Resolved(task.seq, outcome.value))
            record = self._record(attempt, "completed")
            report = Report(run=task.run, id=task.id, owner=self._host.owner(), attempt=record, job=job)
            is_ours = await asyncio.wrap_future(transaction.commit(report))
        except PerdureError as error:
            transaction.roll_back()
            self._fail(attempt, outcome_of_error(task.name, error, is_stopped=False))
            return
        if is_ours:
            self._host.taken(task)
        else:
            logger.warning("%s is not this worker's any more: nothing of its transaction was written", attempt)

    def _give_out(self, attempt: Attempt) -> None:
        """Its function has returned, and the outside completes it, or the limit that is over first."""
        record = self._record(attempt, LATER)
        limit = limit_of_later(attempt.options, attempt.task.scheduled_us, record)
        self._free(attempt, record, NEVER_US if limit is None else limit[1])

    def _hand_back(self, attempt: Attempt) -> None:
        """Its task was cancelled by somebody else, as when a loop shuts down: that is no failure of the activity."""
        record = self._record(attempt, "cancelled")
        wait = backoff(HANDED_BACK.initial, HANDED_BACK.factor, HANDED_BACK.maximum, attempt.task.attempt)
        self._free(attempt, record, record.ended_us + round(wait * MICROS))

    # --- effect="ask" -----------------------------------------------------------------------------

    def _sized(self, attempt: Attempt, outcome: Outcome) -> Outcome:
        """A value over the limit is a failure that no retry mends."""
        if outcome.value is None or len(outcome.value) <= self._payload_bytes_max:
            return outcome
        what = f"the result of activity `{attempt.task.name}`"
        text = over_limit(len(outcome.value), self._payload_bytes_max, what)
        return Outcome(failure=Failure("InvalidValue", text, retryable=False), kinds=("InvalidValue",))

    def _conclude_ask(self, attempt: Attempt, outcome: Outcome) -> None:
        """Only a value and its author's word are certain, also where it was asked to stop meanwhile."""
        if outcome.value is not None or outcome.word is not None or attempt.why == "cancel":
            self._take(attempt, outcome)
            return
        failure = attempt.outcome_of_stop().failure if attempt.why in LIMITS else outcome.failure
        record = self._record(attempt, UNCERTAIN, failure)
        has_answer = attempt.callee.activity.reconciler is not None
        if not has_answer:
            self._say_who_decides(attempt.task)
        self._free(attempt, record, record.ended_us if has_answer else NEVER_US)

    def _conclude_question(self, attempt: Attempt, outcome: Outcome) -> None:
        """It was asked whether it happened: yes, with this value; no, by its author's word; or still nobody knows."""
        task = attempt.task
        if outcome.word in ("not_applied", "transient") and outcome.failure is not None:
            self._fail(attempt, outcome, NOT_HAPPENED)
            return
        if outcome.value is not None or attempt.why == "cancel":
            self._take(attempt, outcome)
            return
        failure = attempt.outcome_of_stop().failure if attempt.why in LIMITS else outcome.failure
        record = self._record(attempt, NOT_KNOWN, failure)
        wait = seconds_to_ask_again((asks_of(task.attempts) or 0) + 1)
        if wait is None:
            self._say_who_decides(task)
        self._free(attempt, record, NEVER_US if wait is None else record.ended_us + round(wait * MICROS))

    def _say_who_decides(self, task: Task) -> None:
        logger.error(
            "activity `%s` of run %s: whether it happened is not known, and a person has to say so: "
            "`perdure resolve %s %s happened`, or did_not_happen, or fail",
            task.name,
            task.workflow_id,
            task.workflow_id,
            task.id,
        )

    # --- leaves -----------------------------------------------------------------------------------

    def _free(self, attempt: Attempt, record: AttemptRecord, due_us: int, *, counts: bool = False) -> None:
        task, owner = attempt.task, self._host.owner()
        report = Report(run=task.run, id=task.id, owner=owner, attempt=record, retry_us=due_us, counts=counts)
        if attempt.unsaved is None:
            self._host.retried(task, report)
        else:  # the next attempt finds what this one said last
            self._later(attempt, self._save_and_free(attempt, report))

    def _later(self, attempt: Attempt, work: Coroutine[Any, Any, None]) -> None:
        saving = attempt.loop.create_task(work)
        self.saving.add(saving)
        saving.add_done_callback(self.saving.discard)

    async def _save_and_free(self, attempt: Attempt, report: Report) -> None:
        await self._beats.save([attempt])
        self._host.retried(attempt.task, report)

    def _retry_us(self, attempt: Attempt, outcome: Outcome, now_us: int, draw: float) -> int | None:
        """When a failed attempt is tried again; None: never."""
        assert outcome.failure is not None
        if attempt.why == "cancel":
            return None
        failures = attempt.task.failures + 1
        wait = seconds_to_wait(rule_of(attempt.options), failures, outcome.failure, outcome.kinds, draw)
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
