"""A workflow that raises fails its run, also with what is no `Exception` and a task of asyncio keeps all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from perdure import activity, parallel, workflow
from perdure.define.workflow import Workflow
from perdure.testing import Harness, evict, resolve


@activity
async def act(number: int) -> int: ...


@workflow
async def broken_off() -> None:
    """A group around a `yield`: to break off the iteration raises a group of `GeneratorExit` in it."""

    async def results() -> AsyncGenerator[int, None]:
        async with asyncio.TaskGroup() as tasks:
            for task in [tasks.create_task(parallel(act(number))) for number in range(2)]:
                yield (await task)[0]

    async with aclosing(results()) as numbers:
        async for _ in numbers:
            break


@workflow
async def raises_generator_exit() -> None:
    await act(1)
    raise GeneratorExit


@pytest.mark.parametrize(
    ("program", "error"), [(broken_off, "BaseExceptionGroup"), (raises_generator_exit, "GeneratorExit")]
)
def test_k17_a_group_that_a_broken_off_generator_raises_fails_the_run(program: Workflow[[], None], error: str) -> None:
    h = Harness(program)
    turn = h.start()
    h.activate(evict())
    h.activate(*[resolve(one, 5) for one in turn.commands])
    assert (h.status, h.failure and h.failure.type) == ("failed", error)
    assert h.replay().status == "failed"


def test_k14_what_ends_the_process_is_not_kept_by_a_task() -> None:
    @workflow
    async def leaves() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        Harness(leaves).start()
