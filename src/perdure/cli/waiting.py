"""Waiting: for so long and no longer, with a word after a while, and an error that says what was waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from perdure.cli.saying import clean

T = TypeVar("T")
SAYS_SO_AFTER_SECONDS = 3.0


async def within(call: Callable[[], Awaitable[T]], duration: str | None, what: str, id: str) -> T:
    """Wait for it, so long at most. `TimeoutError`: what is under way goes on."""
    from perdure import codec

    seconds = None if duration is None else codec.duration_seconds(number_or_text(duration), "--timeout")
    try:
        async with asyncio.timeout(seconds):
            told = asyncio.create_task(_say_so(f"{what} yet: `perdure show {id}` says why; Ctrl-C ends the waiting"))
            try:
                return await call()
            finally:
                told.cancel()
    except TimeoutError:
        raise TimeoutError(f"{what} within {duration}; it is accepted, and goes on") from None


def number_or_text(text: str) -> str | float:
    """A duration as the shell gives it: `90`, or `1h30m`."""
    try:
        return float(text)
    except ValueError:
        return text


async def _say_so(text: str) -> None:
    await asyncio.sleep(SAYS_SO_AFTER_SECONDS)
    click.echo(clean(text), err=True)
