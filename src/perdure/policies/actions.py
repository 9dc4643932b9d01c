"""Actions: what a policy chooses from, and the order (K3) in which they stand.

Above: perdure.policies.choices (logs of them) and perdure.policies.states (who chooses). The kernel makes the tokens.

Order is decided by one text per action, the sort key, made so that comparing two keys character by character gives K3.
A number is written with its length in front ("19" is 9, "210" is 10), so a longer number is a larger one; a
segment is its kind's rank, its number, its incarnation; a unit's key is its segments' keys one after another, so a
unit's key begins with its parent's. A branch's key begins with "~", which stands behind every digit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import FrozenInstanceError
from functools import lru_cache, total_ordering
from operator import attrgetter, lt
from typing import NoReturn, TypeAlias, final

from perdure.errors import InvalidValue

DIGITS_MAX = 18
_NUMBER = rf"0|[1-9][0-9]{{0,{DIGITS_MAX - 1}}}"
_SEGMENT = re.compile(rf"/([ptha])({_NUMBER})(?:#({_NUMBER}))?")
_RANK = {"p": "0", "t": "1", "h": "2", "a": "3"}


@total_ordering
class _Ordered:
    """What both kinds of action share: frozen, and equal, hashed and ordered by the sort key alone."""

    __slots__ = ("sort_key",)
    sort_key: str

    def __eq__(self, other: object) -> bool:
        return self.sort_key == other.sort_key if isinstance(other, _Ordered) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self.sort_key < other.sort_key if isinstance(other, _Ordered) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.sort_key)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"{self!r} cannot be changed: make a new one")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"{self!r} cannot be changed: make a new one")


@final
class Token(_Ordered):
    """Run this unit. `unit` is its id as text: `/`, `/p0`, `/p1/p0`, `/p0#1/p0`, `/t3`, `/h2/a0` (K2).

    Any other text, also a second way to write the same unit (`/p01`, `/p0#0`), raises `InvalidValue`.
    """

    __slots__ = ("unit",)
    unit: str

    def __init__(self, unit: str) -> None:
        _set(self, "unit", unit)
        _set(self, "sort_key", sort_key(unit))

    def __repr__(self) -> str:
        return f"Token({self.unit!r})"

    def __str__(self) -> str:
        return self.unit

    def __reduce__(self) -> tuple[type[Token], tuple[str]]:
        return Token, (self.unit,)


@final
class XorBranch(_Ordered):
    """Take this alternative of a `choose(...)`. `index` counts from 0; anything else raises `InvalidValue`."""

    __slots__ = ("index",)
    index: int

    def __init__(self, index: int) -> None:
        if type(index) is not int or not 0 <= index < 10**DIGITS_MAX:
            raise InvalidValue(f"{index!r} is not a branch: branches are numbered 0, 1, 2 …")
        _set(self, "index", index)
        _set(self, "sort_key", "~" + _number_key(str(index)))

    def __repr__(self) -> str:
        return f"XorBranch({self.index})"

    def __str__(self) -> str:
        return str(self.index)

    def __reduce__(self) -> tuple[type[XorBranch], tuple[int]]:
        return XorBranch, (self.index,)


Action: TypeAlias = Token | XorBranch
ACTIONS = (Token, XorBranch)
by_sort_key = attrgetter("sort_key")


def canonical(actions: Iterable[Action]) -> tuple[Action, ...]:
    """The set of these actions, in its one order: tokens (K3), then branches by number, each once.

    Raises `InvalidValue` for anything that is no action.
    """
    try:
        actions = tuple(actions)
    except TypeError as error:
        raise InvalidValue(f"what can run is a list of actions, not {actions!r}") from error
    try:
        keys = [action.sort_key for action in actions]
        # A kernel asks in canonical order: then one look along the keys is all. Else it ends at the first step back.
        if all(map(lt, keys, keys[1:])):
            return actions
        ordered = sorted(actions, key=by_sort_key)
    except (AttributeError, TypeError) as error:
        raise InvalidValue(not_an_action(actions)) from error
    if len(set(keys)) == len(keys):
        return tuple(ordered)
    return tuple({action.sort_key: action for action in ordered}.values())


def not_an_action(items: Iterable[object]) -> str:
    """Say which of `items` is no action."""
    stranger = next((item for item in items if not isinstance(item, ACTIONS)), None)
    return f"{stranger!r} is not an action: an action is a Token(unit) or an XorBranch(index)"


def sort_key(unit: str) -> str:
    """The sort key of a unit id. Raises `InvalidValue` if the text is not one."""
    if type(unit) is not str:
        raise InvalidValue(f"a unit id is text such as '/p0', not {unit!r}")
    return _read_sort_key(unit)


@lru_cache(maxsize=4096)
def _read_sort_key(unit: str) -> str:
    if unit == "/":
        return ""
    key: list[str] = []
    position = 0
    while position < len(unit) or not key:
        match = _SEGMENT.match(unit, position)
        if match is None or match[3] == "0":
            raise InvalidValue(
                f"{unit!r} is not a unit id at position {position}: it is '/', or segments such as /p0, /t3, /h2, /a0, "
                "with #1 and up behind a number for a later incarnation"
            )
        key.append(_RANK[match[1]] + _number_key(match[2]) + _number_key(match[3] or "0"))
        position = match.end()
    return "".join(key)


def _number_key(digits: str) -> str:
    return chr(ord("0") + len(digits)) + digits


# Past the guard of `_Ordered.__setattr__`, for constructors only.
_set = object.__setattr__
