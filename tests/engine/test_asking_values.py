"""What a person says that an `ask` activity gave: held to its type, and put right where nobody knew that (E5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from perdure import AlreadyExists, Client, InvalidValue, activity, workflow
from perdure.testing import VirtualClock
from tests.engine.performing import uncertain

Opened = Callable[..., Any]


@activity(effect="ask", name="pay")
async def pays_typed(cents: int) -> str:
    raise ValueError("no answer")


@activity(effect="ask", name="pay", queue="bank")
async def pays_elsewhere(cents: int) -> str: ...


@workflow
async def buys_typed(elsewhere: bool) -> str:
    return await (pays_elsewhere if elsewhere else pays_typed)(990)


async def test_a_value_that_its_workflow_could_not_read_is_refused(engine: Opened) -> None:
    """Section 6, K20: at the call, and nothing is written."""
    async with engine(workflows=[buys_typed], activities=[pays_typed]) as e:
        handle = await e.start(buys_typed, False, id="b")
        key = await uncertain(e, handle)
        before = (await handle.describe()).activities
        for wrong in ((), (5,), (["r-9"],)):
            with pytest.raises(InvalidValue, match=r"activity `pay`: expected str, got .* Nothing was written"):
                await handle.resolve_activity(key, "happened", *wrong)
        assert (await handle.describe()).activities == before
        await handle.resolve_activity(key, "happened", "r-9")
        assert await handle.result() == "r-9"


async def test_it_is_refused_where_only_the_workflow_is_known(engine: Opened) -> None:
    """The activity is a stub here: the run knows as what it reads the result."""
    url = "memory://only-the-workflow"
    bank = engine(url=url, activities=[pays_typed], queues=["bank"])
    async with engine(url=url, workflows=[buys_typed]) as e, bank:
        handle = await e.start(buys_typed, True, id="b")
        key = await uncertain(e, handle)
        with pytest.raises(InvalidValue, match="expected str, got null"):
            await handle.resolve_activity(key, "happened")
        await handle.resolve_activity(key, "happened", "r-9")
        assert await handle.result() == "r-9"


async def test_a_value_that_blocks_its_run_can_be_put_right(engine: Opened, virtual_clock: VirtualClock) -> None:
    """E5: who said it could not know the type; nothing has come of it, and the run waits for what fits."""
    url = "memory://put-right"
    client = Client(url, clock=virtual_clock, threads=False)
    async with engine(url=url, workflows=[buys_typed], activities=[pays_typed]) as e, client:
        handle, unknowing = await e.start(buys_typed, False, id="b"), client.handle("b")
        key = await uncertain(e, handle)
        await unknowing.resolve_activity(key, "happened")
        await asyncio.sleep(60)
        blocked = (await handle.describe()).blocked
        assert blocked is not None
        assert (blocked.kind, "expected str, got null" in blocked.reason) == ("undecodable", True)
        await unknowing.resolve_activity(key, "happened")
        with pytest.raises(AlreadyExists):
            await unknowing.resolve_activity(key, "did_not_happen")
        with pytest.raises(InvalidValue, match="expected str, got int"):
            await handle.resolve_activity(key, "happened", 5)
        await unknowing.resolve_activity(key, "happened", "r-9")
        assert await handle.result() == "r-9"
        attempts = (await handle.history())[-1].attempts
        assert [(each.worker, each.outcome) for each in attempts][1:] == [("a person", "completed")] * 2
        with pytest.raises(AlreadyExists):
            await unknowing.resolve_activity(key, "happened", "r-10")
        assert await e.store.verify() == []
