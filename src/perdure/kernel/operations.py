"""Operations: what a run waits for from outside: activities, timers, children, promises, messages to other runs.

Emitted when they are called (K5), settled by kernel.executor when their answer comes, withdrawn when they are
cancelled. `cancel` emits the cancel command on behalf of the unit that made the call (M6).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from perdure import codec
from perdure.errors import (
    ActivityFailed,
    ChildFailed,
    ExternalFailed,
    Failure,
    InvalidValue,
    OperationFailed,
    PromiseRejected,
)
from perdure.kernel.desk import Desk
from perdure.kernel.futures import AnsweredFuture
from perdure.kernel.scopes import Scope
from perdure.kernel.units import Unit
from perdure.model.commands import Command

CANCEL_KINDS = {
    "schedule_activity": "cancel_activity",
    "start_timer": "cancel_timer",
    "start_child": "cancel_child",
}
ERRORS: dict[str, tuple[type[OperationFailed], str]] = {
    "schedule_activity": (ActivityFailed, "activity"),
    "start_child": (ChildFailed, "child"),
    "signal_external": (ExternalFailed, "signal"),
    "cancel_external": (ExternalFailed, "the cancellation of run"),
    "create_promise": (PromiseRejected, "promise"),
}
NO_DEFAULT: Any = object()
RESULT = "the result"


class Operation(AnsweredFuture):
    """A future of something that was asked of the outside."""

    __slots__ = (
        "_desk",
        "cancel_sent",
        "cancellation",
        "deadline",
        "default",
        "kind",
        "name",
        "reads",
        "scope",
        "seq",
        "settled_as",
        "since_turn",
        "unit",
        "where",
    )

    def __init__(self, desk: Desk, command: Command, unit: Unit, scope: Scope, reads: Any = Any) -> None:
        super().__init__(loop=desk.loop)
        self._desk = desk
        self.cancel_sent = False
        self.kind = command.kind
        self.name = command.name or ""
        self.seq = -1 if command.seq is None else command.seq
        self.unit = unit
        self.scope = scope
        self.reads = reads
        self.since_turn: int = desk.loop.turn
        self.where = command.where
        self.cancellation = "try"
        self.settled_as = 0  # the how-many-th answer of the run it was
        self.deadline: Deadline | None = None
        self.default: Any = NO_DEFAULT

    @property
    def what(self) -> str:
        """What it is, in words."""
        if self.kind == "start_timer":
            return f"timer {self.name} s"
        if self.kind == "signal_external":
            return f"the delivery of signal `{self.name}`"
        return f"{ERRORS[self.kind][1]} `{self.name}`"

    def asked(self) -> Command:
        """The command that asked for it, as far as a report names it."""
        name = None if self.kind == "start_timer" else self.name
        return Command(self.kind, self.unit.text, self.seq, name, where=self.where)

    def cancel(self, msg: Any | None = None) -> bool:
        """Withdraw it: the cancel command goes out, and the await raises (at once, or when the end is known)."""
        self.refuse_outsiders()
        if self.done():
            return False
        if self.cancellation == "abandon" or self.kind not in CANCEL_KINDS:
            self._desk.close_operation(self)
            self._lapse()
        elif not self.cancel_sent:
            self.cancel_sent = True
            self._desk.send_cancel(self, CANCEL_KINDS[self.kind])
            if self.cancellation != "wait":
                self._desk.close_operation(self)
        if self.deadline is not None:
            self.deadline.cancel()
        return True if self.cancellation == "wait" and self.cancel_sent else super().cancel(msg)

    def resolve(self, value: msgspec.Raw) -> None:
        """Its answer has come."""
        try:
            decoded = codec.decode(value, self.reads, RESULT)
        except InvalidValue as error:
            raise InvalidValue(f"{RESULT} of {self.what}{str(error).removeprefix(RESULT)}") from None
        self._settle()
        self.answer(decoded)

    def fail(self, failure: Failure) -> None:
        """Its failure has come."""
        self._settle()
        error, noun = ERRORS.get(self.kind, (OperationFailed, self.kind))
        self.refuse(error(f"{noun} `{self.name}` failed: {failure}", failure))

    def reject(self, message: str) -> None:
        """The outside has rejected the promise that it is."""
        self.fail(Failure("PromiseRejected", message))

    def cancelled_outside(self) -> None:
        """It ended cancelled."""
        self._settle()
        super().cancel()

    def fire(self) -> None:
        """The timer that it is has fired."""
        self._settle()
        self.answer(None)

    def expire(self) -> None:
        """Its time has run out."""
        self._settle()
        self._lapse()
        if self.default is NO_DEFAULT:
            self.refuse(TimeoutError(f"{self.what} was not answered in time"))
        else:
            self.answer(self.default)

    def _lapse(self) -> None:
        """The run goes on without what somebody outside may still want to settle (M4)."""
        if self.kind == "create_promise":
            self._desk.lapsed.append(self.name)

    def _settle(self) -> None:
        self._desk.close_operation(self)
        self.settled_as = self._desk.loop.next_settlement()
        if self.deadline is not None:
            self.deadline.cancel()


class Deadline:
    """A durable timer behind something else: a timeout, or a callback of the loop."""

    __slots__ = ("_call", "_desk", "_open", "owner", "scope", "seconds", "seq", "since_turn", "unit", "where")

    def __init__(
        self, desk: Desk, command: Command, unit: Unit, scope: Scope, call: Callable[[], object], owner: object = None
    ) -> None:
        self._desk = desk
        self._call = call
        self._open = command.seq is not None
        self.owner = owner
        self.seq = -1 if command.seq is None else command.seq
        self.unit = unit
        self.scope = scope
        self.since_turn: int = desk.loop.turn
        self.where = command.where

    @property
    def what(self) -> str:
        """What it is, in words."""
        return "a timeout"

    def asked(self) -> Command:
        """The command that started its timer, as far as a report names it."""
        return Command("start_timer", self.unit.text, self.seq, where=self.where)

    def cancel(self) -> bool:
        """It is not needed any more: cancel the timer, unless it has fired."""
        if not self._open:
            return False
        self._open = False
        self._desk.close_operation(self)
        self._desk.send_cancel(self, "cancel_timer")
        return True

    def fire(self) -> None:
        """The timer has fired."""
        self._open = False
        self._desk.close_operation(self)
        self._call()


def start_deadline(desk: Desk, seconds: float, call: Callable[[], object], owner: object = None) -> Deadline:
    """Start a durable timer that calls `call` when it fires; who owns it cancels it.

    In a cancelled scope none is started: what it would limit raises at its first pause (M6).
    """
    unit = desk.acting("a timer")
    scope = desk.scope()
    refused = desk.loop.scopes_cancelled > 0 and scope.interrupted()
    encoded = codec.encode([rounded(seconds)])
    seq = None if refused else desk.take_seq()
    command = Command("start_timer", unit.text, seq, None, encoded, where=desk.where())
    deadline = Deadline(desk, command, unit, scope, call, owner)
    if not refused:
        desk.emit(command)
        desk.open(deadline)
    return deadline


def rounded(seconds: float) -> float:
    """To the microsecond (K20); a whole number of seconds as an integer."""
    exact = round(seconds, 6)
    return int(exact) if exact == int(exact) else exact
