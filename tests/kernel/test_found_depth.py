"""Long chains: what waits for what waits, however long, is cancelled, ends and is explained without a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from perdure import activity, receive, shielded, workflow
from perdure.define.workflow import Workflow
from perdure.testing import Harness, cancel, resolve, signal

LENGTH = 3_000  # Python's own stack holds 1,000 calls


@activity
async def act(number: int) -> int: ...


@workflow
async def waits_for_a_chain() -> int:
    """Each of the tasks waits for the one before; the first for an activity."""

    async def link(before: asyncio.Future[int]) -> int:
        return await before

    task = asyncio.create_task(link(act(1)))
    for _ in range(LENGTH):
        task = asyncio.create_task(link(task))
    return await task


@workflow
async def cancels_a_chain() -> str:
    """Each of the tasks has made the next; the last waits for an activity."""

    async def link(left: int) -> int:
        return await (asyncio.create_task(link(left - 1)) if left else act(1))

    task = asyncio.create_task(link(LENGTH))
    await receive("stop", bool)
    task.cancel("no more")
    try:
        return f"ended {await task}"
    except asyncio.CancelledError:
        return "cancelled"


@pytest.mark.parametrize(
    ("program", "stop", "end"),
    [
        (waits_for_a_chain, lambda: cancel("enough"), ("cancelled", None)),
        (cancels_a_chain, lambda: signal("stop", True), ("completed", "cancelled")),
    ],
    ids=["run", "task"],
)
def test_m6_a_chain_of_tasks_is_cancelled_however_long(
    program: Workflow[[], object], stop: Callable[[], object], end: tuple[str, object]
) -> None:
    h = Harness(program, turn_limit=60)
    h.start()
    turn = h.activate(stop())  # type: ignore[arg-type]
    assert [command.kind for command in turn.commands][:1] == ["cancel_activity"]
    assert (h.status, h.result) == end
    assert h.replay().status == end[0]


def test_k4_a_chain_of_tasks_ends_however_long() -> None:
    h = Harness(waits_for_a_chain, turn_limit=60)
    h.start()
    assert len(h.waiting()) == LENGTH + 2
    h.activate(resolve(0, 7))
    assert h.result == 7


def test_m6_a_shield_in_a_chain_of_tasks_keeps_what_is_behind_it() -> None:
    """A cancellation goes down the chain as far as the shield, and is raised behind it."""

    @workflow
    async def shields() -> list[str]:
        seen: list[str] = []

        async def last() -> None:
            await act(1)
            seen.append("last")

        async def middle() -> None:
            task = asyncio.create_task(last())
            async with shielded():
                await task
                seen.append("middle")
            await act(2)

        async def first() -> None:
            await asyncio.create_task(middle())

        task = asyncio.create_task(first())
        await receive("stop", bool)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            seen.append("cancelled")
        return seen

    h = Harness(shields)
    h.start()
    assert not h.activate(signal("stop", True)).commands
    turn = h.activate(resolve(0, 1))
    assert [command.kind for command in turn.commands][-1] == "complete"
    assert h.result == ["last", "middle", "cancelled"]
