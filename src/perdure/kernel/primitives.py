"""asyncio's primitives that differ from Python to Python, in the one form that they have inside a workflow (K15).

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
from asyncio import tasks, timeouts
from collections.abc import Callable, Coroutine, Iterable
from types import FunctionType
from typing import Any

from perdure.errors import InvalidValue
from perdure.kernel.callsite import caller
from perdure.kernel.forbidden import THREADS, violation
from perdure.kernel.futures import HASH_FACTOR, HASH_MASK, CancelledError
from perdure.kernel.innards import CLEANING_UP, WAITING_FOR_CONDITION
from perdure.kernel.loop import WorkflowLoop, running_loop


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


def wrap_future(future: Any, *, loop: Any = None) -> Any:
    """A future of asyncio's passes; one that a thread answers is refused: its answer is in no history."""
    if asyncio.isfuture(future):
        return future
    running: Any = running_loop()
    unit = running.stepping
    where = caller(running.own_code)
    error = violation("asyncio.wrap_future()", where, None if unit is None else unit.text, THREADS)
    running.violate(error)
    raise error


def all_tasks(loop: Any = None) -> set[Any]:
    """The tasks that have not ended, put into the set in unit order; asyncio's registry is shared by all runs."""
    running = running_loop()
    if running is None or loop not in {None, running}:
        return ORIGINAL["all_tasks"](loop)
    units = sorted(running.units, key=lambda unit: unit.key)
    return {task for unit in units for task in unit.tasks}


def install() -> None:
    """Make asyncio's functions choose by the loop that runs. Once per process; more does nothing."""
    if ORIGINAL:
        return
    _replace(asyncio.as_completed, _as_completed)
    _replace(asyncio.wrap_future, _wrap_future)
    if sys.version_info < (3, 12):
        _replace(asyncio.wait_for, _wait_for)
    if sys.version_info < (3, 13):
        _replace(asyncio.TaskGroup.__aexit__, _leave_group)
        _replace(asyncio.Condition.wait, _wait_for_notification)
    if sys.version_info < (3, 14):
        _replace(asyncio.all_tasks, _all_tasks)
    else:  # a function in C, which has no code to be changed
        ORIGINAL["all_tasks"] = asyncio.all_tasks
        asyncio.all_tasks = tasks.all_tasks = all_tasks
    CLEANING_UP.add(leave_group.__code__)
    WAITING_FOR_CONDITION.add(wait_for_notification.__code__)
    vars(tasks)["_GatheringFuture"].__hash__ = _hash_of_gathering


# --- leaves -----------------------------------------------------------------------------------------

# What asyncio's functions were, by name.
ORIGINAL: dict[str, Callable[..., Any]] = {}

# The code of the functions below takes the place of asyncio's. There it finds its globals in asyncio's module, where
# `_replace` puts what chooses between ours and the original.
perdure_as_completed: Callable[..., Any] = Completed
perdure_wait_for: Callable[..., Any] = wait_for
perdure_leave_group: Callable[..., Any] = leave_group
perdure_wait: Callable[..., Any] = wait_for_notification
perdure_all_tasks: Callable[..., Any] = all_tasks
perdure_wrap_future: Callable[..., Any] = wrap_future


def _as_completed(fs: Any, *, timeout: float | None = None) -> Any:
    return perdure_as_completed(fs, timeout=timeout)


async def _wait_for(fut: Any, timeout: float | None) -> Any:
    return await perdure_wait_for(fut, timeout)


async def _leave_group(self: Any, et: Any, exc: Any, tb: Any) -> Any:
    return await perdure_leave_group(self, et, exc, tb)


async def _wait_for_notification(self: Any) -> Any:
    return await perdure_wait(self)


def _all_tasks(loop: Any = None) -> Any:
    return perdure_all_tasks(loop)


def _wrap_future(future: Any, *, loop: Any = None) -> Any:
    return perdure_wrap_future(future, loop=loop)


def _replace(function: Any, entry: Any) -> None:
    (name,) = (name for name in entry.__code__.co_names if name.startswith("perdure_"))
    ours = entry.__globals__[name]
    original = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    original.__kwdefaults__ = function.__kwdefaults__
    ORIGINAL[function.__name__] = original

    def chosen(*args: Any, **options: Any) -> Any:
        return original(*args, **options) if running_loop() is None else ours(*args, **options)

    function.__globals__[name] = chosen
    function.__code__ = entry.__code__


def _hash_of_gathering(future: Any) -> int:
    """What `gather` gives is a future of asyncio's own; on a workflow's loop it is numbered when it is first hashed."""
    loop = future.get_loop()
    if type(loop) is not WorkflowLoop:
        return object.__hash__(future)
    number: int = getattr(future, "perdure_number", 0)
    if not number:
        loop.gathers_hashed += 1
        future.perdure_number = number = -loop.gathers_hashed
    return (number * HASH_FACTOR ^ loop.salt) & HASH_MASK
