"""A shop, whose workflows and activities the tests of the command line serve."""

from __future__ import annotations

from dataclasses import dataclass

from perdure import Retry, activity, publish, query, receive, set_state, signal, sleep, update, wait_until, workflow
from perdure import child as start_child


@dataclass
class Order:
    id: str
    cents: int


@activity(retry=Retry(attempts=2, initial=0.01, jitter=0))
async def charge(order_id: str, cents: int) -> str:
    if cents < 0:
        raise ValueError("negative amount")
    return f"receipt {order_id}"


@activity(retry=Retry(attempts=None, initial=3600, maximum=3600, jitter=0))
def print_label(order_id: str) -> str:
    if order_id == "jam":
        raise OSError("paper jam")
    return f"label {order_id}"


@activity(queue="nobody")
async def inspect(order_id: str) -> None: ...


@workflow
async def checkout(order: Order) -> str:
    label = print_label(order.id)
    receipt = await charge(order.id, order.cents)
    set_state("receipt", receipt)
    publish({"stage": "charged"})
    if not await receive("approve", bool, timeout="30d", default=False):
        return "declined"
    return f"{receipt}, {await label}"


@activity(effect="ask")
async def pay(order_id: str) -> str:
    raise ConnectionError("no reply")


@workflow
async def paid(order_id: str) -> str:
    return await pay(order_id)


@workflow
async def inspected(order_id: str) -> None:
    await inspect(order_id)


@workflow
async def naps(seconds: float) -> None:
    await sleep(seconds)


@workflow
async def parent(amount: int) -> None:
    for number in range(amount):
        await start_child(naps, 0.001, id=f"nap-{number}")


@workflow
class Cart:
    def __init__(self) -> None:
        self.items: list[str] = []
        self.closed = False

    async def run(self, customer: str) -> int:
        await wait_until(lambda: self.closed)
        return len(self.items)

    @signal
    def close(self) -> None:
        self.closed = True

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

    @query
    def take(self) -> str:
        return self.items.pop()


some = [naps]
EMPTY: list[object] = []
