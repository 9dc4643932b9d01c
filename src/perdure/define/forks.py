"""Forks: `parallel`, `race`, `each`, `choose`, and the joins of `parallel`.

The typed face of kernel.branches and kernel.each.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Generator, Iterable
from typing import Any, Generic, Literal, TypeVar, cast, overload

import msgspec

from perdure.define.acting import run_and_unit
from perdure.errors import InvalidValue
from perdure.kernel import branches as kernel
from perdure.kernel.branches import Fork, Join
from perdure.kernel.each import Each

T = TypeVar("T")
Item = TypeVar("Item")
K = TypeVar("K")
V = TypeVar("V")

Branch = Awaitable[T] | Callable[[], Awaitable[T]] | Callable[[], T]


class Outcome(msgspec.Struct, Generic[T], frozen=True):
    """How a branch ended: with a value, or with an error."""

    value: T | None = None
    error: BaseException | None = None


class FirstFew(msgspec.Struct, frozen=True):
    """The first `needed` branches to end; of exactly `branches`, where that is said."""

    needed: int
    branches: int | None = None


class Merge(msgspec.Struct, Generic[K, V], frozen=True):
    """Mappings merged in branch order."""

    settle: Callable[[K, V, V], V] | None = None


def first(n: int) -> FirstFew:
    """The join that takes the first n branches to end."""
    return FirstFew(_whole(n, "first"))


def n_of_m(n: int, m: int) -> FirstFew:
    """The join that takes the first n of m branches to end."""
    return FirstFew(_whole(n, "n_of_m"), _whole(m, "n_of_m"))


def merge(fn: Callable[[K, V, V], V] | None = None) -> Merge[K, V]:
    """The join that merges mappings in branch order; `fn(key, old, new)` settles a conflict, else the later wins."""
    return Merge(fn)


@overload
async def parallel(*branches: Branch[T], join: Literal["all"] = "all") -> list[T]: ...
@overload
async def parallel(*branches: Branch[T], join: Literal["settled"]) -> list[Outcome[T]]: ...
@overload
async def parallel(*branches: Branch[T], join: Literal["first"]) -> T: ...
@overload
async def parallel(*branches: Branch[T], join: FirstFew) -> list[T]: ...
@overload
async def parallel(*branches: Branch[Any], join: Merge[K, V]) -> dict[K, V]: ...
async def parallel(*branches: Any, join: Any = "all") -> Any:
    """Run branches side by side: coroutines, futures, or callables without arguments. What is not needed is cancelled.

    `join`: `"all"` (values in input order; a failing branch cancels the rest and raises), `"settled"` (an `Outcome`
    for each), `"first"` (its value), `first(n)` and `n_of_m(n, m)` (values in the order of completion), `merge(fn)`.
    A branch that fails before the join is satisfied fails it, but for `"settled"`.
    """
    executor, _ = run_and_unit("parallel")
    try:
        needed = _join_of(join, len(branches))
    except InvalidValue:
        kernel.discard(branches)
        raise
    fork = Fork(executor, "parallel", branches, needed)
    order = await fork.ends()
    if join == "settled":
        return [_outcome(future) for future in fork.futures]
    if join == "first":
        return fork.futures[order[0]].result()
    if isinstance(join, FirstFew):
        return [fork.futures[number].result() for number in order]
    values = [future.result() for future in fork.futures]
    if isinstance(join, Merge):
        return kernel.merge(values, cast("Merge[Any, Any]", join).settle)
    return values


async def race(*branches: Branch[T]) -> tuple[int, T]:
    """`(index, value)` of the first branch to end; the others are cancelled. If it failed, its error is raised."""
    executor, _ = run_and_unit("race")
    if not branches:
        raise InvalidValue("race() needs at least one branch")
    fork = Fork(executor, "race", branches, Join(1))
    winner = (await fork.ends())[0]
    return winner, fork.futures[winner].result()


async def choose(*branches: Branch[T]) -> T:
    """Run exactly one branch; the policy picks it (the first, in production), and the choice is recorded."""
    executor, _ = run_and_unit("choose")
    return await kernel.choose(executor, branches)


class Results(Generic[T]):
    """What `each` returns: an async iterator of results; awaited, their list."""

    def __init__(self, each: Each) -> None:
        self._each = each

    def __aiter__(self) -> AsyncIterator[T]:
        return cast("AsyncIterator[T]", self._each)

    def __anext__(self) -> Awaitable[T]:
        return self._each.__anext__()

    def __await__(self) -> Generator[Any, None, list[T]]:
        return self._each.__await__()


@overload
def each(
    items: Iterable[Item] | AsyncIterable[Item], fn: Callable[[Item], Awaitable[T]], limit: int = 100
) -> Results[T]: ...
@overload
def each(items: Iterable[Item] | AsyncIterable[Item], fn: Callable[[Item], T], limit: int = 100) -> Results[T]: ...
def each(items: Any, fn: Callable[[Any], Any], limit: int = 100) -> Results[Any]:
    """`fn` over many items, at most `limit` at once, in flat memory; results in the order of the items."""
    executor, _ = run_and_unit("each")
    return Results(Each(executor, items, fn, limit))


def _join_of(join: object, branches: int) -> Join:
    if join == "all" or isinstance(join, Merge):
        return Join()
    if join == "settled":
        return Join(tolerant=True)
    if join == "first":
        join = FirstFew(1)
    if isinstance(join, FirstFew):
        if join.branches is not None and join.branches != branches:
            raise InvalidValue(f"n_of_m({join.needed}, {join.branches}) does not fit {branches} branches")
        Join(join.needed).check(branches)
        return Join(join.needed)
    raise InvalidValue(f"join is 'all', 'settled', 'first', first(n), n_of_m(n, m) or merge(fn), not {join!r}")


def _outcome(future: Any) -> Outcome[Any]:
    error = kernel.error_of(future)
    return Outcome(error=error) if error is not None else Outcome(value=future.result())


def _whole(number: object, call: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InvalidValue(f"{call}() takes whole numbers from 1 on, not {number!r}")
    return number
