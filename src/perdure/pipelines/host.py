"""START HERE: the host; it takes the pipelines of this worker over, and wakes them when something happens.

In:  perdure.app: its pipelines, and what this process publishes; the store, when somebody else has written.
Out: pipelines.owned, one for each pipeline that this worker owns. Whoever wants to see or act has pipelines.client.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable

from perdure.engine.patience import insist
from perdure.errors import InvalidValue, PerdureError
from perdure.pipelines.declare import Pipeline
from perdure.pipelines.means import Means
from perdure.pipelines.owned import Owned
from perdure.pipelines.records import deployment_of
from perdure.pipelines.validation import validate
from perdure.stores.pipeline_records import PipelineView
from perdure.stores.port import LeaseStore

PAUSE_FACTOR = 9
PAUSE_SECONDS_MAX = 1.0
logger = logging.getLogger("perdure.pipelines")


class Host:
    """The pipelines of one worker."""

    def __init__(self, means: Means, leases: LeaseStore, pipelines: Iterable[object]) -> None:
        self._means = means
        self._leases = leases
        self._declared: dict[str, Pipeline] = {}
        self._owned: dict[str, Owned] = {}
        self._views: dict[str, PipelineView] = {}
        self._taking: dict[str, asyncio.Lock] = {}
        self._looking: asyncio.Task[None] | None = None
        self._look_again = False
        self._stopping = False
        for one in pipelines:
            pipeline = validate(one)
            if pipeline.name in self._declared:
                raise InvalidValue(f"two pipelines are called {pipeline.name!r}: give each its own name")
            self._declared[pipeline.name] = pipeline

    async def start(self) -> None:
        """Deploy what was declared, take over what is free, and begin."""
        await asyncio.gather(*(self._take_over(pipeline) for pipeline in self._declared.values()))

    async def stop(self, seconds: float) -> None:
        """Begin nothing more, and let what runs come to an end, for so long."""
        self._stopping = True
        if self._looking is not None:
            self._looking.cancel()
        owned = list(self._owned.values())
        if owned:
            await asyncio.gather(*(one.stop(seconds) for one in owned))

    # --- what it is told --------------------------------------------------------------------

    def look_around(self) -> None:
        """Somebody else has written, or has died, or this worker has another lease."""
        self._look_again = True
        if self._declared and self._looking is None and not self._stopping:
            self._looking = asyncio.get_running_loop().create_task(self._look_around(), name="perdure pipelines")

    def changed(self, name: str) -> None:
        """Somebody in this process has written to a pipeline."""
        if name in self._owned:
            self._owned[name].look()

    def published(self, name: str, topics: Collection[str]) -> None:
        """Somebody in this process has published new events."""
        if topics and name in self._owned:
            self._owned[name].published(topics)

    def published_to(self, topic: str) -> None:
        """A workflow of this process has published to a topic of this name."""
        for owned in self._owned.values():
            if any(one.name == topic for one in owned.pipeline.topics):
                owned.published((topic,))

    async def deploy(self, pipeline: Pipeline) -> bool:
        """A new or changed declaration; whether anything has changed."""
        self._declared[pipeline.name] = pipeline
        owned = self._owned.get(pipeline.name)
        if owned is not None and not owned.gone:
            return await owned.deploy(pipeline)
        return await self._take_over(pipeline)

    # --- taking over ------------------------------------------------------------------------

    async def _take_over(self, pipeline: Pipeline) -> bool:
        """Deploy and own it, if nobody alive does. Whether its declaration was new."""
        async with self._taking.setdefault(pipeline.name, asyncio.Lock()):
            owned = self._owned.get(pipeline.name)
            return (owned is None or owned.gone) and await self._take_over_now(pipeline)

    async def _take_over_now(self, pipeline: Pipeline) -> bool:
        owner, store = self._means.owner(), self._means.store
        if owner is None or self._stopping:
            return False
        what = f"pipeline {pipeline.name} is to be taken over"
        deployed = await insist(lambda: store.deploy_pipeline(deployment_of(pipeline), owner), what)
        view = await insist(lambda: store.claim_pipeline(owner, pipeline.name), what)
        if view is not None and not self._stopping:
            owned = self._owned[pipeline.name] = Owned(self._means, pipeline, owner, view)
            owned.wake()
        return deployed.changed

    async def _look_around(self) -> None:
        clock = self._means.clock
        try:
            while self._look_again and not self._stopping:
                self._look_again = False
                began = clock.monotonic()
                for one in list(self._owned.values()):
                    if not one.gone and await self._has_changed(one):
                        one.look()
                await self._claim_free()
                # Others may write all the time, and there may be very many pipelines: most of the time is for the runs.
                await asyncio.sleep(min(PAUSE_SECONDS_MAX, PAUSE_FACTOR * (clock.monotonic() - began)))
        except PerdureError as error:
            logger.error("pipelines could not be looked for: %s", error)
        finally:
            self._looking = None

    async def _has_changed(self, owned: Owned) -> bool:
        """Whether there is anything to be read again; one that is busy looks when it has ended its run."""
        if owned.busy:
            return True
        name = owned.pipeline.name
        view, before = await self._means.store.view_pipeline(name), self._views.get(name)
        self._views[name] = view
        return view != before

    async def _claim_free(self) -> None:
        """Those that nobody alive owns any more."""
        missing = [one for name, one in self._declared.items() if name not in self._owned or self._owned[name].gone]
        if not missing:
            return
        alive = {lease.number for lease in await self._leases.list_leases()}
        owners = {row.name: row.owner for row in await self._means.store.list_pipelines()}
        for pipeline in missing:
            owner = owners.get(pipeline.name)
            if owner is None or owner not in alive or owner == self._means.owner():
                await self._take_over(pipeline)
