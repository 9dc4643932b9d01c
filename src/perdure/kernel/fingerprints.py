"""Fingerprints: what a run's instance holds, seen before and after a query, which may only read (M3).

A query that changes `self` would change the live copy and not the run: a rebuild would not know of it. What stands in
an attribute is encoded as bytes and compared, so that `self.items.append(…)` is seen as well as `self.count = 1`.
Something that cannot be encoded, such as a function or a future, counts as the object that it is.

In:  kernel.updates, around each query.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, cast

import msgspec

OBJECTS_MAX = 1_000  # of no builtin type, that are looked into for one attribute
_NOTHING: Mapping[str, Any] = {}

Fingerprint = Mapping[str, bytes]


def fingerprint(instance: object) -> Fingerprint:
    """What the attributes of an instance hold now, by name."""
    return {name: _bytes_of(value) for name, value in _attributes_of(instance).items()}


def changed(before: Fingerprint, now: Fingerprint) -> list[str]:
    """The names of the attributes that are not what they were."""
    return [name for name in {**before, **now} if before.get(name) != now.get(name)]


def _attributes_of(instance: object) -> Mapping[str, Any]:
    held: Mapping[str, Any] = getattr(instance, "__dict__", _NOTHING)
    names = [name for kind in type(instance).__mro__ for name in _slots_of(kind)]
    return {**held, **{name: getattr(instance, name) for name in names if hasattr(instance, name)}} if names else held


def _slots_of(kind: type) -> list[str]:
    given: Any = vars(kind).get("__slots__", ())
    names: list[str] = [given] if isinstance(given, str) else list(given)
    hidden = [f"_{kind.__name__.lstrip('_')}{name}" if name.startswith("__") else name for name in names]
    return [name for name in hidden if name not in ("__dict__", "__weakref__")]


def _bytes_of(value: object) -> bytes:
    left = OBJECTS_MAX

    def look_into(held: object) -> Any:
        nonlocal left
        left -= 1
        inside = _attributes_of(held) if left > 0 and not callable(held) else _NOTHING
        if type(held) is deque:
            return [inside, *cast("deque[Any]", held)]
        return [type(held).__qualname__, inside] if inside else id(held)

    try:
        return msgspec.msgpack.encode(value, enc_hook=look_into)
    except Exception:  # it holds itself, is a number beyond 64 bits, or refuses to be looked into
        return f"{type(value).__qualname__} {value if isinstance(value, int) else id(value)}".encode()
