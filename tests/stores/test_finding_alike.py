"""Random runs and random conditions: memory, SQLite and a naive reading of the rules find the same (section 6)."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.stores.memory import MemoryStore
from perdure.stores.port import Store
from perdure.stores.records import (
    FIELDS,
    AllOf,
    AnyOf,
    Blocked,
    Closing,
    Committed,
    Compare,
    Condition,
    Not,
    Operator,
    Parent,
    Run,
)
from perdure.stores.sqlite import SqliteStore, lists
from perdure.stores.sqlite import attributes as stored_attributes
from perdure.testing.clock import VirtualClock
from perdure.testing.conformance.making import a_commit, a_start, an_id

RUNS_MAX = 8
LONG = ["as long as a key", "as long as another", "\u00e9" * 5 + "a", "\u00e9" * 5 + "\U0001f600"]
TEXTS = [
    "",
    "a",
    "A",
    "ab",
    "a%",
    "a_b",
    "%",
    "b*",
    "[a]",
    "?",
    "\u00e9",
    "\U0001f600",
    "it's",
    "running",
    "failed",
    *LONG,
]
NUMBERS = [
    0,
    1,
    1e9 + 0.5,
    10**9,
    -(10**9),
    2**62 + 1,
    2**62,
    -1,
    2,
    2**63 - 1,
    -(2**63),
    2**53,
    0.5,
    1.0,
    -0.0,
    9.3e18,
    1e300,
    1_000_000,
]
PATTERNS = ["%", "_", "a%", "%b", "_b", "a\\%", "%a%", "[a]", "*", "?%", "", "%_%", "\U0001f600%", "r%g", "o-%", "o-_"]
NAMES = ["x", "y", "status", "it's", ""]
FEW = ["a", "ab", 2, 2.0, -1, -1.5]  # often, so that there is much to be found
names = st.one_of(st.just("x"), st.just("x"), st.sampled_from(NAMES))
few = st.sampled_from(FEW)
scalars = st.one_of(few, few, st.sampled_from(TEXTS), st.sampled_from(NUMBERS), st.booleans())
stored = st.one_of(
    scalars,
    st.none(),
    st.lists(st.one_of(scalars, st.none()), max_size=3),
    st.lists(st.sampled_from(NUMBERS), min_size=2, max_size=3),
    st.lists(st.sampled_from(TEXTS), min_size=2, max_size=3),
    st.lists(few, min_size=2, max_size=3),
    st.lists(few, min_size=2, max_size=3),
    st.just({"nested": 1}),
    st.just([[1]]),
    st.just(2**64),
    st.just("a\0b"),
)
attributes = st.dictionaries(names, stored, max_size=4)
runs = st.lists(
    st.fixed_dictionaries(
        {
            "workflow": st.sampled_from(["order", "a", "A", "a%"]),
            "queue": st.sampled_from(["default", "a"]),
            "priority": st.integers(-1, 1),
            "parent": st.booleans(),
            "generation": st.integers(0, 1),
            "attributes": attributes,
            "later": st.none() | attributes,
            "end": st.sampled_from(["running", "running", "blocked", "completed", "failed"]),
        }
    ),
    max_size=RUNS_MAX,
)
fields = st.sampled_from(sorted(FIELDS))
ORDERS: list[Operator] = ["=", "<", "<=", ">", ">="]
operators = st.sampled_from(ORDERS)


@st.composite
def compares(draw: st.DrawFn) -> Compare:
    attribute = draw(st.booleans())
    name = draw(names if attribute else fields)
    value = draw(scalars | st.sampled_from(["o-1", an_id("o-1 first"), "order", "default"]))
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return Compare(name, "like", draw(st.sampled_from(PATTERNS)), attribute)
    if kind == 1:
        return Compare(name, "in", tuple(draw(st.lists(scalars, max_size=3))), attribute)
    return Compare(name, draw(operators), value, attribute)


def _joins(parts: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    several = st.lists(parts, max_size=3).map(tuple)
    return several.map(AllOf) | several.map(AnyOf) | parts.map(Not)


conditions = st.recursive(compares(), _joins, max_leaves=6)


# --- the rules, read naively ---------------------------------------------------------------------


def holds(condition: Condition, run: Run) -> bool:
    if isinstance(condition, AllOf):
        return all(holds(part, run) for part in condition.parts)
    if isinstance(condition, AnyOf):
        return any(holds(part, run) for part in condition.parts)
    if isinstance(condition, Not):
        return not holds(condition.part, run)
    values = attribute_values(run, condition.field) if condition.attribute else [field_value(run, condition.field)]
    return any(compared(value, condition) for value in values)


def attribute_values(run: Run, name: str) -> list[Any]:
    value = msgspec.json.decode(run.attributes).get(name)
    return value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType]


def field_value(run: Run, name: str) -> Any:
    facts = run.facts
    return {
        "status": run.status,
        "type": facts.workflow,
        "id": facts.workflow_id,
        "run_id": facts.run_id,
        "queue": facts.queue,
        "priority": facts.priority,
        "started": run.created_us,
        "closed": run.closed_us,
        "blocked": run.blocked is not None,
        "generation": facts.generation,
        "parent": facts.parent and facts.parent.run_id,
    }[name]


def compared(value: Any, condition: Compare) -> bool:
    if isinstance(value, str):
        if "\0" in value:
            return False
        against = [each for each in of(condition) if isinstance(each, str)]
    elif isinstance(value, float) or (isinstance(value, int) and -(2**63) <= value < 2**63):
        against = [each for each in of(condition) if not isinstance(each, str)]
    else:
        return False
    return any(compared_to(value, condition.operator, each) for each in against)


def of(condition: Compare) -> tuple[Any, ...]:
    return condition.value if isinstance(condition.value, tuple) else (condition.value,)


def compared_to(value: Any, operator: str, other: Any) -> bool:
    if operator == "like":
        expression = "".join({"%": ".*", "_": "."}.get(each, re.escape(each)) for each in str(other))
        return isinstance(value, str) and re.fullmatch(expression, value, re.DOTALL) is not None
    if operator in ("=", "in"):
        return value == other
    return {"<": value < other, "<=": value <= other, ">": value > other, ">=": value >= other}[operator]


# --- the test ------------------------------------------------------------------------------------


async def fill(store: Store, clock: VirtualClock, made: list[dict[str, Any]]) -> None:
    lease = await store.open_lease("w-1", {"default": 1}, 1e6)
    for number, wanted in enumerate(made):
        clock.advance(1)
        parent = Parent(run_id=an_id("o-0 first"), seq=number) if wanted["parent"] else None
        facts = {name: wanted[name] for name in ("workflow", "queue", "priority", "generation")}
        encoded = msgspec.json.encode(wanted["attributes"])
        start = a_start(f"o-{number}", parent=parent, attributes=encoded, **facts)
        run = (await store.start_run(start)).run
        if wanted["later"] is not None:
            owned = await store.claim_run(lease.number, run.number)
            assert owned is not None
            later = msgspec.json.encode(wanted["later"])
            answers = await store.commit_turns([a_commit(owned, lease.number, attributes=later, park=True)])
            assert isinstance(answers[0], Committed)
        if wanted["end"] == "blocked":
            await store.block_run(None, run.number, Blocked(kind="error", reason="why", since_us=1), [])
        elif wanted["end"] != "running":
            await store.close_run(f"o-{number}", None, Closing(wanted["end"]))


async def check(make: Any, made: list[dict[str, Any]], wanted: list[Condition]) -> list[list[int]]:
    clock = VirtualClock()
    store: Store = make(clock)
    await store.open()
    try:
        await fill(store, clock, made)
        everything = await store.list_runs(AllOf(), 100)
        answers: list[list[int]] = []
        for condition in wanted:
            found = await store.list_runs(condition, 100)
            assert found == [run for run in everything if holds(condition, run)], condition
            assert await store.count_runs(condition) == len(found), condition
            first = await store.list_runs(condition, 2)
            rest = await store.list_runs(condition, 100, first[-1].number) if first else []
            assert [*first, *rest] == found, condition
            answers.append([run.number for run in found])
        assert await store.verify() == []
        return answers
    finally:
        await store.close()


@settings(max_examples=40, deadline=None)
@given(
    made=runs,
    wanted=st.lists(conditions, min_size=8, max_size=20),
    rare=st.sampled_from([0, 2, lists.RARE]),
    columns=st.sampled_from([0, 2, stored_attributes.COLUMNS]),
)
def test_all_find_the_same(made: list[dict[str, Any]], wanted: list[Condition], rare: int, columns: int) -> None:
    """Whichever way SQLite goes about it: by how many runs fit, and whether attributes have columns of their own."""
    with (
        TemporaryDirectory() as folder,
        patch.object(lists, "RARE", rare),
        patch.object(stored_attributes, "COLUMNS", columns),
    ):
        sqlite = partial(SqliteStore, Path(folder) / "store.db", threads=False)
        assert asyncio.run(check(MemoryStore, made, wanted)) == asyncio.run(check(sqlite, made, wanted))
