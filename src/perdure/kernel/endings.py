"""Endings: how a run begins its code, and what becomes of it when that code ends (K17, M6, M8).

kernel.executor asks, once per turn, whether the run has been decided; the first decision wins.
"""

from __future__ import annotations

from types import TracebackType

import msgspec

from perdure import codec
from perdure.errors import Failure
from perdure.kernel.callsite import is_workflow_code
from perdure.kernel.desk import Desk
from perdure.kernel.futures import CancelledError, RunEnds, UnitTask
from perdure.kernel.loop import running_loop
from perdure.kernel.operations import Operation
from perdure.model.commands import NOTHING, Command
from perdure.model.failures import failure_of


class Decision(msgspec.Struct, frozen=True):
    """The end of a run: one of the terminal commands, with its input."""

    kind: str
    encoded: msgspec.Raw = NOTHING
    keywords: msgspec.Raw = NOTHING
    error: BaseException | None = None
    where: tuple[str, int] | None = None


def of_root(run: Desk, task: UnitTask) -> Decision:
    """What the end of the root unit decides. A value is kept even if the run was cancelled, for its work is done."""
    if task.cancelled():
        if run.root_scope.cancelled:
            return Decision("cancel")
        return of_error(CancelledError("what the workflow waited for was cancelled, and the run was not"))
    error = task.exception()
    if isinstance(error, RunEnds):
        error = RuntimeError("the workflow ended itself without saying how")
    if error is not None:
        return of_error(error)
    try:
        return Decision("complete", one(codec.encode(task.result(), "result")))
    except Exception as unusable:
        return of_error(unusable)


def of_error(error: BaseException) -> Decision:
    """The run fails with an exception."""
    return Decision("fail", one(encode_failure(failure_from(error))), error=error)


def decide(run: Desk, decision: Decision) -> None:
    """End the run with this turn. The first decision wins, and a root that has returned has decided (K17)."""
    if run.decision is None and run.root_task is not None:
        run.decision = of_root(run, run.root_task) if run.root_task.done() else decision


def carry_out(run: Desk, decision: Decision) -> None:
    """Emit what the end asks for: open activities are asked to cancel, open updates answered; the decision is last."""
    open_activities = [
        operation
        for operation in run.open_operations()
        if isinstance(operation, Operation)
        and operation.kind == "schedule_activity"
        and operation.since_turn < run.turn
        and operation.cancellation != "abandon"
        and not operation.cancel_sent
    ]
    for operation in sorted(open_activities, key=lambda operation: operation.unit.key):
        run.send_cancel(operation, "cancel_activity")
    if decision.kind != "continue_as_new":
        run.updates.fail_open(f"run {run.identity.run_id} ended before the update was done")
    run.emit(
        Command(
            decision.kind,
            "/",
            encoded=decision.encoded,
            encoded_kwargs=decision.keywords,
            where=decision.where or _where_raised(decision.error) or run.root.where,
        )
    )


def one(value: msgspec.Raw) -> msgspec.Raw:
    """The input of a command that has one value."""
    return msgspec.Raw(b"[" + bytes(value) + b"]")


def encode_failure(failure: Failure) -> msgspec.Raw:
    """A failure as JSON; details that cannot be stored are replaced by their text."""
    try:
        codec.encode(failure.details, "details")
    except Exception:
        failure = msgspec.structs.replace(failure, details=repr(failure.details))
    return msgspec.Raw(msgspec.json.encode(failure))


def failure_from(error: BaseException) -> Failure:
    """The record of an exception of workflow code, with the traceback from its first line of workflow code on."""
    _forget_outside(error)
    trace = error.__traceback__
    shown = _first_workflow_line(trace) or trace
    return failure_of(error.with_traceback(shown))


def _forget_outside(error: BaseException) -> None:
    """Python makes what the host is handling the context of whatever is raised meanwhile: it is none of the run's."""
    loop = running_loop()
    outside = None if loop is None else loop.handled_outside
    seen: set[int] = set()
    left: list[BaseException | None] = [error if outside is not None else None]
    while left:
        one = left.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            if one.__context__ is outside:
                one.__context__ = None
            left += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]


def _first_workflow_line(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and not is_workflow_code(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def _where_raised(error: BaseException | None) -> tuple[str, int] | None:
    trace = None if error is None else error.__traceback__
    where = None
    while trace is not None:
        if is_workflow_code(trace.tb_frame.f_code.co_filename):
            where = (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return where
