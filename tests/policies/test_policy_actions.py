"""Actions: what they are named by, and the order in which they stand (K2, K3, P1)."""

from __future__ import annotations

import copy
import pickle
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import InvalidValue
from perdure.policies import Token, XorBranch

Segment = tuple[str, int, int]

numbers = st.integers(0, 12) | st.integers(95, 105) | st.integers(0, 10**18 - 1)
unit_segments = st.lists(st.tuples(st.sampled_from("ptha"), numbers, st.sampled_from([0, 0, 1, 2, 10])), max_size=4)


def unit_of(segments: list[Segment]) -> str:
    shown = [f"/{kind}{number}" + (f"#{incarnation}" if incarnation else "") for kind, number, incarnation in segments]
    return "".join(shown) or "/"


def order_of(segments: list[Segment]) -> list[Segment]:
    """K3 as it is written down: lists compare a prefix first, and then place by place."""
    return [(str("ptha".index(kind)), number, incarnation) for kind, number, incarnation in segments]


def test_k3_a_prefix_stands_before_what_extends_it_then_kinds_numbers_and_incarnations_decide() -> None:
    """K3, from one end to the other."""
    in_order = (
        *("/", "/p0", "/p0/p0", "/p0/p1", "/p0/t0", "/p0/h0", "/p0/a0", "/p0#1", "/p0#1/p0", "/p0#2", "/p0#10"),
        *("/p1", "/p1/p0", "/p9", "/p10", "/p99", "/p100", "/t0", "/t3", "/t10"),
        *("/h0", "/h2", "/h2/p0", "/h2/a0", "/h2/a0/p0", "/h10", "/a0"),
    )
    tokens = [Token(unit) for unit in in_order]
    shuffled = list(tokens)
    random.Random(1).shuffle(shuffled)
    assert sorted(shuffled) == tokens


@given(unit_segments, unit_segments)
def test_k3_tokens_compare_as_their_segments_do(one: list[Segment], other: list[Segment]) -> None:
    """K3."""
    left, right = Token(unit_of(one)), Token(unit_of(other))
    assert (left < right) == (order_of(one) < order_of(other))
    assert (left == right) == (order_of(one) == order_of(other))
    assert (left >= right) == (order_of(one) >= order_of(other))


def test_p1_tokens_stand_before_branches_and_branches_by_number() -> None:
    """P1."""
    actions = [XorBranch(10), Token("/a99"), XorBranch(9), XorBranch(0), Token("/")]
    assert sorted(actions) == [Token("/"), Token("/a99"), XorBranch(0), XorBranch(9), XorBranch(10)]


@pytest.mark.parametrize(
    "unit",
    [
        *("", "p0", "/p", "//", "/p0/", "/x0", "/P0", "/p-1", "/0", "root", "/p0p1", " /p0", "/p0\n", "/p0 /p1"),
        *("/p01", "/p0#0", "/p0#01", "/p0#", "/p0#1#2", "/p\N{ARABIC-INDIC DIGIT THREE}", "/p" + "1" * 19),
        *(None, 0, b"/p0", ("p", 0), ["/p0"]),
    ],
)
def test_k2_a_text_that_is_no_unit_id_is_refused(unit: object) -> None:
    """K2: nor is a second way to write the same unit allowed."""
    with pytest.raises(InvalidValue, match="unit id"):
        Token(unit)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("index", [-1, True, False, 0.0, "0", None, 10**18])
def test_a_branch_that_is_no_number_from_0_is_refused(index: object) -> None:
    """P1."""
    with pytest.raises(InvalidValue, match="is not a branch"):
        XorBranch(index)  # pyright: ignore[reportArgumentType]


def test_actions_are_equal_by_value_hashable_and_say_what_they_are() -> None:
    """P1."""
    assert Token("/p0") == Token("/p0") != Token("/p1")
    assert XorBranch(0) == XorBranch(0) != XorBranch(1)
    assert Token("/p0") != "/p0"
    assert XorBranch(0) != 0
    assert Token("/") != XorBranch(0)
    assert {Token("/p0"), Token("/p0"), XorBranch(2), XorBranch(2)} == {Token("/p0"), XorBranch(2)}
    assert (repr(Token("/p0")), repr(XorBranch(2))) == ("Token('/p0')", "XorBranch(2)")
    assert (str(Token("/p0")), str(XorBranch(2))) == ("/p0", "2")
    assert (Token("/h2/a0").unit, XorBranch(2).index) == ("/h2/a0", 2)


@pytest.mark.parametrize("action", [Token("/p0#1/p0"), XorBranch(3)], ids=str)
def test_actions_are_frozen_and_survive_copies_and_pickles(action: Token | XorBranch) -> None:
    """P1: an action is a value."""
    for name in ("unit", "index", "sort_key", "more"):
        with pytest.raises(AttributeError, match="cannot be changed"):
            setattr(action, name, "x")
        with pytest.raises(AttributeError, match="cannot be changed"):
            delattr(action, name)
    assert copy.deepcopy(action) == action == pickle.loads(pickle.dumps(action))


@pytest.mark.parametrize("other", ["/p0", 0, None])
def test_actions_have_no_order_with_anything_else(other: object) -> None:
    """K3 orders units, and nothing else."""
    with pytest.raises(TypeError):
        _ = Token("/p0") < other
