"""M6: cancelling interrupts in unit order, whoever waits for whom, and reaches what no unit order can bring forward."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from perdure import (
    Later,
    Stop,
    activity,
    each,
    parallel,
    phase,
    race,
    receive,
    scope,
    shielded,
    sleep,
    wait_until,
    workflow,
)
from perdure.define.workflow import Workflow
from perdure.testing import Harness, cancel, resolve, signal, update


@activity
async def act(number: int) -> int: ...


async def one(number: int) -> int:
    return await act(number)


def three() -> list[asyncio.Task[int]]:
    return [asyncio.create_task(one(number)) for number in range(3)]


@workflow
async def awaits_the_last() -> None:
    tasks = three()
    await tasks[2]


@workflow
async def gathers_backwards() -> None:
    tasks = three()
    await asyncio.gather(tasks[2], tasks[1])


@workflow
async def gathers_gathers() -> None:
    tasks = three()
    await asyncio.gather(tasks[2], asyncio.gather(tasks[1], one(3), tasks[0]))


@workflow
async def joins_backwards() -> None:
    tasks = three()
    await parallel(tasks[2], tasks[1], one(3))


@workflow
async def races_in_a_task() -> None:
    tasks = three()

    async def last() -> None:
        await race(tasks[2], one(3), tasks[0])

    await asyncio.create_task(last())


@workflow
async def takes_messages() -> None:
    three()

    async def rest() -> None:
        await act(4)

    def handle(state: int) -> Later[int]:
        return Later(rest(), state)

    await phase(0, updates={"more": handle}, timeout="1h")


@workflow
async def leaves_a_group() -> None:
    async with asyncio.TaskGroup() as tasks:
        made = [tasks.create_task(one(number)) for number in range(3)]
        await made[2]


@workflow
async def maps_in_a_task() -> None:
    async def map_all() -> list[int]:
        return await each(range(3), one)

    mapped = asyncio.create_task(map_all())
    three()
    await mapped


@workflow
async def waits_with_a_limit() -> None:
    tasks = three()

    async def limited(number: int) -> None:
        await asyncio.wait_for(tasks[number], 60)

    await asyncio.gather(limited(2), limited(1))


@workflow
async def streams() -> None:
    async def numbers() -> AsyncGenerator[int, None]:
        tasks = three()
        for task in reversed(tasks):
            yield await task

    async for _ in numbers():
        await sleep(1)


SHAPES: list[Workflow[[], None]] = [
    awaits_the_last,
    gathers_backwards,
    gathers_gathers,
    joins_backwards,
    races_in_a_task,
    takes_messages,
    leaves_a_group,
    maps_in_a_task,
    waits_with_a_limit,
    streams,
]


def unit_key(unit: str) -> list[tuple[int, int]]:
    """The order of K3, for units without incarnations."""
    return [("ptha".index(segment[0]), int(segment[1:])) for segment in unit.split("/") if segment]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_m6_a_cancelled_run_withdraws_what_is_open_in_unit_order(shape: Workflow[[], None]) -> None:
    """K3, M6: the root may wait for the last of its tasks: the first is interrupted first all the same."""
    h = Harness(shape)
    turns = [h.start()]
    if shape is takes_messages:
        turns.append(h.activate(update("more", id="u")))
    opened = [command for turn in turns for command in turn.commands if command.kind in CANCELS]
    withdrawn = [command for command in h.activate(cancel("enough")).commands if command.kind in CANCELS.values()]
    assert sorted((one.kind, one.seq) for one in withdrawn) == sorted((CANCELS[one.kind], one.seq) for one in opened)
    units = [unit_key(command.unit) for command in withdrawn]
    assert units == sorted(units)
    assert h.status == "cancelled"
    assert h.replay().status == "cancelled"


CANCELS = {"schedule_activity": "cancel_activity", "start_timer": "cancel_timer"}


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_m6_a_cancelled_scope_withdraws_what_is_open_in_unit_order(shape: Workflow[[], None]) -> None:
    """The same for a region that another task cancels."""

    @workflow
    async def within() -> str:
        async with scope() as region:

            async def stop() -> None:
                async with shielded():
                    await receive("stop", bool)
                region.cancel()

            asyncio.create_task(stop())  # noqa: RUF006  # the run keeps it
            await shape.fn()
        return "left"

    h = Harness(within)
    h.start()
    if shape is takes_messages:
        h.activate(update("more", id="u"))
    withdrawn = [one for one in h.activate(signal("stop", True)).commands if one.kind in CANCELS.values()]
    units = [unit_key(command.unit) for command in withdrawn]
    assert len(units) >= 3
    assert units == sorted(units)
    assert h.result == "left"
    assert h.replay().result == "left"


def test_m6_a_task_from_outside_the_scope_is_cancelled_by_who_awaits_it_in_there() -> None:
    """asyncio passes a cancellation on to what is awaited; the sweep takes over only what it reaches itself."""

    @workflow
    async def borrows() -> list[bool]:
        outside = asyncio.create_task(one(1))

        async def wait() -> None:
            await outside

        tasks: list[asyncio.Task[Any]] = [outside]
        async with scope() as region:
            tasks.append(asyncio.create_task(one(2)))
            tasks.append(asyncio.create_task(wait()))
            await receive("stop", bool)
            region.cancel()
        await asyncio.wait(tasks)
        return [task.cancelled() for task in tasks]

    h = Harness(borrows)
    h.start()
    turn = h.activate(signal("stop", True))
    assert [(one.kind, one.unit) for one in turn.commands[:2]] == [
        ("cancel_activity", "/t1"),
        ("cancel_activity", "/t0"),
    ]
    assert h.result == [True, True, True]


def test_m6_a_branch_that_goes_on_after_its_cancellation_is_waited_for() -> None:
    """Who awaits a task hears of the cancellation when that task has ended, and with what it came to."""

    @workflow
    async def waits() -> list[str]:
        seen: list[str] = []

        async def tidies() -> str:
            try:
                await act(1)
            except asyncio.CancelledError:
                async with shielded():
                    await act(2)
                seen.append("tidied")
            return "value"

        task = asyncio.create_task(tidies())
        try:
            seen.append(await task)
            await sleep(1)
        except asyncio.CancelledError:
            seen.append("cancelled")
        return seen

    h = Harness(waits)
    h.start()
    turn = h.activate(cancel("enough"))
    assert [one.kind for one in turn.commands] == ["cancel_activity", "schedule_activity"]
    h.activate(resolve(1, 0))
    assert h.result == ["tidied", "value", "cancelled"]


def test_m6_a_shield_below_a_swept_scope_still_keeps_out_of_it() -> None:
    """Nested scopes, one of them behind a shield: that one is cancelled by its own sweep and no other."""

    @workflow
    async def nests() -> list[str]:
        seen: list[str] = []

        async def guarded() -> None:
            async with shielded():
                async with scope() as inner:
                    await race(one(1), one(2))
                seen.append(f"inner cancelled: {inner.cancelled}")
            await act(3)

        task = asyncio.create_task(guarded())
        try:
            await parallel(one(4), task)
        except asyncio.CancelledError:
            seen.append("cancelled")
        return seen

    h = Harness(nests)
    h.start()
    turn = h.activate(cancel("enough"))
    assert [(one.kind, one.input or one.seq) for one in turn.commands] == [("cancel_activity", 0)]
    turn = h.activate(resolve(1, 7))
    assert [one.kind for one in turn.commands] == ["cancel_activity", "complete"]
    assert h.result == ["inner cancelled: False", "cancelled"]


def of_limit(name: str) -> Workflow[[], None]:
    async def sleeps() -> None:
        await asyncio.sleep(3)

    async def has_time() -> None:
        async with asyncio.timeout(3):
            await act(1)

    async def waits() -> None:
        await asyncio.wait_for(act(1), 3)

    async def limits() -> None:
        async with scope(timeout=3):
            await act(1)

    async def looks() -> None:
        await wait_until(lambda: False, timeout=3)

    async def listens() -> None:
        await phase(0, signals={"s": Stop[int]}, timeout=3)

    async def receives() -> None:
        await receive("s", bool, timeout=3)

    made = {one.__name__: one for one in (sleeps, has_time, waits, limits, looks, listens, receives)}[name]

    @workflow
    async def goes_on() -> None:
        try:
            await sleep(1)
        finally:
            await made()

    return goes_on


@pytest.mark.parametrize("name", ["sleeps", "has_time", "waits", "limits", "looks", "listens", "receives"])
def test_m6_no_limit_starts_a_timer_in_a_cancelled_scope(name: str) -> None:
    """What it would limit raises at its first pause (docs/decisions/0002)."""
    h = Harness(of_limit(name))
    h.start()
    assert [one.kind for one in h.activate(cancel("enough")).commands] == ["cancel_timer", "cancel"]
    assert h.replay().status == "cancelled"
