"""The desk: one run's live state, and what the parts of the kernel ask of it (K5, K7, K14).

kernel.executor is a desk that runs turns; operations, messages, branches and phases know the desk only, so that none
of them has to import it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec

from perdure.errors import InvalidValue, SchedulerViolation
from perdure.kernel.callsite import caller
from perdure.kernel.innards import runs_eagerly
from perdure.kernel.loop import FOREIGN_TASK, WorkflowLoop
from perdure.kernel.matching import Strict
from perdure.kernel.program import Program
from perdure.kernel.rounds import Rounds
from perdure.kernel.scopes import Scope
from perdure.kernel.units import UNIT, Unit, root_unit
from perdure.model.commands import Command
from perdure.model.turns import Answered

BEFORE_ALL = datetime.min.replace(tzinfo=UTC)


class Open(Protocol):
    """Anything that stands open until it is answered or cancelled; its seq is -1 where no command asked for it."""

    seq: int
    unit: Unit
    scope: Scope
    since_turn: int
    where: tuple[str, int] | None

    @property
    def what(self) -> str: ...
    def cancel(self) -> object: ...


class Desk:
    """One run's live state."""

    __slots__ = (
        "_cancels",
        "_next_seq",
        "_open",
        "_waiting",
        "answers",
        "commands",
        "conditions",
        "decision",
        "dropped",
        "identity",
        "instance",
        "lapsed",
        "loop",
        "mailbox",
        "matcher",
        "now",
        "phase",
        "program",
        "reading",
        "root",
        "root_scope",
        "root_task",
        "rounds",
        "spoiled",
        "state",
        "turn",
        "updates",
    )

    # What only modules above this one know the type of.
    mailbox: Any
    updates: Any
    phase: Any
    decision: Any
    identity: Any

    def __init__(self, program: Program, identity: Any, matcher: Strict, loop: WorkflowLoop) -> None:
        self.program = program
        self.identity = identity
        self.matcher = matcher
        self.loop = loop
        self.rounds = Rounds(loop)
        self.root = root_unit()
        self.root_scope = Scope(None)
        self.root_task: Any = None
        self.instance: Any = None
        self.phase = None
        self.decision = None
        self.state: dict[str, msgspec.Raw] = {}
        self.conditions: list[Any] = []
        self.now = BEFORE_ALL
        self.turn: int = 0
        self.dropped: int = 0
        self.commands: list[Command] = []
        self.lapsed: list[str] = []  # promises that this turn has stopped to wait for
        self.answers: list[Answered] = []
        self.reading: str | None = None
        self.spoiled = False  # a query has changed this copy of the run
        self._next_seq = 0
        self._open: dict[int, Any] = {}
        self._waiting: dict[int, Open] = {}
        self._cancels: list[tuple[Scope, str]] = []

    # --- who may act ------------------------------------------------------------------------------

    def acting(self, call: str, *, emits: bool = True) -> Unit:
        """The unit that has the step. A violation if none has, or if this call may not be made from here (K14)."""
        unit = self.loop.stepping
        if self.reading is not None:  # a query is one also where the run has ended, and is closed (M3)
            if not emits and self.reading != "an update_state function":
                return unit or self.root
            raise self.violation(
                f"{call}() was called from {self.reading}, which may only read. Nothing was emitted. "
                "Make the call in the workflow's own code"
            )
        if self.loop.closing:
            raise SchedulerViolation(f"{call}() was refused: the run is being closed, and what it does now is lost")
        if unit is None:
            raise self.violation(f"{call}() was called while no unit has the step")
        if UNIT.get(None) is not unit:
            raise self.violation(
                f"{call}() was called out of turn: it belongs to unit {UNIT.get(None)}, and unit {unit} has the step"
            )
        if runs_eagerly(self.loop, self.loop.task):
            raise self.violation(f"{call}() was called out of turn: {FOREIGN_TASK}")
        return unit

    def read_only(self, role: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call a predicate, a validator, a query or an `update_state` function: it may look and not act, nor wait."""
        outer, self.reading = self.reading, role
        try:
            outcome = call(*arguments)
        finally:
            self.reading = outer
        if hasattr(outcome, "__await__"):
            if hasattr(outcome, "close"):
                outcome.close()
            raise InvalidValue(
                f"{role} must be a plain function: it answers at once, and nobody awaits what it returns"
            )
        return outcome

    def violation(self, text: str) -> SchedulerViolation:
        """A violation that fails the turn even if workflow code swallows it; in a query it fails the query only."""
        where = self.where()
        error = SchedulerViolation(f"{text} (at {where[0]}:{where[1]})" if where else text)
        if self.reading != "a query":
            self.loop.violate(error)
        return error

    def where(self, skip: int = 0) -> tuple[str, int] | None:
        """The line of workflow code that runs now; where there is none, the line that made its unit.

        `skip`: so many callers are not the workflow's.
        """
        line = caller(self.loop.own_code, 1 + skip)
        unit = self.loop.stepping
        return line if line is not None or unit is None else unit.where

    def scope(self) -> Scope:
        """The scope of the code that runs now."""
        return self.root_scope if self.loop.task is None else self.loop.task.scope

    # --- what a turn decides --------------------------------------------------------------------

    def emit(self, command: Command) -> None:
        """Add a command to the turn; against a record, it must be the recorded one."""
        if self.matcher.replaying:
            self.matcher.meet(command, self.commands, self.decision.error if self.decision else None)
        self.commands.append(command)

    def take_seq(self) -> int:
        """The next number of the run's one counter (K7)."""
        seq = self._next_seq
        self._next_seq = seq + 1
        return seq

    def send_cancel(self, operation: Open, kind: str) -> None:
        """Emit the command that cancels an operation, for the unit that asked for it."""
        if not self.loop.closing:
            self.emit(Command(kind, operation.unit.text, operation.seq, where=self.where() or operation.where))

    def cancel_later(self, scope: Scope, reason: str) -> None:
        """Cancel a scope once all answers of this turn are applied, so that they are delivered first (K17)."""
        self._cancels.append((scope, reason))

    # --- what stands open -----------------------------------------------------------------------

    def open(self, operation: Open) -> None:
        """Something waits for an answer from now on."""
        if operation.seq >= 0:
            self._open[operation.seq] = operation
        else:
            self._waiting[id(operation)] = operation

    def close_operation(self, operation: Open) -> None:
        """It does not wait any more."""
        if operation.seq >= 0:
            self._open.pop(operation.seq, None)
        else:
            self._waiting.pop(id(operation), None)

    def open_operations(self) -> Iterable[Open]:
        """All that waits, in the order in which it began to."""
        return [*self._open.values(), *self._waiting.values()]
