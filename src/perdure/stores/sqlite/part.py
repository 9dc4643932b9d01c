"""Part: what the sides of the store share: how a transition gets to the connection that it needs."""

from __future__ import annotations

from typing import Any

from perdure.errors import StoreUnavailable
from perdure.stores.sqlite.groups import Transition
from perdure.stores.sqlite.lines import Line


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

    async def _write(self, work: Transition, *values: Any) -> Any:
        """Make a transition durable. `StoreUnavailable`, and what the transition raises."""
        return await self._opened().writing.call(work, values)

    async def _read(self, work: Transition, *values: Any) -> Any:
        return await self._opened().reading.call(work, values)

    async def _scan(self, work: Transition, *values: Any) -> Any:
        return await self._opened().scanning.call(work, values)

    def _opened(self) -> Lines:
        if self._lines is None:
            raise StoreUnavailable(f"the store {self.url} is not open; open it, or make a new engine")
        return self._lines
