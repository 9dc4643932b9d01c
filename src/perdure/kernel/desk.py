"""The desk: what the parts of the kernel ask of kernel.executor, so that none of them has to import it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Protocol

import msgspec

from perdure.errors import SchedulerViolation
from perdure.kernel.loop import WorkflowLoop
from perdure.kernel.program import Program
from perdure.kernel.scopes import Scope
from perdure.kernel.units import Unit
from perdure.model.commands import Command
from perdure.model.turns import Answered


class Open(Protocol):
    """Anything that stands open until it is answered or cancelled."""

    seq: int
    unit: Unit
    scope: Scope
    since_turn: int
    where: tuple[str, int] | None

    @property
    def what(self) -> str: ...
    def cancel(self) -> object: ...


class Desk(Protocol):
    """One run's executor, as its parts see it."""

    loop: WorkflowLoop
    program: Program
    identity: Any
    instance: Any
    root: Unit
    root_scope: Scope
    turn: int
    now: datetime
    dropped: int
    matcher: Any
    rounds: Any
    mailbox: Any
    phase: Any
    state: dict[str, msgspec.Raw]
    conditions: list[Any]
    answers: list[Answered]

    def acting(self, call: str, *, emits: bool = True) -> Unit:
        """The unit that has the step; a violation if there is none, or if it may not make this call now."""
        ...

    def where(self) -> tuple[str, int] | None: ...
    def violation(self, text: str) -> SchedulerViolation: ...
    def emit(self, command: Command) -> None: ...
    def take_seq(self) -> int: ...
    def open(self, operation: Any) -> None: ...
    def close_operation(self, operation: Any) -> None: ...
    def open_operations(self) -> Iterable[Any]: ...
    def send_cancel(self, operation: Any, kind: str) -> None: ...
    def next_settlement(self) -> int: ...
    def scope(self) -> Scope: ...
    def start_deadline(self, seconds: float, call: Callable[[], object], owner: object = None) -> Any: ...
    def cancel_later(self, scope: Scope, reason: str) -> None: ...
    def decide(self, decision: Any) -> None: ...
    def read_only(self, role: str, call: Callable[..., Any], *arguments: Any) -> Any: ...
