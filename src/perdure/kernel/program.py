"""Programs: a workflow as the kernel needs to know it.

Built by define.workflow from a decorated function or class; run by kernel.executor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from perdure import codec
from perdure.errors import InvalidValue


class Handler(msgspec.Struct, frozen=True):
    """A function that answers messages: what its arguments and its result are read as."""

    name: str
    call: Callable[..., Any]
    reads: tuple[Any, ...] = ()
    rest: tuple[Any, ...] = ()  # what each of its `*args` is read as; empty where it has none
    parameters: tuple[str, ...] = ()
    required: int = 0
    keyword_reads: Mapping[str, Any] = {}
    returns: Any = Any
    validate: Callable[..., Any] | None = None


class Program(msgspec.Struct, frozen=True):
    """A workflow: `begin` makes the instance (None for a function), `run` its coroutine."""

    name: str
    run: Handler
    begin: Callable[[], object] | None = None
    signals: Mapping[str, Handler] = {}
    updates: Mapping[str, Handler] = {}
    queries: Mapping[str, Handler] = {}
    own_code: frozenset[str] = frozenset()


def read_arguments(handler: Handler, encoded: msgspec.Raw, what: str) -> list[Any]:
    """The arguments of a message, each read as its own type. `InvalidValue` for too many, too few, or a wrong one."""
    arguments = codec.decode_arguments(encoded, handler.reads, what, rest=handler.rest)
    missing = handler.parameters[len(arguments) : handler.required]
    if missing:
        raise InvalidValue(f"{what} lacks {', '.join(f'`{name}`' for name in missing)}")
    return arguments


def read_keywords(handler: Handler, keywords: msgspec.Raw | None, what: str) -> dict[str, Any]:
    """Keyword-only arguments, each read as its own type."""
    if not keywords:
        return {}
    raw = msgspec.json.decode(keywords, type=dict[str, msgspec.Raw])
    return {
        name: codec.decode(value, handler.keyword_reads.get(name, Any), f"{what}, {name}")
        for name, value in raw.items()
    }
