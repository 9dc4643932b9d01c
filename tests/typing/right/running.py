"""Runs that are started, told and asked from outside: each value has the type that the workflow declares."""

from dataclasses import dataclass

from perdure import Client, Engine, Handle, Worker, activity, query, signal, update, workflow


def show(*values: object) -> None: ...


@dataclass
class Order:
    id: str
    cents: int


@activity
async def charge(order_id: str) -> str:
    return order_id


@workflow
async def checkout(order: Order, express: bool = False) -> str:
    return await charge(f"{order.id} {express}")


@workflow
async def tidy() -> int:
    return 1


@workflow
class Cart:
    async def run(self, customer: str) -> int:
        return len(customer)

    @signal
    def close(self, reason: str, quiet: bool = False) -> None: ...

    @signal
    def clear(self) -> None: ...

    @update
    async def add(self, item: str, count: int = 1) -> int:
        return len(item) * count

    @query
    def size(self, kind: str = "") -> int:
        return len(kind)


async def from_outside() -> None:
    async with Client("memory://", workflows=[checkout, Cart]) as client:
        order: Handle[str] = await client.start(checkout, Order("o-1", 990), id="o-1", attributes={"vip": True})
        express: Handle[str] = await client.start(checkout, Order("o-2", 990), True, delay="1h", id_policy="reject")
        cart: Handle[int] = await client.start(Cart, "bob", timeout=60, queue="eu", priority=5)
        tidied: int = await client.run(tidy)
        receipt: str = await order.result(timeout="5s")
        await cart.signal(Cart.close, "done")
        await cart.signal(Cart.close, "done", quiet=True)
        await cart.signal(Cart.close, "done", message_id="m-1")
        await cart.signal(Cart.close, "done", True, message_id="m-1")
        await cart.signal(Cart.clear, message_id="m-2")
        await cart.signal("close", "done", message_id="m-3")
        count: int = await cart.update(Cart.add, "tea")
        count = await cart.update(Cart.add, "tea", count=2)
        count = await cart.update(Cart.add, "tea", 2, id="u-1")
        count = await cart.update("add", "tea", id="u-2")
        size: int = await cart.query(Cart.size)
        size = await cart.query(Cart.size, "tea")
        other: Handle[int] = await client.signal_with_start(
            Cart, "bob", id="cart-bob", signal=Cart.close, signal_args=["done"], message_id="m-4"
        )
        same = await client.signal_with_start("Cart", "bob", id="cart-bob", signal="close")
        async for value in other.watch():
            show(value)
        show(express.id, tidied, receipt, count, size, (await same.describe()).status)


async def as_a_worker() -> None:
    async with Engine("memory://", workflows=[checkout, Cart], activities=[charge], queues={"default": 5}) as engine:
        show(engine.handle("o-1").run_id)
    worker = Worker("sqlite:///shop.db", workflows=[checkout], activities=[charge], queues=["default"], lease="10s")
    await worker.run()
