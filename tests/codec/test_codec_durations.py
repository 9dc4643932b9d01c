"""Durations: seconds, `timedelta` or text with units become seconds, to the microsecond (K20)."""

from __future__ import annotations

import enum
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.codec import duration_seconds
from perdure.errors import InvalidValue

YEARS_100 = 36_525 * 86_400


class Wait(enum.IntEnum):
    SHORT = 5


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (0, 0),
        (5, 5),
        (5.0, 5),
        (0.25, 0.25),
        (0.1 + 0.2, 0.3),
        (1e-6, 1e-6),
        (4e-7, 0),
        (1.0000004, 1),
        (-0.0, 0),
        (Wait.SHORT, 5),
        (YEARS_100, YEARS_100),
        (timedelta(minutes=5), 300),
        (timedelta(milliseconds=1500), 1.5),
        ("5m", 300),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        (" 90s ", 90),
        ("1d", 86_400),
        ("1d2h3m4s5ms6us", 93_784.005006),
        ("250ms", 0.25),
        ("1.5s", 1.5),
        ("1.5h", 5400),
        ("1us", 1e-6),
        ("0.4us", 0),
        ("0.5us", 1e-6),
        ("0s", 0),
        ("36525d", YEARS_100),
    ],
)
def test_a_duration_is_its_seconds_and_an_int_where_they_are_whole(value: Any, seconds: float) -> None:
    """K20: durations are rounded to 1 µs."""
    found = duration_seconds(value)
    assert found == seconds
    assert type(found) is (int if seconds == int(seconds) else float)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (-1, "is negative"),
        (-1e-9, "is negative"),
        (timedelta(microseconds=-1), "is negative"),
        (float("nan"), "is NaN"),
        (float("inf"), "is infinite"),
        (float("-inf"), "is infinite"),
        (1e300, "is over 100 years"),
        (10**400, "is over 100 years"),
        (YEARS_100 + 1, "is over 100 years"),
        (timedelta.max, "is over 100 years"),
        ("36526d", "is over 100 years"),
        (True, "must be seconds, .*, not bool"),
        (None, "must be seconds, .*, not NoneType"),
        ([5], "must be seconds, .*, not list"),
        (Decimal(5), "must be seconds, .*, not Decimal"),
        (b"5m", "must be seconds, .*, not bytes"),
        ("90", 'has no unit: write "90s", or a number'),
        ("1.5", "has no unit"),
        ("", "is no duration"),
        ("  ", "is no duration"),
        ("m", "is no duration"),
        ("5 m", "is no duration"),
        ("-5m", "is no duration"),
        ("5m1h", "is no duration"),
        ("5m5m", "is no duration"),
        ("5x", "is no duration"),
        ("5M", "is no duration"),
        ("1e3s", "is no duration"),
        (".5s", "is no duration"),
        ("٥m", "is no duration"),
        ("infs", "is no duration"),
        ("5m\x00", "is no duration"),
        ("9" * 10_000 + "s", "is no duration"),
    ],
)
def test_what_is_no_duration_is_refused_by_name(value: Any, problem: str) -> None:
    """Section 6: the message names what was given and what to give."""
    with pytest.raises(InvalidValue, match=f"^patience .*{problem}") as refused:
        duration_seconds(value, "patience")
    assert len(str(refused.value)) < 300


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(seconds=YEARS_100)))
def test_every_timedelta_keeps_its_microseconds(value: timedelta) -> None:
    """K20: nothing but the rounding is lost."""
    assert timedelta(seconds=duration_seconds(value)) == value
    micros = value // timedelta(microseconds=1)
    assert duration_seconds(f"{micros // 1_000_000}s{micros % 1_000_000}us") == duration_seconds(value)
