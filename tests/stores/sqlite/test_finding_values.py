"""Every comparison of every kind of value finds the right runs, by columns and rows of attributes alike (section 6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast, get_args
from unittest.mock import patch

import msgspec
import pytest

from perdure.stores.finding import fits
from perdure.stores.records import EVERY, AllOf, AnyOf, Compare, Condition, Not, Operator, Scalar
from perdure.stores.sqlite import SqliteStore, attributes, lists
from tests.stores.sqlite.files import begin, with_store

LONG = ("as long as a key", "as long as another", "\u00e9" * 5 + "a", "\u00e9" * 5 + "\U0001f600")
TEXTS = ("", "a", "ab", "b", "\U0010ffff", *LONG)
NUMBERS = (0, -0.0, 1, 1.0, 2, 20, -1, -1.5, 0.5, 10**9, 1e9 + 0.5, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 1e300)
VALUES: tuple[Scalar, ...] = (*TEXTS, *NUMBERS, True)
LISTS: tuple[list[Any], ...] = (
    ["a", "b"],
    ["", LONG[0]],
    [LONG[0], LONG[1]],
    [LONG[2], LONG[3]],
    ["ab", "\U0010ffff"],
    [1, 20],
    [2.0, 1],
    [-1, -1.5],
    [-1.5, 0.5],
    [10**9, 1e9 + 0.5],
    [2**53, 2**53 + 1],
    [-(2**63), 2**63 - 1, 1e300],
    ["a", 1],
    ["ab", -1.5, "b"],
    [1, 1.0],
    [],
)
COMPARED: tuple[Compare, ...] = tuple(
    Compare("x", cast("Operator", operator), value, attribute=True)
    for operator in get_args(Operator)
    if operator not in ("in", "like")
    for value in VALUES
)
PATTERNS = (
    *(
        "%",
        "%%",
        "a%",
        "%b",
        "%a%",
        "ab",
        "",
        "_",
        "_b",
        "%a_",
        "a%b",
        "%key%",
        "as%key",
        "as long%",
        "%long a%",
        "%a k%",
    ),
    *(
        "%\u00e9%",
        "\u00e9%",
        "%\u00e9a",
        "\U0010ffff%",
        "%\U0010ffff",
        "%0",
        "%0%",
        "2%",
        "%3ff%",
        "%t",
        "%n%",
        "%as as%",
    ),
)
ALIKE = tuple(Compare("x", "like", pattern, attribute=True) for pattern in PATTERNS)
AMONG = tuple(
    Compare("x", "in", VALUES[at : at + size], attribute=True) for at in range(0, 20, 4) for size in (1, 3, 12)
)
ENDINGS: tuple[tuple[Operator, Operator], ...] = ((">", "<="), (">=", "<"))
ENDS = (*VALUES[::3], True)
BETWEEN = tuple(
    AllOf((Compare("x", above, low, attribute=True), Compare("x", below, high, attribute=True)))
    for above, below in ENDINGS
    for low in ENDS
    for high in ENDS
)
RUNNING = Compare("status", "=", "running")


def ways(wanted: Condition) -> list[Condition]:
    """The same comparison where it is alone and among others, which decides how it is looked for."""
    return [wanted, Not(wanted), AllOf((wanted, RUNNING)), AnyOf((wanted, Compare("id", "=", "o-0"))), Not(Not(wanted))]


@pytest.mark.parametrize("listed", [LISTS, ()], ids=["and lists", "no lists"])
@pytest.mark.parametrize("columns", [0, attributes.COLUMNS], ids=["in rows", "in columns"])
@pytest.mark.parametrize("rare", [0, lists.RARE], ids=["scanned", "looked up"])
def test_each_comparison_finds_its_runs(columns: int, rare: int, listed: tuple[list[Any], ...], tmp_path: Path) -> None:
    async def check(store: SqliteStore) -> None:
        for number, value in enumerate([*VALUES, *listed, None]):
            await begin(store, f"o-{number}", attributes=msgspec.json.encode({"x": value}))
        everything = await store.list_runs(EVERY, 1000)
        for compare in (*COMPARED, *ALIKE, *AMONG, *BETWEEN) if listed else BETWEEN:
            for wanted in ways(compare):
                found = [run for run in everything if fits(run, wanted)]
                assert await store.list_runs(wanted, 1000) == found, wanted
                assert await store.count_runs(wanted) == len(found), wanted

    with patch.object(attributes, "COLUMNS", columns), patch.object(lists, "RARE", rare):
        with_store(tmp_path / "store.db", check, threads=False)
