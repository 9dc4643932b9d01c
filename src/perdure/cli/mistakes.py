"""Mistakes: an error as one line, a hint, and an exit code.

Used by group for whatever a command raises; commands raise `Wrong` for what they find out themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

OK = 0
DID_NOT_WORK = 1
WRONG_USE = 2
INTERRUPTED = 130  # as shells say it of Ctrl-C

NOT_FOR_USERS = (click.exceptions.Exit, SystemExit)


class Wrong(Exception):
    """A command was called wrongly: exit code 2."""

    code = WRONG_USE

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Failed(Wrong):
    """A command was called rightly, and it did not work: exit code 1."""

    code = DID_NOT_WORK


@dataclass(frozen=True)
class Mistake:
    """What is told of an error."""

    type: str
    message: str
    hint: str
    code: int


def mistake_of(error: Exception) -> Mistake | None:
    """How an error is told; None for one that is our bug, and has a traceback to show."""
    if isinstance(error, Wrong):
        return Mistake("UsageError" if error.code == WRONG_USE else "Failed", _line(error), error.hint, error.code)
    if isinstance(error, click.ClickException):
        return _of_click(error)
    return _of_perdure(error)


def _of_click(error: click.ClickException) -> Mistake:
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = "perdure" if context is None else context.command_path
    message = error.format_message().strip()
    if isinstance(error, click.NoSuchOption | click.BadOptionUsage | click.MissingParameter):
        hint = f"`{command} --help` shows how it is called"
    else:
        hint = f"`{command} --help`"
    return Mistake("UsageError", _joined(message.splitlines()), hint, WRONG_USE)


def _of_perdure(error: Exception) -> Mistake | None:
    from perdure import errors

    if isinstance(error, errors.InternalError):
        return Mistake("InternalError", _line(error), "this is a bug in Perdure: please report it", DID_NOT_WORK)
    if not isinstance(error, errors.PerdureError | TimeoutError):
        return None
    code = WRONG_USE if isinstance(error, errors.UsageError) else DID_NOT_WORK
    return Mistake(type(error).__name__, _line(error), _hint(error), code)


def _hint(error: Exception) -> str:
    from perdure import errors

    if isinstance(error, errors.QueryFailed):
        if error.failure.type == "NoWorker":
            return "a worker that knows the workflow answers: `perdure worker MODULE`"
        return "the run is as it was, for queries only read; `perdure show ID` shows how it stands"
    for kind, hint in (
        (
            errors.NotFound,
            "`perdure list` shows the runs of this store, `perdure show ID` one; --store names another store",
        ),
        (errors.AlreadyExists, "`perdure show ID` shows the run that is there; --policy says what to do about it"),
        (errors.Rejected, "nothing was written; `perdure show ID` shows how the run stands"),
        (errors.RunClosed, "`perdure show ID` shows how it ended; `perdure start` with the same --id starts it again"),
        (errors.InvalidValue, "nothing was written; mend the value and try again"),
        (errors.StoreCorrupt, "`perdure doctor` lists what is damaged; a backup has it whole"),
        (errors.StoreUnavailable, "--store or PERDURE_STORE names the store"),
        (errors.RunEnded, "`perdure show ID` shows what happened"),
        (errors.UpdateFailed, "`perdure show ID` shows what happened"),
        (TimeoutError, "`perdure show ID` shows what it waits for"),
    ):
        if isinstance(error, kind):
            return hint
    return "`perdure --help`"


def _line(error: Exception) -> str:
    return _joined((str(error) or type(error).__name__).splitlines())


def _joined(lines: Sequence[str]) -> str:
    """One line, without anything that would steer the terminal."""
    text = " ".join(line.strip() for line in lines if line.strip())
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
