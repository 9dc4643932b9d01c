"""Intruders: Python's own sqlite3 on a file that is open here is refused, as it would drop the file's locks.

That library and ours do not know of each other, and closing a file drops all POSIX locks that its process has on it:
two writers could then damage the file. Python keeps an audit hook for the life of the process, so there is one for all.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from threading import Lock
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from perdure.errors import UsageError

_open: Counter[str] = Counter()
_lock = Lock()
_hooks: list[object] = []


def guard(path: str) -> None:
    """From now on this file is ours."""
    with _lock:
        _open[path] += 1
        if not _hooks:
            _hooks.append(_look)
            sys.addaudithook(_look)


def unguard(path: str) -> None:
    """One of our stores on it has been closed."""
    with _lock:
        _open[path] -= 1
        if _open[path] <= 0:
            del _open[path]


def is_open(path: str) -> bool:
    """Whether a store of this process has this file open: whoever reads it otherwise drops its locks."""
    return os.path.realpath(path) in _open


def _look(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "sqlite3.connect" and _open and _path(arguments[0]) in _open:
        raise UsageError(
            f"sqlite3.connect({arguments[0]!r}): Perdure has this file open in this process, and Python's own sqlite3 "
            "would drop the locks that protect it. Look at runs with Client or the command line, write your rows from "
            "a transactional activity, or open the file in another process"
        )


def _path(database: object) -> str | None:
    """The file that somebody wants to open; None for none that can be ours."""
    if isinstance(database, os.PathLike):
        database = cast("os.PathLike[str] | os.PathLike[bytes]", database).__fspath__()
    if isinstance(database, bytes):
        database = os.fsdecode(database)
    if not isinstance(database, str) or database in {"", ":memory:"}:
        return None
    if database.startswith("file:"):
        database = unquote(urlsplit(database).path)
    return os.path.realpath(database)
