"""Means: what the runs of handlers work with; put together by perdure.app, and handed down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from perdure.clock import Clock, moment_of
from perdure.pipelines.policy import PipelinePolicy
from perdure.stores.pipeline_port import PipelineStores
from perdure.stores.records import Start

GRACE_SECONDS = 5.0  # for a handler that was cancelled


@dataclass(frozen=True)
class Means:
    """Time, ids, the store and the worker, as far as pipelines need them."""

    store: PipelineStores
    clock: Clock
    policy: PipelinePolicy
    new_id: Callable[[], str]
    to_start: Callable[[Any, tuple[Any, ...], str | None], Start]  # checks the arguments of a workflow
    owner: Callable[[], int | None]  # the lease of this worker
    lease_doubted: Callable[[], object]  # it may be lost
    runs_started: Callable[[], object]  # of workflows
    threads: bool = True

    @property
    def now(self) -> datetime:
        """By the clock of the store."""
        return moment_of(self.clock.now_us())


async def within(seconds: float | None, work: Coroutine[Any, Any, Any]) -> tuple[asyncio.Task[Any], bool]:
    """Run it as a task of its own; that task, and whether its time ran out.

    One whose time ran out has been cancelled, and is given a moment to end. If this is cancelled, so is the task.
    """
    task = asyncio.get_running_loop().create_task(work)
    try:
        await asyncio.wait([task], timeout=seconds)
        in_time = task.done()
        if not in_time:
            task.cancel()
            await asyncio.wait([task], timeout=GRACE_SECONDS)
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait([task], timeout=GRACE_SECONDS)
        if task.done() and not task.cancelled():
            task.exception()  # nobody asks any more
        raise
    return task, not in_time


def error_of(task: asyncio.Task[Any]) -> BaseException | None:
    """What a task raised; also where it was cancelled, or is not done yet."""
    if not task.done():
        return TimeoutError("it did not end when it was cancelled, and goes on in the background")
    return asyncio.CancelledError("it was cancelled") if task.cancelled() else task.exception()
