"""Wrong effects: pyright must refuse every line that is marked, and no other."""

from perdure import Engine, Handle, activity, transaction


@activity(effect="asks")  # refused: no such effect
def guess() -> None: ...


@activity(effect="ask")
async def pay(card: str, cents: int) -> str: ...


@pay.reconcile  # refused: other arguments
async def other_arguments(card: int) -> str | None: ...


@pay.reconcile  # refused: another result
async def another_result(card: str, cents: int) -> int | None: ...


@activity(effect="transactional")
def book(cents: int) -> int:
    transaction().execute(cents)  # refused: a statement is text
    transaction().execute("select ?", cents)  # refused: parameters are several
    rows: int = transaction().execute("select 1")  # refused: rows are no number
    return rows


async def main(engine: Engine, handle: Handle[str]) -> None:
    await engine.complete_activity(5, 1)  # refused: a token is text
    await engine.fail_activity("token", 7)  # refused: an error, or text
    await handle.resolve_activity("key", "maybe")  # refused: no such answer
