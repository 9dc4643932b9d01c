"""Entries: what stands in a unit's queue beside its tasks: callbacks, delayed ones, and the news that a branch ended.

kernel.loop queues and runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any, Protocol

from perdure.kernel.units import Unit


class DelayLoop(Protocol):
    """What a delayed callback asks of kernel.loop."""

    def cancel_delay(self, handle: DelayHandle) -> None: ...


class Callback:
    """A plain callback in a unit's queue."""

    __slots__ = ("_cancelled", "args", "call", "context")

    def __init__(self, call: Callable[..., object], args: tuple[Any, ...], context: Context) -> None:
        self.call = call
        self.args = args
        self.context = context
        self._cancelled = False

    def cancel(self) -> None:
        """Do not run it."""
        self._cancelled = True

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._cancelled

    def run(self) -> None:
        """Run it in its context, unless it was cancelled."""
        if not self._cancelled:
            self.context.run(self.call, *self.args)


class DelayHandle(Callback):
    """A callback that a durable timer releases (`call_later`, `asyncio.sleep`, `asyncio.timeout`)."""

    __slots__ = ("_when", "fired", "loop", "seq", "since_turn", "unit", "where")

    def __init__(
        self, loop: DelayLoop, when: float, call: Callable[..., object], args: tuple[Any, ...], context: Context
    ) -> None:
        super().__init__(call, args, context)
        self.loop = loop
        self._when = when
        self.fired = False
        self.seq = -1

    def when(self) -> float:
        """When it runs, in the loop's seconds."""
        return self._when

    def cancel(self) -> None:
        """Do not run it: cancel the durable timer, or what it has released already."""
        if not self._cancelled:
            self._cancelled = True
            if not self.fired:
                self.loop.cancel_delay(self)


class Ending:
    """What a unit is to do when a branch of its own has ended: shorter than a callback, for there are many."""

    __slots__ = ("call", "number", "unit")

    def __init__(self, unit: Unit, call: Callable[[int], None], number: int) -> None:
        self.unit = unit
        self.call = call
        self.number = number

    def run(self) -> None:
        """Tell it which one."""
        self.call(self.number)
