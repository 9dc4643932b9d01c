"""Mailing: a pipeline from a mailbox to a sheet, and what goes wrong there; for tests of pipelines that run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perdure.pipelines import Pipeline, Prepared, not_applied


@dataclass
class Email:
    id: str
    subject: str


class Desk:
    """The outside: a mailbox, a sheet, and what goes wrong with it."""

    def __init__(self) -> None:
        self.mails = [Email(f"m{number}", f"subject {number}") for number in range(3)]
        self.rows: list[tuple[str, str]] = []
        self.trouble: list[Any] = []  # what the next appends raise
        self.told: list[str] = []
        self.keys: list[str] = []

    async def append(self, key: str, subject: str) -> int:
        self.keys.append(key)
        error = self.trouble.pop(0) if self.trouble else None
        if error == "after":
            self.rows.append((key, subject))
            raise ConnectionError("the answer was lost")
        if error is not None:
            raise error
        self.rows.append((key, subject))
        return len(self.rows)


def mail_to_sheet(desk: Desk, *, reconciles: bool = True, **more: Any) -> Pipeline:
    mail = Pipeline("mail", **more)
    inbox = mail.topic("inbox", Email)
    rows = mail.topic("rows", int)

    @mail.producer(every="5m", publishes=[inbox])
    async def poll(ctx: Any, cursor: int | None) -> int:
        for one in desk.mails[cursor or 0 :]:
            await ctx.publish(inbox, one, message_id=one.id)
        return len(desk.mails)

    class Sheet:
        async def prepare(self, ctx: Any, state: Any) -> Prepared:
            events = await ctx.peek(inbox, limit=1)
            return Prepared(reserve={inbox: [one.id for one in events]}, data=[one.payload for one in events])

        async def mutate(self, ctx: Any, prepared: Prepared) -> int:
            (one,) = prepared.data
            return await ctx.perform(desk.append, ctx.key, one.subject)

        async def next(self, ctx: Any, prepared: Prepared, outcome: Any) -> int | None:
            desk.told.append(outcome.status)
            if outcome.status == "success":
                await ctx.publish(rows, outcome.result)
            return None

    if reconciles:

        async def reconcile(self: Any, ctx: Any, prepared: Prepared) -> int | None:
            for number, (key, _) in enumerate(desk.rows, 1):
                if key == ctx.key:
                    return number
            raise not_applied("no such row")

        Sheet.reconcile = reconcile  # type: ignore[attr-defined]
    mail.consumer(inbox, publishes=[rows])(Sheet)

    @mail.consumer(rows)
    class Log:
        async def prepare(self, ctx: Any, state: Any) -> Prepared:
            return Prepared(reserve={rows: [one.id for one in await ctx.peek(rows)]})

    return mail
