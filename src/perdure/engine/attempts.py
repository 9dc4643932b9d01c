"""Attempts: one go at one activity (E4).

Made by engine.tasks, who is its `Host`; a `Place` runs it: engine.places, engine.processes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Literal, Protocol

import msgspec

from perdure.clock import moment_of
from perdure.define.performing import ActivityInfo
from perdure.define.transacting import Transaction, Unawaited, not_transactional
from perdure.engine.calling import STOPPED, Callee, Outcome
from perdure.engine.effects import go_of
from perdure.engine.retrying import timed_out
from perdure.stores.port import OpenTransaction, Params
from perdure.stores.records import Task

Why = Literal["cancel", "schedule_to_start", "start_to_close", "schedule_to_close", "heartbeat", "stop", "lost"]
LIMITS = frozenset({"schedule_to_start", "start_to_close", "schedule_to_close", "heartbeat"})
MICROS = 1_000_000
NOTHING_SET: Mapping[str, Any] = {}
read_options = msgspec.json.Decoder(dict[str, Any]).decode


class Attempt:
    """One go at an activity; what it can ask about itself (`performing.Performance`) is answered here.

    It is *answered* when its outcome counts no more, and *over* when its function has really ended: one that ignores
    that it shall stop is answered first. `why` is set, once, when it shall stop.
    """

    __slots__ = (
        "_beat",
        "_beat_is_coming",
        "answered",
        "beat_due_us",
        "begun",
        "callee",
        "close_us",
        "details",
        "effect",
        "heard_us",
        "host",
        "loop",
        "options",
        "over",
        "place",
        "pulse",
        "started_us",
        "task",
        "timer",
        "transacting",
        "unawaited",
        "unsaved",
        "why",
    )

    def __init__(self, task: Task, callee: Callee, place: Place, host: Host, now_us: int) -> None:
        self.task = task
        self.callee = callee
        self.place = place
        self.host = host
        self.loop = asyncio.get_running_loop()
        self.options = NOTHING_SET if task.options == b"{}" else read_options(task.options)
        self.details = task.details
        self.effect: str = callee.activity.defaults.get("effect", "repeatable")
        self.started_us = now_us
        limit = None if callee.asks else self.options.get("schedule_to_close")
        self.close_us: int | None = None if limit is None else task.scheduled_us + round(limit * MICROS)
        self.why: Why | None = None
        self.begun = False  # its function may have been called
        self.answered = False
        self.over = False
        self.timer: asyncio.TimerHandle | None = None  # of its limits; later, of its grace
        self.pulse: asyncio.TimerHandle | None = None  # of its heartbeats
        self.heard_us = now_us  # the last sign of life
        self.unsaved: tuple[bytes | None] | None = None  # a heartbeat that is not written yet
        self.beat_due_us = 0
        self.transacting: OpenTransaction | None = None
        self.unawaited: Unawaited = {}  # statements that nobody has awaited yet
        self._beat: bytes | None = None
        self._beat_is_coming = False

    def __str__(self) -> str:
        return f"attempt {self.task.attempt} of activity `{self.task.name}` of run {self.task.workflow_id}"

    # --- what the activity asks -------------------------------------------------------------------

    @property
    def cancelled(self) -> bool:
        """Whether it shall stop."""
        return self.why is not None

    def is_stopped(self) -> bool:
        """The same, to be passed on."""
        return self.why is not None

    def info(self) -> ActivityInfo:
        """What `activity_info()` gives."""
        task = self.task
        limit = self.first_limit()
        return ActivityInfo(
            self,
            name=task.name,
            attempt=self.go,
            key=task.id,
            run=(task.workflow_id, task.run_id),
            deadline=None if limit is None else moment_of(limit[1]),
        )

    @property
    def go(self) -> int:
        """Which go at the function it is, from 1."""
        return go_of(self.task.attempts) if self.task.attempts else 1

    @property
    def is_transactional(self) -> bool:
        """Whether what it writes and its result are one transaction."""
        return self.effect == "transactional"

    @property
    def why_not_later(self) -> str | None:
        """Where it runs that the outside may not complete it; None if it may."""
        if self.is_transactional:
            return "a transactional activity, whose result is part of its transaction"
        return "a reconcile function, which says what is known" if self.callee.asks else None

    def transaction(self) -> Transaction:
        """What it writes with."""
        if not self.is_transactional:
            raise not_transactional(self.task.name)
        return Transaction(self._execute, self.unawaited if self.callee.is_async else None)

    def _execute(self, sql: str, params: Params) -> Future[list[tuple[Any, ...]]]:
        if self.why is not None or self.answered:
            raise asyncio.CancelledError(f"activity `{self.task.name}` was asked to stop")
        if self.transacting is None:
            self.transacting = self.host.begin_transaction()
        return self.transacting.execute(sql, params)

    def beat(self, details: bytes | None) -> None:
        """A heartbeat, from whatever thread. `CancelledError` if it shall stop."""
        if self.why is not None:
            raise asyncio.CancelledError(f"activity `{self.task.name}` was asked to stop")
        if running_loop_or_none() is self.loop:
            self.host.beat(self, details)
            return
        if details is not None:
            self._beat = details
        if not self._beat_is_coming:  # however often it beats, one is under way at a time
            self._beat_is_coming = True
            call_on(self.loop, self._pass_on)

    def _pass_on(self) -> None:
        self._beat_is_coming = False
        details, self._beat = self._beat, None
        self.host.beat(self, details)

    # --- its limits -------------------------------------------------------------------------------

    def first_limit(self) -> tuple[Why, int] | None:
        """The limit that is over first, and when."""
        seconds = self.options.get("timeout")
        timeout_us = None if seconds is None else self.started_us + round(seconds * MICROS)
        if self.close_us is not None and (timeout_us is None or self.close_us <= timeout_us):
            return "schedule_to_close", self.close_us
        return None if timeout_us is None else ("start_to_close", timeout_us)

    def is_late(self, now_us: int) -> Why | None:
        """Which limit was over before it could begin, if one was."""
        start = self.options.get("schedule_to_start")
        if start is not None and self.task.attempt == 1 and self.task.scheduled_us + round(start * MICROS) <= now_us:
            return "schedule_to_start"
        return "schedule_to_close" if self.close_us is not None and self.close_us <= now_us else None

    def forget_timers(self) -> None:
        """No limit of it counts any more."""
        for timer in (self.timer, self.pulse):
            if timer is not None:
                timer.cancel()
        self.timer = self.pulse = None

    def outcome_of_stop(self) -> Outcome:
        """What it came to, if it ended because it was stopped."""
        if self.why not in LIMITS:
            return STOPPED
        failure = timed_out(self.why, self.options)
        return Outcome(failure=failure, kinds=(failure.type,))


class Place(Protocol):
    """Where activities run. It tells `attempt.host`, on the event loop, that one has ended: once, whatever happens."""

    def perform(self, attempt: Attempt) -> bool:
        """Run it. False: it has to wait, and the host is told when it begins."""
        ...

    def stop(self, attempt: Attempt) -> None:
        """Ask it to stop."""
        ...

    def abandon(self, attempt: Attempt) -> str:
        """It did not stop within its grace: what can be done is done, and said in words for the log."""
        ...

    async def close(self) -> None:
        """Nothing more will come; leave nothing behind that can be ended."""
        ...


class Host(Protocol):
    """Who is told of attempts: engine.tasks."""

    def began(self, attempt: Attempt) -> None:
        """Its function is called now, after it had to wait."""
        ...

    def ended(self, attempt: Attempt, outcome: Outcome) -> None:
        """Its function has ended."""
        ...

    def beat(self, attempt: Attempt, details: bytes | None) -> None:
        """It is alive."""
        ...

    def begin_transaction(self) -> OpenTransaction:
        """A transaction of an attempt begins."""
        ...


def running_loop_or_none() -> asyncio.AbstractEventLoop | None:
    """The event loop of this thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def call_on(loop: asyncio.AbstractEventLoop, call: Any, *arguments: Any) -> None:
    """Have this called on the event loop, unless it is closed: then the worker is gone, and its lease with it."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *arguments)
