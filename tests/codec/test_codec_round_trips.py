"""Whatever can be written comes back as the annotated type, and equal (K20)."""

from __future__ import annotations

import datetime as dt
import enum
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal, NewType, Optional
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from perdure.codec import decode, encode, plain
from tests.codec import samples as s

Cents = NewType("Cents", int)


class Money(int):
    pass


class Slug(str):
    __slots__ = ()


class Ratio(float):
    pass


class Stack(list[int]):
    def __iter__(self) -> Any:
        raise AssertionError("a subclass is not asked")

    def __len__(self) -> int:
        return 99


class Stamp(dt.datetime):
    """As test libraries and data frames have them."""


class Key(UUID):
    """As database drivers have them."""


text = st.text(st.characters(codec="utf-8"), max_size=20)
floats = st.floats(allow_nan=False, allow_infinity=False)
zones = st.one_of(st.none(), st.timezones(), st.just(dt.UTC))
moments = st.datetimes(timezones=zones, allow_imaginary=False)
decimals = st.decimals(allow_nan=False, allow_infinity=False)
any_int = st.one_of(st.integers(), st.integers(min_value=-(10**400), max_value=10**400))
lines = st.builds(s.Line, sku=text, price=decimals, count=any_int)
cards = st.builds(s.Card, number=text)
cashes = st.builds(s.Cash, cents=st.integers())
people = st.builds(
    s.Person,
    name=text,
    age=st.integers(min_value=0, max_value=2**80),
    addresses=st.lists(st.builds(s.Address, street=text, zipCode=text), max_size=2),
    born=st.none() | st.datetimes(timezones=st.just(dt.UTC)),
    key=st.none() | st.uuids(),
    photo=st.binary(max_size=9),
    worth=st.decimals(allow_nan=False, allow_infinity=False, places=3),
    size=st.sampled_from(s.Size),
)


def aware_or_not(value: dt.datetime) -> tuple[dt.datetime, bool]:
    """The instant, or the naive time; a fold is a matter of the zone's rules, which JSON does not hold."""
    offset = value.utcoffset()
    return (value.replace(tzinfo=None) - (offset or dt.timedelta(0)), offset is not None)


SCALARS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "None": (None, st.none()),
    "bool": (bool, st.booleans()),
    "int": (int, any_int),
    "float": (float, floats),
    "str": (str, text),
    "bytes": (bytes, st.binary(max_size=40)),
    "bytearray": (bytearray, st.binary(max_size=40).map(bytearray)),
    "date": (dt.date, st.dates()),
    "time": (dt.time, st.times()),
    "timedelta": (dt.timedelta, st.timedeltas()),
    "UUID": (UUID, st.uuids()),
    "Decimal": (Decimal, decimals),
    "enum": (s.Colour, st.sampled_from(s.Colour)),
    "int enum": (s.Size, st.sampled_from(s.Size)),
    "flag": (s.Rights, st.sampled_from([s.Rights(0), s.Rights.READ, s.Rights.READ | s.Rights.WRITE])),
    "enum of anything": (s.Odd, st.sampled_from(s.Odd)),
    "Literal": (Literal["a", 1] | None, st.sampled_from(["a", 1, None])),
    "NewType": (Cents, st.integers()),
    "Annotated": (Annotated[int, "cents"], st.integers()),
}
CLASSES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "dataclass": (s.Line, lines),
    "nested dataclass": (
        s.Order,
        st.builds(
            s.Order,
            id=text,
            lines=st.lists(lines, max_size=3),
            at=st.none() | st.datetimes(timezones=st.just(dt.UTC)),
            colour=st.sampled_from(s.Colour),
        ),
    ),
    "frozen dataclass with slots": (s.Frozen, st.builds(s.Frozen, text, st.integers())),
    "generic dataclass": (
        s.Box[dict[int, s.Line]],
        st.builds(s.Box[Any], st.dictionaries(st.integers(), lines, max_size=2), st.just([])),
    ),
    "Struct": (s.Point, st.builds(s.Point, st.integers(), floats)),
    "tagged Structs": (
        s.Tagged | s.Other,
        st.builds(s.Tagged, first_name=text) | st.builds(s.Other, values=st.lists(st.integers())),
    ),
    "Struct of other classes": (
        s.Shelf,
        st.builds(
            s.Shelf,
            st.builds(s.Account, owner=text, balance=st.integers()),
            st.sampled_from(s.Odd),
            st.builds(s.Address, street=text),
            st.lists(st.builds(s.Account, owner=text, balance=st.integers()), max_size=2),
        ),
    ),
    "TypedDict": (
        s.Movie,
        st.fixed_dictionaries({"title": text, "cast": st.lists(text)}, optional={"year": st.integers()}),
    ),
    "NamedTuple": (s.Pair, st.builds(s.Pair, st.integers(), text)),
    "attrs": (s.Account, st.builds(s.Account, owner=text, balance=st.integers(), tags=st.lists(text, max_size=3))),
    "pydantic": (s.Person, people),
    "pydantic root model": (s.Names, st.builds(s.Names, st.lists(text))),
    "strict pydantic": (s.Strict, st.builds(s.Strict, at=st.datetimes(timezones=st.just(dt.UTC)), key=st.uuids())),
    "pydantic inside a dataclass": (
        s.WithModel,
        st.builds(s.WithModel, people, st.lists(st.builds(s.Account, owner=text, balance=st.integers()), max_size=2)),
    ),
    "dataclass with unions": (
        s.Payment,
        st.builds(
            s.Payment,
            cards | cashes | st.builds(s.Voucher, st.integers(), text),
            st.dictionaries(st.integers(), st.lists(cards | cashes, max_size=2), max_size=2),
            st.none() | st.tuples(cards | cashes, st.integers()),
            st.sampled_from(s.Odd),
        ),
    ),
    "packed Struct with a union": (s.Packed, st.builds(s.Packed, cards | cashes, st.integers())),
    "renamed Struct with a union": (s.Holder, st.builds(s.Holder, cards | cashes)),
    "TypedDict with a union": (
        s.Ticket,
        st.fixed_dictionaries({"paid": cards | cashes}, optional={"seat": st.integers()}),
    ),
    "NamedTuple with a union": (s.PaidPair, st.builds(s.PaidPair, cards | cashes, st.integers())),
    "attrs with a union": (s.PaidAccount, st.builds(s.PaidAccount, cards | cashes, st.integers(), floats)),
    "generic dataclass of a union": (
        s.Box[s.Card | s.Cash],
        st.builds(s.Box[Any], cards | cashes, st.lists(cards | cashes, max_size=2)),
    ),
    "union of classes": (s.Card | s.Cash | s.Voucher, cards | cashes | st.builds(s.Voucher, st.integers(), text)),
    "optional union in a list": (list[s.Card | s.Cash | None], st.lists(cards | cashes | st.none())),
}
EVERY = {**SCALARS, **CLASSES}


@pytest.mark.parametrize("name", EVERY)
def test_a_value_comes_back_as_its_annotated_type_and_equal(name: str) -> None:
    """K20: one road for values."""
    kind, strategy = EVERY[name]

    @given(strategy)
    def comes_back(value: Any) -> None:
        found = decode(encode(value), kind)
        assert found == value
        assert type(found) is type(value)

    comes_back()


@st.composite
def nested(draw: st.DrawFn, depth: int = 3) -> tuple[Any, Any]:
    """An annotation made of others, and a value of it."""
    shape = draw(st.sampled_from(["leaf", "list", "dict", "tuple", "row", "optional", "numbered"])) if depth else "leaf"
    if shape == "leaf":
        kind, strategy = EVERY[draw(st.sampled_from(sorted(EVERY)))]
        return kind, draw(strategy)
    kind, value = draw(nested(depth=depth - 1))
    match shape:
        case "list":
            return list[kind], [value] * draw(st.integers(0, 2))
        case "dict":
            return dict[str, kind], {draw(text): value}
        case "numbered":
            return dict[int, kind], {draw(st.integers()): value}
        case "tuple":
            return tuple[kind, ...], (value, value)
        case "row":
            other, second = draw(nested(depth=depth - 1))
            return tuple[kind, other], (value, second)
        case _:
            return Optional[kind], draw(st.sampled_from([value, None]))  # noqa: UP045 - works for None too


@given(nested())
def test_annotations_nest_to_any_depth(pair: tuple[Any, Any]) -> None:
    """K20: generics, unions and classes inside one another."""
    kind, value = pair
    assert decode(encode(value), kind) == value


@given(moments)
def test_a_datetime_keeps_its_instant_and_a_naive_one_stays_naive(value: dt.datetime) -> None:
    """K20: an offset of seconds, as local mean time has it, is written in UTC."""
    try:
        value.astimezone(dt.UTC)
    except OverflowError:  # the same instant in UTC is before year 1 or after 9999: that it is refused is tested there
        assume(False)
    assert aware_or_not(decode(encode(value), dt.datetime)) == aware_or_not(value)


@given(
    st.recursive(
        st.none() | st.booleans() | any_int | floats | text,
        lambda inner: st.lists(inner) | st.dictionaries(text, inner),
    )
)
def test_plain_values_come_back_without_an_annotation(value: Any) -> None:
    """K20: what JSON has anyway needs no type."""
    found = plain(encode(value))
    assert found == value
    assert repr(found) == repr(value)
    assert decode(encode(value), object) == found


KEYS: list[tuple[Any, Any]] = [
    (str, "k"),
    (int, 7),
    (int, 2**80),
    (float, 1.5),
    (s.Colour, s.Colour.BLUE),
    (s.Size, s.Size.LARGE),
    (UUID, UUID(int=5)),
    (dt.date, dt.date(2024, 2, 29)),
    (dt.datetime, dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
    (dt.timedelta, dt.timedelta(hours=1)),
    (Decimal, Decimal("1.50")),
    (bytes, b"\xff"),
]


@pytest.mark.parametrize(("kind", "key"), KEYS)
def test_keys_come_back_as_their_annotated_type(kind: Any, key: Any) -> None:
    """K20: keys stand as text in JSON."""
    assert decode(encode({key: 1}), dict[kind, int]) == {key: 1}
    assert decode(encode({key: s.Cash(1)}), dict[kind, s.Card | s.Cash]) == {key: s.Cash(1)}


EDGES: list[tuple[Any, Any]] = [
    (int, 2**53 + 1),
    (int, 2**63),
    (int, -(2**64)),
    (int, 10**400),
    (int, 10**4299),
    (float, 5e-324),
    (float, 1.7976931348623157e308),
    (dt.datetime, dt.datetime.min),
    (dt.datetime, dt.datetime.max),
    (dt.datetime, dt.datetime.min.replace(tzinfo=dt.UTC)),
    (dt.datetime, dt.datetime(1850, 1, 2, 3, tzinfo=ZoneInfo("Europe/Berlin"))),
    (dt.date, dt.date.min),
    (dt.timedelta, dt.timedelta.max),
    (dt.timedelta, dt.timedelta.min),
    (Decimal, Decimal("1E+400")),
    (str, "\x00\u202e😀"),
    (tuple[()], ()),
    (Money, Money(5)),
    (Slug, Slug("a")),
    (Ratio, Ratio(0.5)),
    (dt.datetime, Stamp(2024, 1, 2, tzinfo=dt.UTC)),
    (UUID, Key(int=3)),
    (OrderedDict, OrderedDict(a=1)),
    (Sequence[s.Card | s.Cash], [s.Card("1")]),
    (Mapping[str, s.Card | s.Cash], {"a": s.Cash(1)}),
    (Iterable[int], [1, 2]),
]


@pytest.mark.parametrize(("kind", "value"), EDGES)
def test_the_edges_of_every_type_come_back(kind: Any, value: Any) -> None:
    """K20, and the corpus of bad inputs: the extremes are good values."""
    assert decode(encode(value), kind) == value


def test_minus_zero_keeps_its_sign() -> None:
    """K20: nothing is lost."""
    assert repr(decode(encode(-0.0), float)) == "-0.0"


def test_a_subclass_is_written_by_what_it_holds_not_by_what_it_says() -> None:
    """K20: the writer and the check see the same items."""
    assert plain(encode(Stack([1, 2]))) == [1, 2]
    assert plain(encode([Money(1), Slug("a"), Ratio(2.5)])) == [1, "a", 2.5]


def test_a_tuple_without_an_annotation_is_a_list_from_the_start() -> None:
    """K20: what replay would give back is what is given live."""
    assert plain(encode((1, (2,)))) == [1, [2]]


def test_the_type_that_could_not_be_resolved_gives_plain_values() -> None:
    """K20: unannotated gives plain JSON values."""
    raw = encode(s.Card("1"))
    for kind in ["NoSuchClass", Any, object, s.T]:
        assert decode(raw, kind) == {"number": "1"}
        assert decode(encode([s.Card("1")]), list[kind]) == [{"number": "1"}]


def test_a_class_with_an_annotation_that_cannot_be_resolved_keeps_its_other_fields() -> None:
    """K20: only the field in question is plain."""

    class Local(msgspec.Struct):
        unknown: NoSuchClass  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
        line: s.Line

    found: Any = decode(encode({"unknown": {"a": 1}, "line": s.Line("x", Decimal(1))}), Local)
    assert isinstance(found, Local)
    assert msgspec.structs.astuple(found) == ({"a": 1}, s.Line("x", Decimal(1)))


def test_an_init_only_value_is_not_asked_for_again() -> None:
    """K20: the fields hold what was made of it."""
    assert decode(encode(s.Seeded(4)), s.Seeded) == s.Seeded(4)


def test_a_raw_value_is_written_as_it_stands() -> None:
    """K20: JSON that was written before is not written twice."""
    raw = encode({"a": [1]})
    assert bytes(encode([raw])) == b'[{"a":[1]}]'
    assert bytes(decode(raw, msgspec.Raw)) == bytes(raw)


def test_the_json_is_what_a_person_would_write() -> None:
    """K20: stored as JSON a person can read."""
    order = s.Order("o-1", [s.Line("a", Decimal("9.90"), 2)], dt.datetime(2024, 5, 1, tzinfo=dt.UTC), s.Colour.BLUE)
    assert bytes(encode(order)) == (
        b'{"id":"o-1","lines":[{"sku":"a","price":"9.90","count":2}],"at":"2024-05-01T00:00:00Z","colour":"blue"}'
    )
    assert bytes(encode(s.Account("me", 5))) == b'{"owner":"me","_balance":5,"tags":[]}'
    assert bytes(encode(b"\xff\x00")) == b'"/wA="'


def test_a_class_made_on_the_fly_is_written_however_many_there_are() -> None:
    """K20: what is remembered about types is bounded, and forgetting changes nothing."""
    for number in range(5_000):
        kind: Any = enum.Enum(f"Kind{number}", {"A": f"a{number}"})
        assert bytes(encode([kind.A])) == f'["a{number}"]'.encode()
        assert bytes(encode([1.5, (1, Decimal(2))])) == b'[1.5,[1,"2"]]'
