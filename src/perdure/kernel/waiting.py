"""Waiting, explained: what every unit of a run waits for, since when, and on which line (K19).

Read from the paused coroutines when somebody asks; it costs a turn nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from perdure.kernel.callsite import PERDURE, is_workflow_code, origin
from perdure.kernel.desk import Desk
from perdure.kernel.futures import Joint, LoopFuture, PlainFuture, UnitTask
from perdure.kernel.innards import chain_of, shielded_by
from perdure.model.turns import Waiting

# The functions in which the primitives of asyncio wait, where the name of the function does not say it.
PRIMITIVES: Final = {"wait_for_notification": "Condition.wait"}
PASSED_BY: Final = {"wait_for", "timeout", "run_callable"}  # they wait for something else, which says more


def waits(desk: Desk) -> list[Waiting]:
    """One entry for each unit that is paused, in unit order."""
    found: list[Waiting] = []
    for unit in sorted(desk.loop.units, key=lambda unit: unit.key):
        for task in [task for task in unit.tasks if task.waiter is not None]:
            frames = [frame for _, frame in chain_of(task.coroutine)]
            what = _what(task, frames)
            if (
                what is not None
            ):  # the unit's own coroutine goes first, unless it only waits for another one of the unit
                found.append(Waiting(unit.text, what, task.since_turn, _source(frames) or _line(unit.where)))
                break
    return found


def described(waiter: Any) -> str | None:
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
    protected = shielded_by(waiter)
    if protected is not None:
        return f"shield: {_listed([protected])}"
    what = getattr(waiter, "what", None)
    return what if isinstance(what, str) else None


def _source(frames: list[Any]) -> str:
    for frame in reversed(frames):
        if is_workflow_code(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
    return ""


def _line(where: tuple[str, int] | None) -> str:
    return "" if where is None else f"{where[0]}:{where[1]}"


def _what(task: UnitTask, frames: list[Any]) -> str | None:
    """What a task waits for; None where it is another task of the same unit that says it."""
    waiter = task.waiter
    if type(waiter) is LoopFuture or (isinstance(waiter, UnitTask) and waiter.unit is task.unit):
        return None
    text = described(waiter)
    if text is not None:
        return text
    primitive = None
    for frame in reversed(frames):
        code = frame.f_code
        if origin(code.co_filename) not in ("asyncio", PERDURE):
            break
        name = PRIMITIVES.get(code.co_name) or code.co_qualname
        if code.co_qualname in LISTING:
            return LISTING[code.co_qualname](frame.f_locals)
        if name not in PASSED_BY and not any(part.startswith("_") for part in name.split(".")):
            primitive = f"asyncio {name}"
    return primitive or "a future"


def _listed(futures: Iterable[Any]) -> str:
    return ", ".join(described(future) or "a future" for future in futures if not future.done())


def _in_order(futures: Iterable[Any]) -> list[Any]:
    """A set of futures as people can read it twice: by the unit that made them, then in the order of being hashed."""
    return sorted(futures, key=lambda one: (_unit_key(one), getattr(one, "_number", 0)))


def _unit_key(future: Any) -> Any:
    return future.unit.key if hasattr(future, "unit") else ()


# The functions in which several are waited for, and how each lists them from its own names.
LISTING: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    "_wait": lambda names: f"wait: {_listed(_in_order(names['fs']))}",
    "Completed._next_ended": lambda names: f"as_completed: {_listed(names['self']._open)}",
    "leave_group": lambda names: f"TaskGroup: {_listed(_in_order(names['group']._tasks))}",
    "TaskGroup.__aexit__": lambda names: f"TaskGroup: {_listed(_in_order(names['self']._tasks))}",
    "TaskGroup._aexit": lambda names: f"TaskGroup: {_listed(_in_order(names['self']._tasks))}",
}
