"""A payload over its limit is refused where it is made, and the limit is a setting (section 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from perdure import ActivityFailed, InvalidValue, activity, promise, query, receive, set_state, update, workflow
from perdure.app import Client
from perdure.testing.engines import SETTINGS

Opened = Callable[..., Any]
LIMIT = 2_000
BIG = "x" * LIMIT
SAYS = r"takes 2,\d\d\d bytes as JSON, and at most 2,000 are allowed: keep it outside and pass its name"


@activity
async def swell(size: int) -> str:
    return "x" * size


@workflow
async def takes(what: Any) -> Any:
    return await receive("go", Any)


@workflow
class Told:
    async def run(self) -> int:
        promise("paid", str, key="invoice-1")
        return await receive("go", int)

    @update
    async def keep(self, what: Any) -> None:
        """Kept."""

    @query
    def echo(self, what: Any) -> Any:
        return what


@workflow
async def swells(size: int) -> str:
    try:
        return f"it has {len(await swell(size))} characters"
    except ActivityFailed as error:
        return f"{error.failure.type}: {error.failure.message}"


@workflow
async def remembers(size: int) -> int:
    set_state("text", "x" * size)
    return size


def limited(limit: int) -> dict[str, Any]:
    return {"settings": replace(SETTINGS, payload_bytes_max=limit)}


CALLS: list[Callable[[Any], Any]] = [
    lambda e: e.start(takes, BIG, id="new"),
    lambda e: e.start("elsewhere", [BIG], id="new", queue="theirs"),
    lambda e: e.start(takes, 1, id="new", memo={"note": BIG}),
    lambda e: e.start(takes, 1, id="new", attributes={"region": BIG}),
    lambda e: e.signal_with_start(takes, 1, id="new", signal="go", signal_args=[BIG]),
    lambda e: e.handle("there").signal("go", BIG),
    lambda e: e.handle("there").update("keep", BIG),
    lambda e: e.handle("there").update(Told.keep, BIG),
    lambda e: e.handle("there").query("echo", BIG),
    lambda e: e.handle("there").resolve("paid", BIG),
    lambda e: e.resolve_promise("invoice-1", BIG),
    lambda e: e.complete_activity("a:b", BIG),
    lambda e: e.handle("there").resolve_activity("a", "happened", BIG),
]


async def test_a_call_with_too_large_a_payload_is_refused(engine: Opened, virtual_clock: Any) -> None:
    url = "memory://sizes"
    client = Client(url, clock=virtual_clock, threads=False, **limited(LIMIT))
    async with engine(url=url, workflows=[takes, Told], **limited(LIMIT)) as e, client:
        await e.start(Told, id="there")
        await asyncio.sleep(1)
        before = await e.store.counts()
        for side in (e, client):
            for number, call in enumerate(CALLS):
                with pytest.raises(InvalidValue, match=SAYS):
                    await call(side)
                assert await e.store.counts() == before, number
        await e.handle("there").update(Told.keep, "x" * (LIMIT - 10))


async def test_a_result_over_the_limit_fails_its_activity_for_good(engine: Opened) -> None:
    async with engine(workflows=[swells], activities=[swell], **limited(LIMIT)) as e:
        assert await e.run(swells, 100) == "it has 100 characters"
        said = await e.run(swells, LIMIT)
        assert said.startswith("InvalidValue: the result of activity `swell` takes 2,002 bytes")


async def test_a_run_that_orders_too_much_waits_for_a_larger_limit_and_harms_nobody(
    engine: Opened, virtual_clock: Any
) -> None:
    url = "memory://orders"
    client = Client(url, clock=virtual_clock, threads=False)
    async with client:
        async with engine(url=url, workflows=[remembers], **limited(LIMIT)) as e:
            handle = await e.start(remembers, LIMIT, id="large")
            assert await e.run(remembers, 100) == 100
            blocked = (await handle.describe()).blocked
            assert blocked is not None
            assert blocked.kind == "violation"
            assert "what set_state `text` is given takes 2,004 bytes" in blocked.reason
            assert "test_sizes.py:" in blocked.reason
        async with engine(url=url, workflows=[remembers]) as e:
            assert await e.handle("large").result() == LIMIT
