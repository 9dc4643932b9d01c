"""A corpus for crashes: two producers, three consumers, and a world outside that drops no duplicate (I13)."""

from __future__ import annotations

import asyncio
from typing import Any

from perdure import workflow
from perdure.pipelines import Pipeline, Prepared, Topic, not_applied

LETTERS = [f"letter {number}" for number in range(3)]
CALLS = [f"call {number}" for number in range(2)]


class World:
    """What survives any crash: a mailbox, a telephone, a sheet, a board, and digests that were sent."""

    def __init__(self) -> None:
        self.sheet: list[tuple[str, str]] = []
        self.board: list[tuple[str, str]] = []
        self.digests: list[tuple[str, list[str]]] = []

    async def write(self, log: list[tuple[str, Any]], key: str, value: Any) -> int:
        """Write it, and answer a little later."""
        log.append((key, value))
        await asyncio.sleep(0.01)
        return len(log)

    async def find(self, log: list[tuple[str, Any]], key: str) -> int:
        """The place of what was written under a key."""
        for place, (known, _) in enumerate(log, 1):
            if known == key:
                return place
        raise not_applied("there is none")

    def audit(self) -> None:
        """Everything once, in order."""
        assert [value for _, value in self.sheet] == LETTERS
        assert [value for _, value in self.board] == CALLS
        told = [line for _, lines in self.digests for line in lines]
        assert sorted(told) == sorted([*LETTERS, *CALLS])
        assert len({key for log in (self.sheet, self.board, self.digests) for key, _ in log}) == 5 + len(self.digests)


@workflow
async def archive(lines: list[str]) -> int:
    return len(lines)


def pipeline(world: World) -> Pipeline:
    desk = Pipeline("desk")
    topics = desk.topic("letters", str), desk.topic("calls", str), desk.topic("lines", str)
    _produce(desk, topics)
    _write_down(desk, topics, world)
    _digest(desk, topics, world)
    return desk


Topics = tuple[Topic[str], Topic[str], Topic[str]]


def _produce(desk: Pipeline, topics: Topics) -> None:
    letters, calls, _ = topics

    @desk.producer(every="5m", publishes=[letters])
    async def post(ctx: Any, cursor: int | None) -> int:
        for one in LETTERS[cursor or 0 :]:
            await ctx.publish(letters, one, message_id=one)
        return len(LETTERS)

    @desk.producer(cron="*/10 * * * *", publishes=[calls])
    async def telephone(ctx: Any, state: None) -> None:
        for one in CALLS:  # it has no cursor: the ids keep it from doing anything twice
            await ctx.publish(calls, one, message_id=one)


def _write_down(desk: Pipeline, topics: Topics, world: World) -> None:
    letters, calls, lines = topics

    @desk.consumer(letters, publishes=[lines])
    class Sheet:
        async def prepare(self, ctx: Any, state: int | None) -> Prepared:
            events = await ctx.peek(letters, limit=1)
            return Prepared({letters: [one.id for one in events]}, [one.payload for one in events])

        async def mutate(self, ctx: Any, prepared: Prepared) -> int:
            return await ctx.perform(world.write, world.sheet, ctx.key, prepared.data[0])

        async def reconcile(self, ctx: Any, prepared: Prepared) -> int:
            return await world.find(world.sheet, ctx.key)

        async def next(self, ctx: Any, prepared: Prepared, outcome: Any) -> int | None:
            if outcome.status == "none":
                return None
            await ctx.publish(lines, prepared.data[0], message_id=prepared.data[0])
            return outcome.result

    @desk.consumer(calls, publishes=[lines])
    class Board:
        async def prepare(self, ctx: Any, state: int | None) -> Prepared:
            events = await ctx.peek(calls, limit=1)
            return Prepared({calls: [one.id for one in events]}, [one.payload for one in events])

        async def mutate(self, ctx: Any, prepared: Prepared) -> int:
            return await ctx.perform(world.write, world.board, ctx.key, prepared.data[0])

        async def reconcile(self, ctx: Any, prepared: Prepared) -> int:
            return await world.find(world.board, ctx.key)

        async def next(self, ctx: Any, prepared: Prepared, outcome: Any) -> int | None:
            if outcome.status == "none":
                return None
            await ctx.publish(lines, prepared.data[0])
            return outcome.result


def _digest(desk: Pipeline, topics: Topics, world: World) -> None:
    lines = topics[2]

    @desk.consumer(lines)
    class Digest:
        async def prepare(self, ctx: Any, state: int | None) -> Prepared:
            events = await ctx.peek(lines)
            return Prepared({lines: [one.id for one in events]}, [one.payload for one in events])

        async def mutate(self, ctx: Any, prepared: Prepared) -> int:
            return await ctx.perform(world.write, world.digests, ctx.key, prepared.data)

        async def reconcile(self, ctx: Any, prepared: Prepared) -> int:
            return await world.find(world.digests, ctx.key)

        async def next(self, ctx: Any, prepared: Prepared, outcome: Any) -> int | None:
            if outcome.status == "none":
                return None
            await ctx.start(archive, prepared.data, id=f"archive-{prepared.data[0]}")
            return outcome.result
