"""Arguments travel as one JSON array; the same JSON is found the same whatever its spelling."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Annotated, Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.codec import EMPTY_ARGUMENTS, NULL, decode_arguments, encode, encode_arguments, plain, same
from perdure.errors import InvalidValue
from tests.codec import samples as s

# --- arguments -----------------------------------------------------------------------------------


def test_arguments_are_an_array_of_values() -> None:
    """K20: each as it is written alone."""
    assert encode_arguments(()) is EMPTY_ARGUMENTS
    assert bytes(EMPTY_ARGUMENTS) == b"[]"
    assert bytes(NULL) == b"null"
    args = ("a", 5, 1.5, None, s.Card("1"), (1, 2), 10**30)
    for given_args in (args, list(args)):
        assert plain(encode_arguments(given_args)) == ["a", 5, 1.5, None, {"number": "1"}, [1, 2], 10**30]


def test_arguments_come_back_each_as_its_own_type() -> None:
    """K20: one road for values."""
    args: list[Any] = [s.Card("1"), Decimal("1.5"), s.Cash(1), {1: b"x"}]
    types = [s.Card, Decimal, s.Card | s.Cash, dict[int, bytes]]
    assert decode_arguments(encode_arguments(args), types, "pay") == args
    assert decode_arguments(encode_arguments(args[:2]), types[:2], "pay") == args[:2]
    assert decode_arguments(b"[1,2]", ["NotKnown", Any], "pay") == [1, 2]
    assert decode_arguments(b"[1]", [Annotated[int, []]], "pay") == [1]


def test_fewer_arguments_than_types_are_left_to_the_defaults_of_the_callee() -> None:
    """K20: what was not given is not made up."""
    assert decode_arguments(b"[]", (int, str), "pay") == []
    assert decode_arguments(b"[1]", (int, s.Card | s.Cash), "pay") == [1]
    assert decode_arguments(b'[1,"a"]', (int, str, int), "pay") == [1, "a"]


@pytest.mark.parametrize(
    ("raw", "names", "message"),
    [
        (b"[1,2,3]", (), "pay: takes at most 2 arguments, got 3"),
        (b'["x","y"]', (), "pay argument 1: expected int, got str"),
        (b'[1,{"cents":"x"}]', (), "pay argument 2.cents: expected int, got str"),
        (b'[1,{"cents":"x"}]', ("count", "cash"), "cash.cents: expected int, got str"),
        (b'{"a":1}', (), "pay: expected array, got object"),
        (b"[1,", (), "pay: input data was truncated"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(raw: bytes, names: tuple[str, ...], message: str) -> None:
    """Section 6: which argument, where in it, what was expected."""
    with pytest.raises(InvalidValue) as refused:
        decode_arguments(raw, (int, s.Cash), "pay", names)
    assert str(refused.value) == message


# --- the same JSON -------------------------------------------------------------------------------

DIFFERENT = [
    b"1",
    b"1.0",
    b"true",
    b'"1"',
    b"null",
    b"0",
    b"false",
    b"0.0",
    b"-0.0",
    b'""',
    b"[]",
    b"{}",
    b"[1]",
    b"[[1]]",
    b"[1,2]",
    b"[2,1]",
    b'{"a":1}',
    b'{"a":1.0}',
    b'{"b":1}',
    b'{"a":1,"b":2}',
    b'{"a":null}',
    b"1" + b"0" * 30,
]


def test_json_that_differs_in_type_or_order_of_items_is_not_the_same() -> None:
    """K10: 1 is neither 1.0 nor true."""
    for left, right in itertools.product(DIFFERENT, repeat=2):
        assert same(left, right) is (left is right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (b'{"a":1,"b":[{"c":1,"d":2}]}', b'{"b":[{"d":2,"c":1}],"a":1}'),
        (b" [1, 2] ", b"[1,2]"),
        (b"1.50", b"1.5"),
        (b"1e3", b"1000.0"),
        (b'"\\u0041"', b'"A"'),
        (b"1" + b"0" * 40, b" 1" + b"0" * 40),
    ],
)
def test_json_that_differs_in_spelling_only_is_the_same(left: bytes, right: bytes) -> None:
    """K10: spaces, escapes and the order of keys mean nothing."""
    assert same(left, right)
    assert same(msgspec.Raw(left), right)


def test_equal_bytes_are_the_same_without_being_read_and_others_must_be_json() -> None:
    """K10: the usual case costs one comparison."""
    assert same(b"{bad", b"{bad")
    with pytest.raises(InvalidValue):
        same(b"{bad", b"{}")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=8,
)


@given(json_values, st.randoms())
def test_the_order_of_keys_never_matters(value: Any, random: Any) -> None:
    """K10: at any depth."""

    def shuffled(part: Any) -> Any:
        if type(part) is list:
            return list(map(shuffled, cast("list[Any]", part)))
        if type(part) is dict:
            pairs = list(cast("dict[str, Any]", part).items())
            random.shuffle(pairs)
            return {key: shuffled(item) for key, item in pairs}
        return part

    assert same(bytes(encode(value)), bytes(encode(shuffled(value))))
    assert same(bytes(encode(value)), bytes(encode([value]))) is False
