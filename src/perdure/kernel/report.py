"""Report: both sides of a nondeterministic turn, the first difference, a likely cause, and what to do (K12).

In:  kernel.matching, or the executor, found a command that is not the recorded one.
Out: a `NondeterminismError` for it to raise; kernel.difference does the comparing, kernel.causes the guessing.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import islice
from typing import Final

from perdure.errors import NondeterminismError
from perdure.kernel.causes import SAME, Scene, likely, named
from perdure.kernel.difference import (
    Difference,
    around,
    cut,
    differences,
    different,
    one_line,
    same_command,
    text_of,
    text_of_input,
    text_of_stored,
)
from perdure.model.commands import SEQUENCED, TERMINAL, Command
from perdure.model.failures import failure_of

__all__ = ["Scene", "different", "mismatch", "same_command", "unknown_answer"]

WIDTH: Final = 100
CELL_WIDTH: Final = 42
SHOWN_MAX: Final = 5
# Beyond it, counting on says nothing more.
DIFFERENCES_MAX: Final = 200

_NEXT: Final = (
    "What happens next: Nothing was committed; the run is parked, not failed. Run the code that made the record, "
    'mend the code, or guard the change with patched("...").'
)


def mismatch(scene: Scene, now: Command | None, error: BaseException | None = None) -> NondeterminismError:
    """The error for a command that is not the recorded one; it is returned, not raised.

    `now=None`: the turn or the code ended, and `recorded[position:]` was never emitted. A `position` past
    the record: `now` is extra. `error`: what the workflow raised before the record ended. The error's
    `field` is a path as in `different`, `"command"` where one side has none; `cause` is a stable key.
    """
    recorded = scene.recorded[scene.position] if scene.position < len(scene.recorded) else None
    held = "1 is" if len(scene.recorded) == 1 else f"{len(scene.recorded)} are"
    sides = (_described(scene, recorded, scene.recorded[: scene.position]), _described(scene, now, scene.emitted))
    if recorded is None or now is None:
        sides = (sides[0] or "nothing more in this turn", sides[1] or _nothing_now(scene, error))
        found = [Difference("command", *sides)]
    else:
        found = list(islice(differences(recorded, now), DIFFERENCES_MAX))
    sign = likely(scene, recorded, now, error, found)
    text = _message(
        _title(scene, f"Command {scene.position + 1} does not match; {held} recorded"),
        _rows(sides, recorded, now, error),
        _shown_differences(found, recorded, now),
        f"Likely cause: {sign.cause}. {sign.sentence}" if sign else SAME,
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

    A promise is answered by its name: there `seq` is -1.
    The error's `recorded` is `job_text`; `now` is the command that has this seq now, if any has.
    """
    now = asked or next((c for c in scene.emitted if c.seq == seq and c.kind in SEQUENCED), None)
    told = one_line(job_text) if seq < 0 else f"an answer to seq {seq}: {one_line(job_text)}"
    has = f"{named(now)} (seq {seq})" if now else "no such promise" if seq < 0 else f"no command with seq {seq}"
    rows = [("answer", told, has)]
    if now is not None:
        rows += [("unit", "", one_line(now.unit)), ("source", "", _source(now, "not known"))]
        why = "The command that has this number now is of another kind: calls in front of it were added, gone or moved."
    else:
        what = "created no promise of this name" if seq < 0 else "emitted no command of this number"
        why = f"The code has {what}: the call that asked for the answer is gone."
    where = "kind" if now else "name" if seq < 0 else "seq"
    text = _message(
        _title(scene, "An answer came that nothing asked for"),
        rows,
        [f"First difference: {where}", f"  recorded  {told}", f"  now       {has}"],
        f"Likely cause: unknown answer. {why}",
    )
    return NondeterminismError(text, turn=scene.turn, recorded=job_text, now=now, field=where, cause="unknown answer")


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
    return named(command, "" if command.kind in TERMINAL else f" #{number}") + seq


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


def _sentence(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
