"""Attributes: what people can find a run by, as JSON of which every value can be compared.

In:  `attributes(…)` in a workflow, `attributes=` of a start.
Out: perdure.stores.finding, which reads them again.

Text, numbers, bools, moments, and lists of these. A moment is written as text in UTC with all its digits, so that
texts compare as the moments do. None says that there is none. What cannot be compared is refused at the call.
"""

from __future__ import annotations

import datetime
import enum
import uuid
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from perdure.codec.encoding import encode
from perdure.codec.paths import name_of
from perdure.errors import InvalidValue
from perdure.model.ids import check_id

TEXT_MAX = 10_000  # a filter is no longer either
LIST_MAX = 1_000
WHOLE_MIN, WHOLE_MAX = -(2**63), 2**63 - 1
ALLOWED = "text, a number, a bool, a datetime, a date, or a list of these; nest what is only to be read in memo="


def encode_attributes(given: Mapping[Any, object], what: str = "attributes") -> msgspec.Raw:
    """Attributes as one JSON object. `InvalidValue` names the one that cannot be."""
    lowered: dict[str, Any] = {}
    for name, value in given.items():
        at = f"{what}.{check_id(name, 'the name of an attribute')}"
        lowered[name] = (
            _lower_list(cast("list[object]", value), at) if isinstance(value, list | tuple) else _lower(value, at)
        )
    return encode(lowered, what)


def _lower_list(values: list[object], at: str) -> list[object]:
    if len(values) > LIST_MAX:
        raise InvalidValue(f"{at}: a list of {len(values)} values is too long for an attribute; at most {LIST_MAX}")
    for number, value in enumerate(values):
        if value is None:
            raise InvalidValue(f"{at}[{number}]: None in a list is nothing to find a run by; leave it out")
    return [_lower(value, f"{at}[{number}]") for number, value in enumerate(values)]


def _lower(value: object, at: str) -> object:
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        if not WHOLE_MIN <= value <= WHOLE_MAX:
            raise InvalidValue(f"{at}: a whole number of more than 64 bits cannot be searched for; use text")
        return value
    if isinstance(value, str):
        return _checked(value, at)
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, datetime.datetime):
        return _moment(value, at)
    if isinstance(value, datetime.date):
        return value.isoformat()
    raise InvalidValue(f"{at}: {name_of(type(value))} is not supported; an attribute is {ALLOWED}")


def _checked(text: str, at: str) -> str:
    if len(text) > TEXT_MAX:
        raise InvalidValue(f"{at}: {len(text)} characters are too many for an attribute; at most {TEXT_MAX}, or memo=")
    if "\0" in text:
        raise InvalidValue(
            f"{at}: text with a NUL at position {text.index(chr(0))} cannot be searched for; take it out"
        )
    return text


def _moment(moment: datetime.datetime, at: str) -> str:
    if moment.utcoffset() is None:
        raise InvalidValue(f"{at}: a datetime without a time zone is no moment; give it one, such as tzinfo=UTC")
    try:
        return moment.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    except OverflowError:
        raise InvalidValue(f"{at}: {moment} is beyond what a datetime in UTC can be") from None
