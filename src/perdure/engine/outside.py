"""Outside: what the engine cannot say of an activity by itself: its completion by token, a person's word (E4, E5).

In:  engine.client and engine.handles.
Out: the store, as a report on the attempt that stands; whose run is here goes on at once.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from perdure import codec
from perdure.clock import Clock
from perdure.define.outcomes import Transient
from perdure.define.performing import TOKEN_SEPARATOR, refuse_in_transaction
from perdure.engine.calling import storable
from perdure.engine.descriptions import read_record
from perdure.engine.effects import NOT_HAPPENED, OUTSIDE, PERSON, asks_of
from perdure.engine.live import read_job
from perdure.engine.retrying import rule_of, seconds_to_wait
from perdure.engine.settings import check_size
from perdure.errors import AlreadyExists, Failure, InvalidValue, NotFound, RunClosed, StoreUnavailable, UsageError
from perdure.model import jobs
from perdure.model.failures import failure_of
from perdure.model.ids import check_id, operation_id
from perdure.stores.answers import AttemptNotes
from perdure.stores.port import Store
from perdure.stores.records import Attempt, Message, Report, Run, Task

ANSWERS = ("happened", "did_not_happen", "fail")
TRIES = 20  # where the attempt that stands changes all the while
MICROS = 1_000_000
write = msgspec.json.Encoder().encode
read_options = msgspec.json.Decoder(dict[str, object]).decode
read_notes = msgspec.json.Decoder(AttemptNotes).decode
read_ended = msgspec.json.Decoder(jobs.Ended).decode
Job = jobs.Resolved | jobs.Failed


class Outside:
    """Those outside who say what became of activities. `told` is called when the store has it, `written` awaits it.

    `returns` is the type that the activity of this name, run and seq gives, as far as this process knows it.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        rng: random.Random,
        *,
        told: Callable[[], None],
        written: Callable[[Awaitable[Any]], Awaitable[Any]],
        returns: Callable[[str, int, int], Any],
        payload_bytes_max: int,
    ) -> None:
        self._store = store
        self._clock = clock
        self._rng = rng
        self._told = told
        self._written = written
        self._returns = returns
        self._payload_bytes_max = payload_bytes_max

    async def complete_activity(self, token: str, value: object) -> None:
        """Say what an activity came to. The same value again changes nothing."""
        encoded = self._encoded(value)

        def report(task: Task) -> Report:
            self._check_fits(task.name, task.run, task.seq, encoded)
            return self._answer(task, jobs.Resolved(task.seq, encoded), OUTSIDE)

        run_id, key = _read_token(token)
        await self._settle(run_id, key, lambda seq: jobs.Resolved(seq, encoded), report)

    async def fail_activity(self, token: str, error: object) -> None:
        """Say that an activity failed: for good, unless the error is `transient(…)`, which a retry policy is for."""
        failure = _failure(error)

        def report(task: Task) -> Report:
            wait = None
            if isinstance(error, Transient):
                rule, failures = rule_of(read_options(task.options)), task.failures + 1
                wait = seconds_to_wait(rule, failures, failure, (failure.type,), self._rng.random())
            if wait is None:
                return self._answer(task, jobs.Failed(task.seq, failure), OUTSIDE)
            record = self._record(task, OUTSIDE, "failed", failure)
            return Report(
                run=task.run,
                id=task.id,
                owner=task.owner,
                attempt=record,
                retry_us=record.ended_us + round(wait * MICROS),
            )

        run_id, key = _read_token(token)
        await self._settle(run_id, key, lambda seq: jobs.Failed(seq, failure), report)

    async def resolve_activity(self, run: Run, key: str, answer: str, value: object) -> None:
        """A person's word on an `ask` activity of which nobody knows whether it happened (E5)."""
        if answer not in ANSWERS:
            raise InvalidValue(f"the answer is one of {', '.join(ANSWERS)}, not {codec.shown(answer)}")
        if answer == "did_not_happen" and value is not None:
            raise InvalidValue("an activity that did not happen has no value: it runs again, and gives its own")
        encoded = self._encoded(value)
        failure = Failure("Failed", "a person decided that it failed" if value is None else str(value), retryable=False)

        def report(task: Task) -> Report:
            _refuse_certain(task, run)
            if answer == "happened":
                self._check_fits(task.name, task.run, task.seq, encoded)
                return self._answer(task, jobs.Resolved(task.seq, encoded), PERSON)
            if answer == "fail":
                cause = task.attempts[-1].failure if task.attempts else None
                return self._answer(task, jobs.Failed(task.seq, replace(failure, cause=cause)), PERSON)
            record = self._record(task, PERSON, NOT_HAPPENED)
            return Report(
                run=task.run, id=task.id, owner=task.owner, attempt=record, retry_us=record.ended_us, counts=False
            )

        def said(seq: int) -> Job | None:
            if answer == "happened":
                return jobs.Resolved(seq, encoded)
            return jobs.Failed(seq, failure) if answer == "fail" else None

        await self._settle(run.facts.run_id, check_id(key, "the key of an activity"), said, report)

    async def _settle(
        self, run_id: str, key: str, said: Callable[[int], Job | None], report: Callable[[Task], Report]
    ) -> None:
        """Report on the attempt that stands; where none does, see whether the same was said before (E2)."""
        refuse_in_transaction("answering an activity")
        for _ in range(TRIES):
            run, task = await self._store.get_task(run_id, key)
            if task is not None:
                (written,) = await self._written(self._store.report_tasks([report(task)]))
            elif (better := await self._corrected(run, key, said)) is not None:
                written = await self._written(self._store.correct_message(run.number, better))
            else:
                await self._compare(run, key, said)
                return
            if written:
                self._told()
                return
        raise StoreUnavailable(f"activity {key} of run {run_id} changes all the while: nothing was written, try again")

    async def _corrected(self, run: Run, key: str, said: Callable[[int], Job | None]) -> Message | None:
        """Another answer in the place of one from outside that its run cannot read, and is blocked by; None: no such.

        Whoever gave that one could not know the type, and nothing has come of it yet.
        """
        if run.blocked is None or run.blocked.kind != "undecodable":
            return None
        for message in await self._store.list_messages(run.number, run.consumed):
            notes = None if message.notes is None else read_notes(message.notes)
            if notes is None or notes.id != key or notes.attempts[-1].worker not in (OUTSIDE, PERSON):
                continue
            job, last, now_us = said(notes.seq), notes.attempts[-1], self._clock.now_us()
            if job is None or _same(read_ended(message.job), job):
                return None
            if isinstance(job, jobs.Resolved):
                self._check_fits(notes.name, run.number, notes.seq, job.value)
            failure = job.failure if isinstance(job, jobs.Failed) else None
            outcome = "completed" if failure is None else "failed"
            now = replace(last, started_us=now_us, ended_us=now_us, outcome=outcome, failure=failure)
            notes = replace(notes, attempts=(*notes.attempts, now))
            return replace(message, job=write(job), notes=write(notes))
        return None

    async def _compare(self, run: Run, key: str, said: Callable[[int], Job | None]) -> None:
        """It is not open. `NotFound` if it never was, or was cancelled; `AlreadyExists` if it ended otherwise."""
        name = run.facts.workflow_id
        seqs, told = await self._answers_of(run)
        seq = seqs.get(key)
        if seq is None:
            raise NotFound(f"run {name} has no activity {key}; `perdure show {name}` lists those that are open")
        ended = told.get(seq)
        if ended is None and run.status != "running":
            raise RunClosed(f"the run {name} has ended ({run.status}), and activity {key} with it: nothing was written")
        if ended is None or isinstance(ended, jobs.Cancelled):
            raise NotFound(f"run {name} does not wait for activity {key} any more: it was cancelled")
        if not _same(ended, said(seq)):
            raise AlreadyExists(f"activity {key} of run {name} has ended otherwise: {_words(ended)}")

    async def _answers_of(self, run: Run) -> tuple[dict[str, int], dict[int, jobs.Ended]]:
        """The seqs of all activities of a run, by key, and what they came to, as far as they have."""
        identity = uuid.UUID(run.facts.run_id)
        seqs: dict[str, int] = {}
        told: dict[int, jobs.Ended] = {}
        for turn in await self._store.list_turns(run.number):
            record = read_record(turn.record)
            for command in record.commands:
                if command.kind == "schedule_activity" and command.seq is not None:
                    seqs[operation_id(identity, command.seq)] = command.seq
            told |= {each.seq: each for each in record.jobs if isinstance(each, jobs.Ended)}
        if run.status == "running":
            waiting = [read_job(message.job) for message in await self._store.list_messages(run.number, run.consumed)]
            told = {each.seq: each for each in waiting if isinstance(each, jobs.Ended)} | told
        return seqs, told

    def _check_fits(self, name: str, run: int, seq: int, encoded: msgspec.Raw) -> None:
        """`InvalidValue` where its workflow could not read it (K20), as far as this process knows the type."""
        try:
            codec.decode(encoded, self._returns(name, run, seq), f"the value of activity `{name}`")
        except InvalidValue as error:
            raise InvalidValue(f"{error}: give the value that the activity returns. Nothing was written") from None

    def _encoded(self, value: object) -> msgspec.Raw:
        what = "the value of an activity"
        encoded = codec.encode(value, what)
        check_size(len(bytes(encoded)), self._payload_bytes_max, what)
        return encoded

    def _answer(self, task: Task, job: Job, who: str) -> Report:
        failure = job.failure if isinstance(job, jobs.Failed) else None
        record = self._record(task, who, "completed" if failure is None else "failed", failure)
        return Report(run=task.run, id=task.id, owner=task.owner, attempt=record, job=write(job))

    def _record(self, task: Task, who: str, outcome: str, failure: Failure | None = None) -> Attempt:
        now_us = self._clock.now_us()
        return Attempt(
            attempt=task.attempt, worker=who, started_us=now_us, ended_us=now_us, outcome=outcome, failure=failure
        )


def _same(one: jobs.Ended, other: Job | None) -> bool:
    if isinstance(one, jobs.Resolved) and isinstance(other, jobs.Resolved):
        return codec.plain(one.value) == codec.plain(other.value)
    if isinstance(one, jobs.Failed) and isinstance(other, jobs.Failed):
        return (one.failure.type, one.failure.message) == (other.failure.type, other.failure.message)
    return False


def _words(job: Job) -> str:
    return f"it failed: {job.failure}" if isinstance(job, jobs.Failed) else "it has another result"


def _refuse_certain(task: Task, run: Run) -> None:
    if asks_of(task.attempts) is not None and read_options(task.options).get("effect") == "ask":
        return
    about = f"activity {task.id} (`{task.name}`) of run {run.facts.workflow_id}"
    if task.owner is not None:
        raise UsageError(f"{about} is running now: whether it happened is not in question yet. Nothing was written")
    raise UsageError(
        f'{about} waits for no such word: only one with effect="ask" does, and only when its outcome is not known. '
        "Nothing was written"
    )


def _failure(error: object) -> Failure:
    if isinstance(error, Failure):
        return storable(error)
    if isinstance(error, BaseException):
        return storable(failure_of(error, with_traceback=error.__traceback__ is not None))
    if isinstance(error, str):
        return Failure("ApplicationError", error)
    raise InvalidValue(f"an activity fails with an exception, a Failure or text, not {type(error).__name__}")


def _read_token(token: object) -> tuple[str, str]:
    if isinstance(token, str) and token.count(TOKEN_SEPARATOR) == 1:
        run_id, key = token.split(TOKEN_SEPARATOR)
        return check_id(run_id, "a token"), check_id(key, "a token")
    raise InvalidValue(f"{codec.shown(token)} is no token: an activity has its own in activity_info().token")
