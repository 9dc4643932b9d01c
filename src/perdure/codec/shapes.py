"""Shapes: what fields a class has, under which keys they stand in JSON, and how an object is made of them.

Used by codec.converting for classes with a field that msgspec does not read by itself.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import msgspec

from perdure.codec.nearby import names_near
from perdure.codec.paths import Misfit, misfit_of, name_of

_CLASSES_REMEMBERED_MAX = 1_024
_MISSING: Any = dataclasses.MISSING


@dataclasses.dataclass(frozen=True)
class Field:
    """One field: its name, its key in JSON, its type, and what stands for it where the key is missing."""

    name: str
    key: str
    type: Any
    default: Callable[[], Any] | None


@dataclasses.dataclass(frozen=True)
class Shape:
    """The fields of a class and how an object is made of them."""

    kind: Any
    fields: tuple[Field, ...]
    make: Callable[[dict[str, Any]], Any]
    in_array: bool = False
    tag: tuple[str, str | int] | None = None
    closed: bool = False

    def taken_from(self, plain: Any) -> dict[str, tuple[Any, Any]]:
        """Of each field that the JSON holds, by name, the plain value and the type; `Misfit` if one is missing."""
        expected = list if self.in_array else dict
        if not isinstance(plain, expected):
            raise Misfit(f"expected {name_of(self.kind)}, got {type(plain).__name__}")
        found = self._by_key(cast("list[Any]", plain)) if self.in_array else cast("dict[str, Any]", plain)
        if self.tag is not None and found.get(self.tag[0]) != self.tag[1]:
            raise Misfit(
                f"invalid value {found.get(self.tag[0])!r:.60}, expected {self.tag[1]!r}", (f".{self.tag[0]}",)
            )
        unknown = found.keys() - {field.key for field in self.fields} - {self.tag[0] if self.tag else ""}
        if self.closed and unknown:
            raise Misfit(f"object contains unknown field {min(unknown)}")
        missing = [field.key for field in self.fields if field.key not in found and field.default is None]
        if missing:
            raise Misfit(f"object missing required field {missing[0]}")
        return {field.name: (found[field.key], field.type) for field in self.fields if field.key in found}

    def made(self, values: dict[str, Any]) -> Any:
        """The object; `Misfit` where its own code refuses the values."""
        try:
            rest = {field.name: field.default() for field in self.fields if field.name not in values and field.default}
            return self.make(values | rest)
        except Exception as problem:
            raise misfit_of(problem) from problem

    def _by_key(self, plain: list[Any]) -> dict[str, Any]:
        keys = ([self.tag[0]] if self.tag else []) + [field.key for field in self.fields]
        return dict(zip(keys, plain, strict=False))


def shape_of(kind: Any) -> Shape | None:
    """The shape of a class or of a generic class with its arguments; None where it has no fields."""
    origin = typing.get_origin(kind) or kind
    try:
        shape = _known_shape_of(origin)
    except TypeError:  # cannot be hashed: no class
        return None
    if shape is None or origin is kind:
        return shape
    bound = dict(zip(getattr(origin, "__parameters__", ()), typing.get_args(kind), strict=False))
    fields = tuple(dataclasses.replace(field, type=_bound(field.type, bound)) for field in shape.fields)
    return dataclasses.replace(shape, fields=fields)


def _bound(kind: Any, bound: dict[Any, Any]) -> Any:
    if isinstance(kind, typing.TypeVar):
        return bound.get(kind, Any)
    free = getattr(kind, "__parameters__", ())
    return kind[tuple(bound.get(variable, Any) for variable in free)] if free else kind


@lru_cache(_CLASSES_REMEMBERED_MAX)
def _known_shape_of(kind: Any) -> Shape | None:
    mro: tuple[type[Any], ...] = getattr(kind, "__mro__", ())
    if msgspec.Struct in mro:
        return _shape_of_struct(kind)
    if typing.is_typeddict(kind):
        return _shape_of_typed_dict(kind)
    if tuple in mro and hasattr(kind, "_field_defaults"):
        return _shape_of_named_tuple(kind)
    if mro and hasattr(kind, "__dataclass_fields__"):
        return _shape_of_dataclass(kind)
    return _shape_of_attrs(kind) if mro and hasattr(kind, "__attrs_attrs__") else None


def _shape_of_struct(kind: Any) -> Shape:
    hints, config = hints_of(kind), kind.__struct_config__
    # The defaults are the class's own business: they are filled in when it is called.
    optional = len(kind.__struct_fields__) - len(kind.__struct_defaults__)
    required = {
        name
        for index, name in enumerate(kind.__struct_fields__)
        if index < optional or kind.__struct_defaults__[index - optional] is msgspec.NODEFAULT
    }
    fields = [
        Field(name, key, hints.get(name, Any), None if name in required else _nothing)
        for name, key in zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    ]

    def make(values: dict[str, Any]) -> Any:
        return kind(**{name: value for name, value in values.items() if value is not _MISSING})

    tag = None if config.tag is None else (config.tag_field, config.tag)
    return Shape(kind, tuple(fields), make, config.array_like, tag, config.forbid_unknown_fields)


def _shape_of_typed_dict(kind: Any) -> Shape:
    fields: list[Field] = []
    for name, hint in hints_of(kind).items():
        # Where annotations are postponed, the class itself does not know of NotRequired.
        mark = typing.get_origin(hint)
        required = mark is typing.Required or (mark is not typing.NotRequired and name in kind.__required_keys__)
        fields.append(Field(name, name, hint, None if required else _nothing))

    def make(values: dict[str, Any]) -> Any:
        return {name: value for name, value in values.items() if value is not _MISSING}

    return Shape(kind, tuple(fields), make)


def _shape_of_named_tuple(kind: Any) -> Shape:
    hints, defaults = hints_of(kind), kind._field_defaults
    fields = [
        Field(name, name, hints.get(name, Any), _default_of(defaults.get(name, _MISSING))) for name in kind._fields
    ]
    return Shape(kind, tuple(fields), lambda values: kind(**values), in_array=True)


def _shape_of_dataclass(kind: Any) -> Shape:
    hints = hints_of(kind)
    fields = [
        Field(
            field.name,
            field.name,
            hints.get(field.name, Any),
            _default_of(field.default) if field.default_factory is _MISSING else cast(Any, field.default_factory),
        )
        for field in dataclasses.fields(kind)
    ]
    # Init-only values are not kept, so nothing can be computed from them again: the fields hold the outcome.
    kinds = [str(field._field_type) for field in kind.__dataclass_fields__.values()]
    return Shape(kind, tuple(fields), _filled(kind, None if "_FIELD_INITVAR" in kinds else "__post_init__"))


def _shape_of_attrs(kind: Any) -> Shape:
    hints = hints_of(kind)
    nothing = sys.modules["attr"].NOTHING  # loaded, since the class was made with it
    fields: list[Field] = []
    for attribute in kind.__attrs_attrs__:
        default = attribute.default
        if default is nothing:
            default = None
        elif hasattr(default, "takes_self"):
            default = None if default.takes_self else default.factory
        else:
            default = _default_of(default)
        fields.append(Field(attribute.name, attribute.name, hints.get(attribute.name, Any), default))
    return Shape(kind, tuple(fields), _filled(kind, "__attrs_post_init__"))


def _filled(kind: Any, afterwards: str | None) -> Callable[[dict[str, Any]], Any]:
    """As msgspec makes objects: the fields set as they were, converters not run again."""

    def make(values: dict[str, Any]) -> Any:
        made = object.__new__(kind)
        for name, value in values.items():
            object.__setattr__(made, name, value)
        if afterwards is not None and hasattr(kind, afterwards):
            getattr(made, afterwards)()
        return made

    return make


def _default_of(value: Any) -> Callable[[], Any] | None:
    return None if value is _MISSING else lambda: value


def _nothing() -> Any:
    """The key may be missing, and then nothing stands for it."""
    return _MISSING


# --- annotations -----------------------------------------------------------------------------------


def hints_of(kind: Any) -> dict[str, Any]:
    """The resolved annotations of a class; one that cannot be resolved counts as `Any`, the others stand."""
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except Exception:
        hints: dict[str, Any] = {}
        for owner in reversed(kind.__mro__):
            for name, annotation in _annotations_of(owner).items():
                hints[name] = _resolved(owner, name, annotation)
        return hints


def _annotations_of(owner: Any) -> dict[str, Any]:
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(owner, format=annotationlib.Format.FORWARDREF)
    return inspect.get_annotations(owner)


def _resolved(owner: Any, name: str, annotation: Any) -> Any:
    alone = type("Alone", (), {"__annotations__": {name: annotation}, "__module__": owner.__module__})
    try:
        return typing.get_type_hints(alone, localns={**vars(owner), **names_near(owner)}, include_extras=True)[name]
    except Exception:
        return Any
