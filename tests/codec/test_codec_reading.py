"""Reading: what does not fit is `InvalidValue` with the path; unions give back what was written."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, TypedDict
from uuid import UUID

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.codec import decode, decode_arguments, encode, plain
from perdure.errors import InvalidValue
from tests.codec import samples as s


class Anything:
    pass


class Tag(TypedDict):
    name: str


@dataclass
class Cart:
    lines: list[s.Line]
    owner: s.Person | None = None
    limits: dict[str, list[int]] | None = None


@dataclass
class Mixed:
    parts: list[s.Card | s.Cash]
    one: s.Card | None
    tags: dict[str, tuple[s.Card | s.Cash, int]]


@dataclass
class Picky:
    x: int

    def __post_init__(self) -> None:
        if self.x < 0:
            raise OSError("no")


@dataclass
class PickyToo(Picky):
    how: s.Card | s.Cash | None = None


@dataclass
class WithSet:
    tags: set[str]


class Grown(pydantic.BaseModel):
    age: Annotated[int, pydantic.Field(gt=17)]

    @pydantic.field_validator("age")
    @classmethod
    def check(cls, value: int) -> int:
        if value > 150:
            raise OSError("no raw exception")
        return value


@attrs.define
class Made:
    how: s.Card | s.Cash
    count: int = attrs.field(init=False, default=7)
    tags: list[str] = attrs.field(factory=list[str])

    def __attrs_post_init__(self) -> None:
        self.tags.append("made")


LINE = '{"sku":"a","price":"1","count":2}'
MISFITS: list[tuple[str, Any, str]] = [
    ('"x"', int, "order: expected int, got str"),
    ("1.5", int, "order: expected int, got float"),
    ("true", int, "order: expected int, got bool"),
    ('"1"', float, "order: expected float, got str"),
    ("1", str, "order: expected str, got int"),
    ("null", str, "order: expected str, got null"),
    ("[1,2]", tuple[int], "order: expected array of length 1"),
    ('"!"', bytes, "order: invalid base64 encoded string"),
    ('"x"', UUID, "order: invalid UUID"),
    ('"x"', Decimal, "order: invalid decimal string"),
    ('"2024-13-01"', dt.date, "order: invalid RFC3339 encoded date"),
    ('"2016-12-31T23:59:60Z"', dt.datetime, "order: invalid RFC3339 encoded datetime"),
    ('"2024-02-30T00:00:00"', dt.datetime, "order: invalid RFC3339 encoded datetime"),
    ('"green"', s.Colour, "order: invalid enum value 'green'"),
    ('"c"', Literal["a", "b"], "order: invalid enum value 'c'"),
    (
        f'{{"lines":[{LINE},{LINE},{LINE},{{"sku":"a","price":[]}}]}}',
        Cart,
        "order.lines[3].price: expected decimal, got array",
    ),
    ('{"lines":[{}]}', Cart, "order.lines[0]: object missing required field sku"),
    ('{"lines":[],"owner":{"name":"x","age":-1}}', Cart, "order.owner.age: input should be greater than or equal to 0"),
    (
        '{"lines":[],"owner":{"name":"x","addresses":[{"street":5}]}}',
        Cart,
        "order.owner.addresses[0].street: input should be a valid string",
    ),
    ('{"lines":[],"limits":{"a":[1,"x"]}}', Cart, "order.limits[...][1]: expected int, got str"),
    ('{"a":1}', dict[int, int], "order: a key is wrong: expected int, got str"),
    (
        '{"parts":[{"number":"1"},5],"one":null,"tags":{}}',
        Mixed,
        "order.parts[1]: fits none of Card, Cash (Card: expected object, got int; Cash: expected object, got int)",
    ),
    ('{"parts":[],"one":{"number":1},"tags":{}}', Mixed, "order.one.number: expected str, got int"),
    (
        '{"parts":[],"one":null,"tags":{"net price":[{"cents":1},"x"]}}',
        Mixed,
        "order.tags['net price'][1]: expected int, got str",
    ),
    ('{"parts":[],"one":null,"tags":{"a":[1]}}', Mixed, "order.tags.a: expected array of length 2, got 1"),
    ('{"parts":{},"one":null,"tags":{}}', Mixed, "order.parts: expected array, got object"),
    ('{"parts":[],"one":null,"tags":[]}', Mixed, "order.tags: expected object, got array"),
    ('{"parts":[],"tags":{}}', Mixed, "order: object missing required field one"),
    ("[]", Mixed, "order: expected Mixed, got list"),
    ('{"x":{"cents":1}}', dict[int, s.Card | s.Cash], "order.x: a key is wrong: expected int, got str"),
    ('["wrong",{"cents":1}]', s.Packed, "order.type: invalid value 'wrong', expected 'packed'"),
    ('["packed"]', s.Packed, "order: object missing required field method"),
    ('[{"cents":1},"x"]', s.PaidPair, "order.times: expected int, got str"),
    ("[3,4]", s.Odd, "order: expected one of Odd, got [3, 4]"),
    ('{"x":-1}', Picky, "order: OSError: no"),
    ('{"x":-1}', PickyToo, "order: OSError: no"),
    ('{"age":17}', Grown, "order.age: input should be greater than 17"),
    ('[{"age":151}]', list[Grown], "order[0]: OSError: no raw exception"),
    (
        "5",
        list[Grown] | Grown,
        "order: fits none of list[Grown], Grown (list[Grown]: expected array, got int; Grown: input",
    ),
    ('{"at":"x"}', s.Strict, "order.at: input should be a valid datetime"),
    (
        "1",
        Anything,
        "order: Anything is not supported as a type; use builtins, or a dataclass, Struct, attrs or pydantic class",
    ),
    ("[1]", list[Anything], "order[0]: Anything is not supported as a type"),
    ("1", complex, "order: complex is not supported as a type"),
    ("[1]", set[int], "order: set[int] is not supported; use a list"),
    ("[1]", frozenset, "order: frozenset is not supported; use a list"),
    ("[[1]]", list[set[int]], "order[0]: set[int] is not supported; use a list"),
    ('{"tags":["a"]}', WithSet, "order.tags: set[str] is not supported; use a list"),
    (
        '"YQ=="',
        str | bytes,
        "order: str and bytes cannot be told apart in JSON; use one of them, or a dataclass for each",
    ),
    ('{"how":{"cents":1},"more":1}', s.Closed, "order: object contains unknown field more"),
    ("5", 5, "order: 5 is not supported as a type"),
]


@pytest.mark.parametrize(("text", "kind", "message"), MISFITS)
def test_json_that_does_not_fit_is_refused_with_its_path(text: str, kind: Any, message: str) -> None:
    """Section 6: one clear error with the path from the name of what was read."""
    with pytest.raises(InvalidValue) as refused:
        decode(text.encode(), kind, "order")
    assert str(refused.value).startswith(message)


BROKEN: list[tuple[bytes, str]] = [
    (b"", "order: input data was truncated"),
    (b"[1", "order: input data was truncated"),
    (b"1 2", "order: JSON is malformed: trailing characters (byte 3)"),
    (b"NaN", "order: JSON is malformed"),
    (b"Infinity", "order: JSON is malformed"),
    (b"'a'", "order: JSON is malformed"),
    (b"1e400", "order: number out of range"),
    (b"1" + b"0" * 5_000, "order: integer value out of range"),
    (b'"\xff"', "order: text that is not valid UTF-8 is not supported"),
    (b'{"\xff":1}', "order: text that is not valid UTF-8 is not supported"),
    (b'"\\ud800"', "order: "),
    (b'"\\ud800\\u0041"', "order: "),
    (b"[" * 10_000 + b"]" * 10_000, "order: is nested too deeply"),
    (b'{"a":' * 10_000, "order: is nested too deeply"),
    (b"\x00", "order: JSON is malformed"),
    (b"01", "order: JSON is malformed"),
]


@pytest.mark.parametrize(("raw", "message"), BROKEN)
def test_broken_json_is_refused_whatever_the_type(raw: bytes, message: str) -> None:
    """Section 6: a damaged value is a clear error."""
    for kind in (Any, s.Card | s.Cash):
        with pytest.raises(InvalidValue) as refused:
            decode(raw, kind, "order")
        assert str(refused.value).startswith(message)
    with pytest.raises(InvalidValue):
        plain(raw)


@given(st.binary(max_size=60) | st.text('[]{}",:0123456789.eE-tfalsn\\u ', max_size=40).map(str.encode))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    """Section 6: no raw exception, whatever comes."""
    for kind in (Any, s.Order, s.Payment, s.Person, s.Card | s.Cash, dict[int, s.Odd], list[s.Packed]):
        with contextlib.suppress(InvalidValue):
            decode(raw, kind)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "lines", "method", "number", "cents", "name", "x"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(json_values)
def test_any_json_is_read_as_a_type_or_refused(value: Any) -> None:
    """Section 6: the right fields with the wrong contents, too."""
    raw = json.dumps(value).encode()
    for kind in (s.Order, s.Payment, s.Person, s.Box[s.Card | s.Cash], s.Holder, s.PaidAccount, s.Ticket, s.PaidPair):
        with contextlib.suppress(InvalidValue):
            found = decode(raw, kind)
            assert decode(encode(found), kind) == found


def test_a_model_is_written_by_its_names_and_read_by_its_aliases_too() -> None:
    """K20: nothing is lost between two aliases of one field."""
    model = s.Renamed.model_validate({"in": 1, "written": 5})
    assert decode(encode(model), s.Renamed) == model
    assert decode(b'{"input":1,"written":5}', s.Renamed) == model
    assert plain(encode(s.Address(street="x", zipCode="y"))) == {"street": "x", "zip_code": "y"}


def test_duplicate_keys_in_json_leave_the_last() -> None:
    """Section 6: as every JSON reader does."""
    assert plain(b'{"a":1,"a":2}') == {"a": 2}


# --- unions --------------------------------------------------------------------------------------

NOON = dt.datetime(2024, 1, 2, 12, tzinfo=dt.UTC)
UNIONS: list[tuple[Any, list[Any]]] = [
    (s.Cash | s.Voucher, [s.Cash(1), s.Voucher(1, "x")]),
    (s.Voucher | s.Cash, [s.Cash(1), s.Voucher(1, "x")]),
    (s.Card | dict[str, int], [s.Card("1"), {"a": 1}]),
    (s.Person | s.Card | int | None, [s.Person(name="x"), s.Card("1"), 5, None]),
    (str | UUID, ["x", UUID(int=1), "ABCD"]),
    (str | dt.datetime | Decimal, ["x", NOON, Decimal("1.50"), "1,5"]),
    (dt.datetime | dt.date, [NOON, dt.date(2024, 1, 2)]),
    (s.Colour | str, [s.Colour.RED, "green"]),
    (str | s.Colour, [s.Colour.RED, "green"]),
    (s.Odd | int, [s.Odd.PAIR, s.Odd.HALF, s.Odd.HUGE, 7]),
    (Decimal | int | float, [Decimal("1.5"), 2, 2.5]),
    (list[int] | list[str], [[1], ["a"], []]),
    (list[s.Card] | list[s.Cash], [[s.Card("1")], [s.Cash(1)]]),
    (dict[str, s.Card | s.Cash], [{"a": s.Card("1"), "b": s.Cash(1)}]),
    (tuple[s.Card | s.Cash, ...], [(s.Card("1"), s.Cash(1)), ()]),
    (s.Account | s.Card, [s.Account("me", 5), s.Card("1")]),
    (s.Point | s.Card, [s.Point(1), s.Card("1")]),
    (Literal["a"] | UUID, ["a", UUID(int=1)]),
    (Literal[1.5, b"x"], [1.5, b"x"]),
    (Annotated[s.Card | s.Cash, "how"], [s.Card("1"), s.Cash(1)]),
    (s.Tagged | s.Card, [s.Tagged("x", NOON), s.Card("1")]),
]


@pytest.mark.parametrize(("kind", "values"), UNIONS)
def test_a_union_gives_back_the_member_that_was_written(kind: Any, values: list[Any]) -> None:
    """K20: also where JSON alone does not tell which it was."""
    for value in values:
        for wanted, given_value in ((kind, value), (list[kind], [value]), (dict[str, kind], {"a": value})):
            found = decode(encode(given_value), wanted)
            assert found == given_value
            assert repr(found) == repr(given_value)


def test_the_members_of_a_union_are_tried_in_the_order_of_this_annotation() -> None:
    """K1: two annotations that are equal but for the order never share what is remembered."""
    for _ in range(2):
        assert decode(b'{"cents":1}', s.Cash | Tag) == s.Cash(1)
        assert decode(b'{"cents":1,"code":"x","more":1}', s.Cash | s.Voucher) == s.Cash(1)
        assert decode(b'{"cents":1,"code":"x","more":1}', s.Voucher | s.Cash) == s.Voucher(1, "x")
        types = (s.Cash | s.Voucher,), (s.Voucher | s.Cash,)
        found = [decode_arguments(b'[{"cents":1,"code":"x","more":1}]', one, "pay") for one in types]
        assert found == [[s.Cash(1)], [s.Voucher(1, "x")]]


def test_a_missing_field_takes_its_default_where_a_class_is_read_field_by_field() -> None:
    """K20: as in a class that is read whole."""
    assert decode(b'{"how":{"cents":1}}', Made) == decode(b'{"how":{"cents":1},"count":7}', Made)
    assert decode(b'{"how":{"cents":1}}', Made).tags == ["made"]
    assert decode(b'{"method":{"cents":1}}', s.Payment) == s.Payment(s.Cash(1))
    assert decode(b'["packed",{"cents":1}]', s.Packed) == s.Packed(s.Cash(1))
    assert decode(b'[{"cents":1}]', s.PaidPair) == s.PaidPair(s.Cash(1))
    assert decode(b'{"type":"holder","payMethod":{"cents":1}}', s.Holder).unset is msgspec.UNSET
