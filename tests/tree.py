"""The files of the project, as the tests that read them see them: without what tools made."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

TREE = Path(__file__).parent.parent
CODE = ("src", "tests", "bench", "examples", "scripts")
MADE = re.compile(r"^(\.git|\.venvs?|\.\w+_cache|\.hypothesis|__pycache__|build|dist|.*\.egg-info)$")


@cache
def files() -> tuple[Path, ...]:
    """Every text file."""
    found: list[Path] = []
    for folder, folders, names in os.walk(TREE):
        folders[:] = sorted(name for name in folders if not MADE.match(name))
        found += [Path(folder, name) for name in sorted(names) if not MADE.match(name)]
    return tuple(path for path in found if _is_text(path))


def modules() -> list[Path]:
    """Every Python module."""
    return [path for path in files() if path.suffix == ".py" and name_of(path).split("/")[0] in CODE]


def name_of(path: Path) -> str:
    return path.relative_to(TREE).as_posix()


def _is_text(path: Path) -> bool:
    try:
        path.read_text("utf-8")
    except (UnicodeDecodeError, OSError):
        return False
    return True
