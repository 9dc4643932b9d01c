"""Live runs: a run's executor in this worker's memory, with what it was told and no turn has taken yet.

Made by engine.rebuild, driven by engine.worker; engine.turns takes its jobs and reads what it waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Any

import msgspec

from perdure.clock import micros
from perdure.kernel.executor import Executor
from perdure.model import jobs
from perdure.model.commands import Command
from perdure.model.turns import TurnRecord
from perdure.stores.records import Attempt, Message, Run, Task

NO_OPTIONS: Mapping[str, Any] = {}
read_job = msgspec.json.Decoder(jobs.AnyJob).decode


class OpenTask:
    """An activity that the run waits for, as its worker knows it."""

    __slots__ = ("id", "local", "options", "scheduled_us", "seq", "started")

    def __init__(self, id: str, seq: int, options: Mapping[str, Any], scheduled_us: int) -> None:
        self.id = id
        self.seq = seq
        self.options = options
        self.scheduled_us = scheduled_us
        self.started = False  # as far as is known here
        self.local = False  # this worker runs it

    def limits_us(self) -> list[int]:
        """When its schedule-to-start and schedule-to-close limits are over, as far as they count.

        Of an `ask` activity they count only for who runs it: nobody else knows whether it has begun (E5).
        """
        if not self.options or self.options.get("effect") == "ask":
            return []
        limits = [
            self.options.get("schedule_to_close"),
            None if self.started else self.options.get("schedule_to_start"),
        ]
        return [self.scheduled_us + round(limit * 1_000_000) for limit in limits if limit is not None]

    def which_limit(self, now_us: int) -> str:
        """The name of the limit that is over."""
        close = self.options.get("schedule_to_close")
        over = close is not None and self.scheduled_us + round(close * 1_000_000) <= now_us
        return "schedule_to_close" if over else "schedule_to_start"


class LocalAnswer:
    """What an activity of this worker came to, on its way straight into the run's next turn."""

    __slots__ = ("attempt", "job", "task")

    def __init__(self, task: Task, job: jobs.Ended, attempt: Attempt) -> None:
        self.task = task
        self.job = job
        self.attempt = attempt


class Live:
    """A run in memory. It is owned while the store says so; a parked one is only a cached copy."""

    __slots__ = (
        "_committed",
        "agenda",
        "answers",
        "blocked_tries",
        "called",
        "checksum",
        "children",
        "committing",
        "deadline_us",
        "ended",
        "executor",
        "expected_us",
        "has_children",
        "lapsed",
        "last_turn",
        "local",
        "messages",
        "number",
        "owned",
        "queued",
        "reclaimed",
        "run",
        "taken",
        "tasks",
        "timers",
    )

    def __init__(self, run: Run, executor: Executor) -> None:
        self.run = run
        self.number = run.number
        self.executor = executor
        self.last_turn = -1
        self.checksum = b""
        self.taken = 0  # messages that were handed to it, by their numbers
        self.messages: list[Message] = []
        self.answers: list[LocalAnswer] = []
        self.timers: dict[int, int] = {}
        self.agenda: list[tuple[int, int]] = []  # a heap of moments and seqs; what is over stays until it is reached
        self.expected_us: int | None = None  # when the worker's pump will look at it
        self.tasks: dict[int, OpenTask] = {}
        self.children: dict[int, str] = {}  # the workflow ids of those that have not ended, by seq
        self.lapsed: tuple[str, ...] = ()  # the promises that it has stopped to wait for in its last turn
        self.has_children = run.facts.generation > 0  # or may have had some
        self.called: dict[int, Mapping[str, Any]] = {}  # what the definitions of those set that the last turn started
        self.local = 0  # activities that this worker runs for it
        self.owned = False
        self.queued = False
        self.reclaimed = False  # claimed again while the commit that parks it was under way
        self.ended = False
        self.committing = False  # a turn of it
        self._committed: asyncio.Future[None] | None = None  # if somebody waits for that
        self.deadline_us = run.facts.deadline_us
        self.blocked_tries = run.blocked.tries if run.blocked else 0

    @property
    def consumed(self) -> int:
        """The messages that its turns have taken."""
        return self.taken - len(self.messages)

    async def until_committed(self) -> None:
        """Wait until the turn is durable that is being committed."""
        if self._committed is None:
            self._committed = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._committed])

    def is_committed(self) -> None:
        """It is durable, or was refused."""
        self.committing = False
        waited_for, self._committed = self._committed, None
        if waited_for is not None:
            waited_for.set_result(None)

    def wake_us(self) -> int | None:
        """When it has something to do, whatever else happens."""
        agenda = self.agenda
        while agenda and not self._counts(*agenda[0]):
            heappop(agenda)
        if not agenda:
            return self.deadline_us
        return agenda[0][0] if self.deadline_us is None else min(agenda[0][0], self.deadline_us)

    def has_work(self, now_us: int) -> bool:
        """Whether a turn has something to take."""
        if self.messages or self.answers or self.last_turn < 0:
            return True
        wake_us = self.wake_us()
        return wake_us is not None and wake_us <= now_us

    def take_due(self, now_us: int) -> list[int]:
        """The seqs of timers and of limits of activities that are over, in the order of their moments."""
        due: dict[int, None] = {}  # once each, in order
        agenda = self.agenda
        while agenda and agenda[0][0] <= now_us:
            moment, seq = heappop(agenda)
            if self._counts(moment, seq):
                due[seq] = None
        return list(due)

    def _counts(self, moment: int, seq: int) -> bool:
        if seq in self.timers:
            return True
        task = self.tasks.get(seq)
        return task is not None and moment in task.limits_us()

    def follow(self, record: TurnRecord) -> None:
        """Keep track of what is open after a turn."""
        if record.jobs:
            for job in record.jobs:
                if isinstance(job, jobs.Fired):
                    self.timers.pop(job.seq, None)
                elif isinstance(job, jobs.ENDS):
                    self._close_task(job.seq)
                    self.children.pop(job.seq, None)
        now_us = None
        self.called = {}
        for command in record.commands:
            kind = command.kind
            if kind == "schedule_activity":
                now_us = micros(record.now) if now_us is None else now_us
                self._open_task(command, now_us)
            elif kind == "start_timer":
                now_us = micros(record.now) if now_us is None else now_us
                moment, seq = now_us + round(command.input[0] * 1_000_000), _seq(command)
                self.timers[seq] = moment
                heappush(self.agenda, (moment, seq))
            elif kind == "start_child":
                seq = _seq(command)
                self.has_children = True
                self.children[seq] = command.options.get("id") or self.executor.operation_id(seq)
                self.called[seq] = (self.executor.defaults or {}).get(seq, NO_OPTIONS)
            elif kind == "cancel_timer":
                self.timers.pop(_seq(command), None)
            elif kind == "cancel_activity":
                task = self.tasks.get(_seq(command))
                if task is not None and task.options.get("cancellation") != "wait":
                    self._close_task(task.seq)
        self.lapsed = self._lapsed_in(record) if self.executor.lapsed else ()
        if self.executor.defaults:
            self.executor.defaults.clear()

    def _lapsed_in(self, record: TurnRecord) -> tuple[str, ...]:
        """The promises that it does not wait for any more, and that nobody has settled (M4)."""
        known = self.executor.promises
        settled = {job.name for job in record.jobs if isinstance(job, jobs.PromiseResolved | jobs.PromiseRejected)}
        gone = {name for name in self.executor.lapsed if (promise := known.get(name)) is None or promise.done()}
        return tuple(sorted(gone - settled))

    def _close_task(self, seq: int) -> None:
        task = self.tasks.pop(seq, None)
        if task is not None and task.local:  # whatever still runs of it is not waited for
            task.local = False
            self.local -= 1

    def _open_task(self, command: Command, now_us: int) -> None:
        seq = _seq(command)
        defaults = (self.executor.defaults or {}).get(seq, NO_OPTIONS)
        options = {**defaults, **command.options} if command.options else defaults
        self.tasks[seq] = task = OpenTask(self.executor.operation_id(seq), seq, options, now_us)
        for moment in task.limits_us():
            heappush(self.agenda, (moment, seq))


def _seq(command: Command) -> int:
    assert command.seq is not None
    return command.seq
