"""A VFS that counts flushes or leaves them out, and that can be full; all else is passed on to SQLite's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import apsw


class CountingFile(apsw.VFSFile):
    """A file whose flushes are counted under the ending of its name."""

    def __init__(self, vfs: CountingVfs, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        text = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self._ending = "wal" if text.endswith("-wal") else "db"
        self._vfs = vfs

    def xSync(self, flags: int) -> None:  # noqa: N802  (SQLite's name)
        """Counted, and done, unless this disk is there for speed only."""
        if self._vfs.flush_fails:
            raise apsw.IOError("the disk did not take it")
        self._vfs.flushes[self._ending] += 1
        if not self._vfs.careless:
            super().xSync(flags)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802  (SQLite's name)
        """Refused while the disk is full."""
        if self._vfs.full or self._vfs.room == 0:
            self._vfs.refused += 1
            raise apsw.FullError("no room")
        if self._vfs.room is not None:
            self._vfs.room -= 1
        self._vfs.writes[self._ending] += 1
        write = cast("Callable[[Any, int], None]", super().xWrite)  # pyright: ignore[reportUnknownMemberType]
        write(data, offset)


class CountingVfs(apsw.VFS):
    """Registered under its name as long as it lives."""

    def __init__(self, name: str, *, careless: bool = False) -> None:
        self.careless = careless
        self.flushes: Counter[str] = Counter()
        self.writes: Counter[str] = Counter()
        self.full = False
        self.refused = 0
        self.flush_fails = False
        self.room: int | None = None  # for so many writes, if there is an end to it
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802  (SQLite's name)
        """Every file is a counting one."""
        return CountingFile(self, name, flags)
