"""A right program with a pipeline: pyright, in its strict mode, has nothing to say about it."""

from dataclasses import dataclass
from datetime import timedelta

from perdure import activity, workflow
from perdure.pipelines import (
    MutateContext,
    NextContext,
    Outcome,
    Pipeline,
    PrepareContext,
    Prepared,
    ProducerContext,
    ReconcileContext,
    happened,
    needs_approval,
    not_applied,
    transient,
)


@dataclass
class Email:
    id: str
    subject: str


mail = Pipeline("mail-to-sheet")
inbox = mail.topic("inbox", Email)
rows = mail.topic("rows", int)


async def fetch(cursor: str | None) -> list[Email]: ...
async def append_row(subjects: list[str]) -> int: ...
def log_row(subject: str, times: int = 1) -> str: ...


@activity
async def archive(id: str) -> bool: ...


@workflow
async def audit(row: int) -> None: ...


@mail.producer(every="5m", publishes=[inbox])
async def poll(ctx: ProducerContext, cursor: str | None) -> str | None:
    for one in await fetch(cursor):
        await ctx.publish(inbox, one, message_id=one.id)
        cursor = one.id
    return cursor


@mail.producer(cron="0 9 * * *", timezone="Europe/Madrid", publishes=[rows], timeout=timedelta(minutes=1))
async def count(ctx: ProducerContext, days: int) -> int:
    await ctx.publish(rows, days)
    return days + 1


@mail.consumer(inbox, publishes=[rows], timeout="1m")
class ToSheet:
    async def prepare(self, ctx: PrepareContext, state: int | None) -> Prepared:
        events = await ctx.peek(inbox, limit=100)
        subjects = [one.payload.subject for one in events]
        return Prepared(reserve={inbox: [one.id for one in events]}, data=subjects, wake_at=None)

    async def mutate(self, ctx: MutateContext, prepared: Prepared) -> int:
        return await ctx.perform(append_row, prepared.read(list[str]))

    async def reconcile(self, ctx: ReconcileContext, prepared: Prepared) -> int | None:
        if not ctx.key:
            raise not_applied("no key")
        return None

    async def next(self, ctx: NextContext, prepared: Prepared, outcome: Outcome) -> int | None:
        if outcome.status == "success":
            await ctx.publish(rows, 1, message_id="row")
            await ctx.start(audit, 1, id="audit-1")
        return None


@mail.consumer(rows)
class ToArchive:
    async def prepare(self, ctx: PrepareContext, state: None) -> Prepared:
        events = await ctx.peek(rows)
        raise transient("later") if events else needs_approval("log in again")

    async def mutate(self, ctx: MutateContext, prepared: Prepared) -> bool:
        text: str = await ctx.perform(log_row, "subject", times=2)
        return await ctx.perform(archive, text)

    async def reconcile(self, ctx: ReconcileContext, prepared: Prepared) -> object:
        return happened()
