"""Choices: one decision as the log gives it back, and a recorded log read and checked (P2).

In:  logs as `get_log` returned them, as turn records keep them, or as they come out of JSON.
Out: `Choice`s in canonical order, for perdure.policies.states to replay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

from perdure.errors import BadLog, InvalidValue
from perdure.model.turns import ChoiceRecord, KeptChoice
from perdure.policies.actions import ACTIONS, Action, Token, XorBranch, canonical

_FIELDS = ("step", "enabled", "chosen")


class Choice(NamedTuple):
    """One decision: at this step these actions were enabled (canonical order), and this one was chosen."""

    step: int
    enabled: tuple[Action, ...]
    chosen: Action

    def __eq__(self, other: object) -> bool:
        """A set that was written down as a list is the same set."""
        return isinstance(other, tuple) and _plain(cast("tuple[Any, ...]", other)) == _plain(self)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(_plain(self))

    def record(self) -> ChoiceRecord:
        """The same as plain data, for a turn's record: units as text, branches as numbers."""
        return ChoiceRecord(self.step, tuple([plain(action) for action in self.enabled]), plain(self.chosen))

    @classmethod
    def from_record(cls, record: ChoiceRecord) -> Choice:
        """Undo `record`. Raises `InvalidValue` if a text in it is no unit id."""
        return cls(record.step, tuple(_action(value) for value in record.enabled), _action(record.chosen))


def _plain(choice: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([tuple(cast("list[Any]", value)) if isinstance(value, list) else value for value in choice])


LogEntry: TypeAlias = Choice | ChoiceRecord | KeptChoice | Mapping[str, object] | Sequence[object]


def in_full(kept: Sequence[KeptChoice]) -> list[ChoiceRecord]:
    """What one or more records keep, each entry with its whole set."""
    told: list[ChoiceRecord] = []
    left: tuple[str | int, ...] = ()
    for choice in kept:
        enabled = left if choice.enabled is None else choice.enabled
        told.append(ChoiceRecord(choice.step, enabled, choice.chosen))
        if isinstance(choice.chosen, str):
            left = tuple([action for action in enabled if action != choice.chosen])
    return told


def plain(action: Action) -> str | int:
    """An action as plain data: a unit as its text, a branch as its number."""
    return action.unit if isinstance(action, Token) else action.index


def read_log(log: Sequence[LogEntry], first_step: int) -> Iterator[tuple[Choice, int]]:
    """Each entry as a `Choice` in canonical order, with the position of the chosen action in its set.

    Raises `BadLog` at the first entry that is not what P2 says, `InvalidValue` if `log` is no list at all.
    """
    if not isinstance(cast(object, log), list | tuple):
        raise InvalidValue(f"a choice log is a list of choices, not {log!r:.80}")
    # A log names the same few units again and again: each is read once, and shared.
    known: dict[str | int, Action] = {}
    left: tuple[Action, ...] = ()
    for number, entry in enumerate(log):
        if isinstance(entry, KeptChoice) and entry.enabled is None:
            entry = (entry.step, left, entry.chosen)  # with what is left of its round
        try:
            choice, position = _read_entry(entry, first_step + number, known)
        except InvalidValue as error:
            raise BadLog(number, str(error)) from error
        if isinstance(choice.chosen, Token):
            left = (*choice.enabled[:position], *choice.enabled[position + 1 :])
        yield choice, position


def _read_entry(entry: object, step_now: int, known: dict[str | int, Action]) -> tuple[Choice, int]:
    step, enabled, chosen = _fields(entry)
    if type(step) is not int:
        raise InvalidValue(f"its step is {step!r}, which is not a whole number")
    if step != step_now:
        raise InvalidValue(f"its step is {step}, and {step_now} was due: steps count up by one")
    if not isinstance(enabled, list | tuple):
        raise InvalidValue(f"its enabled set is {enabled!r:.80}, which is not a list")
    actions = [_action(value, known) for value in cast(Sequence[object], enabled)]
    ordered = canonical(actions)
    if not ordered:
        raise InvalidValue("its enabled set is empty, and nothing can be chosen from nothing")
    if len(ordered) != len(actions):
        twice = next(action for action in ordered if actions.count(action) > 1)
        raise InvalidValue(f"its enabled set names {twice} more than once")
    taken = _action(chosen, known)
    if taken not in ordered:
        raise InvalidValue(f"it chose {taken}, which is not in its enabled set: {' '.join(map(str, ordered))}")
    return Choice(step, ordered, taken), ordered.index(taken)


def _fields(entry: object) -> Sequence[object]:
    if isinstance(entry, ChoiceRecord | KeptChoice):
        return entry.step, entry.enabled, entry.chosen
    if isinstance(entry, Mapping):
        fields = cast(Mapping[object, object], entry)
        if set(fields) != set(_FIELDS):
            raise InvalidValue(f"it has the keys {list(fields)}, and not exactly step, enabled and chosen")
        return [fields[name] for name in _FIELDS]
    if isinstance(entry, list | tuple):
        parts = cast(Sequence[object], entry)
        if len(parts) != len(_FIELDS):
            raise InvalidValue(f"it has {len(parts)} parts, and not the three step, enabled and chosen")
        return parts
    raise InvalidValue(f"{entry!r:.80} is not a choice: one has a step, an enabled set and what was chosen")


def _action(value: object, known: dict[str | int, Action] | None = None) -> Action:
    if isinstance(value, ACTIONS):
        return value
    if type(value) is not str and type(value) is not int:
        raise InvalidValue(f"{value!r} is not an action: a token is text such as '/p0', a branch is its number")
    action = known.get(value) if known else None
    if action is None:
        action = Token(value) if isinstance(value, str) else XorBranch(value)
        if known is not None:
            known[value] = action
    return action
