"""What asyncio keeps to itself and a loop has to know, in one place: the private names and the code objects.

Read by kernel.loop, kernel.futures and kernel.primitives.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from asyncio import futures, tasks
from collections.abc import Callable
from types import FrameType
from typing import Any

# What asyncio offers to the authors of other loops; its type stubs leave it out.
ENTER_TASK: Callable[[Any, Any], None] = vars(tasks)["_enter_task"]
LEAVE_TASK: Callable[[Any, Any], None] = vars(tasks)["_leave_task"]

# What `asyncio.sleep` calls later.
SET_RESULT: object = vars(futures)["_set_result_unless_cancelled"]

# `wait_for` makes a task where its time is up at once. The functions that stand between it and the loop:
WAIT_FOR = asyncio.wait_for.__code__
ENSURE_FUTURE = {vars(tasks)[name].__code__ for name in ("ensure_future", "_ensure_future") if name in vars(tasks)}

# asyncio waits for its own clean-up in these; to interrupt them again would spin for ever.
CLEANING_UP = {
    code
    for owner, name in ((asyncio.TaskGroup, "__aexit__"), (asyncio.TaskGroup, "_aexit"))
    if (code := getattr(getattr(owner, name, None), "__code__", None)) is not None
}
WAITING_FOR_CONDITION = {asyncio.Condition.wait.__code__}
LOCK_ACQUIRE = asyncio.Lock.acquire.__code__


# How a coroutine awaits an asynchronous generator, and what else stands between two frames without showing the next.
_BETWEEN = frozenset({"async_generator_asend", "async_generator_athrow", "anext_awaitable", "coroutine_wrapper"})


def chain_of(awaited: Any) -> list[tuple[Any, FrameType]]:
    """What a paused coroutine awaits, and what that awaits, each with its frame, the outermost first."""
    chain: list[tuple[Any, FrameType]] = []
    while awaited is not None:
        if _is_between(awaited):
            awaited = next((one for one in gc.get_referents(awaited) if _kind(one) or _is_between(one)), None)
            continue
        kind = _kind(awaited)
        if not kind:
            break
        chain.append((awaited, getattr(awaited, f"{kind}_frame")))
        awaited = getattr(awaited, f"{kind}_await", None) or getattr(awaited, f"{kind}_yieldfrom", None)
    return chain


def _is_between(awaited: Any) -> bool:
    return type(awaited).__name__ in _BETWEEN


def _kind(awaited: Any) -> str:
    """The letters of a coroutine's attributes; empty for what has no frame."""
    return next((kind for kind in ("cr", "gi", "ag") if getattr(awaited, f"{kind}_frame", None) is not None), "")


def called_by_wait_for() -> bool:
    """Whether the caller's caller is `wait_for`, straight or through `ensure_future`."""
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_code in ENSURE_FUTURE:
        frame = frame.f_back
    return frame is not None and frame.f_code is WAIT_FOR


def runs_eagerly(loop: Any, stepped: object) -> bool:
    """Whether a task runs that the loop has not stepped: from Python 3.12 on asyncio can start one on its own."""
    return _CAN_BE_EAGER and asyncio.current_task(loop) is not stepped


_CAN_BE_EAGER = sys.version_info >= (3, 12)


def take_current_task(loop: Any) -> Any:
    """From Python 3.14 on a thread has one current task: take that of the loop outside, to be given back later."""
    if loop is None or sys.version_info < (3, 14):
        return None
    return vars(tasks)["_swap_current_task"](loop, None)


def give_current_task(loop: Any, task: Any) -> None:
    """Give the task back."""
    if task is not None:
        vars(tasks)["_swap_current_task"](loop, task)


def shielded_by(future: Any) -> Any:
    """What `asyncio.shield` protects, where this is the future that it gave; else None."""
    for callback, _context in getattr(future, "_callbacks", None) or ():
        code = getattr(callback, "__code__", None)
        if code is not None and code.co_qualname == "shield.<locals>._outer_done_callback":
            return dict(zip(code.co_freevars, callback.__closure__, strict=True))["inner"].cell_contents
    return None
