"""Clocks: the only readers of time.

Everything above takes one as an argument, so that a test can bring its own. The system's clock stands
here; the virtual one is perdure.testing's.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class Clock(Protocol):
    """What time it is."""

    def now_us(self) -> int:
        """Wall-clock time, in microseconds since 1970 in UTC. Decides leases and due times; may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, for measuring how long something takes."""
        ...


class SystemClock:
    """This machine's clock."""

    def now_us(self) -> int:
        """Wall-clock time."""
        return time.time_ns() // 1_000

    def monotonic(self) -> float:
        """Seconds since some moment."""
        return time.monotonic()


def micros(moment: datetime) -> int:
    """A moment as microseconds since 1970."""
    return (moment - EPOCH) // MICROSECOND


def moment_of(micros_since_1970: int) -> datetime:
    """Microseconds since 1970 as an aware moment in UTC."""
    return EPOCH + timedelta(microseconds=micros_since_1970)
