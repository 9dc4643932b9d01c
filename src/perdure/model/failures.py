"""Failures: exceptions become records here, and nowhere else."""

from __future__ import annotations

import traceback

from perdure.errors import ApplicationError, Failure, OperationFailed

CAUSES_MAX = 20


def failure_of(error: BaseException, *, with_traceback: bool = True, depth: int = 0) -> Failure:
    """The record of an exception, its causes included."""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    inner: Failure | None = None
    if isinstance(error, OperationFailed):
        inner = error.failure
    elif cause is not None and depth < CAUSES_MAX:
        inner = failure_of(cause, with_traceback=False, depth=depth + 1)
    text = "".join(traceback.format_exception(error)) if with_traceback else None
    if isinstance(error, ApplicationError):
        return Failure(error.type, error.message, error.details, error.retryable, inner, text)
    return Failure(type(error).__name__, _message_of(error), None, True, inner, text)


def _message_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:
        return f"(its text cannot be made: {type(broken).__name__})"
