"""Finding: whether a run is one that a condition wants, and what its attributes can be found by.

In:  perdure.stores.records.Condition, made by engine.filters.
Out: a store that looks through its runs asks `fits`; one that has a language of its own for that has to agree with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import eq, ge, gt, le, lt
from typing import Any, cast

import msgspec

from perdure.stores.records import AllOf, AnyOf, Compare, Condition, Not, Run, Scalar

WHOLE_MIN, WHOLE_MAX = -(2**63), 2**63 - 1
_read = msgspec.json.Decoder().decode
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {"=": eq, "<": lt, "<=": le, ">": gt, ">=": ge}
_VALUES: dict[str, Callable[[Run], Scalar | None]] = {
    "status": lambda run: run.status,
    "type": lambda run: run.facts.workflow,
    "id": lambda run: run.facts.workflow_id,
    "run_id": lambda run: run.facts.run_id,
    "queue": lambda run: run.facts.queue,
    "priority": lambda run: run.facts.priority,
    "started": lambda run: run.created_us,
    "closed": lambda run: run.closed_us,
    "blocked": lambda run: run.blocked is not None,
    "generation": lambda run: run.facts.generation,
    "parent": lambda run: None if run.facts.parent is None else run.facts.parent.run_id,
}


def fits(run: Run, condition: Condition) -> bool:
    """Whether this run is wanted."""
    match condition:
        case Compare():
            return any(_compares(value, condition) for value in _values_of(run, condition))
        case AllOf(parts):
            return all(fits(run, part) for part in parts)
        case AnyOf(parts):
            return any(fits(run, part) for part in parts)
        case Not(part):
            return not fits(run, part)


def searchable(attributes: bytes) -> list[tuple[str, str | float]]:
    """The names and values that a run with these attributes is found by, each once; bools are 0 and 1.

    A list is each of its values. What cannot be compared is left out: null, what is nested, whole numbers of more than
    64 bits, texts with a NUL.
    """
    if attributes == b"{}":
        return []
    given: dict[str, Any] = _read(attributes)
    found = [(name, plain) for name, value in given.items() for plain in _plain(value)]
    return list(dict.fromkeys(found))


def is_like(text: str, pattern: str) -> bool:
    """Whether a text is as the pattern says: `%` is any text, `_` any character, all else is itself."""
    first, *others = pattern.split("%")
    if not _meets(text, 0, first):
        return False
    if not others:
        return len(text) == len(first)
    at = len(first)
    *between, last = others
    for piece in between:
        while not _meets(text, at, piece):
            at += 1
            if at > len(text):
                return False
        at += len(piece)
    return at <= len(text) - len(last) and _meets(text, len(text) - len(last), last)


def _values_of(run: Run, wanted: Compare) -> list[Scalar]:
    if wanted.attribute:
        return [value for name, value in searchable(run.attributes) if name == wanted.field]
    value = _VALUES[wanted.field](run)
    return [] if value is None else [value]


def _plain(value: Any) -> list[str | float]:
    found: list[str | float] = []
    for one in cast("list[Any]", value) if isinstance(value, list) else [value]:
        if isinstance(one, int) and WHOLE_MIN <= one <= WHOLE_MAX:
            found.append(int(one))
        elif (isinstance(one, float) and math.isfinite(one)) or (isinstance(one, str) and "\0" not in one):
            found.append(one)
    return found


def _compares(value: Scalar, wanted: Compare) -> bool:
    against = wanted.value
    if isinstance(against, tuple):
        return wanted.operator == "in" and any(_alike(value, each) and value == each for each in against)
    if not _alike(value, against):
        return False
    if wanted.operator == "like":
        return isinstance(value, str) and is_like(value, str(against))
    return _ORDERS[wanted.operator](value, against)


def _alike(one: Scalar, other: Scalar) -> bool:
    return isinstance(one, str) == isinstance(other, str)


def _meets(text: str, at: int, piece: str) -> bool:
    """Whether the text has this piece there; `_` in it is any character."""
    if "_" not in piece:
        return text.startswith(piece, at)
    part = text[at : at + len(piece)]
    return len(part) == len(piece) and all(each in ("_", found) for each, found in zip(piece, part, strict=True))
