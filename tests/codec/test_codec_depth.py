"""Depth, cycles and size: the limits of one value, and what the message says of them (section 6)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.codec import encode, plain
from perdure.errors import InvalidValue
from tests.codec import samples as s


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_a_value_inside_itself_is_refused_by_the_path_at_which_it_closes() -> None:
    """Section 6: a cycle is named as one."""
    order: dict[str, Any] = {"lines": []}
    order["lines"].append({"parent": order})
    with pytest.raises(InvalidValue) as refused:
        encode(order, "order")
    assert str(refused.value) == "order.lines[0].parent: dict is not supported inside itself; break the cycle"
    bag = s.Box[Any](None)
    bag.more = [1, bag]
    with pytest.raises(InvalidValue, match=r"^bag\.more\[1\]: Box is not supported inside itself; break the cycle$"):
        encode(bag, "bag")
    looped = s.Loose()
    looped.value = looped
    with pytest.raises(InvalidValue, match=r"^value: Loose is not supported as it stands: .*ircular"):
        encode(looped)


def test_two_hundred_levels_pass_and_one_more_is_refused() -> None:
    """Section 6: a limit, said in the message."""
    assert plain(encode(deep(200))) == deep(200)
    with pytest.raises(InvalidValue, match=r"…[0\[\]]+: list is not supported more than 200 levels deep"):
        encode(deep(201))
    with pytest.raises(InvalidValue, match="200 levels deep"):
        encode(deep(10_000))
    with pytest.raises(InvalidValue, match="200 levels deep"):
        encode({"a": s.Loose(value=deep(230))})


def test_a_long_path_keeps_its_beginning_and_its_end() -> None:
    """Section 6: a message that can be read."""
    value: Any = {"last": {1}}
    for number in range(100):
        value = {f"step{number}": value}
    with pytest.raises(InvalidValue) as refused:
        encode(value, "order")
    assert len(str(refused.value)) < 300
    assert str(refused.value).startswith("order.step99.step98.")
    assert ".step0.last: set" in str(refused.value)


def test_the_check_of_a_big_plain_list_looks_at_its_types_only() -> None:
    """K20: the item that is not plain is found among ten thousand that are."""
    values: list[Any] = list(range(10_000))
    assert plain(encode(values)) == values
    values[9_876] = {1}
    with pytest.raises(InvalidValue, match=r"^value\[9876\]: set is not supported"):
        encode(values)
