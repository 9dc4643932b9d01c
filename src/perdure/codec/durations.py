"""Durations: seconds, `timedelta` or text such as "1h30m" become seconds.

Used by define and kernel wherever people name a length of time; raises `InvalidValue`.
"""

from __future__ import annotations

import math
import re
from datetime import timedelta

from perdure.errors import InvalidValue

SECONDS_MAX = 36_525 * 86_400  # 100 years

_MICROSECONDS = {
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
}
# At most one of each, from the longest to the shortest: "1h30m" reads one way only.
_TEXT = re.compile("".join(rf"(?:(?P<{unit}>[0-9]+(?:\.[0-9]+)?){unit}\s*)?" for unit in _MICROSECONDS))
_TEXT_LENGTH_MAX = 100
_FORMS = 'seconds, a timedelta, or text such as "5m", "1h30m", "250ms"'


def duration_seconds(value: object, what: str = "timeout") -> int | float:
    """The seconds that `value` stands for, rounded to 1 µs (K20); an int where they are whole.

    Text needs units: d, h, m, s, ms, us, each once and the longest first. `InvalidValue` names `what`
    (section 6) where it is negative, infinite, not a number, over 100 years, or no duration at all.
    """
    if isinstance(value, bool):
        raise InvalidValue(f"{what} must be {_FORMS}, not bool")
    if isinstance(value, str):
        micros = _of_text(value, what)
    elif isinstance(value, timedelta):
        micros = value // timedelta(microseconds=1)
    elif isinstance(value, int):
        micros = int(value) * 1_000_000
    elif isinstance(value, float):
        micros = _of_float(float(value), what)
    else:
        raise InvalidValue(f"{what} must be {_FORMS}, not {type(value).__name__}")
    if micros < 0:
        raise InvalidValue(f"{what} is negative: a duration is 0 or more")
    if micros > SECONDS_MAX * 1_000_000:
        raise InvalidValue(f"{what} is over 100 years: give a shorter one")
    whole, rest = divmod(micros, 1_000_000)
    return whole if rest == 0 else micros / 1_000_000


def _of_float(value: float, what: str) -> int:
    if math.isnan(value):
        raise InvalidValue(f"{what} is NaN: give a number of seconds")
    if math.isinf(value):
        raise InvalidValue(f"{what} is infinite: give a number of seconds, or leave it out to wait without limit")
    # Below half a microsecond the rounding would hide the sign.
    return -1 if value < 0 else round(value * 1_000_000)


def _of_text(value: str, what: str) -> int:
    text = value.strip()
    found = _TEXT.fullmatch(text) if 0 < len(text) <= _TEXT_LENGTH_MAX else None
    if found is None:
        short = value if len(value) <= _TEXT_LENGTH_MAX else f"{value[:_TEXT_LENGTH_MAX]}…"
        if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
            raise InvalidValue(f'{what} is {short!r}, which has no unit: write "{short.strip()[:20]}s", or a number')
        raise InvalidValue(f"{what} is {short!r}, which is no duration: give {_FORMS}")
    micros = 0
    for unit, amount in found.groupdict().items():
        if amount is not None:
            whole, _, fraction = amount.partition(".")
            # In whole numbers: a float would lose microseconds of a long time.
            micros += int(whole) * _MICROSECONDS[unit]
            if fraction:
                scale = 10 ** len(fraction)
                micros += (2 * int(fraction) * _MICROSECONDS[unit] + scale) // (2 * scale)
    return micros
