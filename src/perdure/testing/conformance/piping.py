"""Piping: a pipeline that one worker owns, and three events in its inbox; what the cases of pipelines begin with."""

from __future__ import annotations

from typing import Any, TypeVar

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
from perdure.testing.clock import VirtualClock
from perdure.testing.conformance.expecting import NotConforming, same
from perdure.testing.conformance.stage import Stores

T = TypeVar("T")
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

    @classmethod
    async def of(cls, stores: Stores) -> World:
        """A store of this stage, and what stands in it."""
        world = cls(await stores.open(), stores.clock)
        await world.begin_world()
        return world

    @property
    def now(self) -> int:
        return self.clock.now_us()

    async def begin_world(self) -> None:
        self.owner = await self.lease()
        await self.store.deploy_pipeline(MAIL)
        await self.store.claim_pipeline(self.owner, "mail")
        await self.store.publish_events("mail", [event(id) for id in IDS])

    async def lease(self) -> int:
        return (await self.store.open_lease("worker", {"default": 1}, 10)).number

    async def begin(self, run: str = "r1", handler: str = "sheet", **more: Any) -> HandlerRun:
        begun = await self.store.begin_run(self.owner, "mail", RunBeginning(run=run, handler=handler, key="k1", **more))
        return there(begun)

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
                if one.status == "reserved":
                    same(one.reserved_by, there(view.pipeline.open_run))
        for run in await self.store.list_handler_runs("mail", 1000):
            if run.status == "active":
                same(run.id, view.pipeline.open_run)


def there(found: T | None) -> T:
    """It is there."""
    if found is None:
        raise NotConforming("got nothing, where there should be something")
    return found


def event(id: str, payload: bytes = b"1", topic: str = "inbox", **more: Any) -> NewEvent:
    return NewEvent(topic=topic, message_id=id, payload=payload, **more)
