"""Runs are found by filters, and attributes are what they are found by: through the engine, on virtual time."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from perdure import InvalidValue, attributes, continue_as_new, info, receive, workflow
from perdure.engine.client import PAGE_RUNS
from perdure.errors import RunFailed
from perdure.testing import Harness

Opened = Callable[..., Any]
SECOND = timedelta(seconds=1)


class Colour(enum.Enum):
    RED = "red"


@workflow
async def waiting(number: int) -> int:
    await receive("go", None)
    return number


@workflow
async def stepping(steps: list[dict[str, Any]]) -> dict[str, Any]:
    for step in steps:
        attributes(**step)
    return dict(info().attributes)


@workflow
async def generations(left: int) -> int:
    attributes(left=left)
    if left:
        continue_as_new(left - 1)
    return left


async def ids(e: Any, filter: str = "", **options: Any) -> list[str]:
    return [run.id async for run in e.list(filter, **options)]


async def test_a_list_gives_the_newest_first_in_as_many_pages_as_it_takes(engine: Opened) -> None:
    """Pages of 200; what is started meanwhile is not on the list."""
    amount = 2 * PAGE_RUNS + 50
    async with engine(workflows=[waiting]) as e:
        for number in range(amount):
            await e.start(waiting, number, id=f"w-{number}", attributes={"even": number % 2 == 0})
        seen: list[str] = []
        async for run in e.list():
            seen.append(run.id)
            if len(seen) % PAGE_RUNS == 1:
                await e.start(waiting, 0, id=f"late-{len(seen)}")
        assert seen == [f"w-{number}" for number in reversed(range(amount))]
        assert await e.count() == amount + 3
        even = [f"w-{number}" for number in reversed(range(0, amount, 2))]
        assert await ids(e, "even = true") == even
        for limit in (0, 1, PAGE_RUNS, PAGE_RUNS + 1, amount):
            assert await ids(e, "even = true", limit=limit) == even[:limit]


async def test_runs_are_found_by_what_they_are(engine: Opened) -> None:
    async with engine(workflows=[waiting, generations, stepping]) as e:
        first = await e.start(waiting, 1, id="a", queue="default", priority=3, attributes={"region": "eu"})
        await e.run(generations, 2, id="b")
        await e.start(waiting, 1, id="c", attributes={"region": "us", "status": "odd"})
        await e.handle("c").terminate("why not")
        assert await ids(e, "status = 'running'") == ["a"]
        assert await ids(e, "status = 'terminated' and region like 'u_'") == ["c"]
        assert await ids(e, "type = 'generations'") == ["b", "b", "b"]
        assert await ids(e, "type = 'generations' and generation > 0 and status != 'continued'") == ["b"]
        assert await ids(e, "left in (1, 2)") == ["b", "b"]
        assert await ids(e, f"run_id = '{first.run_id}' and priority >= 3") == ["a"]
        assert await ids(e, "\"status\" = 'odd'") == ["c"]
        assert await ids(e, "closed > '-1h' and not id = 'b'") == ["c"]
        assert await ids(e, "started < '2000-01-01' or blocked = true") == []
        assert await e.count("region = 'eu' or region = 'us'") == 2
        (summary,) = [run async for run in e.list("id = 'a'")]
        assert (summary.type, summary.status, summary.closed, summary.attributes) == (
            "waiting",
            "running",
            None,
            {"region": "eu"},
        )


async def test_a_wrong_filter_or_limit_is_refused_at_the_call(engine: Opened) -> None:
    async with engine(workflows=[waiting]) as e:
        for wrong in (
            "status = 'odd'",
            "x = ",
            "'; drop table runs",
            5,
            None,
            "x = 'a\0b'",
            "x = '\ud800'",
            "x = 1e999",
            f"x = {2**63}",
        ):
            with pytest.raises(InvalidValue, match="filter"):
                e.list(wrong)
            with pytest.raises(InvalidValue, match="filter"):
                await e.count(wrong)
        for limit in (-1, 1.5, True, "1"):
            with pytest.raises(InvalidValue, match="limit"):
                e.list("", limit=limit)


ALLOWED: list[tuple[object, object]] = [
    ("eu", "eu"),
    ("", ""),
    (True, True),
    (-(2**63), -(2**63)),
    (2**63 - 1, 2**63 - 1),
    (1.5, 1.5),
    (Colour.RED, "red"),
    (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    (date(2026, 3, 1), "2026-03-01"),
    (datetime(2026, 3, 1, 9, 30, tzinfo=timezone(timedelta(hours=1))), "2026-03-01T08:30:00.000000Z"),
    (datetime(2026, 3, 1, 9, 30, 0, 5, tzinfo=UTC), "2026-03-01T09:30:00.000005Z"),
    (["a", 1, True], ["a", 1, True]),
    (("a", Colour.RED), ["a", "red"]),
    ([], []),
]
REFUSED: list[tuple[Mapping[Any, object], str]] = [
    ({"x": {"y": 1}}, "attributes.x: dict is not supported; an attribute is text"),
    ({"x": [["y"]]}, r"attributes.x\[0\]: list is not supported"),
    ({"x": ["a", {"y": 1}]}, r"attributes.x\[1\]: dict is not supported"),
    ({"x": ["a", None]}, r"attributes.x\[1\]: None in a list"),
    ({"x": {1, 2}}, "attributes.x: set is not supported"),
    ({"x": b"y"}, "attributes.x: bytes is not supported"),
    ({"x": Decimal(1)}, "attributes.x: Decimal is not supported"),
    ({"x": SECOND}, "attributes.x: timedelta is not supported"),
    ({"x": object()}, "attributes.x: object is not supported"),
    ({"x": 2**63}, "attributes.x: a whole number of more than 64 bits"),
    ({"x": float("nan")}, "attributes.x: float nan is not supported"),
    ({"x": "a\0b"}, "attributes.x: text with a NUL at position 1"),
    ({"x": "\ud800"}, "attributes.x: str is not supported with a lone surrogate"),
    ({"x": "y" * 10_001}, "attributes.x: 10001 characters are too many"),
    ({"x": ["y"] * 1_001}, "attributes.x: a list of 1001 values is too long"),
    ({"x": datetime(2026, 3, 1)}, "attributes.x: a datetime without a time zone"),
    ({"x": datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))}, "attributes.x: .* is beyond"),
    ({1: "x"}, "the name of an attribute must be text, not int"),
    ({"": "x"}, "the name of an attribute is empty"),
    ({"a\nb": "x"}, "the name of an attribute holds the control character"),
]


@pytest.mark.parametrize(("given", "kept"), ALLOWED, ids=[repr(given)[:30] for given, _ in ALLOWED])
async def test_an_attribute_is_text_a_number_a_bool_a_moment_or_a_list_of_these(
    engine: Opened, given: object, kept: object
) -> None:
    async with engine(workflows=[waiting]) as e:
        await e.start(waiting, 1, id="a", attributes={"x": given})
        assert (await e.handle("a").describe()).attributes == {"x": kept}

    @workflow
    async def setting() -> None:
        attributes(x=given)

    h = Harness(setting)
    turn = h.start()
    assert (h.status, turn.commands[0].input) == ("completed", [{"x": kept}])


@pytest.mark.parametrize(("given", "why"), REFUSED, ids=[why[:40] for _, why in REFUSED])
async def test_nothing_else_is_an_attribute(engine: Opened, given: Mapping[Any, object], why: str) -> None:
    """It is refused at the call, of the start and of the workflow, and nothing is written (section 6)."""
    async with engine(workflows=[waiting]) as e:
        with pytest.raises(InvalidValue, match=why):
            await e.start(waiting, 1, attributes=given)
        assert await e.count() == 0

    @workflow
    async def setting() -> None:
        attributes(**given)

    if all(isinstance(name, str) for name in given):
        h = Harness(setting)
        h.start()
        assert h.failure is not None
        with pytest.raises(InvalidValue, match=why):
            raise InvalidValue(h.failure.message)


async def test_none_takes_an_attribute_away(engine: Opened) -> None:
    async with engine(workflows=[stepping]) as e:
        start = {"kept": 1, "gone": 2, "never": None}
        steps = [{"gone": None, "new": ["a", "b"]}, {"new": ["b"], "unknown": None}]
        assert await e.run(stepping, steps, id="a", attributes=start) == {"kept": 1, "new": ["b"]}
        assert (await e.handle("a").describe()).attributes == {"kept": 1, "new": ["b"]}
        assert await ids(e, "gone = 2 or new = 'a'") == []
        assert await ids(e, "kept = 1 and new = 'b'") == ["a"]


async def test_a_refused_attribute_fails_the_run_that_sets_it(engine: Opened) -> None:
    async with engine(workflows=[stepping]) as e:
        with pytest.raises(RunFailed, match=r"attributes\.x: dict is not supported"):
            await e.run(stepping, [{"x": {"y": 1}}], id="a")
