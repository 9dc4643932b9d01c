"""Cancellation: scopes that workflow code opens, and the order in which a cancelled one is interrupted (M6).

`scope()` and `shielded()` are what workflow code enters; `cancel_scope` sweeps a scope: its open operations and its
paused tasks, unit by unit. kernel.futures raises again at every later pause.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from perdure.kernel.desk import Desk
from perdure.kernel.futures import CancelledError, UnitTask
from perdure.kernel.operations import start_deadline
from perdure.kernel.scopes import Scope


def cancel_scope(desk: Desk, scope: Scope, reason: str = "") -> None:
    """Cancel a scope: mark it, then interrupt what is open and paused in it, in unit order.

    To interrupt one unit may cancel others: a scope of its own, a task that it waits for. What the sweep reaches
    anyway is left to it, so that the order is that of the units whoever waits for whom.
    """
    if scope.cancelled:
        return
    scope.cancelled = True
    scope.reason = reason
    loop = desk.loop
    loop.scopes_cancelled += 1
    outer = loop.sweeping
    if outer is None:
        _sweep(desk, scope)
    elif not scope.is_reached_by(outer):
        loop.sweeping = None
        _sweep(desk, scope)
        loop.sweeping = outer


def _sweep(desk: Desk, scope: Scope) -> None:
    loop = desk.loop
    by_unit: dict[Any, list[Any]] = {}
    for operation in desk.open_operations():
        if operation.scope.is_reached_by(scope) and getattr(operation, "owner", None) is None:
            by_unit.setdefault(operation.unit, []).append(operation)
    loop.sweeping = scope
    try:
        for unit in sorted({**by_unit, **loop.units}, key=lambda unit: unit.key):
            for operation in by_unit.get(unit, ()):
                if not getattr(operation, "is_left_alone", False):
                    operation.cancel()
            for task in list(unit.tasks):
                if task is not loop.task and task.scope.is_reached_by(scope):
                    task.interrupt()
    finally:
        loop.sweeping = None
    desk.mailbox.abandon(scope)


class CancelScope:
    """`async with scope(timeout=…) as region:` a region that is cancelled as one.

    `cancel()` may be called from anywhere in the run. What is inside is interrupted with `CancelledError`, which ends
    at the region's end; a region whose time has run out ends with `TimeoutError`.
    """

    def __init__(self, desk: Desk, timeout_seconds: float | None) -> None:
        self._desk = desk
        self._timeout = timeout_seconds
        self._scope: Scope | None = None
        self._task: UnitTask | None = None
        self._cancels_before = 0
        self._deadline: Any = None
        self._timed_out = False
        self._cancel_early: str | None = None

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled, by call or by its timeout."""
        return self._cancel_early is not None or (self._scope is not None and self._scope.cancelled)

    @property
    def timed_out(self) -> bool:
        """Whether its time ran out."""
        return self._timed_out

    def cancel(self, reason: str = "") -> None:
        """Cancel everything in the region that is not shielded, and whatever pauses in it later."""
        self._desk.acting("scope.cancel")
        if self._scope is None:
            self._cancel_early = reason
        else:
            cancel_scope(self._desk, self._scope, reason)

    async def __aenter__(self) -> Self:
        self._desk.acting("scope")
        if self._scope is not None:
            raise RuntimeError("a scope can be entered once only")
        task = _current_task(self._desk)
        self._task = task
        self._cancels_before = task.cancelling()
        self._scope = task.scope = Scope(task.scope)
        if self._timeout is not None:
            self._deadline = start_deadline(self._desk, self._timeout, self._expire)
        if self._cancel_early is not None:
            cancel_scope(self._desk, self._scope, self._cancel_early)
        return self

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        scope, task = self._scope, self._task
        if scope is None or task is None or scope.parent is None:
            raise RuntimeError("a scope was left that was never entered")
        task.scope = scope.parent
        if self._deadline is not None and not self._desk.loop.closing:
            self._deadline.cancel()
        ours = (
            scope.cancelled
            and isinstance(error, CancelledError)
            and task.cancelling() <= self._cancels_before
            and not scope.parent.interrupted()
        )
        if ours and self._timed_out:
            raise TimeoutError(f"the scope did not end within {self._timeout} s") from error
        return ours

    def _expire(self) -> None:
        if self._scope is not None and not self._scope.cancelled:
            self._timed_out = True
            self._desk.cancel_later(self._scope, "timeout")


class Shield:
    """`async with shielded():` a section that no cancellation from outside interrupts."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._task: UnitTask | None = None

    async def __aenter__(self) -> None:
        self._desk.acting("shielded")
        self._task = _current_task(self._desk)
        self._task.scope = Scope(self._task.scope, shield=True)

    async def __aexit__(self, *_error: object) -> None:
        task = self._task
        if task is not None and task.scope.parent is not None:
            task.scope = task.scope.parent


def _current_task(desk: Desk) -> UnitTask:
    task = desk.loop.task
    if task is None:
        raise desk.violation("a scope can only be entered in a coroutine of the workflow")
    return task
