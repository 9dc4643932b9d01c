"""What cases expect; plain functions, so that a case says what is wrong under any test runner, and with -O."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TypeVar

T = TypeVar("T")


class NotConforming(AssertionError):
    """A store did not do what the port says."""


def same(got: T, wanted: T) -> None:
    """These are equal."""
    if got != wanted:
        raise NotConforming(f"got    {got!r}\nwanted {wanted!r}")


def only(got: Sequence[T]) -> T:
    """The one thing that this holds."""
    if len(got) != 1:
        raise NotConforming(f"got    {got!r}\nwanted one thing, not {len(got)}")
    return got[0]


def refused(got: object, kind: type[Exception] = Exception) -> None:
    """This is an error of this kind, put where an answer would stand."""
    if not isinstance(got, kind):
        raise NotConforming(f"got    {got!r}\nwanted {kind.__name__}")


async def raises(kind: type[Exception], call: Awaitable[object]) -> None:
    """This call is refused with such an error."""
    try:
        got = await call
    except kind:
        return
    raise NotConforming(f"got    {got!r}\nwanted {kind.__name__} to be raised")
