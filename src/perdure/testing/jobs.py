"""Job makers: what a test tells a turn, by a command or by its `seq`.

Taken by `Harness.start` and `Harness.activate`.
"""

from __future__ import annotations

from typing import Any, cast

from perdure import codec
from perdure.define.handlers import Method
from perdure.errors import Failure, InvalidValue, UsageError
from perdure.model import jobs
from perdure.model.commands import SEQUENCED, Command
from perdure.model.failures import failure_of
from perdure.model.ids import check_id

UNNAMED_ID = ""  # the harness gives such an update or query the next number


def resolve(command: Command | int, value: object = None) -> jobs.Resolved | jobs.PromiseResolved:
    """The activity, child, promise or message has its answer."""
    if isinstance(command, Command) and command.kind == "create_promise":
        return resolve_promise(command.name or "", value)
    return jobs.Resolved(_seq(command, "resolve", timer=False), codec.encode(value, "value"))


def fail(command: Command | int, error: BaseException | Failure) -> jobs.Failed | jobs.PromiseRejected:
    """The activity, child or message has failed."""
    if not isinstance(cast(object, error), BaseException | Failure):
        raise InvalidValue(f"fail() takes an exception or a Failure, not {type(error).__name__}")
    failure = error if isinstance(error, Failure) else failure_of(error, with_traceback=False)
    if isinstance(command, Command) and command.kind == "create_promise":
        return reject_promise(command.name or "", failure.message)
    return jobs.Failed(_seq(command, "fail", timer=False), failure)


def fire(command: Command | int) -> jobs.Fired:
    """The timer has fired."""
    return jobs.Fired(_seq(command, "fire", timer=True))


def cancelled(command: Command | int) -> jobs.Cancelled:
    """The activity or child ended cancelled."""
    return jobs.Cancelled(_seq(command, "cancelled", timer=False))


def signal(name: str | Method[..., Any], *args: object, message_id: str | None = None) -> jobs.Signalled:
    """A signal has come. One with a message id that came before is dropped."""
    if message_id is not None:
        check_id(message_id, "a message id")
    return jobs.Signalled(_name(name, "signal"), codec.encode_arguments(args), message_id)


def update(
    name: str | Method[..., Any], *args: object, id: str | None = None, validate: bool = True
) -> jobs.UpdateRequested:
    """An update has come. One with an id that came before gets the first answer again."""
    update_id = UNNAMED_ID if id is None else check_id(id, "the id of an update")
    return jobs.UpdateRequested(_name(name, "update"), update_id, codec.encode_arguments(args), validate)


def query(name: str | Method[..., Any], *args: object, id: str | None = None) -> jobs.Queried:
    """Somebody asks. A turn of queries alone runs no workflow code and is not recorded."""
    query_id = UNNAMED_ID if id is None else check_id(id, "the id of a query")
    return jobs.Queried(_name(name, "query"), query_id, codec.encode_arguments(args))


def resolve_promise(name: str, value: object = None) -> jobs.PromiseResolved:
    """The outside has resolved a promise."""
    return jobs.PromiseResolved(check_id(name, "the name of a promise"), codec.encode(value, "value"))


def reject_promise(name: str, message: str = "") -> jobs.PromiseRejected:
    """The outside has rejected a promise."""
    return jobs.PromiseRejected(check_id(name, "the name of a promise"), str(message))


def cancel(reason: str = "") -> jobs.CancelRequested:
    """Somebody asks the run to cancel."""
    return jobs.CancelRequested(str(reason))


def evict() -> jobs.Evicted:
    """The live copy is dropped; the next activation rebuilds it from the transcript."""
    return jobs.Evicted()


def _seq(command: object, job: str, *, timer: bool) -> int:
    if isinstance(command, bool) or not isinstance(command, Command | int):
        raise InvalidValue(f"{job}() takes a command or its seq, not {type(command).__name__}")
    if isinstance(command, int):
        return command
    if command.seq is None or command.kind not in SEQUENCED:
        raise UsageError(f"{job}() of a {command.kind}: nobody waits for its answer")
    if timer != (command.kind == "start_timer"):
        right = "fire()" if command.kind == "start_timer" else "resolve(), fail() or cancelled()"
        raise UsageError(f"{job}() of a {command.kind}: use {right}")
    return command.seq


def _name(name: object, what: str) -> str:
    return (
        name.name
        if isinstance(name, Method)
        else check_id(name, f"the name of {'an' if what[0] in 'aeiou' else 'a'} {what}")
    )
