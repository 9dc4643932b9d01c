"""Waiting: for so long and no longer, with an error that says what was waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def within(call: Callable[[], Awaitable[T]], duration: str | None, what: str) -> T:
    """Wait for it, so long at most. `TimeoutError`: what is under way goes on."""
    from perdure import codec

    seconds = None if duration is None else codec.duration_seconds(number_or_text(duration), "--timeout")
    try:
        async with asyncio.timeout(seconds):
            return await call()
    except TimeoutError:
        raise TimeoutError(f"{what} within {duration}; it is accepted, and goes on") from None


def number_or_text(text: str) -> str | float:
    """A duration as the shell gives it: `90`, or `1h30m`."""
    try:
        return float(text)
    except ValueError:
        return text
