"""Programs: a workflow as the kernel needs to know it.

Built by define.workflow from a decorated function or class; run by kernel.executor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from perdure import codec


@dataclass(frozen=True, slots=True)
class Handler:
    """A function that answers messages: what its arguments and its result are read as."""

    name: str
    call: Callable[..., Any]
    reads: tuple[Any, ...] = ()
    parameters: tuple[str, ...] = ()
    keyword_reads: Mapping[str, Any] = field(default_factory=dict[str, Any])
    returns: Any = Any
    validate: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """A workflow: `begin` makes the instance (None for a function), `run` its coroutine."""

    name: str
    run: Handler
    begin: Callable[[], object] | None = None
    signals: Mapping[str, Handler] = field(default_factory=dict[str, Handler])
    updates: Mapping[str, Handler] = field(default_factory=dict[str, Handler])
    queries: Mapping[str, Handler] = field(default_factory=dict[str, Handler])
    own_code: frozenset[str] = frozenset()


def read_keywords(handler: Handler, keywords: msgspec.Raw | None, what: str) -> dict[str, Any]:
    """Keyword-only arguments, each read as its own type."""
    if not keywords:
        return {}
    raw = msgspec.json.decode(keywords, type=dict[str, msgspec.Raw])
    return {
        name: codec.decode(value, handler.keyword_reads.get(name, Any), f"{what}, {name}")
        for name, value in raw.items()
    }
