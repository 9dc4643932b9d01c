"""Bells: how the threads of a store wake the event loop that opened it, when they have answers for it.

asyncio's own way costs a send and two receives on a pair of sockets for each wake-up; an eventfd, where the system has
one, costs a write and a read. That is felt by whoever waits for the thread again and again.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any


class Bell:
    """Has a function called on the present event loop, from any thread; none may ring it once it is closed."""

    def __init__(self, call: Callable[[Sequence[Any]], object]) -> None:
        self._number: int | None = None
        self.loop = asyncio.get_running_loop()
        self._call = call
        self._waiting: deque[Sequence[Any]] = deque()
        self._number = self._hang()

    def ring(self, what: Sequence[Any]) -> None:
        """Have it called with this, soon. `RuntimeError` if the loop has been closed."""
        if self._number is None or self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._call, what)
        else:
            self._waiting.append(what)
            os.eventfd_write(self._number, 1)

    def close(self) -> None:
        """Take it down. What it was rung for before is still heard."""
        if self._number is not None:
            with suppress(RuntimeError):  # the loop has been closed, and nobody waits any more
                self.loop.call_soon_threadsafe(self._take_down)

    def _hang(self) -> int | None:
        if not hasattr(os, "eventfd"):
            return None
        number = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        try:
            self.loop.add_reader(number, self._heard, number)
        except NotImplementedError:
            os.close(number)
            return None
        return number

    def _take_down(self) -> None:
        number, self._number = self._number, None
        if number is not None:
            self.loop.remove_reader(number)
            os.close(number)
            self._hear()

    def _heard(self, number: int) -> None:
        os.eventfd_read(number)
        self._hear()

    def _hear(self) -> None:
        while self._waiting:
            self._call(self._waiting.popleft())

    def __del__(self) -> None:
        """A loop that was closed first leaves it hanging."""
        if self._number is not None:
            os.close(self._number)
