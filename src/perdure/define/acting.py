"""Acting: how a call that workflow code makes finds the run that it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from perdure.errors import SchedulerViolation
from perdure.kernel.executor import Executor
from perdure.kernel.loop import running_loop

if TYPE_CHECKING:
    from perdure.kernel.units import Unit


def executor_or_none() -> Executor | None:
    """The run whose turn this thread has now; None outside a workflow."""
    loop = running_loop()
    return None if loop is None else cast(Executor, loop.host)


def run_and_unit(call: str, *, emits: bool = True) -> tuple[Executor, Unit]:
    """The run, and the unit that has the step. A `SchedulerViolation` where there is none (K14)."""
    loop = running_loop()
    if loop is None:
        raise SchedulerViolation(
            f"{call}() was called outside a workflow: in an activity, in another thread, or in plain code. "
            "It works only in code that a workflow runs itself. Nothing was emitted"
        )
    executor = cast(Executor, loop.host)
    return executor, executor.acting(call, emits=emits)
