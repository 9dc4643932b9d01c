"""Nearby names: what stands in the annotations of classes that are made inside a function.

In:  define.signatures, with the local names at a definition: `from __future__ import annotations` makes text of them.
Out: codec.shapes, for what the module of such a class does not know.
"""

from __future__ import annotations

import typing
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_names: weakref.WeakKeyDictionary[type, dict[str, Callable[[], Any]]] = weakref.WeakKeyDictionary()


def note_local_classes(found: Mapping[str, Any]) -> None:
    """Of the classes among these local names, remember what others of them their annotations name."""
    for value in found.values():
        if not issubclass(type(value), type) or "<locals>" not in value.__qualname__:  # `isinstance` would ask proxies
            continue
        wanted = words_of(getattr(value, "__annotations__", {}).values())
        if wanted:
            known = _names.setdefault(value, {})
            known.update({name: _held(found[name]) for name in wanted if name in found})


def names_near(kind: type) -> dict[str, Any]:
    """What the annotations of a class name: itself, and what stood beside it in its function."""
    near = {name: held() for name, held in _names.get(kind, {}).items()}
    return {kind.__name__: kind, **{name: value for name, value in near.items() if value is not None}}


def words_of(annotations: Iterable[object]) -> set[str]:
    """The names in annotations that are text."""
    found: set[str] = set()
    for annotation in annotations:
        text = annotation.__forward_arg__ if isinstance(annotation, typing.ForwardRef) else annotation
        if isinstance(text, str):
            found.update("".join(one if one.isidentifier() or one.isdigit() else " " for one in text).split())
    return found


def _held(value: Any) -> Callable[[], Any]:
    """A class that nothing else needs any more is let go."""
    return weakref.ref(value) if issubclass(type(value), type) else lambda: value
