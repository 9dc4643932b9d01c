"""Right effects: transactions, reconciling, completion from outside; pyright must accept every line."""

from perdure import (
    Engine,
    Failure,
    Handle,
    Happened,
    Rows,
    activity,
    activity_info,
    complete_later,
    happened,
    not_applied,
    transaction,
    transient,
)


@activity(effect="transactional")
def book(account: str, cents: int) -> int:
    rows: Rows = transaction().execute("select ?, :n", (account,))
    for name, amount in transaction().execute("select * from bookings where n > :n", {"n": cents}):
        assert name, amount
    first: tuple[object, ...] = rows[0]
    return len(rows) + len(first)


@activity(effect="transactional")
async def balance(account: str) -> int:
    [(cents,)] = await transaction().execute("select sum(cents) from bookings", [account])
    return cents


@activity(effect="ask")
async def pay(card: str, cents: int) -> str:
    if not card:
        raise not_applied("no card")
    return card


@pay.reconcile
async def was_paid(card: str, cents: int) -> str | Happened | None:
    if cents > 5:
        raise transient()
    return happened() if card else None


@activity(effect="ask")
def send(letter: str) -> None:
    return None


@send.reconcile
def was_sent(letter: str) -> Happened | None:
    return happened() if letter else None


@activity
async def review(document: str) -> str:
    token: str = activity_info().token
    assert token
    complete_later()


async def main(engine: Engine, handle: Handle[str], token: str) -> None:
    await engine.complete_activity(token, {"any": 1})
    await engine.fail_activity(token, Failure("Declined"))
    await engine.fail_activity(token, ValueError("no"))
    await handle.resolve_activity("key", "happened", 7)
