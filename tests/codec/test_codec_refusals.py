"""What JSON cannot hold without loss is refused at the call, with the path inside the value (section 6)."""

from __future__ import annotations

import array
import collections
import datetime as dt
import io
import re
import sys
import threading
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import attrs
import msgspec
import pydantic
import pytest

from perdure.codec import encode, encode_arguments, plain
from perdure.errors import InvalidValue
from tests.codec import samples as s

NAN = float("nan")


class Anything:
    pass


@dataclass
class Bag:
    price: Any = None
    rest: Any = field(default=None)


class Lines(msgspec.Struct, frozen=True):
    lines: Any
    price: Any = 0


class Row(NamedTuple):
    left: Any
    right: Any = None


@attrs.define
class Crate:
    _hidden: Any
    shown: Any = None


class Basket(pydantic.BaseModel):
    tags: set[int] = set()


class Vault(pydantic.BaseModel):
    secret: pydantic.SecretStr = pydantic.SecretStr("x")


class Photo(pydantic.BaseModel):
    pixels: bytes = b""


class SetList(list[Any]):
    def __iter__(self) -> Any:
        return iter(())


class NanFloat(float):
    def __repr__(self) -> str:
        return "1.0"

    def __float__(self) -> float:
        return 1.0


@dataclass
class DictAndFields(dict[str, int]):
    extra: int = 1


class Liar:
    """Says that it is text."""

    @property
    def __class__(self) -> Any:
        return str

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise AssertionError


@dataclass
class Moody:
    mood: int = 0

    def __getattribute__(self, name: str) -> Any:
        if name == "mood":
            raise OSError("not today")
        return super().__getattribute__(name)


class LyingLength(list[int]):
    def __len__(self) -> int:
        raise OSError("no length")


class BadZone(dt.tzinfo):
    def utcoffset(self, when: dt.datetime | None) -> dt.timedelta | None:
        raise OSError("no zone")

    def dst(self, when: dt.datetime | None) -> dt.timedelta | None:
        return None

    def tzname(self, when: dt.datetime | None) -> str | None:
        return None


class RaisingName(type):
    @property
    def __name__(cls) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise OSError("no name")


class Nameless(metaclass=RaisingName):
    pass


def order(price: Any) -> Any:
    """The value at `order.lines[3].price`, through a dict, a Struct, a list and a dataclass."""
    return Lines([1, 2.5, "x", Bag(price)])


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def wrong_model() -> Any:
    return s.Person.model_construct(name="x", age="old")


def unset() -> Any:
    made = s.Card("1")
    del made.number
    return made


def half_made_struct() -> Any:
    made = Lines([])
    msgspec.structs.force_setattr(made, "lines", {1})
    return made


async def coroutine_function() -> None: ...


def generator_function() -> Any:
    yield 1


LIST = "; use a list"
NAME = "; use its name"
CLASSES = "; use builtins, or a dataclass, Struct, attrs or pydantic class"
NUMBER = "; use None or text"

# What is put at `order.lines[3].price`, and what is said of it there.
VALUES: dict[str, tuple[Callable[[], Any], str]] = {
    "set": (lambda: {1}, f"set is not supported{LIST}"),
    "empty set": (lambda: set[int](), f"set is not supported{LIST}"),
    "frozenset": (lambda: frozenset({1}), f"frozenset is not supported{LIST}"),
    "dict keys": (lambda: dict[str, int]().keys(), f"dict_keys is not supported{LIST}"),
    "range": (lambda: range(3), f"range is not supported{LIST}"),
    "deque": (lambda: collections.deque([1]), f"deque is not supported{LIST}"),
    "array": (lambda: array.array("i", [1]), f"array is not supported{LIST}"),
    "generator": (generator_function, f"generator is not supported{LIST}"),
    "NaN": (lambda: NAN, f"float nan is not supported{NUMBER}"),
    "infinity": (lambda: float("inf"), f"float inf is not supported{NUMBER}"),
    "minus infinity": (lambda: float("-inf"), f"float -inf is not supported{NUMBER}"),
    "NaN in disguise": (lambda: NanFloat("nan"), f"float nan is not supported{NUMBER}"),
    "NaN among floats": (lambda: [1.0, NAN], ""),
    "Decimal NaN": (lambda: Decimal("NaN"), f"Decimal NaN is not supported{NUMBER}"),
    "Decimal sNaN": (lambda: Decimal("sNaN"), f"Decimal sNaN is not supported{NUMBER}"),
    "Decimal infinity": (lambda: Decimal("-Infinity"), f"Decimal -Infinity is not supported{NUMBER}"),
    "complex": (lambda: 1j, "complex is not supported; use a list of two floats"),
    "Fraction": (lambda: Fraction(1, 2), f"Fraction is not supported{CLASSES}"),
    "function": (lambda: order, f"function is not supported{NAME}"),
    "lambda": (lambda: lambda: 1, f"function is not supported{NAME}"),
    "builtin": (lambda: len, f"builtin_function_or_method is not supported{NAME}"),
    "method": (lambda: Anything().__init__, f"method-wrapper is not supported{NAME}"),
    "class": (lambda: Anything, f"type is not supported{NAME}"),
    "dataclass's class": (lambda: Bag, f"type is not supported{NAME}"),
    "Struct's class": (lambda: Lines, f"StructMeta is not supported{NAME}"),
    "enum's class": (lambda: s.Colour, f"EnumType is not supported{NAME}"),
    "model's class": (lambda: s.Person, f"ModelMetaclass is not supported{NAME}"),
    "module": (lambda: sys, f"module is not supported{CLASSES}"),
    "lock": (threading.Lock, f"lock is not supported{CLASSES}"),
    "thread": (threading.Thread, f"Thread is not supported{CLASSES}"),
    "file": (lambda: io.StringIO("x"), f"StringIO is not supported{CLASSES}"),
    "object": (object, f"object is not supported{CLASSES}"),
    "own object": (Anything, f"Anything is not supported{CLASSES}"),
    "namespace": (lambda: types.SimpleNamespace(a=1), f"SimpleNamespace is not supported{CLASSES}"),
    "exception": (lambda: ValueError("x"), f"ValueError is not supported{CLASSES}"),
    "Ellipsis": (lambda: ..., f"ellipsis is not supported{CLASSES}"),
    "NotImplemented": (lambda: NotImplemented, f"NotImplementedType is not supported{CLASSES}"),
    "memoryview": (lambda: memoryview(b"x"), "memoryview is not supported; use bytes"),
    "path": (lambda: PurePosixPath("/x"), "PurePosixPath is not supported; use str"),
    "mapping": (lambda: types.MappingProxyType[str, int]({}), "mappingproxy is not supported; use a dict"),
    "says it is text": (Liar, f"Liar is not supported{CLASSES}"),
    "class whose name raises": (Nameless, f"Nameless is not supported{CLASSES}"),
    "surrogate": (
        lambda: "ab\ud800",
        r"str is not supported with a lone surrogate, '\ud800' at position 2; use bytes for what is not text",
    ),
    "huge int": (lambda: 10**4300, "int is not supported beyond 4300 digits; use text or bytes"),
    "huge negative int": (lambda: -(10**4300), "int is not supported beyond 4300 digits; use text or bytes"),
    "bad Raw": (
        lambda: msgspec.Raw(b"{bad"),
        "Raw is not supported where it holds no valid JSON; use encode to make it",
    ),
    "empty Raw": (lambda: msgspec.Raw(b""), "Raw is not supported where it holds no valid JSON; use encode to make it"),
    "time with seconds of offset": (
        lambda: dt.time(1, tzinfo=dt.timezone(dt.timedelta(seconds=30))),
        "time is not supported with an offset of seconds; use whole minutes",
    ),
    "dict with fields": (
        lambda: DictAndFields(),
        "DictAndFields is not supported; keep the builtin that it derives from in a field of it",
    ),
    "key None": (lambda: {None: 1}, "NoneType is not supported as a key; use a str"),
    "key bool": (lambda: {True: 1}, "bool is not supported as a key; use a str"),
    "key tuple": (lambda: {(1, 2): 1}, "tuple is not supported as a key; use a str"),
    "key dataclass": (lambda: {s.Frozen("x"): 1}, "Frozen is not supported as a key; use a str"),
    "key NaN": (lambda: {NAN: 1}, f"float nan is not supported{NUMBER}"),
    "key frozenset": (lambda: {frozenset({1}): 1}, "frozenset is not supported as a key; use a str"),
    "key odd enum": (lambda: {s.Odd.PAIR: 1}, "Odd is not supported as a key; use a str"),
    "keys 1 and '1'": (
        lambda: {1: 0, "1": 0},
        "dict is not supported with the keys 1 and '1': JSON has one text for both",
    ),
    "keys of two enums": (
        lambda: {s.Size.SMALL: 0, "1": 0},
        f"dict is not supported with the keys {s.Size.SMALL!r} and '1': JSON has one text for both",
    ),
    "key surrogate": (
        lambda: {"\udfff": 1},
        r"str is not supported with a lone surrogate, '\udfff' at position 0; use bytes for what is not text",
    ),
    "too deep": (lambda: deep(400), ""),
}


@pytest.mark.parametrize("name", [name for name, (_, problem) in VALUES.items() if problem])
def test_what_json_cannot_hold_is_refused_with_its_path(name: str) -> None:
    """Section 6: one clear error, at the call, that says where, what and what to do."""
    make, problem = VALUES[name]
    with pytest.raises(InvalidValue) as refused:
        encode(order(make()), "order")
    assert str(refused.value) == f"order.lines[3].price: {problem}"
    with pytest.raises(InvalidValue) as refused:
        encode(make(), "limit")
    assert str(refused.value) == f"limit: {problem}"


@pytest.mark.parametrize("name", VALUES)
def test_what_is_refused_is_refused_as_an_argument_too(name: str) -> None:
    """Section 6: an argument is named by its parameter, else by its number."""
    make, problem = VALUES[name]
    with pytest.raises(InvalidValue, match=rf"^cents[^ ]*: {re.escape(problem)}"):
        encode_arguments(("a", make()), ("id", "cents"))
    with pytest.raises(InvalidValue, match=rf"^argument 3[^ ]*: {re.escape(problem)}"):
        encode_arguments((1, None, make()), ("id",))
    with pytest.raises(InvalidValue, match=rf"^argument 1[^ ]*: {re.escape(problem)}"):
        encode_arguments([make(), {1: 2}])


SET = f"set is not supported{LIST}"
PATHS: list[tuple[Callable[[], Any], str]] = [
    (lambda: [[0, {1}]], f"value[0][1]: {SET}"),
    (lambda: ({1},), f"value[0]: {SET}"),
    (lambda: {"a": {"net price": {1}}}, f"value.a['net price']: {SET}"),
    (lambda: {7: {1}}, f"value[7]: {SET}"),
    (lambda: {"": {1}}, f"value['']: {SET}"),
    (lambda: Bag(rest={1}), f"value.rest: {SET}"),
    (lambda: Lines({1}), f"value.lines: {SET}"),
    (lambda: Row(1, {1}), f"value.right: {SET}"),
    (lambda: Crate({1}), f"value._hidden: {SET}"),
    (lambda: s.Box[Any](1, [{1}]), f"value.more[0]: {SET}"),
    (lambda: collections.OrderedDict[str, Any](a={1}), f"value.a: {SET}"),
    (lambda: collections.defaultdict[str, Any](list[Any], a={1}), f"value.a: {SET}"),
    (lambda: SetList([1, {1}]), f"value[1]: {SET}"),
    (lambda: [Basket(tags={1})], f"value[0].tags: {SET}"),
    (lambda: s.Loose(value=[1, {"a": frozenset({1})}]), f"value.value[1].a: frozenset is not supported{LIST}"),
    (lambda: s.Loose(value=Bag({1})), f"value.value.price: {SET}"),
    (lambda: s.Loose(value=[NAN]), "value.value[0]: float nan is not supported; use None or text"),
    (
        lambda: s.Loose(value={1: 0, "1": 0}),
        "value.value: dict is not supported with the keys 1 and '1': JSON has one text for both",
    ),
    (lambda: Vault(), "value.secret: SecretStr is not supported; it would be written as asterisks"),
    (lambda: [Moody()], "value[0].mood: OSError was raised when it was read"),
    (lambda: unset(), "value.number: a field that is not set is not supported; give it a value"),
    (lambda: half_made_struct(), f"value.lines: {SET}"),
    (lambda: [1.0, 2.0, NAN], "value[2]: float nan is not supported; use None or text"),
    (lambda: [1, 2.0, NAN], "value[2]: float nan is not supported; use None or text"),
    (lambda: {"x" * 100: {1}}, f"value.{'x' * 60}…: {SET}"),
    (lambda: {"a\n": {1}}, f"value['a\\n']: {SET}"),
    (lambda: [msgspec.UNSET], f"value[0]: UnsetType is not supported{CLASSES}"),
]


@pytest.mark.parametrize(("make", "message"), PATHS)
def test_the_path_leads_through_every_kind_of_container(make: Callable[[], Any], message: str) -> None:
    """Section 6: the path names fields, keys and positions."""
    with pytest.raises(InvalidValue) as refused:
        encode(make())
    assert str(refused.value) == message


ODD: dict[str, Callable[[], Any]] = {
    "model with a value of the wrong type": wrong_model,
    "model with bytes that are not text": lambda: Photo(pixels=b"\xff"),
    "model that holds an object": lambda: s.Loose(value=Anything()),
    "zone that raises": lambda: dt.datetime(2024, 1, 1, tzinfo=BadZone()),
    "instant before year 1 in UTC": lambda: dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(seconds=30))),
}


@pytest.mark.parametrize("name", ODD)
def test_a_value_that_lies_about_itself_gives_invalid_value_and_no_raw_exception(name: str) -> None:
    """Section 6: one clear error, whatever the value does while it is read."""
    with pytest.raises(InvalidValue, match=r"^order\.lines\[0\]|^order: "):
        encode({"lines": [ODD[name]()]}, "order")


def test_a_length_that_raises_is_never_asked() -> None:
    """K20: a list is its items."""
    assert plain(encode(LyingLength([1, 2]))) == [1, 2]


def test_a_coroutine_is_refused_with_the_advice_to_await_it() -> None:
    """Section 6: what to do."""
    waiting = coroutine_function()
    with pytest.raises(InvalidValue, match=r"^receipt: coroutine is not supported; await it first$"):
        encode(waiting, "receipt")
    waiting.close()
