"""Shapes: of what types a value is made, kept beside its JSON, so that it comes back as what it was.

The data of `Prepared` has no annotation that could say so. Types are named by module and name, and looked for among
what is loaded; what is not found comes back as plain values.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

Shape = str | dict[str, Any] | None  # None: plain values of JSON

_PLAIN = (type(None), bool, int, float, str)
_LISTS = {"list": list, "tuple": tuple}


def shape_of(value: object) -> Shape:
    """What is to be kept beside a value."""
    kind: Any = type(value)
    if kind in _PLAIN:
        return None
    if kind is list or kind is tuple:
        return {kind.__name__: _shared(cast("Iterable[object]", value))}
    if kind is dict:
        inner = _shared(cast("Mapping[object, object]", value).values())
        return None if inner is None else {"dict": inner}
    return f"{kind.__module__}:{kind.__qualname__}"


def type_of(shape: Shape) -> Any:
    """The type that a value of this shape is read as."""
    if isinstance(shape, str):
        return _find(shape)
    if not shape:
        return Any
    ((kind, inner),) = shape.items()
    item = type_of(inner)
    if kind == "dict":
        return dict[str, item]
    return tuple[item, ...] if kind == "tuple" else list[item]


def _shared(values: Iterable[object]) -> Shape:
    """The one shape that all of them have; plain values where they differ."""
    shapes: list[Shape] = []
    for value in values:
        shape = shape_of(value)
        if shape not in shapes:
            shapes.append(shape)
        if len(shapes) > 1:
            return None
    return shapes[0] if shapes else None


def _find(name: str) -> Any:
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    step: Callable[[Any, str], Any] = lambda one, part: getattr(one, part, None)  # noqa: E731
    for part in path.split("."):
        found = step(found, part)
    return found if isinstance(found, type) else Any
