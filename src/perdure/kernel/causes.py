"""Causes: what probably made a turn differ from its record, guessed from evidence (K12).

In:  kernel.report, with both commands and what stands around them.
Out: a stable key and a sentence for people; what the values alone give away is kernel.difference's.

What the code emitted *before* the mismatch cannot tell a call that was added from one that was moved; what it emits
*after* can, and so can what is recorded of later turns. So a `Scene` takes all three, and where they leave it open, the
sentence names both possibilities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, islice
from typing import Final

import msgspec

from perdure.kernel.difference import FAILING, Difference, Sign, cut, one_line, same_command, sign_of, text_of_input
from perdure.model.commands import CANCELLING, TERMINAL, Command
from perdure.model.failures import failure_of

LATER_MAX: Final = 1_000
# Two of these are alike too easily.
_SAYS_LITTLE: Final = TERMINAL | CANCELLING
SAME: Final = "Both sides are the same in all that counts. This is a bug in Perdure: please report it with this text."
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
    `upcoming` is what is recorded of later turns, turn by turn.
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
    upcoming: Sequence[Sequence[Command]] = ()


def likely(
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
    call = called(now) if now else "a call"
    return Sign(
        "new code", f"The record of this turn holds no more: {call} was added, or an await in front of it was removed."
    )


def _missing(scene: Scene, recorded: Command, error: BaseException | None) -> Sign:
    if error is not None:
        return _early_error(error, None)
    if scene.emitted and scene.emitted[-1].kind in TERMINAL:
        return Sign("early return", f"The code ended before it came to {called(recorded)}.")
    return _removed(recorded, "is gone, or waits now for something that this turn does not bring")


def _another_order(scene: Scene, recorded: Command, now: Command) -> Sign | None:
    """Evidence from elsewhere in the turn: what is emitted now is recorded later."""
    later = scene.recorded[scene.position + 1 : scene.position + 1 + LATER_MAX]
    exactly = any(_alike(other, now) for other in later)
    if not exactly and not any(_alike(other, now, units=False) for other in later):
        return _from_a_later_turn(scene, recorded, now)
    comes_again = any(_alike(recorded, other, units=False) for other in scene.following[:LATER_MAX])
    if scene.following and not comes_again:
        return _removed(recorded, f"is gone, and {called(now)} stands in its place")
    if (recorded.kind, recorded.name, recorded.unit) == (now.kind, now.name, now.unit):
        known = "" if comes_again else ", unless a call was taken out"
        return _gone_through_in_another_order("stands further down in the record", known)
    if comes_again:
        return Sign("changed order", f"{_capital(called(recorded))} and {called(now)} have changed places.")
    if not exactly:
        return Sign(
            "changed order",
            f"{_capital(called(now))} was recorded in another unit, further down: "
            "branches have changed places, or one was taken out.",
        )
    return _removed(recorded, f"is gone, or comes after {called(now)} now")


def _from_a_later_turn(scene: Scene, recorded: Command, now: Command) -> Sign | None:
    """Evidence from the turns to come, where each call is awaited before the next is made."""
    if now.kind in _SAYS_LITTLE or _alike(recorded, now):
        return None
    if (recorded.kind, recorded.name) == (now.kind, now.name):
        all_later = islice(chain.from_iterable(scene.upcoming), LATER_MAX)
        if now.name is None or not any(_alike(other, now) for other in all_later):
            return None
        return _gone_through_in_another_order("is recorded in a later turn", ", unless a call was taken out")
    nearest = next((turn for turn in scene.upcoming if turn), ())
    if not any(_alike(other, now, units=False) for other in nearest[:LATER_MAX]):
        return None
    if any(_alike(recorded, other, units=False) for other in scene.following[:LATER_MAX]):
        return Sign("changed order", f"{_capital(called(recorded))} and {called(now)} have changed places.")
    return Sign(
        "changed order",
        f"{_capital(called(now))} is recorded in a later turn: it has changed places with {called(recorded)}, "
        "or that was taken out.",
    )


def _gone_through_in_another_order(where: str, known: str) -> Sign:
    return Sign(
        "set order",
        f"The same call {where}: a set, or something made from one, was gone through in another order{known}. "
        "Put it through `sorted(...)` first.",
    )


def _another_ending(recorded: Command, now: Command, error: BaseException | None) -> Sign | None:
    if now.kind == recorded.kind:
        return None
    if error is not None or now.kind == "fail":
        return _early_error(error, now)
    if recorded.kind == "fail":
        return Sign("removed code", "The recorded run failed here: what raised the error is gone, or it is caught now.")
    if recorded.kind in TERMINAL:
        more = "the run ends in another way" if now.kind in TERMINAL else f"the code goes on with {called(now)}"
        return Sign("new code", f"When the record was made the run ended here; now {more}.")
    if now.kind in TERMINAL:
        return Sign("early return", f"The code ended before it came to {called(recorded)}.")
    return None


def _another_call(scene: Scene, recorded: Command, now: Command) -> Sign | None:
    if any(_alike(recorded, other) for other in scene.following[:LATER_MAX]):
        return Sign("new code", f"A new call, {called(now)}, was put in front of {called(recorded)}.")
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
            return Sign("changed name", f"The call is the same but for its name, which was {called(recorded)}.")
        return _in_front(recorded, now)
    if any(difference.field == "unit" for difference in found):
        return Sign("moved", f"{_capital(called(now))} is called in another unit: {now.unit}, not {recorded.unit}.")
    if first == "seq":
        return _another_number(recorded, now)
    if first.startswith("options"):
        return Sign("changed option", f"The call sets `{first.removeprefix('options').lstrip('.')}` to another value.")
    if now.kind == "start_timer":
        return Sign("changed argument", "The timer is asked for another duration.")
    if now.kind in FAILING:
        return Sign("changed argument", "It fails with another error: type and message of an error count.")
    return Sign("changed argument", f"{_capital(called(now))} is given another value.")


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
    return Sign("new code", f"{_capital(called(now))} stands in front of {called(recorded)} now, or in its place.")


def _removed(recorded: Command, rest: str) -> Sign:
    if recorded.kind == "set_patch":
        rest = "is gone while runs that carry it are open: put `deprecate_patch` in its place"
    return Sign("removed code", f"The recorded call, {called(recorded)}, {rest}.")


def _alike(recorded: Command, now: Command, *, units: bool = True) -> bool:
    """The same command at another place in the turn: its number, and maybe its unit, left aside."""
    if recorded.kind != now.kind:
        return False
    # The seq of a cancellation names its target; it is no position.
    seq = now.seq if now.kind in CANCELLING else recorded.seq
    return same_command(recorded, msgspec.structs.replace(now, seq=seq, unit=now.unit if units else recorded.unit))


def named(command: Command, ordinal: str = "") -> str:
    name = "" if command.name is None else f" `{one_line(command.name)}`"
    return f"{_WORDS.get(command.kind) or one_line(command.kind.replace('_', ' '))}{ordinal}{name}"


def called(command: Command) -> str:
    """How a sentence names it: what has no name by its number."""
    return named(command) if command.name or command.seq is None else f"{named(command)} (seq {command.seq})"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
