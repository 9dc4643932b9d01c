"""Converting: plain JSON values become types that msgspec does not read by itself.

In:  codec.decoding, and msgspec's own hook for classes that it does not know.
Out: msgspec for every part that it does know, codec.shapes for the fields of classes.

A type is taken apart only as far as needed: a list of a union is a list, each item a try of the members.
Nothing here is remembered by annotation, because `A | B` equals `B | A` and the order of trying matters.
"""

from __future__ import annotations

import collections.abc
import enum
import inspect
import types
import typing
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import msgspec

from perdure.codec.encoding import encode, same
from perdure.codec.models import is_model, validate
from perdure.codec.paths import Misfit, key_step, misfit_of, name_of
from perdure.codec.shapes import Shape, shape_of

_TYPES_REMEMBERED_MAX = 4_096

_write = msgspec.json.Encoder().encode


def meant(kind: Any) -> Any:
    """The annotation, or `Any` for one that says nothing or could not be resolved."""
    if isinstance(kind, str | typing.ForwardRef) or any(kind is empty for empty in _SAYS_NOTHING):
        return Any
    return kind


def reader_of(kind: Any) -> Callable[[Any], Any] | None:
    """What reads this type from bytes; None where it must be converted piece by piece."""
    try:
        return _known_reader_of(kind)
    except TypeError:  # an annotation that cannot be hashed
        return _new_reader_of(kind)


def convert(plain: Any, kind: Any) -> Any:
    """The plain JSON value as this type; `Misfit` where it does not fit or the type cannot be read."""
    kind = meant(kind)
    if kind is msgspec.Raw:
        return msgspec.Raw(_write(plain))
    if reader_of(kind) is not None:
        try:
            return msgspec.convert(plain, kind, strict=True, dec_hook=_revive, str_keys=True)
        except Exception as problem:
            raise misfit_of(problem) from problem
    if hasattr(kind, "__supertype__"):  # NewType
        return convert(plain, kind.__supertype__)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if hasattr(origin or kind, "__value__"):  # a `type` statement
        value = (origin or kind).__value__
        return convert(plain, value[args] if args else value)
    if origin in _WRAPPERS:
        return convert(plain, args[0])
    if origin in (typing.Union, types.UnionType):
        return _convert_union(plain, args)
    if origin is typing.Literal:
        return _pick(plain, args, kind)
    if origin in _CONTAINERS:
        return _CONTAINERS[origin](plain, args)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _pick(plain, list(kind), kind)
    shape = shape_of(kind)
    if shape is not None:
        return _convert_fields(plain, shape)
    raise Misfit(_unreadable(kind))


# --- what msgspec reads ----------------------------------------------------------------------------


def _new_reader_of(kind: Any) -> Callable[[Any], Any] | None:
    kind = meant(kind)
    try:
        reader = msgspec.json.Decoder(kind, dec_hook=_revive).decode
        return None if _holds_a_set(msgspec.inspect.type_info(kind)) else reader
    except Exception:
        return None


_known_reader_of = lru_cache(_TYPES_REMEMBERED_MAX)(_new_reader_of)


def _holds_a_set(root: Any) -> bool:
    """A set would be iterated in the order of the hash seed (K1), so none is made either."""
    seen: set[int] = set()
    todo: list[Any] = [root]
    while todo:
        node = todo.pop()
        if isinstance(node, tuple):
            todo.extend(typing.cast("tuple[Any, ...]", node))
        elif isinstance(node, msgspec.inspect.Type | msgspec.inspect.Field) and id(node) not in seen:
            if isinstance(node, msgspec.inspect.SetType | msgspec.inspect.FrozenSetType):
                return True
            seen.add(id(node))
            todo.extend(getattr(node, name, None) for name in node.__struct_fields__)
    return False


def _revive(kind: Any, plain: Any) -> Any:
    """msgspec's hook: a class that is none of its own."""
    if kind is object:
        return plain
    try:
        if is_model(kind):
            return validate(kind, _write(plain))
        if isinstance(kind, type) and not isinstance(plain, bool):
            for builtin in _BUILTINS:
                if issubclass(kind, builtin) and isinstance(plain, builtin):
                    return kind(plain)
        origin = typing.get_origin(kind)
        if (origin or kind) in _ITERABLES:
            return _convert_list(plain, typing.get_args(kind))
    except Misfit:
        raise
    except Exception as problem:
        raise misfit_of(problem) from problem
    raise Misfit(_unreadable(kind))


def _unreadable(kind: Any) -> str:
    if kind in _SETS or typing.get_origin(kind) in _SETS:
        return f"{name_of(kind)} is not supported; use a list"
    return f"{name_of(kind)} is not supported as a type; use builtins, or a dataclass, Struct, attrs or pydantic class"


# --- what is taken apart ---------------------------------------------------------------------------


def _convert_union(plain: Any, members: tuple[Any, ...]) -> Any:
    """The first member that is written back to the same JSON, else the first that fits."""
    if plain is None and type(None) in members:
        return None
    members = tuple(member for member in members if member is not type(None))
    if len(members) == 1:
        return convert(plain, members[0])
    if str in members and (bytes in members or bytearray in members):
        raise Misfit("str and bytes cannot be told apart in JSON; use one of them, or a dataclass for each")
    text = _write(plain)
    fitting: list[Any] = []
    problems: list[str] = []
    # Any text is a str: behind the members that ask for more of it.
    for member in sorted(members, key=lambda member: meant(member) is str):
        try:
            found = convert(plain, member)
            if _is_written_as(found, text):
                return found
            fitting.append(found)
        except Misfit as misfit:
            problems.append(f"{name_of(member)}: {''.join(misfit.steps)} {misfit.problem}".replace(":  ", ": "))
    if fitting:
        return fitting[0]
    raise Misfit(f"fits none of {', '.join(name_of(member) for member in members)} ({'; '.join(problems)})")


def _is_written_as(value: Any, text: bytes) -> bool:
    try:
        return same(bytes(encode(value)), text)
    except Exception:
        return False


def _pick(plain: Any, options: Iterable[Any], kind: Any) -> Any:
    """The option (of a Literal, or of an enum with values of any kind) that is written as this JSON."""
    text = _write(plain)
    for option in options:
        if _is_written_as(option, text):
            return option
    raise Misfit(f"expected one of {name_of(kind)}, got {msgspec.json.decode(text)!r:.60}")


def _convert_list(plain: Any, args: tuple[Any, ...]) -> list[Any]:
    if not isinstance(plain, list):
        raise _expected("array", plain)
    items = typing.cast("list[Any]", plain)
    return [_convert_at(f"[{index}]", item, args[0] if args else Any) for index, item in enumerate(items)]


def _convert_tuple(plain: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(_convert_list(plain, args[:1]))
    if not isinstance(plain, list):
        raise _expected("array", plain)
    items = typing.cast("list[Any]", plain)
    if len(items) != len(args):
        raise Misfit(f"expected array of length {len(args)}, got {len(items)}")
    return tuple(_convert_at(f"[{index}]", item, args[index]) for index, item in enumerate(items))


def _convert_dict(plain: Any, args: tuple[Any, ...]) -> dict[Any, Any]:
    if not isinstance(plain, dict):
        raise _expected("object", plain)
    pairs = typing.cast("dict[str, Any]", plain)
    key_type, item_type = args or (Any, Any)
    found: dict[Any, Any] = {}
    for key, item in pairs.items():
        try:
            # As msgspec reads keys: from their text.
            (read,) = msgspec.convert({key: None}, dict[meant(key_type), None], dec_hook=_revive, str_keys=True)
        except Exception as problem:
            raise Misfit(misfit_of(problem).problem, (key_step(key),)) from problem
        found[read] = _convert_at(key_step(key), item, item_type)
    return found


def _convert_fields(plain: Any, shape: Shape) -> Any:
    """A class by its fields, each as its own type."""
    found: dict[str, Any] = {}
    for name, (value, kind) in shape.taken_from(plain).items():
        found[name] = _convert_at(f".{name}", value, kind)
    return shape.made(found)


def _convert_at(step: str, plain: Any, kind: Any) -> Any:
    try:
        return convert(plain, kind)
    except Misfit as misfit:
        raise Misfit(misfit.problem, (step, *misfit.steps)) from None


def _expected(wanted: str, plain: object) -> Misfit:
    return Misfit(f"expected {wanted}, got {_JSON_NAMES.get(type(plain), 'object')}")


# --- tables ----------------------------------------------------------------------------------------

_BUILTINS: tuple[Any, ...] = (int, str, float, list, dict)
_JSON_NAMES: dict[type[Any], str] = {
    type(None): "null",
    list: "array",
    dict: "object",
    str: "str",
    int: "int",
    float: "float",
    bool: "bool",
}
_SAYS_NOTHING: tuple[Any, ...] = (object, inspect.Parameter.empty, typing.NoReturn, typing.Never, Ellipsis)
_WRAPPERS: tuple[Any, ...] = (typing.Annotated, typing.Final, typing.Required, typing.NotRequired, typing.ClassVar)
_SETS: tuple[Any, ...] = (set, frozenset, collections.abc.Set, collections.abc.MutableSet)
_ITERABLES: tuple[Any, ...] = (collections.abc.Iterable, collections.abc.Collection, collections.abc.Container)
_CONTAINERS: dict[Any, Callable[[Any, tuple[Any, ...]], Any]] = {
    list: _convert_list,
    collections.abc.Sequence: _convert_list,
    collections.abc.MutableSequence: _convert_list,
    collections.abc.Iterable: _convert_list,
    collections.abc.Collection: _convert_list,
    tuple: _convert_tuple,
    dict: _convert_dict,
    collections.abc.Mapping: _convert_dict,
    collections.abc.MutableMapping: _convert_dict,
}
