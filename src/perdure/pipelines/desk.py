"""Desk: what a run of a handler has done for it: peeking, the ledger, calls to the outside, workflows to start (L3).

In:  perdure.pipelines.contexts, on behalf of the handler.
Out: the store. What the store refuses is remembered, so that a handler that swallows it does not come through with it.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar, cast

from perdure.define.activity import Activity
from perdure.engine.patience import insist
from perdure.pipelines.means import Means
from perdure.pipelines.resuming import Mutation, Stage
from perdure.stores.pipeline_records import HandlerRun, StoredEvent
from perdure.stores.records import Start

T = TypeVar("T")


class RunDesk:
    """perdure.pipelines.contexts.Desk, for one run. `stage` and `mutation` are as the store has them."""

    def __init__(self, means: Means, owner: int, run: HandlerRun) -> None:
        self._means = means
        self._owner = owner
        self._run = run
        self.stage: Stage = run.stage
        self.mutation: Mutation = run.mutation
        self.result: bytes | None = run.result
        self.error: Exception | None = None  # of the store

    @property
    def now(self) -> datetime:
        """What time it is, in UTC."""
        return self._means.now

    async def peek(self, topic: str, limit: int) -> Sequence[StoredEvent]:
        """Pending events, the oldest first."""
        return await self.ask(lambda: self._means.store.peek_events(self._run.pipeline, topic, limit))

    async def begin_mutation(self, what: str) -> None:
        """Write it into the ledger as in flight. From then on its outcome is uncertain."""
        run = self._run
        await self.ask(lambda: self._means.store.begin_mutation(self._owner, run.pipeline, run.id, what))
        self.stage, self.mutation = "mutating", "uncertain"

    async def end_mutation(self, result: bytes | None, outcome: Mutation = "success") -> None:
        """Write what became of it, with stage mutated."""
        run, store = self._run, self._means.store
        await self.ask(lambda: store.end_mutation(self._owner, run.pipeline, run.id, outcome, result))
        self.stage, self.mutation, self.result = "mutated", outcome, result

    async def call(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run a function, plain (in a thread) or async, or an activity."""
        if not callable(fn):
            raise TypeError(f"perform calls a function, and this is {type(fn).__name__}: {fn!r:.80}")
        called: Callable[..., Any] = fn
        if isinstance(fn, Activity) or _is_async(fn) or not self._means.threads:
            value = called(*args, **kwargs)
        else:
            call = partial(contextvars.copy_context().run, called, *args, **kwargs)
            value = await asyncio.get_running_loop().run_in_executor(None, call)
        return await value if inspect.isawaitable(value) else value

    def to_start(self, workflow: Any, args: tuple[Any, ...], id: str | None) -> Start:
        """The start of a workflow, its arguments checked."""
        return self._means.to_start(workflow, args, id)

    async def ask(self, call: Callable[[], Awaitable[T]]) -> T:
        """Of the store, until it can be reached; what it refuses is remembered."""
        try:
            return await insist(call, f"pipeline {self._run.pipeline}, run {self._run.id}")
        except Exception as error:
            self.error = self.error or error
            raise


def _is_async(fn: Any) -> bool:
    called: Any = fn
    while isinstance(called, partial):
        called = called.func
    kind = cast("Any", type(called))
    return inspect.iscoroutinefunction(called) or inspect.iscoroutinefunction(kind.__call__)
