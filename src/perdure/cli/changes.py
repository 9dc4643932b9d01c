"""Changes: whether a file of the project that is loaded has been written since.

Used by dev.
"""

from __future__ import annotations

import asyncio
import os
import site
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

import perdure

LOOK_SECONDS = 0.15  # and so long nothing may change, since an editor writes in several steps


class Changes:
    """The files of the project, as they were when this was made; those loaded later, as they were first seen."""

    def __init__(self, more: Iterable[str] = ()) -> None:
        self._foreign = _foreign_folders()
        self._more = tuple(more)
        self._seen: dict[str, float | None] = {}
        self.changed()

    async def wait(self) -> str:
        """Wait until a file has changed, and nothing changes any more; its path."""
        found: str | None = None
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            changed = self.changed()
            if changed is None and found is not None and self._seen[found] is not None:
                return found
            found = changed or found

    def changed(self) -> str | None:
        """A file that has changed since the last call, if one has."""
        found: str | None = None
        for path in self._files():
            time = _time_of(path)
            if path in self._seen and self._seen[path] != time:
                found = path
            self._seen[path] = time
        return found

    def _files(self) -> set[str]:
        files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        return {path for path in (*files, *self._more, *self._seen) if path and self._is_ours(path)}

    def _is_ours(self, path: str) -> bool:
        return path.endswith(".py") and not path.startswith(self._foreign)


def _foreign_folders() -> tuple[str, ...]:
    """Where the interpreter, what is installed, and this package live."""
    folders = {*site.getsitepackages(), site.getusersitepackages(), *sysconfig.get_paths().values()}
    folders -= {sysconfig.get_path("data"), sysconfig.get_path("scripts")}  # the project may lie in there
    return (*(f"{folder}{os.sep}" for folder in folders), f"{Path(perdure.__file__).parent}{os.sep}", "<")


def _time_of(path: str) -> float | None:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None
