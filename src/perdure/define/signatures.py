"""Signatures: what a function's arguments and result are read as, and how a call's arguments are bound.

Used by define.activity, define.workflow and define.handlers.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from perdure import codec
from perdure.errors import InvalidValue
from perdure.model.commands import NOTHING

DECORATORS = ("perdure.define", "perdure.pipelines.declare")  # whose own names are nobody's annotations
RETURNED = -1  # where the type of the result is kept, beside those of so many arguments
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a function, without those that the caller does not see (`self`, `state`)."""

    name: str
    names: tuple[str, ...]
    required: int
    many: str | None
    keywords: frozenset[str]
    required_keywords: frozenset[str]
    any_keyword: bool
    fn: Callable[..., Any]
    hidden: int
    local_names: Mapping[str, Any]
    _read_as: dict[int, tuple[Any, ...]] = field(default_factory=dict[int, tuple[Any, ...]], compare=False, repr=False)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[msgspec.Raw, msgspec.Raw]:
        """A call's arguments as JSON: positional ones, and keyword-only ones.

        `InvalidValue` if there are too many or too few, or if one cannot be read as what it is annotated (section 6):
        whoever is called would find that out only later, and somewhere else.
        """
        fits = self.required <= len(args) and (len(args) <= len(self.names) or self.many is not None)
        if fits and not kwargs and not self.required_keywords:
            encoded = codec.encode_arguments(args, self.names)
            if args:
                self._check(encoded, len(args))
            return encoded, NOTHING
        positional, by_name = self._bound(args, kwargs)
        encoded = codec.encode_arguments(positional, self.names)
        self._check(encoded, len(positional))
        if not by_name:
            return encoded, NOTHING
        keywords = codec.encode(by_name, "keyword arguments")
        self._check_keywords(keywords)
        return encoded, keywords

    def _check(self, encoded: msgspec.Raw, count: int) -> None:
        types = self._read_as.get(count)
        if types is None:
            known = self.reads()[:count]
            types = self._read_as[count] = known + self.rest_reads() * (count - len(known))
        codec.decode_arguments(encoded, types, f"`{self.name}`", self.names)

    def _check_keywords(self, encoded: msgspec.Raw) -> None:
        reads = self.keyword_reads()
        for name, value in msgspec.json.decode(encoded, type=dict[str, msgspec.Raw]).items():
            codec.decode(value, reads.get(name, Any), name)

    def _bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        positional = list(args)
        by_name = dict(kwargs)
        if len(positional) > len(self.names) and self.many is None:
            raise self._misfit(f"takes {_count(len(self.names), 'argument')}, and was given {len(positional)}")
        for name in self.names[: len(positional)]:
            if name in by_name:
                raise self._misfit(f"was given `{name}` twice")
        for name in self.names[len(positional) :]:
            if name not in by_name:
                break
            positional.append(by_name.pop(name))
        missing = [name for name in self.names[len(positional) : self.required] if name not in by_name]
        missing += sorted(self.required_keywords - by_name.keys())
        if missing:
            raise self._misfit(f"lacks {', '.join(f'`{name}`' for name in missing)}")
        unknown = sorted(by_name.keys() - self.keywords - set(self.names))
        if unknown and not self.any_keyword:
            raise self._misfit(f"has no parameter {', '.join(f'`{name}`' for name in unknown)}")
        return positional, by_name

    def _misfit(self, text: str) -> InvalidValue:
        return InvalidValue(f"`{self.name}` {text}")

    def bound_to_self(self) -> Signature:
        """That of a method: without the first parameter, which the instance is."""
        names, required = self.names[1:], max(self.required - 1, 0)
        return replace(self, names=names, required=required, hidden=self.hidden + 1, _read_as={})

    def reads(self) -> tuple[Any, ...]:
        """The types that positional arguments are read as."""
        hints = self.hints()
        return tuple(hints.get(name, Any) for name in self.names)

    def rest_reads(self) -> tuple[Any, ...]:
        """The type that each of `*args` is read as; empty where the function has none."""
        return () if self.many is None else (self.hints().get(self.many, Any),)

    def keyword_reads(self) -> dict[str, Any]:
        """The types that keyword arguments are read as."""
        hints = self.hints()
        return {name: hints.get(name, Any) for name in (*self.keywords, *self.names)}

    def returns(self) -> Any:
        """The type that the result is read as; one that cannot be resolved yet is looked up again."""
        known = self._read_as.get(RETURNED)
        if known is None:
            known = (self.hints().get("return", Any),)
            if known[0] is not Any:
                self._read_as[RETURNED] = known
        return known[0]

    def hints(self) -> dict[str, Any]:
        """The annotations, resolved; one that cannot be is `Any`."""
        try:
            return typing.get_type_hints(self.fn, localns=dict(self.local_names), include_extras=True)
        except Exception:
            return {name: self._hint(note) for name, note in getattr(self.fn, "__annotations__", {}).items()}

    def _hint(self, note: Any) -> Any:
        if not isinstance(note, str):
            return type(None) if note is None else note
        holder = types.SimpleNamespace(__annotations__={"it": note})
        space = dict(getattr(self.fn, "__globals__", {}))
        try:
            return typing.get_type_hints(holder, space, dict(self.local_names), include_extras=True)["it"]
        except Exception:
            return Any


def signature_of(fn: Callable[..., Any], name: str, *, hidden: int = 0, depth: int = 2) -> Signature:
    """Read a function's signature; its first `hidden` parameters are not the caller's."""
    parameters = list(inspect.signature(fn).parameters.values())[hidden:]
    positional = [one for one in parameters if one.kind in POSITIONAL]
    keyword_only = [one for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY]
    return Signature(
        name=name,
        names=tuple(one.name for one in positional),
        required=sum(one.default is inspect.Parameter.empty for one in positional),
        many=next((one.name for one in parameters if one.kind is inspect.Parameter.VAR_POSITIONAL), None),
        keywords=frozenset(one.name for one in keyword_only),
        required_keywords=frozenset(one.name for one in keyword_only if one.default is inspect.Parameter.empty),
        any_keyword=any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters),
        fn=fn,
        hidden=hidden,
        local_names=local_names(fn, depth + 1),
    )


def local_names(fn: Callable[..., Any] | None, depth: int) -> dict[str, Any]:
    """The local names at a definition inside a function, so that annotations that are text can be resolved.

    Those of the classes that are made there are noted for the codec.
    """
    if "<locals>" not in getattr(fn, "__qualname__", ""):
        return {}
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    found: dict[str, Any] = {}
    for _ in range(depth + 4):
        if frame is None or frame.f_code.co_name == "<module>":
            break
        if not frame.f_globals.get("__name__", "").startswith(DECORATORS):
            found = {**frame.f_locals, **found}
        frame = frame.f_back
    codec.note_local_classes(found)
    wanted = codec.words_of(getattr(fn, "__annotations__", {}).values())
    return {name: value for name, value in found.items() if name in wanted}


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
