"""Waiting, explained: what every unit of a run waits for, since when, and on which line (K19).

Read from the paused coroutines when somebody asks; it costs a turn nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from perdure.kernel.callsite import is_workflow_code
from perdure.kernel.desk import Desk
from perdure.kernel.futures import Joint, PlainFuture, UnitTask
from perdure.model.turns import Waiting

# The functions in which the primitives of asyncio wait, where the name of the function does not say it.
PRIMITIVES: Final = {"leave_group": "TaskGroup", "wait_for_notification": "Condition.wait"}


def waits(desk: Desk) -> list[Waiting]:
    """One entry for each unit that is paused, in unit order."""
    found: list[Waiting] = []
    for unit in sorted(desk.loop.units, key=lambda unit: unit.key):
        paused = [task for task in unit.tasks if task.waiter is not None]
        if paused:
            task = paused[-1]
            frames = frames_of(task.coroutine)
            found.append(Waiting(unit.text, _what(task, frames), task.since_turn, _source(paused) or _line(unit.where)))
    return found


def frames_of(awaited: Any) -> list[Any]:
    """The frames of a paused coroutine, the outermost first."""
    frames: list[Any] = []
    while awaited is not None:
        for kind in ("cr", "gi", "ag"):
            frame = getattr(awaited, f"{kind}_frame", None)
            if frame is not None:
                frames.append(frame)
                awaited = getattr(awaited, f"{kind}_await", None) or getattr(awaited, f"{kind}_yieldfrom", None)
                break
        else:
            break
    return frames


def _source(tasks: list[UnitTask]) -> str:
    for task in reversed(tasks):
        for frame in reversed(frames_of(task.coroutine)):
            if is_workflow_code(frame.f_code.co_filename):
                return f"{frame.f_code.co_filename}:{frame.f_lineno}"
    return ""


def _line(where: tuple[str, int] | None) -> str:
    return "" if where is None else f"{where[0]}:{where[1]}"


def _what(task: UnitTask, frames: list[Any]) -> str:
    described = _described(task.waiter)
    code = frames[-1].f_code if frames else None
    if described is not None or code is None or is_workflow_code(code.co_filename):
        return described or "a future"
    if code.co_name == "_wait":
        awaited = sorted(frames[-1].f_locals.get("fs", ()), key=lambda future: getattr(future, "_number", 0))
        return f"wait: {_listed(awaited)}"
    return f"asyncio {PRIMITIVES.get(code.co_name) or getattr(code, 'co_qualname', code.co_name)}"


def _described(waiter: Any) -> str | None:
    """A future in words; None for one that says nothing of itself."""
    if isinstance(waiter, Joint):
        return waiter.what()
    if isinstance(waiter, UnitTask):
        return f"unit {waiter.unit.text}"
    if isinstance(waiter, PlainFuture) and waiter.delay is not None:
        return "timer (asyncio.sleep)"
    children = getattr(waiter, "_children", None)
    if children is not None:
        return f"gather: {_listed(children)}"
    what = getattr(waiter, "what", None)
    return what if isinstance(what, str) else None


def _listed(futures: Iterable[Any]) -> str:
    return ", ".join(_described(future) or "a future" for future in futures if not future.done())
