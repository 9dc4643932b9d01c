"""A clock that moves only when it is told to; takes the place of perdure.clock.SystemClock in tests.

perdure.testing.virtual makes an event loop tell it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime

from perdure.clock import EPOCH, micros, moment_of
from perdure.errors import InvalidValue

START_US = micros(EPOCH.replace(year=2026))


class VirtualClock:
    """perdure.clock.Clock: both of its times move together, by `advance`. It starts at an aware moment.

    On an event loop with virtual time the loop moves it, from timer to timer; `hold` keeps it from doing so.
    """

    def __init__(self, start: datetime | int = START_US) -> None:
        self._seconds = 0.0
        self._zero_us = start if isinstance(start, int) else _micros_of(start)  # the wall clock when `_seconds` were 0
        self._holds = 0
        self._lock = threading.Lock()
        self._on_release: list[Callable[[], object]] = []

    def now_us(self) -> int:
        """Wall-clock time."""
        return self._zero_us + round(self._seconds * 1_000_000)

    def monotonic(self) -> float:
        """Seconds that only `advance` moves."""
        return self._seconds

    @property
    def now(self) -> datetime:
        """Wall-clock time as an aware moment in UTC."""
        return moment_of(self.now_us())

    @property
    def held(self) -> bool:
        """Whether somebody holds it."""
        return self._holds > 0

    def advance(self, seconds: float) -> None:
        """Let time pass. `ValueError` for less than nothing: it never goes back."""
        if not seconds >= 0:
            raise ValueError(f"time does not go back, and was to by {-seconds} seconds")
        self._seconds += seconds

    def advance_to(self, monotonic: float) -> None:
        """Let time pass until `monotonic` says that; nothing happens if it has been."""
        self._seconds = max(self._seconds, monotonic)

    def set_wall(self, moment: datetime) -> None:
        """Set the wall clock alone, as an administrator does, forward or back; what is measured goes on unmoved."""
        self._zero_us += _micros_of(moment) - self.now_us()

    def start_at(self, seconds: float) -> None:
        """Count `monotonic` from there, without moving the wall clock; for a loop whose time has begun already."""
        now_us = self.now_us()
        self._seconds = max(self._seconds, seconds)
        self._zero_us += now_us - self.now_us()

    @contextmanager
    def hold(self) -> Generator[None]:
        """Until the block ends, time passes no faster than it really does; in any thread.

        For whatever the event loop cannot see that goes on outside it: work in a thread or a process of one's own.
        """
        with self._lock:
            self._holds += 1
        try:
            yield
        finally:
            with self._lock:
                self._holds -= 1
            for call in tuple(self._on_release):
                call()

    def on_release(self, call: Callable[[], object]) -> Callable[[], None]:
        """Have this called, in whatever thread, whenever a hold ends. Returns what takes that back."""
        self._on_release.append(call)
        return lambda: self._on_release.remove(call)


def _micros_of(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise InvalidValue(
            f"{moment} has no time zone: give an aware datetime, such as datetime(2026, 1, 1, tzinfo=UTC)"
        )
    return micros(moment)
