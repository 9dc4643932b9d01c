"""Part: what the sides of the store share: how a transition gets to the connection that it needs."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from perdure.errors import StoreNotOpen
from perdure.stores.sqlite.groups import Transition
from perdure.stores.sqlite.lines import Line
from perdure.stores.sqlite.writing import WritingLine


class Lines:
    """Where an open store's calls go."""

    def __init__(self, writing: Line, reading: Line, scanning: Line) -> None:
        self.writing = writing
        self.reading = reading
        self.scanning = scanning  # what may take long, and is to hold up nobody


class Part:
    """One side of the store."""

    url: str
    _lines: Lines | None = None

    def _write(self, work: Transition, *values: Any) -> Awaitable[Any]:
        """Make a transition durable. `StoreUnavailable`, and what the transition raises."""
        return self._opened().writing.call(work, values)

    def _write_small(self, work: Transition, *values: Any) -> Awaitable[Any]:
        """As `_write`, for what takes no longer however large a run is."""
        writing = self._opened().writing
        return writing.call_small(work, values) if isinstance(writing, WritingLine) else writing.call(work, values)

    def _read(self, work: Transition, *values: Any) -> Awaitable[Any]:
        return self._opened().reading.call(work, values)

    def _scan(self, work: Transition, *values: Any) -> Awaitable[Any]:
        return self._opened().scanning.call(work, values)

    def _opened(self) -> Lines:
        if self._lines is None:
            raise StoreNotOpen(self.url)
        return self._lines
