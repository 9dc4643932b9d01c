"""The two ways onto virtual time: a loop of its own, and one that runs already."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from perdure.testing import virtual_time

DAY = 86_400.0
Runner = Callable[[Coroutine[Any, Any, Any]], Any]


def installed(main: Coroutine[Any, Any, Any]) -> Any:
    """On a loop of asyncio's that runs already."""

    async def within() -> Any:
        with virtual_time():
            return await main

    return asyncio.run(within())


def now() -> float:
    return asyncio.get_running_loop().time()
