"""A world for tests of how stores keep pipelines: a store of each kind, and what always holds (L1, L3, L4, L7, L9)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from perdure.stores.memory import MemoryStore
from perdure.stores.pipeline_records import (
    HandlerRun,
    NewEvent,
    NewHandler,
    NewPipeline,
    Preparation,
    RunBeginning,
    RunCommit,
    RunFailure,
    Times,
)
from perdure.stores.port import Store
from perdure.stores.sqlite import SqliteStore
from perdure.testing.clock import VirtualClock

MAIL = NewPipeline(
    name="mail",
    digest="1",
    topics=("inbox", "rows"),
    handlers=(
        NewHandler(name="poll", kind="producer"),
        NewHandler(name="sheet", kind="consumer", topics=("inbox",)),
        NewHandler(name="archive", kind="consumer", topics=("rows",)),
    ),
)
IDS = ("a", "b", "c")


class World:
    """A store with a pipeline that one worker owns, and three events in its inbox."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        self.clock = clock
        self.store = store
        self.owner = 0

    @property
    def now(self) -> int:
        return self.clock.now_us()

    async def open(self) -> None:
        await self.store.open()
        self.owner = await self.lease()
        await self.store.deploy_pipeline(MAIL)
        await self.store.claim_pipeline(self.owner, "mail")
        await self.store.publish_events("mail", [event(id) for id in IDS])

    async def lease(self) -> int:
        return (await self.store.open_lease("worker", {"default": 1}, 10)).number

    async def begin(self, run: str = "r1", handler: str = "sheet", **more: Any) -> HandlerRun:
        begun = await self.store.begin_run(self.owner, "mail", RunBeginning(run=run, handler=handler, key="k1", **more))
        assert begun is not None
        return begun

    async def prepare(self, *ids: str, run: str = "r1") -> Any:
        peeked = {"inbox": frozenset(IDS)}
        preparation = Preparation(run=run, prepared=b"{}", reserve={"inbox": ids}, peeked=peeked, wake_us=5)
        return await self.store.save_prepared(self.owner, "mail", preparation)

    async def commit(self, run: str = "r1", **more: Any) -> Any:
        defaults: dict[str, Any] = {"times": Times()}
        return await self.store.commit_run(self.owner, "mail", RunCommit(run=run, **defaults | more))

    async def fail(self, status: Any, stage: Any, mutation: Any = "none", run: str = "r1", **more: Any) -> HandlerRun:
        failure = RunFailure(run=run, status=status, stage=stage, mutation=mutation, **more)
        return await self.store.fail_run(self.owner, "mail", failure)

    async def statuses(self, topic: str = "inbox") -> list[str]:
        return [f"{one.status} {one.attempt}" for one in await self.store.list_events("mail", topic, 100)]

    async def check(self) -> None:
        """What always holds: one open run, and no reservation without it."""
        view = await self.store.view_pipeline("mail")
        for topic in view.pipeline.topics:
            for one in await self.store.list_events("mail", topic, 1000):
                assert (one.status == "reserved") <= (one.reserved_by == view.pipeline.open_run is not None)
        active = [run for run in await self.store.list_handler_runs("mail", 1000) if run.status == "active"]
        assert [run.id for run in active] in ([], [view.pipeline.open_run])


def event(id: str, payload: bytes = b"1", topic: str = "inbox", **more: Any) -> NewEvent:
    return NewEvent(topic=topic, message_id=id, payload=payload, **more)


Story = Callable[[World], Coroutine[Any, Any, None]]
STORES: dict[str, Callable[[Path, VirtualClock], Store]] = {
    "memory": lambda path, clock: MemoryStore(clock),
    "sqlite": lambda path, clock: SqliteStore(path / "store.db", clock, threads=False),
}


def tell(story: Story, store: str, path: Path) -> None:
    """A story in a world on one kind of store; whatever happened, what always holds does."""

    async def whole() -> None:
        clock = VirtualClock()
        world = World(STORES[store](path, clock), clock)
        await world.open()
        await story(world)
        await world.check()
        assert await world.store.verify() == []
        await world.store.close()

    asyncio.run(whole())


def told(story: Story) -> Callable[[str, Path], None]:
    """A test of a story, on every kind of store."""

    @pytest.mark.parametrize("store", STORES)
    def test(store: str, tmp_path: Path) -> None:
        tell(story, store, tmp_path)

    test.__name__, test.__doc__ = story.__name__, story.__doc__
    return test
