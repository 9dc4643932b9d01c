"""The ledger of a crash test: an append-only file outside the store, written by whoever does or learns something.

Each line is one `write` of a file opened with O_APPEND: SIGKILL leaves whole lines. Only these lines are believed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

LINE = msgspec.json.Encoder()


class Ledger:
    """Writes lines such as `["began", key, run, what, attempt]`."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, *entry: Any) -> None:
        os.write(self._file, LINE.encode(entry) + b"\n")


def entries(path: Path) -> list[list[Any]]:
    """All that was noted. A line that is not whole is an error: no kill may tear one."""
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
