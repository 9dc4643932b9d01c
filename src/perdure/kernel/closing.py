"""Closing: how every coroutine of a run ends when the run does, or is evicted (K18).

Called by kernel.executor. What a coroutine does meanwhile is refused (kernel.desk) and leaves no trace; one that goes
on regardless is abandoned and reported.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from perdure.kernel.futures import UnitTask
from perdure.kernel.loop import WorkflowLoop
from perdure.kernel.units import Unit

CLOSING_ATTEMPTS_MAX = 1_000

# Coroutines that would not close. They are kept, so that the garbage collector never resumes them in another run.
ABANDONED: list[object] = []
NO_CODE = compile("", "<abandoned>", "exec")


def close_units(loop: WorkflowLoop) -> None:
    """Close every coroutine of the run, the innermost unit first; then its asynchronous generators."""
    loop.closing = True
    for unit in sorted(loop.units, key=_key, reverse=True):
        for task in reversed(unit.tasks):
            _close(loop, task)
    for generator in list(loop.generators.values()):
        _close_generator(generator)
    loop.units.clear()
    loop.ready.clear()
    loop.generators.clear()


def _close(loop: WorkflowLoop, task: UnitTask) -> None:
    loop.task = task
    for _ in range(CLOSING_ATTEMPTS_MAX):
        try:
            pause = task.context.run(task.coroutine.throw, GeneratorExit())
        except KeyboardInterrupt as error:
            _abandon(loop, task, f"was stopped by {type(error).__name__}")
            break
        except BaseException:  # whatever it raised, it has ended
            break
        if getattr(pause, "_asyncio_future_blocking", False):
            pause._asyncio_future_blocking = False  # else the next await of it fails at once, without a pause
    else:
        _abandon(loop, task, "goes on regardless")
    loop.task = None


def _abandon(loop: WorkflowLoop, task: UnitTask, why: str) -> None:
    ABANDONED.append(task)
    # The interpreter would resume it once more at its exit, to close it. The garbage collector cannot look into a
    # code object: what is a constant of its own code stays as it is.
    task.kept = NO_CODE.replace(co_consts=(task,))
    loop.reports.append(f"unit {task.unit.text} was abandoned while its run was closed: it {why}")


def _close_generator(generator: AsyncGenerator[Any, Any]) -> None:
    closing: Any = generator.aclose()
    for _ in range(CLOSING_ATTEMPTS_MAX):
        try:
            closing.send(None)
        except KeyboardInterrupt:
            break
        except BaseException:
            return
    ABANDONED.append(generator)


def _key(unit: Unit) -> Any:
    return unit.key
