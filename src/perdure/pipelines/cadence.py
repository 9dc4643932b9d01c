"""Cadence: when a producer runs next, by an interval or by a cron expression in a time zone (L2).

Pure: nothing here reads a clock. Read by scheduling (when is a producer due), validation (is the expression one) and
wording (in plain words).

An interval counts from the end of the last run, so it drifts. A cron expression names hours of the wall clock:

- Where its hour field names certain hours, each of its times comes once per local day. Where the clock goes back, the
  first of the two counts; a time that the clock skips comes at the first instant after the gap.
- Where its hour field covers all hours, it means "so often": it goes on through a clock change in real time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from perdure import codec
from perdure.errors import InvalidValue

Interval = int | float | str | timedelta

EVERY_FORMS = 'text such as "30s", "5m", "2h" or "1d", a number of seconds, or a timedelta'
CRON_FORMS = 'five fields, as in "*/5 * * * *" or "0 9 * * MON-FRI": minute, hour, day of month, month, day of week'
_INTERVAL = re.compile(r"\s*([0-9]+(\.[0-9]+)?[dhms]\s*)+")
_SECOND = timedelta(seconds=1)
_LAST = datetime(9000, 1, 1, tzinfo=UTC)  # dates beyond cannot be reckoned with
_SOME_DAY = datetime(2000, 1, 1, tzinfo=UTC)
_HOURS = frozenset(range(24))


@dataclass(frozen=True, slots=True)
class Every:
    """An interval, counted from the end of the last run."""

    seconds: int | float

    def after(self, moment: datetime) -> datetime:
        """When it comes next, if the last run ended at this moment."""
        return moment.astimezone(UTC) + timedelta(seconds=self.seconds)


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression in a time zone."""

    expression: str
    timezone: str

    def after(self, moment: datetime) -> datetime:
        """The first time after this moment, in UTC."""
        zone, start = _zone(self.timezone), moment.astimezone(UTC)
        found = _next_wall(self, zone, start) if _names_hours(self.expression) else _next_real(self, zone, start)
        return found.astimezone(UTC)


Cadence = Every | Cron


def read_cadence(every: Interval | None, cron: str | None, timezone: str = "UTC") -> Cadence:
    """The cadence that a producer is declared with. `InvalidValue` that says what is wrong with it and what to write.

    Read once for each declaration: later calls with the same text are answered from memory.
    """
    if every is None and cron is None:
        raise InvalidValue(f"a producer needs `every` or `cron`: every={EVERY_FORMS}; cron={CRON_FORMS}")
    if every is not None and cron is not None:
        raise InvalidValue("a producer runs by `every` or by `cron`, not by both: leave one out")
    return read_every(every) if cron is None else read_cron(cron, timezone)


def read_every(every: object) -> Every:
    """An interval of more than nothing. `InvalidValue`."""
    if isinstance(every, str) and not _INTERVAL.fullmatch(every):
        raise InvalidValue(f"every is {every!r}, which is no interval: give {EVERY_FORMS}")
    seconds = codec.duration_seconds(every, "every")
    if seconds <= 0:
        raise InvalidValue(f"every is {every!r}: a producer cannot run without a pause; give {EVERY_FORMS}")
    return Every(seconds)


def read_cron(cron: object, timezone: object = "UTC") -> Cron:
    """A cron expression that comes at least once. `InvalidValue`."""
    if not isinstance(cron, str):
        raise InvalidValue(f"cron is text, not {type(cron).__name__}: {CRON_FORMS}")
    if not isinstance(timezone, str):
        raise InvalidValue(f'timezone is a name such as "Europe/Madrid", not {type(timezone).__name__}')
    _check_expression(cron)
    _zone(timezone)
    return Cron(cron, timezone)


# --- times ------------------------------------------------------------------------------------


def _next_wall(cron: Cron, zone: tzinfo, start: datetime) -> datetime:
    """Times of the wall clock in their order; each stands for one instant, and those never go back."""
    wall = start.astimezone(zone).replace(tzinfo=None, fold=0)
    while True:
        wall = _next_match(cron, wall)
        instant = _first_instant(wall, zone)
        if instant > start:
            return instant


def _next_real(cron: Cron, zone: tzinfo, start: datetime) -> datetime:
    """From one change of the clock to the next, the wall clock is as even as real time."""
    wall = start.astimezone(zone).replace(tzinfo=None, fold=0)
    while True:
        offset = _offset(start, zone)
        found = _next_match(cron, wall)
        instant = (found - offset).replace(tzinfo=UTC)
        if _offset(instant, zone) == offset:
            return instant
        start = _change_between(start, instant, zone)
        wall = start.astimezone(zone).replace(tzinfo=None, fold=0) - _SECOND


def _first_instant(wall: datetime, zone: tzinfo) -> datetime:
    """The first instant at which the clock shows this, or what follows the gap that swallows it."""
    instant = wall.replace(tzinfo=zone).astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None, fold=0) == wall:
        return instant
    # In a gap, fold=0 reckons with the offset before it and so lands behind it, fold=1 lands before it.
    return _change_between(wall.replace(tzinfo=zone, fold=1).astimezone(UTC), instant, zone)


def _change_between(before: datetime, after: datetime, zone: tzinfo) -> datetime:
    """The instant between the two, to the second, at which the zone's offset is no longer that of `before`."""
    old = _offset(before, zone)
    start = before.replace(microsecond=0)
    low, high = 0, -((start - after) // _SECOND)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(start + middle * _SECOND, zone) == old:
            low = middle
        else:
            high = middle
    return start + high * _SECOND


def _offset(instant: datetime, zone: tzinfo) -> timedelta:
    return instant.astimezone(zone).utcoffset() or timedelta(0)


def _next_match(cron: Cron, wall: datetime) -> datetime:
    if wall.year >= _LAST.year:
        raise InvalidValue(f"cron {cron.expression!r}: there is no time for it before the year {_LAST.year}")
    return next(CronSim(cron.expression, wall))


# --- expressions ------------------------------------------------------------------------------


@lru_cache(maxsize=1000)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise InvalidValue(
            f'timezone {name!r} is unknown: give a name such as "UTC" or "Europe/Madrid"; '
            "if it is right, this machine lacks time zone data: `pip install tzdata`"
        ) from error


@lru_cache(maxsize=1000)
def _check_expression(cron: str) -> None:
    if len(cron.split()) != 5:
        raise InvalidValue(f"cron {cron!r} has {len(cron.split())} fields; give {CRON_FORMS}")
    try:
        next(CronSim(cron, _SOME_DAY))
    except StopIteration:
        raise InvalidValue(f"cron {cron!r} names a day that never comes") from None
    except (CronSimError, ValueError, TypeError, AssertionError) as error:
        raise InvalidValue(f"cron {cron!r}: {str(error) or 'it cannot be read'}; give {CRON_FORMS}") from error


@lru_cache(maxsize=1000)
def _names_hours(cron: str) -> bool:
    return not _HOURS.issubset(CronSim(cron, _SOME_DAY).hours)
