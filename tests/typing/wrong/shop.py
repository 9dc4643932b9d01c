"""Wrong programs: pyright must refuse every line that is marked, and no other."""

from dataclasses import dataclass

from perdure import Retry, activity, child, each, parallel, promise, receive, run_of, signal, update, workflow
from perdure.testing import Harness


@dataclass
class Order:
    id: str
    cents: int


@activity
async def charge(order_id: str, cents: int) -> str: ...


@activity(retry=5)  # refused: a retry policy is a Retry
async def refund(order_id: str) -> str: ...


@activity(timout=5)  # refused: no such option
async def label(order_id: str) -> str: ...


@workflow
class Cart:
    async def run(self, customer: str) -> int:
        return 0

    @signal
    def close(self, reason: str) -> None: ...

    @update
    async def add(self, item: str) -> int:
        return 1


async def weigh(item: str) -> float:
    return 1.0


@workflow
async def checkout(order: Order) -> str:
    await charge(order.id, "990")  # refused: wrong activity argument
    await charge(order.id)  # refused: an argument is missing
    await charge(order.id, 1, 2)  # refused: an argument too many
    await charge(order.id, cent=1)  # refused: no such parameter
    receipt: int = await charge(order.id, 990)  # refused: wrong result type
    await charge.options(timeout=[5])(order.id, 990)  # refused: no duration
    await charge.options(cancellation="never")(order.id, 990)  # refused: no such cancellation
    await charge.options(timeout=5)(order.id, "990")  # refused: wrong argument behind options
    cart = child(Cart, "bob")
    cart.signal(Cart.close, 5)  # refused: wrong signal argument
    cart.signal(Cart.close)  # refused: a signal argument is missing
    cart.signal(Cart.add, "x")  # refused: an update is no signal
    await run_of("other").signal(Cart.close, 5)  # refused: wrong signal argument to another run
    child(Cart, 5)  # refused: wrong argument of a class workflow
    checkout("o-1")  # refused: wrong workflow argument
    child(checkout, "o-1")  # refused: wrong argument of a workflow as a child
    child(checkout)  # refused: a workflow argument is missing
    child(charge, "o-1", 990)  # refused: an activity is no workflow
    child(checkout, order, parent_close="keep")  # refused: no such policy
    total: str = await cart  # refused: wrong child result
    approved: str = await receive("approve", bool)  # refused: wrong signal type
    token: str = await promise("token", int)  # refused: wrong promise type
    weights: list[str] = await parallel(weigh("a"), weigh("b"))  # refused: wrong branch type
    await parallel(weigh("a"), join="none")  # refused: no such join
    await each([1, 2], weigh)  # refused: items that fn does not take
    return f"{receipt}{total}{approved}{token}{weights}{Retry(attempts='five')}"  # refused: attempts is a number


@workflow  # refused: a workflow is an async def
def plain(order: Order) -> str:
    return order.id


def test_of_a_user() -> None:
    Harness(checkout, "o-1")  # refused: wrong argument of the workflow under test
    Harness(checkout, Order("o-1", 1), sede=1)  # refused: no such option
    result: int | None = Harness(checkout, Order("o-1", 1)).result  # refused: wrong result type
    assert result is None
