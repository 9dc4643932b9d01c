"""Entries: what stands in a unit's queue beside its tasks: callbacks, delayed ones, and the news that branches ended.

kernel.loop queues and runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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


class Forked(Protocol):
    """Who is told that branches have ended: kernel.branches."""

    parent: Unit

    def note_ends(self, numbers: Iterable[int]) -> None: ...


class Endings:
    """What a unit is to do when branches of its own have ended: one entry for all that end in a row, for many do."""

    __slots__ = ("_left", "fork", "numbers")

    def __init__(self, fork: Forked, number: int) -> None:
        self.fork = fork
        self.numbers = [number]
        self._left = iter(self.numbers)

    def run(self) -> None:
        """Tell it which ones. If that raises, it is to be run again, for those that are left."""
        self.fork.note_ends(self._left)
