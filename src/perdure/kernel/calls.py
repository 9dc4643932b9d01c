"""Calls: what each workflow call emits, and the future it gives back (K5).

Called by define.api and define.activity, with arguments that are encoded already. In a cancelled scope nothing new is
asked for: the future is cancelled from the start (M6).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from perdure import codec
from perdure.errors import Failure, InvalidValue, OperationFailed, SchedulerViolation, UsageError
from perdure.kernel.conditions import Condition
from perdure.kernel.endings import Decision, decide, encode_failure, failure_from, one
from perdure.kernel.executor import Executor
from perdure.kernel.futures import LoopFuture, RunEnds
from perdure.kernel.messages import Receiver
from perdure.kernel.operations import NO_DEFAULT, Operation, rounded, start_deadline
from perdure.kernel.units import Unit
from perdure.model.commands import NOTHING, Command


class Request(msgspec.Struct, frozen=True):
    """Something asked of the outside."""

    kind: str
    name: str | None = None
    encoded: msgspec.Raw = NOTHING
    keywords: msgspec.Raw = NOTHING
    options: dict[str, Any] = {}
    reads: Any = Any
    cancellation: str = "try"
    defaults: Mapping[str, Any] = {}  # what the definition sets; no part of the command (K10)


def ask(executor: Executor, unit: Unit, request: Request, future_type: type[Operation] = Operation) -> Operation:
    """Emit a command that will be answered, and give back its future."""
    if executor.vet is not None and not executor.matcher.replaying:
        executor.vet(request.kind, request.name or "", {**request.defaults, **request.options})
    scope = executor.scope()
    refused = executor.loop.scopes_cancelled > 0 and scope.interrupted()
    command = Command(
        request.kind,
        unit.text,
        -1 if refused else executor.take_seq(),
        request.name,
        request.encoded,
        request.keywords,
        request.options,
        executor.where(1),
    )
    operation = future_type(executor, command, unit, scope, request.reads)
    operation.cancellation = request.cancellation
    if refused:
        LoopFuture.cancel(operation)
        return operation
    if executor.defaults is not None:
        executor.defaults[operation.seq] = request.defaults
    executor.emit(command)
    executor.open(operation)
    return operation


def start_timer(executor: Executor, unit: Unit, seconds: float) -> Operation:
    """A durable timer."""
    seconds = rounded(seconds)
    timer = ask(executor, unit, Request("start_timer", None, codec.encode([seconds])))
    timer.name = str(seconds)
    return timer


def promise(
    executor: Executor, unit: Unit, request: Request, timeout: float | None, default: Any = NO_DEFAULT
) -> Operation:
    """A future that the outside resolves or rejects by name; its timer starts right after it."""
    name = request.name or ""
    known = executor.promises.get(name)
    if known is not None and not known.done():
        raise UsageError(f"promise `{name}` is open already: give this one another name, or await that one first")
    made = ask(executor, unit, request)
    if not made.done():
        executor.promises[name] = made
        made.default = default
        if timeout is not None:
            made.deadline = start_deadline(executor, timeout, made.expire, owner=made)
    return made


def receive(
    executor: Executor,
    unit: Unit,
    reads: Mapping[str, Any],
    *,
    single: bool,
    timeout: float | None,
    default: Any,
) -> Receiver:
    """The next signal of one of these names: from the buffer, or when it comes."""
    receiver = Receiver(executor, unit, reads, single=single, default=default)
    receiver.where = executor.where()
    if executor.loop.scopes_cancelled and receiver.scope.interrupted():
        LoopFuture.cancel(receiver)
    elif not executor.mailbox.receive(receiver, reads):
        executor.open(receiver)
        if timeout is not None:
            receiver.deadline = start_deadline(executor, timeout, receiver.expire, owner=receiver)
    return receiver


async def wait_until(executor: Executor, unit: Unit, predicate: Callable[[], object], timeout: float | None) -> None:
    """Wait for a condition; one that holds already does not pause."""
    condition = Condition(executor, unit, predicate)
    if condition.holds():
        return
    condition.wait()
    if timeout is not None:
        condition.deadline = start_deadline(executor, timeout, condition.expire, owner=condition)
    await condition


def note(
    executor: Executor,
    unit: Unit,
    kind: str,
    name: str | None = None,
    encoded: msgspec.Raw = NOTHING,
    options: dict[str, Any] | None = None,
) -> None:
    """Emit a command that nobody answers."""
    executor.emit(
        Command(kind, unit.text, None, name, encoded, NOTHING, {} if options is None else options, executor.where())
    )


def set_state(executor: Executor, unit: Unit, key: str, value: object) -> None:
    """Remember a value under a key; the outside can read it (M10)."""
    encoded = codec.encode(value, key)
    note(executor, unit, "set_state", key, one(encoded))
    executor.state[key] = encoded


def clear_state(executor: Executor, unit: Unit, key: str) -> None:
    """Forget the value under a key."""
    note(executor, unit, "clear_state", key)
    executor.state.pop(key, None)


def set_attributes(executor: Executor, unit: Unit, given: dict[str, Any]) -> None:
    """Set what the run can be found by; None takes an attribute away."""
    encoded = codec.encode_attributes(given)
    note(executor, unit, "set_attributes", None, one(encoded))
    changed = executor.attributes | codec.plain(encoded)
    executor.attributes = {name: value for name, value in changed.items() if value is not None}


def side_effect(executor: Executor, unit: Unit, name: str, call: Callable[[], object], reads: Any) -> Any:
    """Run a plain function once and record its value; a replay gives the recorded one back (M11).

    An error is recorded as well, and raised as it is recorded: else a replay would look for a value, and find none.
    """
    recorded = executor.matcher.ahead("record_side_effect", name)
    failed = False
    if recorded is not None:
        parts = msgspec.json.decode(recorded.encoded, type=list[msgspec.Raw])
        encoded = parts[0] if parts else codec.NULL
        failed = bool(recorded.options.get("failed"))
    elif executor.matcher.replaying:
        encoded = codec.NULL  # there is no such record: the turn is doomed, and nothing is executed
    else:
        try:
            value = executor.read_only(f"side effect `{name}`", call)
            encoded = codec.encode(value, f"the value of side effect `{name}`")
        except (SchedulerViolation, KeyboardInterrupt):
            raise
        except BaseException as error:
            encoded, failed = encode_failure(failure_from(error)), True
    note(executor, unit, "record_side_effect", name, one(encoded), {"failed": True} if failed else None)
    if failed:
        raise _failed_effect(name, msgspec.json.decode(encoded, type=Failure))
    return codec.decode(encoded, reads, f"the value of side effect `{name}`")


def _failed_effect(name: str, failure: Failure) -> Exception:
    if failure.type == InvalidValue.__name__:
        return InvalidValue(failure.message)
    return OperationFailed(f"side effect `{name}` failed: {failure}", failure)


def patched(executor: Executor, unit: Unit, patch: str) -> bool:
    """Whether this run goes the new way (M9). Live it does, and says so once."""
    emitted = executor.patches.get(patch)
    if emitted:
        return True
    matcher = executor.matcher
    if matcher.replaying and not matcher.stands_in_record("set_patch", patch):
        return emitted is not None  # a notice that came as a job stands for the record
    note(executor, unit, "set_patch", patch)
    executor.patches[patch] = True
    return True


def deprecate_patch(executor: Executor, unit: Unit, patch: str) -> None:
    """The old way is gone: mark it, and accept either form of the mark in a record (M9)."""
    matcher = executor.matcher
    if executor.patches.get(patch) or (matcher.replaying and not matcher.stands_in_record("set_patch", patch)):
        return
    note(executor, unit, "set_patch", patch, options={"deprecated": True})
    executor.patches[patch] = True


def continue_as_new(executor: Executor, encoded: msgspec.Raw, keywords: msgspec.Raw) -> None:
    """End this run and begin the next generation; it does not return."""
    decide(executor, Decision("continue_as_new", encoded, keywords, where=executor.where()))
    raise RunEnds("the run continues as new")
