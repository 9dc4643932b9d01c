"""asyncio's primitives that differ from one Python to the next, in the one form that they have inside a workflow (K15).

A run must survive an upgrade of its interpreter, so what is below is the same on all of them: `wait_for` runs a
coroutine in its caller's task, `as_completed` starts everything when it is called and in the order given, a
`TaskGroup` keeps a cancellation from outside while it reports failures, a notified and cancelled waiter of a
`Condition` hands the notification on. The other primitives are asyncio's own.

The functions may have been imported by name already, so `install` changes their code in place: on a workflow's loop
they call what is here, on every other loop what they were. kernel.executor installs it.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from asyncio import events, futures, locks, taskgroups, tasks, timeouts
from collections.abc import Callable, Coroutine, Generator, Iterable
from types import FunctionType
from typing import Any

from perdure.errors import InvalidValue
from perdure.kernel.futures import CLEANING_UP, HASH_FACTOR, HASH_MASK, WAITING_FOR_CONDITION, CancelledError
from perdure.kernel.loop import WorkflowLoop


class Completed:
    """What `as_completed` gives: an iterator of awaitables, or an asynchronous one of futures, earliest first."""

    def __init__(self, awaitables: Iterable[Any], timeout: float | None) -> None:
        if inspect.isawaitable(awaitables):
            raise TypeError(f"expect an iterable of awaitables, not {type(awaitables).__name__}")
        given = list(dict.fromkeys(awaitables))
        if isinstance(awaitables, set | frozenset) and any(map(asyncio.iscoroutine, given)):
            for one in filter(asyncio.iscoroutine, given):
                one.close()
            raise InvalidValue("as_completed() was given a set of coroutines; a set has no order: give it a list")
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Queue[asyncio.Future[Any] | None] = asyncio.Queue()
        self._open = dict.fromkeys(asyncio.ensure_future(one, loop=loop) for one in given)
        self._left = len(self._open)
        self._timer: asyncio.TimerHandle | None = None
        for future in self._open:
            future.add_done_callback(self._note_end)
        if self._open and timeout is not None:
            self._timer = loop.call_later(timeout, self._expire)

    def __iter__(self) -> Completed:
        return self

    def __aiter__(self) -> Completed:
        return self

    def __next__(self) -> Coroutine[Any, Any, Any]:
        if not self._left:
            raise StopIteration
        self._left -= 1
        return self._next_result()

    async def __anext__(self) -> asyncio.Future[Any]:
        if not self._left:
            raise StopAsyncIteration
        self._left -= 1
        return await self._next_ended()

    async def _next_result(self) -> Any:
        return (await self._next_ended()).result()

    async def _next_ended(self) -> asyncio.Future[Any]:
        future = await self._ended.get()
        if future is None:
            raise TimeoutError
        return future

    def _note_end(self, future: asyncio.Future[Any]) -> None:
        if future in self._open:
            del self._open[future]
            self._ended.put_nowait(future)
            if not self._open and self._timer is not None:
                self._timer.cancel()

    def _expire(self) -> None:
        for future in self._open:
            future.remove_done_callback(self._note_end)
            self._ended.put_nowait(None)
        self._open.clear()


async def wait_for(awaitable: Any, timeout: float | None) -> Any:
    """The form of Python 3.12 and later, without a task of its own; time that is up at once is asyncio's matter."""
    if timeout is not None and timeout <= 0:
        return await ORIGINAL["wait_for"](awaitable, timeout)
    async with timeouts.timeout(timeout):
        return await awaitable


async def leave_group(group: Any, _error_type: object, error: BaseException | None, _trace: object) -> None:
    """Leave a `TaskGroup` in the form of Python 3.13: a cancellation from outside outlives the failures it met."""
    group._exiting = True
    if error is not None:
        if group._base_error is None and group._is_base_error(error):
            group._base_error = error
        if not group._aborting:
            group._abort()
    cancelled = error if isinstance(error, CancelledError) else None
    while group._tasks:
        if group._on_completed_fut is None:
            group._on_completed_fut = group._loop.create_future()
        try:
            await group._on_completed_fut
        except CancelledError as again:
            if not group._aborting:
                cancelled = again
                group._abort()
        group._on_completed_fut = None
    if group._base_error is not None:
        raise group._base_error
    parent = group._parent_task
    if group._parent_cancel_requested and parent.uncancel() == 0:
        cancelled = None
    failures, group._errors = group._errors, None
    if cancelled is not None and not failures:
        raise cancelled
    if error is not None and not isinstance(error, CancelledError):
        failures.append(error)
    if failures:
        if parent.cancelling():  # asked for once more, so that it is raised at the next pause
            parent.uncancel()
            parent.cancel()
        raise BaseExceptionGroup("unhandled errors in a TaskGroup", failures) from None


async def wait_for_notification(condition: Any) -> bool:
    """Wait on a `Condition` in the form of Python 3.13: a notification that nobody can use goes to the next waiter."""
    if not condition.locked():
        raise RuntimeError("cannot wait on un-acquired lock")
    waiter = asyncio.get_running_loop().create_future()
    condition.release()
    try:
        try:
            condition._waiters.append(waiter)
            try:
                await waiter
            finally:
                condition._waiters.remove(waiter)
        finally:
            interrupted: CancelledError | None = None
            while True:
                try:
                    await condition.acquire()
                    break
                except CancelledError as error:
                    interrupted = error
            if interrupted is not None:
                raise interrupted
    except BaseException:
        for other in condition._waiters:
            if not other.done():
                other.set_result(False)
                break
        raise
    return True


def install() -> None:
    """Make asyncio's functions choose by the loop that runs. Once per process; more does nothing."""
    if ORIGINAL:
        return
    _replace(tasks, "as_completed", _AS_COMPLETED, Completed)
    if sys.version_info < (3, 12):
        _replace(tasks, "wait_for", _WAIT_FOR, wait_for)
    if sys.version_info < (3, 13):
        _replace(taskgroups.TaskGroup, "__aexit__", _LEAVE, leave_group)
        _replace(locks.Condition, "wait", _WAIT, wait_for_notification)
    CLEANING_UP.add(leave_group.__code__)
    WAITING_FOR_CONDITION.add(wait_for_notification.__code__)
    gathering: Any = vars(tasks)["_GatheringFuture"]
    gathering.__hash__ = _hash_of_gathering


# --- leaves -----------------------------------------------------------------------------------------

ORIGINAL: dict[str, Callable[..., Any]] = {}


def _replace(owner: Any, name: str, entry: Callable[..., Any], ours: Callable[..., Any]) -> None:
    function: Any = vars(owner)[name]
    original: Any = FunctionType(function.__code__, function.__globals__, name, function.__defaults__)
    original.__kwdefaults__ = function.__kwdefaults__
    ORIGINAL[name] = original

    def chosen(*args: Any) -> Any:
        if type(events._get_running_loop()) is WorkflowLoop:
            return ours(*args)
        return original(*args[:-1], timeout=args[-1]) if name == "as_completed" else original(*args)

    # The code finds its globals in asyncio's module, so that is where it is told what to call.
    function.__globals__[entry.__code__.co_names[0]] = chosen
    function.__code__ = entry.__code__
