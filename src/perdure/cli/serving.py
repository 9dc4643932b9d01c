"""Serving: what a command that works asks for: queues, its lease, how it is called.

Used by worker and dev.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from perdure.cli.mistakes import Wrong

F = TypeVar("F", bound=Callable[..., Any])
LOG_FORMAT = "%(asctime)s %(levelname)-7s %(message)s"


def asks_queues(command: F) -> F:
    """`--queue`, as often as there are queues."""
    return click.option(
        "--queue",
        "queues",
        metavar="NAME[=N]",
        multiple=True,
        help="Serve this queue, N activities at once (100 if not given); repeatable. Without it: `default`.",
    )(command)


def read_queues(texts: Sequence[str]) -> dict[str, int]:
    """Queues as the shell gives them: `name` or `name=10`."""
    queues: dict[str, int] = {}
    for text in texts or ("default",):
        name, separator, number = text.partition("=")
        if not separator:
            queues[name] = 100
        elif number.isascii() and number.isdigit() and int(number) > 0:
            queues[name] = int(number)
        else:
            raise Wrong(
                f"--queue {text!r}: {number!r} is not how many activities run at once", f"write it as {name}=10"
            )
    return queues


def served(queues: Mapping[str, int]) -> str:
    """Queues in words."""
    return ", ".join(f"`{name}` ({number} at once)" for name, number in queues.items())


def log_to_stderr() -> None:
    """What the engine logs is shown, unless the user's module has set up logging."""
    import logging

    logging.basicConfig(format=LOG_FORMAT, level=logging.INFO)
