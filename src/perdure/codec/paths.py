"""Paths: where inside a value something is wrong, as `order.lines[3].price`.

Raised through codec.lowering (`Refused`) and codec.converting (`Misfit`); codec.encoding and
codec.decoding turn both into `InvalidValue`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

PATH_LENGTH_MAX = 200
KEY_LENGTH_MAX = 60

# How msgspec ends its messages: where it was, and whether the key or the value there was wrong.
_WHERE = re.compile(r" - at `(?:(key)` in `)?\$([^`]*)`$", re.DOTALL)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MODULE = re.compile(r"(?:\w+\.|<locals>\.)+(?=\w)")
_NAME_OF = type.__dict__["__name__"].__get__


class Refused(Exception):
    """A value cannot be written. `steps` grows from the inside out while it travels up to the root."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.steps: list[tuple[Any, str]] = []

    def within(self, holder: Any, step: str) -> Refused:
        """The same refusal, seen from the container that holds the value at `step`."""
        self.steps.append((holder, step))
        return self

    def message(self, root: str) -> str:
        """The path from `root`, a colon, what is wrong."""
        return f"{joined(root, (step for _, step in reversed(self.steps)))}: {self.problem}"


class TooDeep(Refused):
    """A value is nested too deeply, perhaps because it holds itself."""

    def message(self, root: str) -> str:
        """As for any refusal; a cycle is shown once, by the path at which it closes."""
        seen: set[int] = set()
        steps: list[str] = []
        for holder, step in reversed(self.steps):
            if id(holder) in seen:
                return f"{joined(root, steps)}: {name_of(type(holder))} is not supported inside itself; break the cycle"
            seen.add(id(holder))
            steps.append(step)
        return super().message(root)


class Misfit(ValueError):
    """JSON does not fit a type; `steps` lead to the place from the outside in.

    A `ValueError`, because msgspec keeps the place where a hook raised one, and its cause.
    """

    def __init__(self, problem: str, steps: tuple[str, ...] = ()) -> None:
        super().__init__(problem)
        self.problem = problem
        self.steps = steps


def misfit_of(error: Exception) -> Misfit:
    """What msgspec (or code that it called) raised, with the path taken out of the message."""
    if isinstance(error, Misfit):
        return error
    text = _text_of(error)
    steps: tuple[str, ...] = ()
    if isinstance(error, msgspec.MsgspecError):
        found = _WHERE.search(text)
        if found is not None:
            text = text[: found.start()]
            steps = (found[2],) if found[2] else ()
            text = f"a key is wrong: {_in_our_words(text)}" if found[1] else text
        cause = error.__cause__
        if isinstance(cause, Misfit):
            return Misfit(cause.problem, (*steps, *cause.steps))
        return Misfit(_in_our_words(text), steps)
    if isinstance(error, RecursionError):
        return Misfit("is nested too deeply")
    if isinstance(error, UnicodeError):
        return Misfit("text that is not valid UTF-8 is not supported")
    return Misfit(f"{name_of(type(error))}: {text}")


def joined(root: str, steps: Iterable[str]) -> str:
    """One line; a very long path keeps its beginning and its end."""
    path = root + "".join(steps)
    if len(path) <= PATH_LENGTH_MAX:
        return path
    half = PATH_LENGTH_MAX // 2
    return f"{path[:half]}…{path[-half:]}"


def key_step(key: object) -> str:
    """The step into a dict: `.price`, or `['net price']` where the key is no name."""
    if type(key) is str and _IDENTIFIER.fullmatch(key):
        return f".{key}" if len(key) <= KEY_LENGTH_MAX else f".{key[:KEY_LENGTH_MAX]}…"
    return f"[{shown(key)}]"


def shown(key: object) -> str:
    """A value as people can read it in a message: short, printable, never raising."""
    try:
        text = ascii(key) if isinstance(key, str) and not key.isprintable() else repr(key)
    except Exception:
        text = f"a {name_of(type(key))}"
    return text if len(text) <= KEY_LENGTH_MAX else f"{text[:KEY_LENGTH_MAX]}…"


def name_of(kind: Any) -> str:
    """The name of a type, whatever its metaclass says of it; of an annotation, its text."""
    if isinstance(kind, type):
        return _NAME_OF(kind)
    return _MODULE.sub("", str(kind))


def _text_of(error: Exception) -> str:
    try:
        return str(error)
    except Exception as broken:
        return f"(its text cannot be made: {name_of(type(broken))})"


def _in_our_words(text: str) -> str:
    """`Expected `int`, got `str`` is written `expected int, got str`."""
    text = text.replace("`", "")
    return text[:1].lower() + text[1:] if text[1:2].islower() else text
