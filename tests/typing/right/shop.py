"""A shop whose every call is typed: what editors show is what runs."""

import asyncio
from dataclasses import dataclass

from perdure import (
    Child,
    Future,
    Outcome,
    Retry,
    activity,
    child,
    each,
    first,
    merge,
    parallel,
    promise,
    query,
    race,
    receive,
    run_of,
    signal,
    sleep,
    update,
    wait_until,
    workflow,
)
from perdure.testing import Harness


@dataclass
class Order:
    id: str
    cents: int


@activity(retry=Retry(attempts=5, initial=0.2), timeout=30)
async def charge(order_id: str, cents: int, *, note: str = "") -> str: ...


@activity
def print_label(order_id: str) -> bytes: ...


@workflow
async def checkout(order: Order, express: bool = False) -> str:
    label: Future[bytes] = print_label(order.id)
    receipt: str = await charge(order.id, order.cents, note="gift")
    quick: str = await charge.options(timeout=5, cancellation="wait")(order.id, cents=order.cents)
    approved: bool = await receive("approve", bool)
    late: bool | None = await receive("late", bool, timeout="1d", default=None)
    token: int = await promise("token", int, timeout=60)
    await sleep("5m")
    printed: bytes = await label
    return f"{receipt} {quick} {approved} {late} {token} {printed!r} {express}"


@workflow
class Cart:
    def __init__(self) -> None:
        self.items: list[str] = []

    async def run(self, customer: str) -> int:
        await wait_until(lambda: bool(self.items))
        return len(self.items)

    @signal
    def close(self, reason: str, *, quiet: bool = False) -> None:
        self.items.append(reason)

    @update
    async def add(self, item: str) -> int:
        self.items.append(item)
        return len(self.items)

    @add.validator
    def check(self, item: str) -> None:
        if not item:
            raise ValueError("empty item")

    @query
    def size(self) -> int:
        return len(self.items)


async def weigh(item: str) -> float:
    await asyncio.sleep(1)
    return float(len(item))


@workflow
async def everything(customer: str) -> int:
    cart: Child[int] = child(Cart, customer, id="cart", parent_close="abandon")
    cart.signal(Cart.close, "done", quiet=True)
    cart.signal("close", "done")
    order: Child[str] = checkout(Order("o-1", 990))
    same: Child[str] = child(checkout, Order("o-1", 990))
    express: Child[str] = child(checkout, Order("o-1", 990), True, timeout="1h")
    await run_of("other").signal(Cart.close, "done")
    weights: list[float] = await parallel(weigh("a"), weigh("b"))
    outcomes: list[Outcome[float]] = await parallel(weigh("a"), weigh("b"), join="settled")
    lightest: float = await parallel(weigh("a"), lambda: weigh("b"), join="first")
    two: list[float] = await parallel(weigh("a"), weigh("b"), weigh("c"), join=first(2))
    merged: dict[str, int] = await parallel(counted("a"), counted("b"), join=merge(lambda _key, old, new: old + new))
    index, value = await race(order, same, express)
    lengths: list[float] = await each(["a", "b"], weigh)
    async for length in each(["a", "b"], weigh, limit=1):
        lightest += length
    total: int = await cart
    return total + index + len(value) + len(weights) + len(outcomes) + len(two) + len(merged) + len(lengths)


async def counted(word: str) -> dict[str, int]:
    return {word: 1}


def test_of_a_user() -> None:
    h = Harness(checkout, Order("o-1", 990), seed=7)
    result: str | None = h.result
    cart = Harness(Cart, "bob")
    items: int | None = cart.result
    assert (result, items) == (None, None)
