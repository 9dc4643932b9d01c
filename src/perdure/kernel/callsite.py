"""Call sites: which code is the workflow's, and which of its lines made a call.

Read by kernel.executor (the source line of a command), kernel.forbidden and kernel.guards (who made a call).
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Collection
from functools import partial
from types import CodeType, FrameType
from typing import Any, Final, cast

WORKFLOW: Final = ""
PERDURE: Final = "perdure"
FILES_KNOWN_MAX = 20_000  # a notebook has one name per cell

_INSTALLED = re.compile(r".*[\\/](?:site|dist)-packages[\\/]")
_FROZEN = re.compile(r"<frozen ([\w.]+)>")
_OUTERMOST = "activate"  # of kernel.executor: what called it is the host


def origin(filename: str) -> str:
    """The top-level module that a code object's file belongs to: `""` if it is workflow code.

    Workflow code is whatever is neither Perdure, nor the standard library, nor installed; so `<stdin>`, `<string>`,
    notebook cells and doctests are.
    """
    return _origins[filename]


def is_workflow_code(filename: str, own_code: Collection[str] = ()) -> bool:
    """Whether a code object's file is workflow code; `own_code` are the path prefixes that are so nevertheless."""
    return not _origins[filename] or (bool(own_code) and filename.startswith(tuple(own_code)))


def own_code(filename: str) -> frozenset[str]:
    """The path prefixes to be counted as workflow code, for a workflow that is defined in this file.

    None are needed, unless the workflow is installed: then it is its top-level package, or its one file.
    """
    if not _origins[filename]:
        return frozenset()
    installed = _INSTALLED.match(filename)
    package = re.match(r"[^\\/]+[\\/]", filename[installed.end() :]) if installed else None
    if installed is None or package is None or _origins[filename] == PERDURE:
        return frozenset({filename})
    return frozenset({installed[0] + package[0]})


def caller(own_code: Collection[str] = (), skip: int = 0) -> tuple[str, int] | None:
    """File and line of the innermost workflow code of this turn; None where no workflow code is running.

    `skip`: so many frames from the caller on are not the workflow's. To look at one costs what a call costs.
    """
    origins = _origins
    frame: FrameType | None = sys._getframe(1 + skip)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        code = frame.f_code
        filename = code.co_filename
        where = origins[filename]
        if not where:
            if filename[0] != "<" or not is_generated(frame):
                return filename, frame.f_lineno
        elif where == PERDURE and code.co_name == _OUTERMOST:
            return None
        elif own_code and filename.startswith(tuple(own_code)):
            return filename, frame.f_lineno
        frame = frame.f_back
    return None


def defined_at(function: Any) -> tuple[str, int] | None:
    """File and line at which a function begins: where no line of it runs any more, or none has run yet."""
    while isinstance(function, partial):
        function = cast(Any, function).func
    code = getattr(inspect.unwrap(function), "__code__", None)
    return (code.co_filename, code.co_firstlineno) if isinstance(code, CodeType) else None


def is_generated(frame: FrameType) -> bool:
    """Whether its code was made on behalf of a module: what `dataclass` and attrs write has no line to be shown."""
    filename = frame.f_code.co_filename
    return filename.startswith("<attrs generated") or (filename == "<string>" and "__file__" in frame.f_globals)


class _Origins(dict[str, str]):
    """Answers each file once, then from memory."""

    def __missing__(self, filename: str) -> str:
        if len(self) >= FILES_KNOWN_MAX:
            self.clear()
        self[filename] = found = _look_up(filename)
        return found


def _look_up(filename: str) -> str:
    if filename.startswith("<"):
        frozen = _FROZEN.match(filename)
        return frozen[1].partition(".")[0] if frozen else WORKFLOW
    if filename.startswith(_PACKAGE):
        return PERDURE
    installed = _INSTALLED.match(filename)
    if installed:
        return _top_level(filename[installed.end() :])
    for folder in _STANDARD:
        if filename.startswith(folder):
            return _top_level(filename[len(folder) :])
    return WORKFLOW


def _top_level(path: str) -> str:
    return re.split(r"[\\/.]", path, maxsplit=1)[0] or "unknown"


def _folder(file: str) -> str:
    return file[: max(file.rfind("/"), file.rfind("\\")) + 1]


def _standard_folders() -> tuple[str, ...]:
    # Read off a module of the library itself: to ask sysconfig would cost more than the rest of this package.
    # `re` may be a package of that name: its folder's parent is the library all the same.
    return (re.sub(r"re[\\/]$", "", _folder(re.__file__)),)


_PACKAGE = _folder(_folder(__file__)[:-1])
_STANDARD = _standard_folders()
_origins = _Origins()
