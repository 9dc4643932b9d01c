"""Report: both sides of a nondeterministic turn, the first difference, a likely cause, and what to do (K12).

In:  kernel.matching, or the executor, found a command that is not the recorded one.
Out: a `NondeterminismError` for it to raise; kernel.difference does the comparing.

The likely cause is a guess from evidence. What the code emitted *before* the mismatch cannot tell a call
that was added from one that was moved; what it emits *after* can. So a `Scene` takes both, and where it
has only the first, the sentence names both possibilities.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Final

import msgspec

from perdure.errors import NondeterminismError
from perdure.kernel.difference import (
    FAILING,
    Difference,
    Sign,
    around,
    cut,
    differences,
    different,
    one_line,
    same_command,
    sign_of,
    text_of,
    text_of_input,
    text_of_stored,
)
from perdure.model.commands import CANCELLING, SEQUENCED, TERMINAL, Command
from perdure.model.failures import failure_of

__all__ = ["Scene", "different", "mismatch", "same_command", "unknown_answer"]

WIDTH: Final = 100
CELL_WIDTH: Final = 42
SHOWN_MAX: Final = 5
# Beyond these, counting on says nothing more.
DIFFERENCES_MAX: Final = 200
LATER_MAX: Final = 1_000

_NEXT: Final = (
    "What happens next: Nothing was committed; the run is parked, not failed. Run the code that made the record, "
    'mend the code, or guard the change with patched("...").'
)
# The other kinds read well as they are: "set state", "cancel timer", "continue as new".
_WORDS: Final = {
    "schedule_activity": "activity",
    "start_timer": "timer",
    "start_child": "child",
    "create_promise": "promise",
    "signal_external": "signal to another run",
    "cancel_external": "cancellation of another run",
    "record_side_effect": "side effect",
    "record_choice": "choice",
    "complete": "completion of the run",
    "fail": "failure of the run",
    "cancel": "end as cancelled",
}


@dataclass(frozen=True, slots=True)
class Scene:
    """What the report may look at to find the likely cause.

    `emitted` stands before the mismatch, `following` after it, where the executor let the turn run on.
    `ordinals` counts, per command kind, what the run emitted before this turn: "activity #3" is the
    third `schedule_activity` of the run, counted from 1.
    """

    workflow: str
    run_id: str
    turn: int
    recorded: Sequence[Command]
    position: int
    emitted: Sequence[Command]
    now: datetime | None = None
    surroundings: Mapping[str, str] = field(default_factory=dict[str, str])
    ordinals: Mapping[str, int] = field(default_factory=dict[str, int])
    following: Sequence[Command] = ()


def mismatch(scene: Scene, now: Command | None, error: BaseException | None = None) -> NondeterminismError:
    """The error for a command that is not the recorded one; it is returned, not raised.

    `now=None`: the turn or the code ended, and `recorded[position:]` was never emitted. A `position` past
    the record: `now` is extra. `error`: what the workflow raised before the record ended. The error's
    `field` is a path as in `different`, `"command"` where one side has none; `cause` is a stable key.
    """
    recorded = scene.recorded[scene.position] if scene.position < len(scene.recorded) else None
    sides = (_described(scene, recorded, scene.recorded[: scene.position]), _described(scene, now, scene.emitted))
    if recorded is None or now is None:
        sides = (sides[0] or "nothing more in this turn", sides[1] or _nothing_now(scene, error))
        found = [Difference("command", *sides)]
    else:
        found = list(islice(differences(recorded, now), DIFFERENCES_MAX))
    sign = _likely(scene, recorded, now, error, found)
    text = _message(
        _title(scene, f"Command {scene.position + 1} does not match; {len(scene.recorded)} are recorded"),
        _rows(sides, recorded, now, error),
        _shown_differences(found, recorded, now),
        f"Likely cause: {sign.cause}. {sign.sentence}" if sign else _SAME,
    )
    return NondeterminismError(
        text,
        turn=scene.turn,
        recorded=recorded,
        now=now,
        field=found[0].field if found else None,
        cause=sign.cause if sign else None,
    )


def unknown_answer(scene: Scene, job_text: str, seq: int, asked: Command | None = None) -> NondeterminismError:
    """The error for an answer to a seq that was never emitted, or that belongs to another kind: to `asked`.

    The error's `recorded` is `job_text`; `now` is the command that has this seq now, if any has.
    """
    now = asked or next((c for c in scene.emitted if c.seq == seq and c.kind in SEQUENCED), None)
    told = f"an answer to seq {seq}: {one_line(job_text)}"
    has = f"{_named(now)} (seq {seq})" if now else f"no command with seq {seq}"
    rows = [("answer", told, has)]
    if now is not None:
        rows += [("unit", "", one_line(now.unit)), ("source", "", _source(now, "not known"))]
        why = "The command that has this number now is of another kind: calls in front of it were added, gone or moved."
    else:
        why = "The code has emitted no command of this number: the call that asked for the answer is gone."
    where = "kind" if now else "seq"
    text = _message(
        _title(scene, "An answer came that nothing asked for"),
        rows,
        [f"First difference: {where}", f"  recorded  {told}", f"  now       {has}"],
        f"Likely cause: unknown answer. {why}",
    )
    return NondeterminismError(text, turn=scene.turn, recorded=job_text, now=now, field=where, cause="unknown answer")


# --- the likely cause -------------------------------------------------------------------------

_SAME: Final = "Both sides are the same in all that counts. This is a bug in Perdure: please report it with this text."


def _likely(
    scene: Scene, recorded: Command | None, now: Command | None, error: BaseException | None, found: list[Difference]
) -> Sign | None:
    if recorded is None:
        return _extra(now, error)
    if now is None:
        return _missing(scene, recorded, error)
    if not found:
        return None
    return (
        _another_order(scene, recorded, now)
        or _another_ending(recorded, now, error)
        or _another_call(scene, recorded, now)
        or _another_value(scene, recorded, now, found)
    )


def _extra(now: Command | None, error: BaseException | None) -> Sign:
    if error is not None or (now is not None and now.kind == "fail"):
        return _early_error(error, now)
    if now is not None and now.kind in TERMINAL:
        return Sign("early return", "The run ends in this turn, and when the record was made it went on.")
    call = _called(now) if now else "a call"
    return Sign(
        "new code", f"The record of this turn holds no more: {call} was added, or an await in front of it was removed."
    )


def _missing(scene: Scene, recorded: Command, error: BaseException | None) -> Sign:
    if error is not None:
        return _early_error(error, None)
    if scene.emitted and scene.emitted[-1].kind in TERMINAL:
        return Sign("early return", f"The code ended before it came to {_called(recorded)}.")
    return _removed(recorded, "is gone, or waits now for something that this turn does not bring")


def _another_order(scene: Scene, recorded: Command, now: Command) -> Sign | None:
    """Evidence from elsewhere in the turn: what is emitted now is recorded later."""
    later = scene.recorded[scene.position + 1 : scene.position + 1 + LATER_MAX]
    exactly = any(_alike(other, now) for other in later)
    if not exactly and not any(_alike(other, now, units=False) for other in later):
        return None
    comes_again = any(_alike(recorded, other, units=False) for other in scene.following[:LATER_MAX])
    if scene.following and not comes_again:
        return _removed(recorded, f"is gone, and {_called(now)} stands in its place")
    if (recorded.kind, recorded.name, recorded.unit) == (now.kind, now.name, now.unit):
        known = "" if comes_again else ", unless a call was taken out"
        return Sign(
            "set order",
            "The same call stands further down in the record: a set, or something made from one, was gone through "
            f"in another order{known}. Put it through `sorted(...)` first.",
        )
    if comes_again:
        return Sign("changed order", f"{_capital(_called(recorded))} and {_called(now)} have changed places.")
    if not exactly:
        return Sign(
            "changed order",
            f"{_capital(_called(now))} was recorded in another unit, further down: "
            "branches have changed places, or one was taken out.",
        )
    return _removed(recorded, f"is gone, or comes after {_called(now)} now")


def _another_ending(recorded: Command, now: Command, error: BaseException | None) -> Sign | None:
    if now.kind == recorded.kind:
        return None
    if error is not None or now.kind == "fail":
        return _early_error(error, now)
    if recorded.kind == "fail":
        return Sign("removed code", "The recorded run failed here: what raised the error is gone, or it is caught now.")
    if recorded.kind in TERMINAL:
        more = "the run ends in another way" if now.kind in TERMINAL else f"the code goes on with {_called(now)}"
        return Sign("new code", f"When the record was made the run ended here; now {more}.")
    if now.kind in TERMINAL:
        return Sign("early return", f"The code ended before it came to {_called(recorded)}.")
    return None


def _another_call(scene: Scene, recorded: Command, now: Command) -> Sign | None:
    if any(_alike(recorded, other) for other in scene.following[:LATER_MAX]):
        return Sign("new code", f"A new call, {_called(now)}, was put in front of {_called(recorded)}.")
    if recorded.kind == now.kind:
        return None
    return _removed(recorded, "is gone") if recorded.kind == "set_patch" else _in_front(recorded, now)


def _another_value(scene: Scene, recorded: Command, now: Command, found: list[Difference]) -> Sign:
    """The same kind of command, and no trace of either elsewhere in the turn."""
    values = [difference for difference in found if difference.field not in ("seq", "unit")]
    sign = sign_of(values, recorded, now, scene.now, scene.surroundings)
    if sign is not None:
        return Sign(sign.cause, _capital(sign.sentence))
    first = values[0].field if values else found[0].field
    if first == "name":
        if all(difference.field in ("seq", "name") for difference in found):
            return Sign("changed name", f"The call is the same but for its name, which was {_called(recorded)}.")
        return _in_front(recorded, now)
    if any(difference.field == "unit" for difference in found):
        return Sign("moved", f"{_capital(_called(now))} is called in another unit: {now.unit}, not {recorded.unit}.")
    if first == "seq":
        return _another_number(recorded, now)
    if first.startswith("options"):
        return Sign("changed option", f"The call sets `{first.removeprefix('options').lstrip('.')}` to another value.")
    if now.kind == "start_timer":
        return Sign("changed argument", "The timer is asked for another duration.")
    if now.kind in FAILING:
        return Sign("changed argument", "It fails with another error: type and message of an error count.")
    return Sign("changed argument", f"{_capital(_called(now))} is given another value.")


def _another_number(recorded: Command, now: Command) -> Sign:
    if now.kind in CANCELLING:
        return Sign("changed argument", f"Another operation is cancelled: seq {now.seq}, and not seq {recorded.seq}.")
    if (now.seq or 0) > (recorded.seq or 0):
        return Sign("new code", "The number is higher now: the code emitted more before this turn than is recorded.")
    return Sign("removed code", "The number is lower now: the code emitted less before this turn than is recorded.")


def _early_error(error: BaseException | None, now: Command | None) -> Sign:
    if error is not None:
        text = one_line(str(failure_of(error, with_traceback=False)))
    else:
        text = text_of_input(now) if now is not None else ""
    return Sign("early error", f"The code raised, and when the record was made it did not: {cut(text, 200)}")


def _in_front(recorded: Command, now: Command) -> Sign:
    return Sign("new code", f"{_capital(_called(now))} stands in front of {_called(recorded)} now, or in its place.")


def _removed(recorded: Command, rest: str) -> Sign:
    if recorded.kind == "set_patch":
        rest = "is gone while runs that carry it are open: put `deprecate_patch` in its place"
    return Sign("removed code", f"The recorded call, {_called(recorded)}, {rest}.")


def _alike(recorded: Command, now: Command, *, units: bool = True) -> bool:
    """The same command at another place in the turn: its number, and maybe its unit, left aside."""
    if recorded.kind != now.kind:
        return False
    # The seq of a cancellation names its target; it is no position.
    seq = now.seq if now.kind in CANCELLING else recorded.seq
    return same_command(recorded, msgspec.structs.replace(now, seq=seq, unit=now.unit if units else recorded.unit))


# --- how it is shown --------------------------------------------------------------------------


def _title(scene: Scene, what: str) -> str:
    workflow, run = one_line(scene.workflow), one_line(scene.run_id)
    return f"Nondeterminism: turn {scene.turn} of workflow `{workflow}`, run {run}.\n{what}."


def _rows(
    sides: tuple[str, str], recorded: Command | None, now: Command | None, error: BaseException | None
) -> list[tuple[str, str, str]]:
    raised = _raised_at(error) if now is None or now.where is None else None
    rows = [
        ("command", *sides),
        ("unit", one_line(recorded.unit) if recorded else "", one_line(now.unit) if now else ""),
        ("source", _source(recorded, "not in this record"), raised or _source(now, "not known")),
    ]
    inputs = [text_of_input(command) if command else "" for command in (recorded, now)]
    kwargs = [text_of_stored(command.encoded_kwargs) if command else "" for command in (recorded, now)]
    options = [text_of(command.options) if command and command.options else "" for command in (recorded, now)]
    for label, texts in (("input", inputs), ("kwargs", kwargs), ("options", options)):
        if label == "input" or any(texts):
            rows.append((label, *around(texts[0], texts[1], CELL_WIDTH)))
    return rows


def _message(title: str, rows: list[tuple[str, str, str]], differing: list[str], likely: str) -> str:
    return "\n".join([title, "", *_table(rows), "", *differing, "", *_sentence(likely), "", *_sentence(_NEXT)])


def _table(rows: list[tuple[str, str, str]]) -> list[str]:
    lines = [("", "recorded", "now"), *rows]
    label = max(len(line[0]) for line in lines)
    column = max(len(line[1]) for line in lines)
    shown = [f"{name:<{label}} | {recorded:<{column}} | {now}".rstrip() for name, recorded, now in lines]
    return [shown[0], f"{'-' * label}-+-{'-' * column}-+-{'-' * max(len(line[2]) for line in lines)}", *shown[1:]]


def _shown_differences(found: list[Difference], recorded: Command | None, now: Command | None) -> list[str]:
    if not found:
        return ["First difference: none"]
    first, rest = found[0], found[1:SHOWN_MAX]
    texts = (first.recorded, first.now) if first.field == "command" else (text_of(first.recorded), text_of(first.now))
    shown = texts if first.field == "command" else around(*texts, WIDTH - 12)
    lines = [f"First difference: {one_line(first.field)}", f"  recorded  {shown[0]}", f"  now       {shown[1]}"]
    if recorded is None or now is None or recorded.name != now.name or not rest:
        return lines
    lines.append("Also different:")
    for difference in rest:
        path = cut(one_line(difference.field), 40)
        before, after = around(text_of(difference.recorded), text_of(difference.now), (WIDTH - 21 - len(path)) // 2)
        lines.append(f"  {path}: recorded {before}, now {after}")
    if len(found) > SHOWN_MAX:
        least = "at least " if len(found) == DIFFERENCES_MAX else ""
        lines.append(f"  and {least}{len(found) - SHOWN_MAX} more")
    return lines


def _described(scene: Scene, command: Command | None, before: Sequence[Command]) -> str:
    if command is None:
        return ""
    number = scene.ordinals.get(command.kind, 0) + sum(other.kind == command.kind for other in before) + 1
    seq = "" if command.seq is None else f" (seq {command.seq})"
    return _named(command, "" if command.kind in TERMINAL else f" #{number}") + seq


def _named(command: Command, ordinal: str = "") -> str:
    name = "" if command.name is None else f" `{one_line(command.name)}`"
    return f"{_WORDS.get(command.kind) or one_line(command.kind.replace('_', ' '))}{ordinal}{name}"


def _called(command: Command) -> str:
    """How a sentence names it: what has no name by its number."""
    return _named(command) if command.name or command.seq is None else f"{_named(command)} (seq {command.seq})"


def _nothing_now(scene: Scene, error: BaseException | None) -> str:
    if error is not None:
        return cut(f"raises {one_line(str(failure_of(error, with_traceback=False)))}", CELL_WIDTH)
    ended = bool(scene.emitted) and scene.emitted[-1].kind in TERMINAL
    return "nothing: the run ended" if ended else "nothing: the turn ended"


def _source(command: Command | None, otherwise: str) -> str:
    return "" if command is None else one_line(command.source or otherwise)


def _raised_at(error: BaseException | None) -> str | None:
    trace = error.__traceback__ if error is not None else None
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return None if trace is None else one_line(f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _sentence(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
