"""The selector of an event loop on virtual time: it moves the clock to the next timer where others would wait.

In:  asyncio's `_run_once`, which asks for what is ready and says how long until its next timer.
Out: perdure.testing.clock, moved; perdure.testing.deadlock, told that nothing can ever come.

It first looks for what is really there: sockets, pipes, calls from other threads. If nothing is, and no callback is
ready, the loop would wait, and then

- while the clock is *held*, it waits really, and time passes at its real pace, in steps of a quarter of a second, so
  that work which takes less takes no time at all;
- while connections are open or child processes run, it waits likewise, because an answer may come; but only until
  nothing has come for `patience` seconds, because an idle connection must not stop the clock. A socket that only
  listens holds up nothing;
- otherwise the clock jumps to the next timer;
- with no timer either, and nothing that could bring anything, the program would wait for ever: a deadlock.
"""

from __future__ import annotations

import logging
import selectors
import socket
from collections.abc import Callable, Mapping
from typing import Any

from perdure.clock import Clock, SystemClock
from perdure.testing.clock import VirtualClock

logger = logging.getLogger("perdure.testing")

STEP_SECONDS = 0.25  # real time that is waited moves the clock in such steps
LAST_LOOK_SECONDS = 0.1  # really waited before a deadlock is called one
PATIENCE_SECONDS = 5.0
HORIZON_SECONDS = 2.0**32  # 136 years, as far as a float holds microseconds; a timer beyond, `sleep(inf)`, is none


class JumpingSelector(selectors.BaseSelector):
    """Stands before a loop's own selector, `outside`, which knows what is really there."""

    def __init__(
        self,
        outside: selectors.BaseSelector,
        clock: VirtualClock,
        *,
        own: int,
        patience: float = PATIENCE_SECONDS,
        real: Clock | None = None,
    ) -> None:
        self.outside = outside
        self.clock = clock
        self.patience = patience
        self.children: set[object] = set()  # child processes of the loop that run
        self.signals: Callable[[], bool] = bool  # whether the loop handles signals
        self.next_timer: Callable[[], float] = float
        self.deadlocked: Callable[[], object] = bool
        self.virtual: object = None  # perdure.testing.virtual's, whose selector this is
        self._real = real or SystemClock()
        self._own = own  # the descriptor by which other threads wake the loop
        self._connections: set[int] = set()
        self._listening: set[int] = set()
        self._unpaid = 0.0  # real seconds that were waited and that the clock has not moved by
        self._silent = 0.0  # real seconds that connections and child processes have brought nothing
        for key in outside.get_map().values():
            self._note(key.fd)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready; if nothing is, and the loop would wait, time passes."""
        events = self.outside.select(0)
        if events:
            if self._silent:
                self._hear(events)
            return events
        if timeout is not None and timeout <= 0:
            return events
        if self.clock.held:
            return self._wait(timeout)
        if (self._connections or self.children) and self._silent < self.patience:
            return self._listen(timeout)
        if timeout is not None:
            due = self.next_timer()  # `timeout` is never more than a day
            if due < HORIZON_SECONDS:
                self._unpaid = 0.0
                self.clock.advance_to(due)
                return events
        return self._wait_without_timers()

    # --- what is registered -----------------------------------------------------------------------

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = self.outside.register(fileobj, events, data)
        self._note(key.fd)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        key = self.outside.unregister(fileobj)
        self._connections.discard(key.fd)
        self._listening.discard(key.fd)
        self._silent = 0.0
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        self._silent = 0.0
        return self.outside.modify(fileobj, events, data)

    def close(self) -> None:
        self.outside.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self.outside.get_map()

    def child_started(self, child: object) -> None:
        """A child process runs from now on."""
        self.children.add(child)
        self._silent = 0.0

    def child_ended(self, child: object) -> None:
        """It has ended."""
        self.children.discard(child)
        self._silent = 0.0

    # --- waiting ----------------------------------------------------------------------------------

    def _note(self, fd: int) -> None:
        if fd != self._own:
            (self._listening if _only_listens(fd) else self._connections).add(fd)
            self._silent = 0.0

    def _hear(self, events: list[tuple[selectors.SelectorKey, int]]) -> None:
        if any(key.fd != self._own for key, _ in events):
            self._silent = 0.0

    def _listen(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for connections and child processes, for as long as patience lasts."""
        began = self._real.monotonic()
        events = self._wait(timeout)
        self._silent += self._real.monotonic() - began
        self._hear(events)
        if self._silent >= self.patience:
            logger.warning(
                "%d open connections and %d child processes have brought nothing for %g s: virtual time goes on "
                "without them. If something was still to come, raise `patience`, or hold the clock until it is there",
                len(self._connections),
                len(self.children),
                self.patience,
            )
        return events

    def _wait(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait really, for a step at most, and let the clock follow."""
        step = STEP_SECONDS if timeout is None else min(timeout, STEP_SECONDS)
        began = self._real.monotonic()
        events = self.outside.select(step)
        waited = self._real.monotonic() - began
        if not events and waited >= step:
            self.clock.advance(step)  # not by what was waited: a timer is met exactly
            return events
        self._unpaid += waited
        if self._unpaid >= STEP_SECONDS:
            self.clock.advance(step)
            self._unpaid -= step
        return events

    def _wait_without_timers(self) -> list[tuple[selectors.SelectorKey, int]]:
        """Nothing is scheduled. Where something may come from outside, wait for it as every loop would."""
        if self._connections or self._listening or self.children or self.signals():
            return self.outside.select(None)
        events = self.outside.select(LAST_LOOK_SECONDS)
        if not events and not self.clock.held:
            self.deadlocked()
        return events


def _only_listens(fd: int) -> bool:
    try:
        connection = socket.socket(fileno=fd)
    except OSError:  # a pipe
        return False
    try:
        return bool(connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    except OSError:
        return False
    finally:
        connection.detach()
