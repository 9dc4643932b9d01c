"""Saying: to a terminal in colours and tables, to a pipe as plain lines, to programs as JSON.

Used by every command. Rich is imported when something is printed with it.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

TRAILING = re.compile(r" +$", re.MULTILINE)
PIPE_COLUMNS = 200  # of what is no terminal: nothing is cut off there for want of room


def console(*, err: bool = False) -> Console:
    """Where people read."""
    from rich.console import Console

    stream: Any = sys.stderr if err else sys.stdout
    width = None if stream.isatty() else PIPE_COLUMNS
    file: Any = stream if stream.isatty() else _WithoutTrailingSpaces(stream)
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def print_json(value: Any) -> None:
    """One document, for programs."""
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_json_list(values: Iterable[Any]) -> None:
    """One document that is a list, with each of its values on a line of its own."""
    import msgspec

    lines = [msgspec.json.encode(value).decode() for value in values]
    click.echo("[\n" + ",\n".join(lines) + "\n]" if lines else "[]")


def print_json_line(value: Any) -> None:
    """One line of a stream of documents."""
    import msgspec

    click.echo(msgspec.json.encode(value).decode())
    sys.stdout.flush()


def say(text: str) -> None:
    """A line for people."""
    click.echo(clean(text))


def clean(text: str) -> str:
    """Without anything that would steer the terminal: what is stored comes from anywhere."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in "\n\t" else repr(one)[1:-1] for one in text)


def as_json(value: Any) -> str:
    """A value as a person reads it, in one line."""
    import msgspec

    return clean(msgspec.json.encode(value).decode())


class _WithoutTrailingSpaces:
    """A stream that is no terminal: columns are not filled up for nobody."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(TRAILING.sub("", text))
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return False
