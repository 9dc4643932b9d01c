"""A value that cannot be decoded blocks that run only, says where it is wrong, and harms nothing (section 6)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from perdure import (
    Client,
    InvalidValue,
    Rejected,
    RunFailed,
    Stop,
    activity,
    activity_info,
    child,
    complete_later,
    get_state,
    phase,
    promise,
    receive,
    receive_any,
    set_state,
    signal,
    update,
    wait_until,
    workflow,
)
from tests.badinput.corpus import read

Opened = Callable[..., Any]
VALUES: list[dict[str, Any]] = read("undecodable.toml")["value"]
NAMES = (f"memory://undecodable-{number}" for number in itertools.count())
TOKENS: list[str] = []
TEXT: Any = "much"


@dataclass
class Order:
    id: str
    cents: int


@activity
async def lies() -> int:
    return TEXT


@activity
async def waits() -> int:
    TOKENS.append(activity_info().token)
    complete_later()


@workflow
async def fine(seconds: float) -> str:
    return await receive("go", str)


@workflow
async def receives() -> str:
    return (await receive("go", Order)).id


@workflow
async def receives_any() -> str:
    return (await receive_any({"go": Order, "no": int}))[0]


@workflow
async def promised() -> str:
    return (await promise("paid", Order, key="invoice-1")).id


@workflow
async def calls() -> int:
    return await lies()


@workflow
async def held() -> int:
    return await waits()


@workflow
async def liar() -> int:
    return TEXT


@workflow
async def parent() -> int:
    return await child(liar)


@workflow
class Desk:
    def __init__(self) -> None:
        self.stopped = False

    async def run(self) -> str:
        await wait_until(lambda: self.stopped)
        return "stopped"

    @signal
    def stop(self, order: Order) -> None:
        self.stopped = True

    @update
    async def add(self, order: Order) -> int:
        return order.cents


@workflow
async def phased() -> int:
    def go(state: int, order: Order) -> Stop[int]:
        return Stop(state + order.cents)

    return (await phase(0, signals={"go": go})).state


@workflow
async def forgetful() -> int:
    set_state("step", "first")
    return get_state("step", int) or 0


WORKFLOWS = [fine, receives, receives_any, promised, calls, held, liar, parent, Desk, phased, forgetful]


@pytest.mark.parametrize("value", VALUES, ids=[f"{value['workflow']} {value['told']}" for value in VALUES])
async def test_it_blocks_its_run_and_nobody_else(engine: Opened, virtual_clock: Any, value: dict[str, Any]) -> None:
    """`c` is a client that knows nothing of the code, and so cannot refuse what does not fit."""
    TOKENS.clear()
    url = next(NAMES)
    async with (
        engine(url=url, workflows=WORKFLOWS, activities=[lies, waits]) as e,
        Client(url, clock=virtual_clock, threads=False) as c,
    ):
        other = await e.start(fine, 1, id="other")
        handle = await e.start(value["workflow"], id="odd")
        await asyncio.sleep(1)
        for told in value["told"]:
            await eval(told, {"c": c, "e": e, "h": handle, "token": TOKENS.pop})
        await asyncio.sleep(1)
        seen = await handle.describe()
        assert seen.status == "running"
        assert seen.blocked is not None
        assert seen.blocked.kind == "undecodable"
        assert value["reason"] in seen.blocked.reason
        assert "\n" not in seen.blocked.reason
        await other.signal("go", "well")
        assert await other.result() == "well"
        assert await e.count("blocked = true") == 1
        assert await e.store.verify() == []
        await handle.terminate("it will not do")


async def test_code_that_can_read_it_goes_on_where_it_stood(engine: Opened, virtual_clock: Any) -> None:
    """After a deploy, at once."""
    url = next(NAMES)

    @workflow(name="receives")
    async def receives_whatever_comes() -> str:
        return f"it was {await receive('go', Any)}"

    async with engine(url=url) as kept:
        async with engine(url=url, workflows=[receives]) as e:
            handle = await e.start(receives, id="odd")
            await handle.signal("go", 5)
            await asyncio.sleep(3)
            assert (await handle.describe()).blocked is not None
        async with engine(url=url, workflows=[receives_whatever_comes]):
            assert await kept.handle("odd").result(timeout=1) == "it was 5"


async def test_an_update_that_cannot_be_read_is_rejected_and_nothing_else_comes_of_it(engine: Opened) -> None:
    """Rule M2: its caller is there to be told."""
    async with engine(workflows=WORKFLOWS) as e:
        handle = await e.start(Desk, id="odd")
        await asyncio.sleep(1)
        with pytest.raises(Rejected, match="update `add` argument 1: expected object, got int"):
            await handle.update("add", 5)
        (*_, last) = await handle.history()
        assert [command.kind for command in last.commands] == ["reject_update"]
        assert (await handle.describe()).blocked is None
        assert await handle.update("add", Order("o-1", 5)) == 5


async def test_a_result_that_is_no_such_thing_is_an_error_of_whoever_reads_it(engine: Opened) -> None:
    async with engine(workflows=WORKFLOWS) as e:
        handle = await e.start(liar)
        with pytest.raises(InvalidValue, match=r"the result of run .*: expected int, got str"):
            await handle.result()
        assert (await handle.describe()).status == "completed"


async def test_a_state_that_is_read_as_something_else_fails_the_run_that_wrote_it(engine: Opened) -> None:
    async with engine(workflows=WORKFLOWS) as e:
        with pytest.raises(RunFailed, match="state `step`: expected int, got str"):
            await e.run(forgetful)
