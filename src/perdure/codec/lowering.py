"""Lowering: a value becomes what JSON can hold without loss, or is refused with the path.

In:  any object, from codec.encoding.
Out: the same object where msgspec writes it faithfully, else a copy of the parts that it would not.

msgspec alone would write NaN as null, a set as a list in the order of the hash seed, an attrs class
without its private fields, two keys of a dict as one. So every value is walked, once, by its exact
type: a lie told by a subclass, a property or `__class__` is never asked. Lists and dicts of plain
values are judged by the set of their types, which costs little more than writing them.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import math
import uuid
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Mapping
from dataclasses import fields as fields_of_dataclass
from typing import Any, cast

import msgspec

from perdure.codec.models import dump, is_model
from perdure.codec.paths import Refused, TooDeep, key_step, name_of, shown

DEPTH_MAX = 200
INT_DIGITS_MAX = 4_300  # Python's own limit between ints and text
# Every int of fewer bits has fewer digits than the limit.
_INT_BITS_SAFE = 14_280
_TYPES_REMEMBERED_MAX = 4_096

Way = Callable[["Walk", Any, int], Any]


class Walk:
    """One way to look at values: `safe` types pass at a glance, `ways` says what to do with the rest."""

    def __init__(self, safe: Iterable[type], ways: Mapping[type, Way]) -> None:
        self.safe = set(safe)
        self.ways = dict(ways)

    def lower(self, value: object, depth: int = 0) -> Any:
        """What is to be written for `value`; `Refused` where nothing can be."""
        kind = type(value)
        if kind in self.safe:
            return value
        way = self.ways.get(kind)
        if way is None:
            if len(self.ways) > _TYPES_REMEMBERED_MAX:  # classes made on the fly
                self.ways.clear()
                self.ways.update(_WAYS)
            way = self.ways[kind] = _way_of(kind)
        return way(self, value, depth)


def _way_of(kind: type[Any]) -> Way:
    """How values of a type that was not met before are lowered, for good."""
    if issubclass(kind, enum.Enum):
        return _lower_enum
    if issubclass(kind, msgspec.Struct):
        return _lower_struct
    if hasattr(kind, "__dataclass_fields__"):
        return _way_of_fields(kind, [field.name for field in fields_of_dataclass(kind)])
    if hasattr(kind, "__attrs_attrs__"):
        return _way_of_fields(kind, [field.name for field in cast(Any, kind).__attrs_attrs__])
    if is_model(kind):
        return _lower_model
    for plain, way in _SUBCLASSES.items():
        if issubclass(kind, plain):
            return way
    return _refuse


# --- containers --------------------------------------------------------------------------------

# The slots of the builtins read what msgspec will write, whatever a subclass says.
_items_of_list: Callable[[Any], Iterator[Any]] = cast(Any, list).__iter__
_items_of_tuple: Callable[[Any], Iterator[Any]] = cast(Any, tuple).__iter__
_keys: Callable[[Any], Iterator[Any]] = cast(Any, dict).__iter__
_values: Callable[[Any], Iterable[Any]] = cast(Any, dict).values
_pairs: Callable[[Any], Iterable[tuple[Any, Any]]] = cast(Any, dict).items
_copy_of_struct: Callable[[Any], Any] = cast(Any, msgspec.Struct).__copy__


def _lower_list(walk: Walk, value: Any, depth: int) -> Any:
    if depth >= DEPTH_MAX:
        raise _too_deep(value)
    items = _items_of_list if issubclass(type(value), list) else _items_of_tuple
    kinds = set(map(type, items(value)))
    if kinds <= walk.safe or (kinds == _ONLY_FLOAT and all(map(math.isfinite, items(value)))):
        return value
    changed: list[Any] | None = None
    lower = walk.lower
    for index, item in enumerate(items(value)):
        try:
            lowered = lower(item, depth + 1)
        except Refused as refused:
            raise refused.within(value, _index_step(value, index)) from None
        if lowered is not item:
            if changed is None:
                changed = list(items(value))
            changed[index] = lowered
    return value if changed is None else changed


def _index_step(value: object, index: int) -> str:
    names = getattr(type(value), "_fields", None)
    return f".{names[index]}" if isinstance(names, tuple) else f"[{index}]"


def _lower_dict(walk: Walk, value: Any, depth: int) -> Any:
    if depth >= DEPTH_MAX:
        raise _too_deep(value)
    kinds = set(map(type, _keys(value)))
    if not kinds <= walk.safe or not (kinds <= _ONLY_STR or kinds <= _ONLY_INT):
        value = _with_lowered_keys(walk, value, kinds)
    if set(map(type, _values(value))) <= walk.safe:
        return value
    changed: dict[Any, Any] | None = None
    lower = walk.lower
    for key, item in _pairs(value):
        try:
            lowered = lower(item, depth + 1)
        except Refused as refused:
            raise refused.within(value, key_step(key)) from None
        if lowered is not item:
            if changed is None:
                changed = dict(_pairs(value))
            changed[key] = lowered
    return value if changed is None else changed


def _with_lowered_keys(walk: Walk, value: Any, kinds: set[type]) -> Any:
    """Keys that JSON can hold as text and that stay apart as text; else `Refused`."""
    texts: dict[bytes, Any] = {}
    lowered: dict[Any, Any] = {}
    for key, item in _pairs(value):
        plain: Any = walk.lower(key) if _is_key(key) else None
        if type(plain) not in _KEYS and not isinstance(plain, enum.Enum):
            raise Refused(f"{name_of(type(key))} is not supported as a key; use a str")
        if len(kinds) > 1 or type(plain) is not str:
            text = msgspec.json.encode({plain: None})
            if text in texts:
                both = f"{shown(texts[text])} and {shown(key)}"
                raise Refused(f"dict is not supported with the keys {both}: JSON has one text for both")
            texts[text] = key
        lowered[plain] = item
    return lowered


def _is_key(key: object) -> bool:
    return issubclass(type(key), (*_KEYS, enum.Enum))


# --- classes with fields -------------------------------------------------------------------------


def _lower_struct(walk: Walk, value: msgspec.Struct, depth: int) -> Any:
    if depth >= DEPTH_MAX:
        raise _too_deep(value)
    values = msgspec.structs.astuple(value)
    if set(map(type, values)) <= walk.safe:
        return value
    copy: Any = None
    for name, item in zip(value.__struct_fields__, values, strict=True):
        if item is msgspec.UNSET:
            continue
        try:
            lowered = walk.lower(item, depth + 1)
        except Refused as refused:
            raise refused.within(value, f".{name}") from None
        if lowered is not item:
            # A copy of the same class, because tags, renamed fields and left-out defaults are its own business.
            if copy is None:
                copy = _copy_of_struct(value)
            msgspec.structs.force_setattr(copy, name, lowered)
    return value if copy is None else copy


def _way_of_fields(kind: type[Any], names: list[str]) -> Way:
    """Dataclasses and attrs classes are read here and written as dicts: what was looked at is what is written."""
    if issubclass(kind, _BUILTINS):
        return _refuse_two_shapes

    def lower_fields(walk: Walk, value: Any, depth: int) -> Any:
        if depth >= DEPTH_MAX:
            raise _too_deep(value)
        found: dict[str, Any] = {}
        for name in names:
            try:
                found[name] = getattr(value, name)
            except AttributeError:
                raise Refused("a field that is not set is not supported; give it a value").within(
                    value, f".{name}"
                ) from None
            except Exception as problem:
                raise Refused(f"{name_of(type(problem))} was raised when it was read").within(
                    value, f".{name}"
                ) from problem
        if set(map(type, found.values())) <= walk.safe:
            return found
        for name, item in found.items():
            try:
                found[name] = walk.lower(item, depth + 1) if item is not msgspec.UNSET else item
            except Refused as refused:
                raise refused.within(value, f".{name}") from None
        return {name: item for name, item in found.items() if item is not msgspec.UNSET}

    return lower_fields


def _lower_model(walk: Walk, value: Any, depth: int) -> Any:
    if depth >= DEPTH_MAX:
        raise _too_deep(value)
    # The limit of depth is counted from the model on: it is dumped whole.
    return walk.lower(dump(value), depth + 1)


def _lower_enum(walk: Walk, value: Any, depth: int) -> Any:
    plain = value._value_
    if type(plain) is str or type(plain) is int:
        walk.lower(plain, depth)
        return value
    try:
        return walk.lower(plain, depth + 1)
    except Refused as refused:
        raise refused.within(value, ".value") from None


# --- scalars -------------------------------------------------------------------------------------


def _lower_float(walk: Walk, value: Any, depth: int) -> Any:
    if math.isfinite(value):
        return value
    raise Refused(f"float {float.__repr__(value)} is not supported; use None or text")


def _lower_decimal(walk: Walk, value: Any, depth: int) -> Any:
    exact = decimal.Decimal(value)
    if exact.is_finite():
        return exact if type(value) is not decimal.Decimal else value
    raise Refused(f"Decimal {exact} is not supported; use None or text")


def _lower_datetime(walk: Walk, value: Any, depth: int) -> Any:
    if type(value) is not datetime.datetime:
        value = datetime.datetime.combine(datetime.datetime.date(value), datetime.datetime.timetz(value))
    zone = value.tzinfo
    if zone is None or zone is datetime.UTC:
        return value
    offset = value.utcoffset()
    if offset is not None and offset % _MINUTE:
        # Local mean time: JSON holds whole minutes, so the same instant is written in UTC.
        return value.astimezone(datetime.UTC)
    return value


def _lower_time(walk: Walk, value: Any, depth: int) -> Any:
    if type(value) is not datetime.time:
        parts = (value.hour, value.minute, value.second, value.microsecond)
        value = datetime.time(*parts, tzinfo=value.tzinfo, fold=value.fold)
    offset = value.utcoffset()
    if offset is not None and offset % _MINUTE:
        raise Refused("time is not supported with an offset of seconds; use whole minutes")
    return value


def _lower_raw(walk: Walk, value: Any, depth: int) -> Any:
    try:
        msgspec.json.decode(value)
    except Exception:
        raise Refused("Raw is not supported where it holds no valid JSON; use encode to make it") from None
    return value


def _lower_subclass(exact: Callable[[Any], Any]) -> Way:
    """A subclass of a scalar is written as the scalar that it is."""
    return lambda walk, value, depth: walk.lower(exact(value), depth)


def _check_text(walk: Walk, value: Any, depth: int) -> Any:
    try:
        value.encode()
    except UnicodeEncodeError as problem:
        found = f"{value[problem.start]!r} at position {problem.start}"
        raise Refused(f"str is not supported with a lone surrogate, {found}; use bytes for what is not text") from None
    return value


def _check_int(walk: Walk, value: Any, depth: int) -> Any:
    if value.bit_length() <= _INT_BITS_SAFE or abs(value) < 10**INT_DIGITS_MAX:
        return value
    raise Refused(f"int is not supported beyond {INT_DIGITS_MAX} digits; use text or bytes")


# --- refusals ------------------------------------------------------------------------------------


def _refuse(walk: Walk, value: object, depth: int) -> Any:
    kind = type(value)
    raise Refused(f"{name_of(kind)} is not supported{_hint(value, kind)}")


def _refuse_two_shapes(walk: Walk, value: object, depth: int) -> Any:
    raise Refused(f"{name_of(type(value))} is not supported; keep the builtin that it derives from in a field of it")


def _hint(value: object, kind: type[Any]) -> str:
    if issubclass(kind, type):
        return "; use its name"
    if issubclass(kind, Coroutine) or hasattr(kind, "__await__"):
        return "; await it first"
    if issubclass(kind, memoryview):
        return "; use bytes"
    if hasattr(kind, "__fspath__"):
        return "; use str"
    if issubclass(kind, Mapping):
        return "; use a dict"
    # Files are iterable, but a list of their lines is hardly what was meant.
    if issubclass(kind, set | frozenset | Generator) or (hasattr(kind, "__iter__") and hasattr(kind, "__len__")):
        return "; use a list"
    if issubclass(kind, complex):
        return "; use a list of two floats"
    if callable(value):
        return "; use its name"
    return "; use builtins, or a dataclass, Struct, attrs or pydantic class"


def _too_deep(value: object) -> TooDeep:
    return TooDeep(f"{name_of(type(value))} is not supported more than {DEPTH_MAX} levels deep; use a flatter shape")


# --- tables --------------------------------------------------------------------------------------

_MINUTE = datetime.timedelta(minutes=1)
_ONLY_STR = {str}
_ONLY_INT = {int}
_ONLY_FLOAT = {float}
# What msgspec writes exactly whatever the value is; text and ints are looked at again if writing fails.
_SAFE = (type(None), bool, int, str, bytes, bytearray, datetime.date, datetime.timedelta, uuid.UUID)
_BUILTINS = (int, str, float, bytes, bytearray, list, tuple, dict, set, frozenset)
_WAYS: dict[type, Way] = {
    list: _lower_list,
    tuple: _lower_list,
    dict: _lower_dict,
    float: _lower_float,
    decimal.Decimal: _lower_decimal,
    datetime.datetime: _lower_datetime,
    datetime.time: _lower_time,
    msgspec.Raw: _lower_raw,
    type: _refuse,
}
# For classes derived from these; a datetime is a date, so the order matters.
_SUBCLASSES: dict[type, Way] = {
    list: _lower_list,
    tuple: _lower_list,
    dict: _lower_dict,
    str: _lower_subclass(str.__str__),
    int: _lower_subclass(int.__int__),
    float: _lower_subclass(float.__float__),
    bytes: _lower_subclass(lambda value: bytes.__getitem__(value, slice(None))),
    decimal.Decimal: _lower_decimal,
    datetime.datetime: _lower_datetime,
    datetime.date: _lower_subclass(lambda value: datetime.date.fromordinal(datetime.date.toordinal(value))),
    datetime.time: _lower_time,
    datetime.timedelta: _lower_subclass(
        lambda value: datetime.timedelta(value.days, value.seconds, value.microseconds)
    ),
    uuid.UUID: _lower_subclass(lambda value: uuid.UUID(int=value.int)),
}
_KEYS = (
    str,
    int,
    float,
    bytes,
    decimal.Decimal,
    datetime.datetime,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    uuid.UUID,
)

# The usual look, and the one that finds out why writing failed.
QUICK = Walk(_SAFE, _WAYS)
THOROUGH = Walk(
    [kind for kind in _SAFE if kind is not int and kind is not str], {**_WAYS, str: _check_text, int: _check_int}
)
