"""Phases: a scope with state that messages are dispatched to (M5).

Opened by define.api's `phase`; kernel.messages hands it what its handlers name. Handlers run one after another in
the order of arrival; what they leave to `Later` overlaps and ends with the phase. The first verdict wins.
"""

from __future__ import annotations

import inspect
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

import msgspec

from perdure.errors import Failure, UsageError
from perdure.kernel.cancellation import cancel_scope
from perdure.kernel.desk import Desk
from perdure.kernel.endings import failure_from
from perdure.kernel.futures import CancelledError, Joint, LoopFuture, is_outcome
from perdure.kernel.messages import Letter
from perdure.kernel.operations import start_deadline
from perdure.kernel.program import Handler, read_arguments
from perdure.kernel.scopes import Scope
from perdure.kernel.units import HANDLER, REST, Unit
from perdure.kernel.updates import Update
from perdure.model import jobs

S = TypeVar("S")


class Continue(msgspec.Struct, Generic[S], frozen=True):
    """The phase goes on, with this state."""

    state: S


class Stop(msgspec.Struct, Generic[S], frozen=True):
    """The phase ends, with this state; an update is answered with `reply`."""

    state: S
    reply: Any = None


class Reply(msgspec.Struct, Generic[S], frozen=True):
    """The phase goes on, with this state; the update is answered with `value`."""

    value: Any
    state: S


class Later(msgspec.Struct, Generic[S], frozen=True):
    """The phase goes on, with this state; the coroutine runs beside it, and its value answers the update."""

    coroutine: Coroutine[Any, Any, Any]
    state: S


class PhaseEnd(msgspec.Struct, Generic[S], frozen=True):
    """How a phase ended."""

    state: S
    timed_out: bool


class Gate(LoopFuture):
    """What a handler waits for before it begins."""

    __slots__ = ()
    what = "the handler before it"


@dataclass(slots=True)
class Turnstile:
    """A message that waits until the handler before it is done."""

    gate: Gate
    letter: Letter | None
    update: Update | None


@dataclass(slots=True)
class Phase:
    """One open phase."""

    desk: Desk
    state: Any
    signals: Mapping[str, Handler]
    updates: Mapping[str, Handler]
    timeout: float | None = None
    verdict: str | None = None
    scope: Scope = field(init=False)
    unit: Unit = field(init=False)
    _where: tuple[str, int] | None = None
    _number: int = 0
    _handlers: int = 0
    _running: int = 0
    _busy: bool = False
    _queue: list[Turnstile] = field(default_factory=list[Turnstile])
    _failure: BaseException | None = None
    _deadline: Any = None
    _end: Joint = field(init=False)

    async def run(self) -> PhaseEnd[Any]:
        """Take messages until a verdict, then wait for what still runs."""
        desk = self.desk
        self.unit = desk.acting("phase")
        if desk.phase is not None:
            raise UsageError("a phase is open in this run already: one at a time; wait for its end first")
        # Class handlers are children of the root as well, numbered over the run: keep the phases' apart from them.
        has_class_handlers = bool(desk.program.signals or desk.program.updates) and self.unit is desk.root
        self._number = self.unit.phases + has_class_handlers
        self.unit.phases += 1
        self.scope = Scope(desk.scope())
        self._end = Joint(desk.loop, lambda: self.what, self._stop)
        self._where = desk.where()
        desk.phase = self
        if self.timeout is not None:
            self._deadline = start_deadline(desk, self.timeout, self._expire, owner=self)
        for letter in desk.mailbox.buffered(self.signals):
            desk.rounds.messages.append(lambda letter=letter: self._take_buffered(letter))
        try:
            await self._end
        finally:
            if not desk.loop.closing:
                desk.phase = None
        if self._failure is not None:
            raise self._failure
        return PhaseEnd(self.state, self.verdict == "timeout")

    @property
    def what(self) -> str:
        """What it waits for, in words."""
        names = ", ".join(f"`{name}`" for name in (*self.signals, *self.updates))
        return f"phase: messages {names}" if self.verdict is None else "phase: its handlers to end"

    def takes_signal(self, name: str) -> bool:
        """Whether a signal of that name is for it."""
        return self.verdict is None and name in self.signals

    def takes_update(self, name: str) -> bool:
        """Whether an update of that name is for it."""
        return self.verdict is None and name in self.updates

    def take_signal(self, letter: Letter) -> None:
        """Run the handler of a signal: its first step is now."""
        handler = self.signals[letter.name]
        arguments = read_arguments(handler, letter.encoded, f"signal `{letter.name}`")
        self._spawn(handler, arguments, letter, None)

    def take_update(self, job: jobs.UpdateRequested, arguments: list[Any]) -> None:
        """Run the handler of an update that was validated: its first step is now, and accepts it."""
        self._spawn(self.updates[job.name], arguments, None, job)

    def _take_buffered(self, letter: Letter) -> bool:
        if self.takes_signal(letter.name) and self.desk.mailbox.take(letter):
            self.take_signal(letter)
            return True
        return False

    def _spawn(
        self, handler: Handler, arguments: list[Any], letter: Letter | None, job: jobs.UpdateRequested | None
    ) -> None:
        unit = self.unit.child(HANDLER, self._handlers, self._number)
        unit.where = self._where
        self._handlers += 1
        self._running += 1
        self.desk.loop.spawn_now(self._handle(handler, arguments, letter, job), unit, self.scope)

    async def _handle(
        self, handler: Handler, arguments: list[Any], letter: Letter | None, job: jobs.UpdateRequested | None
    ) -> None:
        unit = self.desk.acting("a phase handler")
        update = None if job is None else self.desk.updates.accept(job, unit)
        try:
            if not await self._admitted(letter, update):
                return
            try:
                outcome = handler.call(self.state, *arguments)
                if inspect.isawaitable(outcome):
                    outcome = await outcome
                self._take_outcome(outcome, unit, update)
            except BaseException as error:  # the verdict, before the next one is admitted
                self._note_error(error, update)
            finally:
                self._admit_next()
        except CancelledError as error:
            self._note_error(error, update)
        finally:
            self._ended_one()

    async def _admitted(self, letter: Letter | None, update: Update | None) -> bool:
        if self._busy:
            gate = Gate(loop=self.desk.loop)
            self._queue.append(Turnstile(gate, letter, update))
            if not await gate:
                return False
        self._busy = True
        return True

    def _admit_next(self) -> None:
        self._busy = False
        if self._queue and not self.desk.loop.closing:
            self._busy = True
            gate = self._queue.pop(0).gate
            if not gate.done():
                gate.set_result(True)

    def _take_outcome(self, outcome: Any, unit: Unit, update: Update | None) -> None:
        if not isinstance(outcome, Continue | Stop | Reply | Later):
            raise UsageError(
                f"a phase handler must return Continue, Stop, Reply or Later, not {type(outcome).__name__}"
            )
        verdict = cast("Continue[Any] | Stop[Any] | Reply[Any] | Later[Any]", outcome)
        self.state = verdict.state
        if isinstance(verdict, Later):
            self._running += 1
            self.desk.loop.spawn(self._rest(verdict.coroutine, update), unit.child(REST, 0), self.scope)
            return
        reply = verdict.reply if isinstance(verdict, Stop) else verdict.value if isinstance(verdict, Reply) else None
        if update is not None:
            self.desk.updates.complete(update, reply)
        if isinstance(verdict, Stop):
            self._close("stop")

    async def _rest(self, coroutine: Coroutine[Any, Any, Any], update: Update | None) -> None:
        try:
            value = await coroutine
        except BaseException as error:
            self._note_error(error, update)
        else:
            if update is not None:
                self.desk.updates.complete(update, value)
        finally:
            self._ended_one()

    def _note_error(self, error: BaseException, update: Update | None) -> None:
        if not is_outcome(self.desk.loop, error):
            raise error
        if update is not None:
            self.desk.updates.fail(update, failure_from(error))
        elif not (isinstance(error, CancelledError) and self.scope.interrupted()):
            self._failure = self._failure or error
            self._close("error")

    def _expire(self) -> None:
        self._close("timeout")
        self._end_if_done()

    def _close(self, verdict: str) -> None:
        """The verdict: nothing more is dispatched. What was not goes back, or is failed."""
        if self.verdict is not None:
            return
        self.verdict = verdict
        if self._deadline is not None:
            self._deadline.cancel()
        undispatched, self._queue = self._queue, []
        for waiting in reversed(undispatched):
            if waiting.letter is not None:
                self.desk.mailbox.put_back(waiting.letter)
        for waiting in undispatched:
            if waiting.update is not None:
                why = Failure("Rejected", f"the phase ended before update `{waiting.update.name}` was dispatched")
                self.desk.updates.fail(waiting.update, why)
            if not waiting.gate.done():
                waiting.gate.set_result(False)

    def _stop(self) -> None:
        """The phase is cancelled from outside: its handlers are, too."""
        self._close("cancelled")
        cancel_scope(self.desk, self.scope)
        self._end_if_done()

    def _ended_one(self) -> None:
        self._running -= 1
        if not self.desk.loop.closing:
            self._end_if_done()

    def _end_if_done(self) -> None:
        if self.verdict is None or self._running or self._end.done():
            return
        if self._end.cancel_requested:
            self._end.end_cancelled()
        else:
            self._end.set_result(None)
