"""Digests: a changed declaration is told from the same one by what it says and by the code of its handlers (L2).

What counts: names, topics with their types, cadences, what is published, timeouts, and the compiled code of every
function of a handler, of functions that it has captured, and of its defaults and class constants. What does not: line
numbers, comments, and the text of a handler's docstring. A newer Python compiles differently, so that its first start
counts as a deploy: every producer runs once more, and every consumer looks once more, which harms nothing.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, cast

from perdure.pipelines.declare import DeclaredConsumer, DeclaredProducer, Pipeline
from perdure.pipelines.topics import Topic

DIGEST_BYTES = 16
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))


def digest_of(pipeline: Pipeline) -> str:
    """The same text for the same declaration, in every process."""
    hasher = blake2b(digest_size=DIGEST_BYTES)
    for part in _parts(pipeline):
        hasher.update(repr(part).encode())
    return hasher.hexdigest()


def _parts(pipeline: Pipeline) -> Iterator[object]:
    yield pipeline.name
    for topic in sorted(pipeline.topics, key=lambda one: one.name):
        yield topic.name, _type_name(topic.type)
    for one in pipeline.handlers:
        yield type(one).__name__, one.name, _names(one.publishes), str(one.timeout)
        if isinstance(one, DeclaredProducer):
            yield str(one.every), one.cron, one.timezone
            yield from _function(one.fn, set())
        else:
            yield _names(one.topics)
            yield from _class(one)


def _class(consumer: DeclaredConsumer) -> Iterator[object]:
    seen: set[int] = set()
    classes: tuple[Any, ...] = consumer.handler.__mro__[:-1]
    for cls in classes:
        members: dict[str, Any] = dict(cls.__dict__)
        for name, value in sorted(members.items()):
            function = getattr(value, "__func__", getattr(value, "fget", value))
            if isinstance(function, types.FunctionType):
                yield name
                yield from _function(function, seen)
            elif not name.startswith("__"):
                yield name, _plain(value)


def _function(function: Any, seen: set[int]) -> Iterator[object]:
    function = getattr(function, "__wrapped__", function)
    code = getattr(function, "__code__", None)
    if code is None:
        yield type(function).__qualname__
    elif id(function) not in seen:
        seen.add(id(function))
        yield from _code(code, function.__doc__)
        keywords: dict[str, Any] = function.__kwdefaults__ or {}
        yield _plain(function.__defaults__), [(name, _plain(value)) for name, value in sorted(keywords.items())]
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            captured = _content(cell)
            if isinstance(captured, types.FunctionType):
                yield name
                yield from _function(captured, seen)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None


def _code(code: types.CodeType, doc: str | None) -> Iterator[object]:
    yield code.co_code, code.co_exceptiontable, code.co_flags, code.co_argcount, code.co_kwonlyargcount
    yield code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    for position, constant in enumerate(code.co_consts):
        if position == 0 and doc is not None and constant == doc:
            continue
        if isinstance(constant, types.CodeType):
            yield constant.co_name
            yield from _code(constant, None)
        else:
            yield _plain(constant)


def _plain(value: Any) -> object:
    """What of a value is the same in every process."""
    if isinstance(value, frozenset | set):
        items: list[Any] = list(cast("Iterable[Any]", value))
        return type(items).__name__, sorted(repr(_plain(item)) for item in items)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in cast("Iterable[Any]", value)]
    return repr(value) if type(value) in _PLAIN else type(value).__qualname__


def _names(topics: Iterable[Any]) -> list[str]:
    return [topic.name if isinstance(topic, Topic) else repr(topic) for topic in topics]


def _type_name(type: Any) -> str:
    return getattr(type, "__qualname__", None) or repr(type)
