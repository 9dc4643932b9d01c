"""Each: a function over many items with a bounded window and flat memory, results in order.

Units are those of kernel.branches; an async source is pulled by a task in the caller's own unit, so that a slow
source holds no result back.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import AsyncIterable, Callable, Generator, Iterable, Iterator
from typing import Any

from perdure.errors import InvalidValue
from perdure.kernel.cancellation import cancel_scope
from perdure.kernel.desk import Desk
from perdure.kernel.futures import Joint, LoopFuture, UnitTask
from perdure.kernel.scopes import Scope
from perdure.kernel.units import BRANCH, Unit

EXHAUSTED = object()


class Each:
    """An async iterator of results in the order of the items; awaited, it gives their list."""

    def __init__(self, desk: Desk, items: Any, fn: Callable[[Any], Any], limit: int) -> None:
        if isinstance(items, set | frozenset):
            raise InvalidValue("each() over a set: a set has no order; use sorted(…) or a list")
        if not isinstance(items, Iterable | AsyncIterable):
            raise InvalidValue(f"each() needs an iterable, not {type(items).__name__}")
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise InvalidValue(f"the limit of each() is a whole number from 1 on, not {limit!r}")
        desk.acting("each")
        self._desk = desk
        self._items = items
        self._source: Iterator[Any] | None = None
        self._fn = fn
        self._limit = limit
        self._window: deque[tuple[UnitTask, Scope]] = deque()
        self._unit: Unit | None = None
        self._incarnation = 0
        self._started = 0
        self._exhausted = False
        self._puller: UnitTask | None = None
        self._pull_error: BaseException | None = None
        self._room: LoopFuture | None = None
        self._more: LoopFuture | None = None

    def __aiter__(self) -> Each:
        return self

    def __await__(self) -> Generator[Any, None, list[Any]]:
        return self._collect().__await__()

    async def __anext__(self) -> Any:
        self._begin()
        self._fill()
        while not self._window and not self._exhausted:
            self._more = LoopFuture(self._desk.loop)
            await self._more
        if not self._window:
            if self._pull_error is not None:
                error, self._pull_error = self._pull_error, None
                raise error
            raise StopAsyncIteration
        task, _ = self._window[0]
        try:
            value = await self._end_of(task)
        except BaseException:
            await self._cancel_rest()
            raise
        self._window.popleft()
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        self._fill()
        return value

    async def _collect(self) -> list[Any]:
        return [value async for value in self]

    def _begin(self) -> None:
        if self._unit is not None:
            return
        self._unit = self._desk.acting("each")
        self._incarnation = self._unit.branchings
        self._unit.branchings += 1
        if isinstance(self._items, AsyncIterable):
            self._puller = self._desk.loop.spawn(self._pull(self._items), self._unit, self._desk.scope())
        else:
            self._source = iter(self._items)

    def _fill(self) -> None:
        while self._source is not None and not self._exhausted and len(self._window) < self._limit:
            item = next(self._source, EXHAUSTED)
            if item is EXHAUSTED:
                self._exhausted = True
            else:
                self._start(item)

    async def _pull(self, items: AsyncIterable[Any]) -> None:
        try:
            async for item in items:
                self._start(item)
                self._wake_consumer()
                while len(self._window) >= self._limit:
                    self._room = LoopFuture(self._desk.loop)
                    await self._room
        except Exception as error:
            self._pull_error = error
        finally:
            self._exhausted = True
            if not self._desk.loop.closing:
                self._wake_consumer()

    def _start(self, item: Any) -> None:
        unit = self._unit
        assert unit is not None
        branch = unit.child(BRANCH, self._started, self._incarnation)
        self._started += 1
        scope = Scope(self._desk.scope())
        self._window.append((self._desk.loop.spawn(self._run(item), branch, scope), scope))

    async def _run(self, item: Any) -> Any:
        outcome = self._fn(item)
        return await outcome if inspect.isawaitable(outcome) else outcome

    def _wake_consumer(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    async def _end_of(self, task: UnitTask) -> Any:
        if not task.done():
            await self._ends_of([task])
        return task.result()

    async def _cancel_rest(self) -> None:
        """One item failed, or the consumer was cancelled: the others are cancelled, and waited for."""
        self._exhausted = True
        if self._desk.loop.closing:
            return
        if self._puller is not None:
            self._puller.cancel()
        rest = [(task, scope) for task, scope in self._window if not task.done()]
        self._window.clear()
        for _, scope in rest:
            cancel_scope(self._desk, scope, "another item failed")
        await self._ends_of([task for task, _ in rest if not task.done()])

    async def _ends_of(self, tasks: list[UnitTask]) -> None:
        """Wait until all of them have ended. Cancelled, it cancels them and goes on waiting."""
        if not tasks:
            return
        left = len(tasks)
        scopes = {id(task): scope for task, scope in self._window}

        def stop() -> None:
            for task in tasks:
                if not task.done() and id(task) in scopes:
                    cancel_scope(self._desk, scopes[id(task)])

        joint = Joint(self._desk.loop, lambda: f"each: {', '.join(str(task.unit) for task in tasks)}", stop)

        def note(_task: Any) -> None:
            nonlocal left
            left -= 1
            if not left and not joint.done() and not self._desk.loop.closing:
                if joint.cancel_requested:
                    joint.end_cancelled()
                else:
                    joint.set_result(None)

        for task in tasks:
            task.add_done_callback(note)
        await joint
