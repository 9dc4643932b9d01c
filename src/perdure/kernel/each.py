"""Each: a function over many items with a bounded window and flat memory, results in order.

An item that fails raises where its result would stand, and no new item begins; for a list, which has no use for the
results before it, it raises at once. Either way the items that still run are cancelled, and waited for (M6).

Units are those of kernel.branches; an async source is pulled by a task in the caller's own unit, so that a slow
source holds no result back.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import AsyncIterable, Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, cast

from perdure.errors import InvalidValue
from perdure.kernel.cancellation import cancel_scope
from perdure.kernel.desk import Desk
from perdure.kernel.futures import Joint, LoopFuture, UnitTask, is_outcome
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
        if not callable(fn):
            raise InvalidValue(f"each() needs a function of one item, not {type(fn).__name__}")
        if isinstance(limit, bool) or not isinstance(cast(object, limit), int) or limit < 1:
            raise InvalidValue(f"the limit of each() is a whole number from 1 on, not {limit!r}")
        desk.acting("each")
        self._desk = desk
        self._items: Any = items
        self._source: Iterator[Any] | None = None
        self._fn = fn
        self._where = desk.where()
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
        self._failure: BaseException | None = None
        self._waiting: Joint | None = None
        self._as_list = False

    def __aiter__(self) -> Each:
        return self

    def __await__(self) -> Generator[Any, None, list[Any]]:
        return self._collect().__await__()

    async def __anext__(self) -> Any:
        try:
            self._begin()
            self._fill()
            while not self._window and not self._exhausted:
                self._more = LoopFuture(loop=self._desk.loop)
                await self._more
            value = await self._first_of_window()
        except BaseException:
            await self._cancel_rest()
            raise
        self._window.popleft()
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        self._fill()
        return value

    async def _collect(self) -> list[Any]:
        self._as_list = True
        return [value async for value in self]

    async def _first_of_window(self) -> Any:
        if not self._window:
            error, self._pull_error = self._pull_error, None
            raise error or StopAsyncIteration
        task, scope = self._window[0]
        if not task.done() and not self._fails_now:
            await self._ends_of([(task, scope)])
        if self._fails_now and self._failure is not None:
            raise self._failure
        return task.result()

    @property
    def _fails_now(self) -> bool:
        return self._as_list and self._failure is not None

    def _begin(self) -> None:
        if self._unit is not None:
            return
        self._unit = self._desk.acting("each")
        self._incarnation = self._unit.branchings
        self._unit.branchings += 1
        items: Any = self._items
        if hasattr(items, "__aiter__"):
            self._puller = self._desk.loop.spawn(self._pull(items), self._unit, self._desk.scope())
        else:
            self._source = iter(items)

    def _fill(self) -> None:
        source = self._source
        while source is not None and not self._exhausted and len(self._window) < self._limit:
            if self._failure is not None:
                return
            try:
                item = next(source, EXHAUSTED)
            except BaseException as error:  # raised behind the results of the items before
                if not is_outcome(self._desk.loop, error):
                    raise
                self._pull_error = error
                item = EXHAUSTED
            if item is EXHAUSTED:
                self._exhausted = True
            else:
                self._start(item)

    async def _pull(self, items: AsyncIterable[Any]) -> None:
        try:
            async for item in items:
                if self._exhausted:  # stopped in the turn in which the item came
                    break
                self._start(item)
                self._wake_consumer()
                while len(self._window) >= self._limit:
                    self._room = LoopFuture(loop=self._desk.loop)
                    await self._room
                if self._failure is not None:
                    break
        except BaseException as error:
            if not is_outcome(self._desk.loop, error):
                raise
            self._pull_error = error
        finally:
            self._exhausted = True
            if not self._desk.loop.closing:
                self._wake_consumer()

    def _start(self, item: Any) -> None:
        unit = self._unit
        assert unit is not None
        branch = unit.child(BRANCH, self._started, self._incarnation)
        branch.where = self._where
        self._started += 1
        scope = Scope(self._desk.scope())
        self._window.append((self._desk.loop.spawn(self._run(item), branch, scope), scope))

    async def _run(self, item: Any) -> Any:
        try:
            outcome = self._fn(item)
            return await outcome if inspect.isawaitable(outcome) else outcome
        except StopAsyncIteration as error:  # it would end the loop over the results
            failure: BaseException = RuntimeError("a function over items raised StopAsyncIteration")
            self._note_failure(failure)
            raise failure from error
        except BaseException as error:
            if is_outcome(self._desk.loop, error):
                self._note_failure(error)
            raise

    def _note_failure(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
            waiting = self._waiting
            if self._as_list and waiting is not None and not waiting.done() and not waiting.cancel_requested:
                waiting.set_result(None)

    def _wake_consumer(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    async def _cancel_rest(self) -> None:
        """The source has ended, one item failed, or the consumer was cancelled: what still runs is waited for."""
        self._exhausted = True
        if self._desk.loop.closing:
            return
        rest: list[tuple[UnitTask, Scope | None]] = [strand for strand in self._window if not strand[0].done()]
        for task, _ in self._window:
            if task.done() and not task.cancelled():
                task.exception()  # known, so that nobody reports it as forgotten
        self._window.clear()
        if self._puller is not None and not self._puller.done():
            self._puller.cancel()
            rest.append((self._puller, None))
        for _, scope in rest:
            if scope is not None:
                cancel_scope(self._desk, scope, "another item failed")
        await self._ends_of([strand for strand in rest if not strand[0].done()])

    async def _ends_of(self, strands: Sequence[tuple[UnitTask, Scope | None]]) -> None:
        """Wait until all of them have ended. Cancelled, it cancels them and goes on waiting."""
        if not strands:
            return
        left = len(strands)

        def stop() -> None:
            for task, scope in strands:
                if scope is not None and not task.done():
                    cancel_scope(self._desk, scope)

        joint = Joint(self._desk.loop, lambda: f"each: {', '.join(str(task.unit) for task, _ in strands)}", stop)
        self._waiting = joint

        def note(_task: Any) -> None:
            nonlocal left
            left -= 1
            if not left and not joint.done() and not self._desk.loop.closing:
                if joint.cancel_requested:
                    joint.end_cancelled()
                else:
                    joint.set_result(None)

        for task, _ in strands:
            task.add_done_callback(note)
        await joint
