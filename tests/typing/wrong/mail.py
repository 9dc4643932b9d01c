"""Wrong pipelines: pyright must refuse every line that is marked, and no other."""

from perdure import workflow
from perdure.pipelines import MutateContext, NextContext, Outcome, Pipeline, PrepareContext, Prepared, ProducerContext

mail = Pipeline("mail-to-sheet")
inbox = mail.topic("inbox", int)


async def append_row(subjects: list[str]) -> int: ...


@workflow
async def audit(row: int) -> None: ...


@mail.producer(every=5, cron=5)  # refused: cron is text
async def poll(ctx: ProducerContext, cursor: str) -> str:
    await ctx.publish(inbox, "five")  # refused: the payload is an int
    await ctx.publish("inbox", 5)  # refused: a topic, not its name
    return cursor


@mail.producer(every=5)  # refused: the new state is not a state
async def count(ctx: ProducerContext, days: int) -> str:
    return "one"


@mail.producer(every=5)  # refused: not async
def plain(ctx: ProducerContext, days: int) -> int:
    return days


@mail.consumer("inbox")  # refused: a topic, not its name
class ToSheet:
    async def prepare(self, ctx: PrepareContext, state: int | None) -> Prepared:
        events = await ctx.peek(inbox)
        text: str = events[0].payload  # refused: an int
        return Prepared(reserve={"inbox": [text]})  # refused: by topics, not by names

    async def mutate(self, ctx: MutateContext, prepared: Prepared) -> int:
        return await ctx.perform(append_row, 5)  # refused: a list of texts

    async def next(self, ctx: NextContext, prepared: Prepared, outcome: Outcome) -> None:
        await ctx.start(audit, "five")  # refused: an int
        if outcome.status == "failed":  # refused: no such status
            pass


@mail.consumer(inbox)  # refused: nothing prepares
class Lame:
    async def mutate(self, ctx: MutateContext, prepared: Prepared) -> int: ...
