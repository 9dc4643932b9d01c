"""K19: a callable given as a branch waits for what it awaits, and says so as any coroutine does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from perdure import parallel, workflow
from perdure.testing import Harness

PRIMITIVES: dict[str, Callable[[], Callable[[], Any]]] = {
    "asyncio Event.wait": lambda: asyncio.Event().wait,
    "asyncio Queue.get": lambda: asyncio.Queue[int]().get,
    "asyncio Semaphore.acquire": lambda: asyncio.Semaphore(0).acquire,
    "a future": lambda: asyncio.get_running_loop().create_future,
}


@pytest.mark.parametrize("what", PRIMITIVES)
def test_k19_a_bound_method_of_asyncio_as_a_branch_is_named(what: str) -> None:
    @workflow
    async def waiting() -> list[Any]:
        return await parallel(PRIMITIVES[what]())

    h = Harness(waiting)
    h.start()
    assert [(one.unit, one.what) for one in h.waiting()] == [("/", "parallel: /p0"), ("/p0", what)]
