"""An order that is charged, waits a day for an approval, and ships; run turn by turn, without any infrastructure.

python examples/checkout.py
"""

from __future__ import annotations

from dataclasses import dataclass

from perdure import Retry, activity, receive, sleep, workflow
from perdure.testing import Harness, fire, resolve, signal


@dataclass
class Order:
    id: str
    cents: int


@activity(retry=Retry(attempts=5, initial=0.2), timeout=30)
async def charge(order_id: str, cents: int) -> str: ...


@activity
def print_label(order_id: str) -> str: ...


@workflow
async def checkout(order: Order) -> str:
    label = print_label(order.id)
    receipt = await charge(order.id, order.cents)
    if not await receive("approve", bool, timeout="1d", default=False):
        return "declined"
    await sleep(60)
    return f"{receipt} {await label}"


def main() -> None:
    """Drive one order to its end, and show each turn."""
    harness = Harness(checkout, Order("o-1", 990))
    turn = harness.start()
    label, receipt = turn.commands
    print("scheduled:", ", ".join(str(command.name) for command in turn.commands))
    harness.activate(resolve(receipt, "r-7"))
    print("waits for:", harness.waiting()[0].what)
    turn = harness.activate(signal("approve", True), resolve(label, "L-1"))
    print("approved; then:", ", ".join(command.kind for command in turn.commands))
    harness.activate(fire(turn.commands[-1]))
    print("result:", harness.result)
    print("turns replayed:", len(harness.replay().turns))


if __name__ == "__main__":
    main()
