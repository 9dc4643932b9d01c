"""Wrong calls from outside a run: pyright must refuse every line that is marked, and no other."""

from dataclasses import dataclass

import perdure
from perdure import Client, Engine, Handle, Worker, activity, query, signal, update, workflow


def show(*values: object) -> None: ...


@dataclass
class Order:
    id: str
    cents: int


@activity
async def charge(order_id: str) -> str: ...


@workflow
async def checkout(order: Order, express: bool = False) -> str:
    return order.id if express else ""


@workflow
async def tidy() -> int:
    return 1


@workflow
class Cart:
    async def run(self, customer: str) -> int:
        return len(customer)

    @signal
    def close(self, reason: str, quiet: bool = False) -> None: ...

    @update
    async def add(self, item: str) -> int:
        return len(item)

    @query
    def size(self, kind: str = "") -> int:
        return len(kind)


order = Order("o-1", 990)


async def starting(engine: Engine) -> None:
    await engine.start(checkout, "o-1")  # refused: wrong workflow argument
    await engine.start(checkout)  # refused: a workflow argument is missing
    await engine.start(checkout, order, name="x")  # refused: no such option
    await engine.start(checkout, order, id_policy="always")  # refused: no such policy
    await engine.start(charge, "o-1")  # refused: an activity is no workflow
    await engine.start(Cart, 5)  # refused: wrong argument of a class workflow
    await engine.run(tidy, "x")  # refused: a workflow without arguments
    receipt: int = await engine.run(checkout, order)  # refused: wrong result type
    handle: Handle[int] = await engine.start(checkout, order)  # refused: wrong type of handle
    await engine.signal_with_start(Cart, 5, id="c", signal=Cart.close, signal_args=[""])  # refused: wrong argument
    await engine.signal_with_start(Cart, "bob", id="c", signal=Cart.add)  # refused: an update is no signal
    await engine.signal_with_start(Cart, "bob", id="c")  # refused: no signal
    show(receipt, handle.results)  # refused: no such method


async def telling(cart: Handle[int]) -> None:
    await cart.signal(Cart.close, 5)  # refused: wrong signal argument
    await cart.signal(Cart.close)  # refused: a signal argument is missing
    await cart.signal(Cart.close, 5, message_id="m-1")  # refused: wrong signal argument beside a message id
    await cart.signal(Cart.close, message_id="m-1")  # refused: a signal argument is missing beside a message id
    await cart.signal(Cart.add, "tea")  # refused: an update is no signal
    await cart.update(Cart.add, 5)  # refused: wrong update argument
    await cart.update(Cart.add)  # refused: an update argument is missing
    await cart.update(Cart.add, 5, id="u-1")  # refused: wrong update argument beside an id
    await cart.update(Cart.close, "tea")  # refused: a signal is no update
    count: str = await cart.update(Cart.add, "tea")  # refused: wrong type of an update's answer
    again: str = await cart.update(Cart.add, "tea", id="u-1")  # refused: wrong type of an update's answer
    size: str = await cart.query(Cart.size)  # refused: wrong type of a query's answer
    await cart.query(Cart.size, 5)  # refused: wrong query argument
    await cart.query(Cart.add)  # refused: an update is no query
    text: str = await cart.result()  # refused: wrong result type
    show(count, again, size, text)


def opening() -> None:
    Engine("memory://", queue="x")  # refused: no such option
    Engine("memory://", queues=5)  # refused: no queues
    Client("memory://", lease=5)  # refused: an option of workers
    Worker("memory://", cache="many")  # refused: a cache is a number
    show(perdure.Engin)  # refused: no such name
