"""Workflows publish to topics of pipelines, with their turns, on every store (L1, E1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import publish_to, receive, workflow
from perdure.pipelines import Pipeline, Prepared
from perdure.stores.sqlite import SqliteStore
from perdure.testing import VirtualClock

STORES: dict[str, Callable[[Path, VirtualClock], Any]] = {
    "memory": lambda path, clock: "memory://",
    "sqlite": lambda path, clock: SqliteStore(path / "store.db", clock, threads=False),
}


def reading(name: str = "reading") -> tuple[Pipeline, list[Any]]:
    """A pipeline that writes down what comes."""
    pipeline = Pipeline(name)
    seen: list[Any] = []
    inbox = pipeline.topic("inbox", int)

    @pipeline.consumer(inbox)
    class Read:
        async def prepare(self, ctx: Any, state: Any) -> Prepared:
            events = await ctx.peek(inbox)
            seen.extend(one.payload for one in events)
            return Prepared({inbox: [one.id for one in events]})

    return pipeline, seen


@pytest.mark.parametrize("store", STORES)
async def test_what_a_turn_publishes_is_there_with_its_commit_and_wakes_the_consumer(
    engine: Callable[..., Any], virtual_clock: VirtualClock, tmp_path: Path, store: str
) -> None:
    """Two events of one turn without ids of their own are two; the same id again is one (L1)."""
    pipeline, seen = reading()
    inbox = pipeline.topics[0]

    @workflow
    async def feed() -> None:
        while (number := await receive("number", int)) >= 0:
            publish_to(inbox, number)
            publish_to("inbox", number * 10)
            publish_to(inbox, 7, message_id="seven")

    async with engine(pipelines=[pipeline], workflows=[feed], url=STORES[store](tmp_path, virtual_clock)) as running:
        handle = await running.start(feed)
        await handle.signal("number", 1)
        await asyncio.sleep(1)
        assert seen == [1, 10, 7]
        await handle.signal("number", 2)
        await handle.signal("number", -1)
        await handle.result()
        await asyncio.sleep(1)
        assert seen == [1, 10, 7, 2, 20]
        events = await running.pipelines.events("reading", inbox)
        assert {one.status for one in events} == {"consumed"}
        assert len({one.id for one in events}) == 5


@pytest.mark.parametrize("store", STORES)
async def test_a_topic_that_nobody_has_blocks_the_run_until_it_is_deployed(
    engine: Callable[..., Any], virtual_clock: VirtualClock, tmp_path: Path, store: str
) -> None:
    """Nothing is lost: the turn is tried again (E1)."""
    pipeline, seen = reading()

    @workflow
    async def feed() -> str:
        publish_to("inbox", 1)
        return "done"

    async with engine(workflows=[feed], url=STORES[store](tmp_path, virtual_clock)) as running:
        handle = await running.start(feed)
        await asyncio.sleep(1)
        described = await handle.describe()
        assert described.blocked is not None
        assert "no topic 'inbox'" in described.blocked.reason
        await running.pipelines.deploy(pipeline)
        assert await handle.result() == "done"
        await asyncio.sleep(1)
        assert seen == [1]


async def test_a_name_that_several_pipelines_have_needs_the_topic_itself(engine: Callable[..., Any]) -> None:
    """A topic names its pipeline too."""
    one, seen_by_one = reading("one")
    other, seen_by_other = reading("other")

    @workflow
    async def by_topic() -> None:
        publish_to(other.topics[0], 2)

    @workflow
    async def by_name() -> None:
        publish_to("inbox", 1)

    async with engine(pipelines=[one, other], workflows=[by_topic, by_name]) as running:
        await running.run(by_topic)
        handle = await running.start(by_name)
        await asyncio.sleep(1)
        assert (seen_by_one, seen_by_other) == ([], [2])
        described = await handle.describe()
        assert described.blocked is not None
        assert "one, other" in described.blocked.reason
