"""Five ways in which a consumer may decide: at once, in pairs, after a while, in batches, and once a day.

python examples/pipeline_patterns.py plays two days of them on virtual time.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from perdure.pipelines import MutateContext, NextContext, Outcome, Pipeline, PrepareContext, Prepared

HOUR = timedelta(hours=1)
MADRID = ZoneInfo("Europe/Madrid")
said: list[str] = []  # what went out, for whoever wants to look

# --- first come, first served ---------------------------------------------------------------------

fifo = Pipeline("fifo")
tickets = fifo.topic("tickets", str)


@fifo.consumer(tickets)
class Serve:
    """One at a time, the oldest first. It is asked again as long as it reserves something."""

    async def prepare(self, ctx: PrepareContext, state: None) -> Prepared:
        events = await ctx.peek(tickets, limit=1)
        return Prepared({tickets: [one.id for one in events]}, [one.payload for one in events])

    async def mutate(self, ctx: MutateContext, prepared: Prepared) -> None:
        await ctx.perform(said.append, f"served {prepared.data[0]}")


# --- what belongs together ------------------------------------------------------------------------

correlation = Pipeline("correlation")
orders = correlation.topic("orders", str)
payments = correlation.topic("payments", str)


@correlation.consumer(orders, payments)
class Ship:
    """An order waits for its payment, and a payment for its order: whatever comes last finds the other."""

    async def prepare(self, ctx: PrepareContext, state: None) -> Prepared:
        paid = {one.payload: one.id for one in await ctx.peek(payments)}
        for order in await ctx.peek(orders):
            if order.payload in paid:
                return Prepared({orders: [order.id], payments: [paid[order.payload]]}, order.payload)
        return Prepared()

    async def mutate(self, ctx: MutateContext, prepared: Prepared) -> None:
        await ctx.perform(said.append, f"shipped {prepared.data}")


# --- not before a while has passed ----------------------------------------------------------------

window = Pipeline("window")
drafts = window.topic("drafts", str)


@window.consumer(drafts)
class SendDrafts:
    """What is an hour old is sent; until then it may be replaced, under the same message id."""

    async def prepare(self, ctx: PrepareContext, state: None) -> Prepared:
        events = await ctx.peek(drafts)
        old = [one for one in events if one.published_at <= ctx.now - HOUR]
        young = [one.published_at + HOUR for one in events if one not in old]
        return Prepared({drafts: [one.id for one in old]}, [one.payload for one in old], min(young, default=None))

    async def mutate(self, ctx: MutateContext, prepared: Prepared) -> None:
        await ctx.perform(said.append, f"sent {', '.join(prepared.data)}")


# --- in batches, but not too late -----------------------------------------------------------------

batches = Pipeline("batches")
lines = batches.topic("lines", int)
BATCH = 3


@batches.consumer(lines)
class Upload:
    """Three at once; fewer when the oldest has waited for an hour."""

    async def prepare(self, ctx: PrepareContext, state: None) -> Prepared:
        events = await ctx.peek(lines, limit=BATCH)
        if not events:
            return Prepared()
        due = events[0].published_at + HOUR
        if len(events) < BATCH and ctx.now < due:
            return Prepared(wake_at=due)
        return Prepared({lines: [one.id for one in events]}, [one.payload for one in events])

    async def mutate(self, ctx: MutateContext, prepared: Prepared) -> None:
        await ctx.perform(said.append, f"uploaded {prepared.data}")


# --- once a day -----------------------------------------------------------------------------------

daily = Pipeline("daily")
news = daily.topic("news", str)


@daily.consumer(news)
class Digest:
    """All there is, at nine in the morning of Madrid. Its state is the day of the last digest."""

    async def prepare(self, ctx: PrepareContext, state: str | None) -> Prepared:
        local = ctx.now.astimezone(MADRID)
        today = datetime.combine(local.date(), time(9), MADRID)
        tomorrow = datetime.combine(local.date() + timedelta(days=1), time(9), MADRID)
        if local < today:
            return Prepared(wake_at=today)
        if state == str(local.date()):
            return Prepared(wake_at=tomorrow)
        events = await ctx.peek(news, limit=1000)
        return Prepared({news: [one.id for one in events]}, [one.payload for one in events], tomorrow)

    async def mutate(self, ctx: MutateContext, prepared: Prepared) -> None:
        await ctx.perform(said.append, f"digest: {', '.join(prepared.data)}")

    async def next(self, ctx: NextContext, prepared: Prepared, outcome: Outcome) -> str | None:
        return str(ctx.now.astimezone(MADRID).date()) if outcome.status == "success" else None


PIPELINES = [fifo, correlation, window, batches, daily]


async def main() -> None:
    """Two days of all five."""
    from perdure.testing.engines import virtual_engine

    start = datetime(2026, 6, 1, 6, tzinfo=UTC)  # eight in the morning of Madrid
    async with virtual_engine(pipelines=PIPELINES, start=start) as engine:
        for number in range(4):
            await engine.pipelines.publish(tickets, f"ticket {number}")
            await engine.pipelines.publish(lines, number)
        await engine.pipelines.publish(orders, "o-1")
        await engine.pipelines.publish(drafts, "a draft", message_id="d-1")
        await engine.pipelines.publish(news, "it rains")
        await asyncio.sleep(1800)
        await engine.pipelines.publish(drafts, "the final text", message_id="d-1")
        await engine.pipelines.publish(payments, "o-1")
        await asyncio.sleep(86_400)
        await engine.pipelines.publish(news, "it has stopped")
        await asyncio.sleep(86_400)
    print("\n".join(said))


if __name__ == "__main__":
    from perdure.testing import run_virtual

    run_virtual(main())
