"""Patience: a store that cannot be reached or written now is asked again until it can (section 6).

Used for what must not be lost: turns, answers of activities, runs that are given back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from perdure.errors import StoreUnavailable

T = TypeVar("T")
WAIT_SECONDS = 0.1
WAIT_SECONDS_MAX = 5.0
logger = logging.getLogger("perdure.engine")


async def insist(call: Callable[[], Awaitable[T]], what: str) -> T:
    """Do it as soon as the store can be written. Whatever else it raises comes out at once."""
    wait = WAIT_SECONDS
    while True:
        try:
            return await call()
        except StoreUnavailable as error:
            logger.error("%s: the store is asked again in %g s: %s", what, wait, error)
        await asyncio.sleep(wait)
        wait = min(wait * 2, WAIT_SECONDS_MAX)


def whole(work: Coroutine[Any, Any, T]) -> Awaitable[T]:
    """Have it done to its end, also where who waits for it is cancelled."""
    return asyncio.shield(asyncio.ensure_future(work))
