"""A deadlock on virtual time: what it is called, and where everything waits."""

from __future__ import annotations

import asyncio
from types import FrameType
from typing import Any

from perdure.errors import PerdureError
from perdure.kernel.callsite import is_workflow_code

TASKS_SHOWN_MAX = 20


class Deadlock(PerdureError):
    """On virtual time nothing is scheduled, and nothing can come from outside: the program would wait for ever."""


def deadlock(loop: asyncio.AbstractEventLoop, notes: list[str]) -> Deadlock:
    """The error, with what each task of the loop waits for, and further lines of those who know more."""
    tasks = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
    lines = [f"  task {task.get_name()} waits {place_of(task)}" for task in tasks[:TASKS_SHOWN_MAX]]
    if len(tasks) > TASKS_SHOWN_MAX:
        lines.append(f"  … and {len(tasks) - TASKS_SHOWN_MAX} more tasks")
    happened = "nothing is scheduled, and nothing can come from outside: the program would wait for ever."
    next_step = (
        "Send what is waited for, or give the wait a timeout; if a thread of yours is to bring it, let it hold "
        "the clock (`VirtualClock.hold`)."
    )
    return Deadlock("\n".join([happened, *(f"  {note}" for note in notes), *lines, next_step]))


def place_of(task: asyncio.Task[Any]) -> str:
    """Where a task that is suspended waits: the user's innermost line, and the innermost of all."""
    frames = _frames(task.get_coro())
    if not frames:
        return "at no line of Python"
    own = next((frame for frame in reversed(frames) if is_workflow_code(frame.f_code.co_filename)), None)
    innermost = frames[-1]
    if own is None or own is innermost:
        return f"at {_line(innermost)}"
    return f"at {_line(own)}, in {innermost.f_code.co_qualname}"


def _frames(awaited: Any) -> list[FrameType]:
    """Outermost first."""
    frames: list[FrameType] = []
    while awaited is not None:
        for frame, following in (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom"), ("ag_frame", "ag_await")):
            if hasattr(awaited, frame):
                found = getattr(awaited, frame)
                if found is not None:
                    frames.append(found)
                awaited = getattr(awaited, following)
                break
        else:
            break
    return frames


def _line(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"
