"""Turn words: jobs and commands of a turn as people read them.

Pure. Used by history, timeline (for show) and dev.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from perdure.cli.saying import clean
from perdure.cli.words import failure_line, span
from perdure.errors import Failure
from perdure.model import jobs
from perdure.model.commands import CANCELLING, Command

read_failure = msgspec.json.Decoder(tuple[Failure]).decode
VALUE_LENGTH_MAX = 60
VERBS = {
    "schedule_activity": "activity",
    "start_timer": "timer",
    "start_child": "child",
    "signal_external": "signal to",
    "cancel_external": "cancel of",
    "create_promise": "promise",
    "cancel_activity": "cancel activity",
    "cancel_timer": "cancel timer",
    "cancel_child": "cancel child",
    "complete": "completed:",
    "fail": "failed:",
    "cancel": "cancelled",
    "continue_as_new": "goes on as a new generation",
}


def value_text(value: Any, length_max: int = VALUE_LENGTH_MAX) -> str:
    """A value in one line; a long one is cut."""
    raw = bytes(value).decode("utf-8", "replace") if isinstance(value, msgspec.Raw) else _json(value)
    text = " ".join(clean(raw).split())
    return text if len(text) <= length_max else f"{text[: length_max - 1]}…"


def job_text(job: jobs.Recorded, names: Mapping[int, str], length_max: int = VALUE_LENGTH_MAX) -> str:
    """What a turn was told. `names` are the operations by seq."""
    if isinstance(job, jobs.Started):
        return "started" if not job.generation else f"started, generation {job.generation}"
    if isinstance(job, jobs.Resolved):
        return f"{_named(job.seq, names)} → {value_text(job.value, length_max)}"
    if isinstance(job, jobs.Failed):
        return f"{_named(job.seq, names)} failed: {value_cut(failure_line(job.failure), length_max)}"
    if isinstance(job, jobs.Cancelled):
        return f"{_named(job.seq, names)} cancelled"
    if isinstance(job, jobs.Fired):
        return f"{names.get(job.seq) or f'timer #{job.seq}'} fired"
    return _message_text(job, length_max)


def command_text(command: Command, length_max: int = VALUE_LENGTH_MAX) -> str:
    """What a turn decided."""
    kind, name = command.kind, command.name or ""
    verb = VERBS.get(kind, kind.replace("_", " "))
    if kind == "start_timer":
        return f"{verb} {timer_text(command)}"
    if kind in ("schedule_activity", "start_child"):
        called = f"{verb} {name}({_arguments(command, length_max)})"
        return f"{called} as {command.options['id']}" if "id" in command.options else called
    if kind in ("signal_external", "cancel_external"):
        return f"{verb} {command.options.get('id', '')} {name}".rstrip()
    if kind == "complete":
        return f"{verb} {value_text(command.input[0] if command.input else None, length_max)}"
    if kind in ("fail_update", "reject_update"):
        return f"{verb} {name}: {value_cut(failure_line(read_failure(command.encoded)[0]), length_max)}"
    if kind == "fail":
        return f"{verb} {value_cut(failure_line(read_failure(command.encoded)[0]), length_max)}"
    if kind in CANCELLING:
        return f"{verb} #{command.seq}"
    if kind == "set_state":
        return f"{verb} {name} = {value_text(command.input[0], length_max)}"
    given = ", ".join(value_text(value, length_max) for value in command.input)
    return " ".join(part for part in (verb, name, given) if part)


def operations_of(commands: Iterable[Command]) -> dict[int, str]:
    """What the seqs of commands stand for."""
    names: dict[int, str] = {}
    for command in commands:
        if command.seq is None or command.kind in CANCELLING:
            continue
        if command.kind == "start_timer":
            names[command.seq] = f"timer {timer_text(command)}"
        elif command.kind == "schedule_activity":
            names[command.seq] = command.name or ""
        else:
            names[command.seq] = f"{VERBS[command.kind]} {command.name or command.options.get('id', '')}"
    return names


def timer_text(command: Command) -> str:
    """How long a timer runs."""
    from datetime import timedelta

    return span(timedelta(seconds=command.input[0]))


def value_cut(text: str, length_max: int) -> str:
    """A text, not longer than that."""
    return text if len(text) <= length_max else f"{text[: length_max - 1]}…"


def _message_text(job: jobs.Recorded, length_max: int) -> str:
    if isinstance(job, jobs.Signalled):
        return f"signal {job.name}{_inputs(job.encoded, length_max)}"
    if isinstance(job, jobs.UpdateRequested):
        return f"update {job.name}{_inputs(job.encoded, length_max)}"
    if isinstance(job, jobs.PromiseResolved):
        return f"promise {job.name} → {value_text(job.value, length_max)}"
    if isinstance(job, jobs.PromiseRejected):
        return f"promise {job.name} rejected: {value_cut(job.message, length_max)}"
    if isinstance(job, jobs.CancelRequested):
        return "asked to cancel" + (f": {value_cut(job.reason, length_max)}" if job.reason else "")
    if isinstance(job, jobs.Patched):
        return f"patch {job.id}"
    return type(job).__name__


def _inputs(encoded: msgspec.Raw, length_max: int) -> str:
    return f"({value_text(encoded, length_max)[1:-1] or ''})"


def _arguments(command: Command, length_max: int) -> str:
    given: Sequence[Any] = command.input
    parts = [_json(value) for value in given] + [f"{key}={_json(value)}" for key, value in command.kwargs.items()]
    return value_cut(" ".join(clean(", ".join(parts)).split()), length_max)


def _named(seq: int, names: Mapping[int, str]) -> str:
    return names.get(seq) or f"#{seq}"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
