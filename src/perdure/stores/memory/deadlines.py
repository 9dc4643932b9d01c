"""Deadlines: when open runs time out, in the order of time; those that have ended are skipped when they come up."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush

from perdure.stores.records import Run


class Deadlines:
    """A heap of moments and runs."""

    def __init__(self, runs: Mapping[int, Run]) -> None:
        self._runs = runs
        self._heap: list[tuple[int, int]] = []

    def put(self, deadline_us: int, number: int) -> None:
        """A run that times out then."""
        heappush(self._heap, (deadline_us, number))

    def next(self, now: int) -> int | None:
        """When the next open run times out; one whose deadline has passed, if it is free."""
        passed = self._passed(now)
        while self._heap and self._runs[self._heap[0][1]].status != "running":
            heappop(self._heap)
        following = self._heap[0][0] if self._heap else None
        for each in passed:
            heappush(self._heap, each)
        free = [moment for moment, number in passed if self._runs[number].owner is None]
        return free[0] if free else following

    def overdue(self, now: int, limit: int) -> list[int]:
        """The free runs whose deadline has passed."""
        passed = self._passed(now)
        for each in passed:
            heappush(self._heap, each)
        return [number for _, number in passed if self._runs[number].owner is None][:limit]

    def _passed(self, now: int) -> list[tuple[int, int]]:
        """The deadlines of open runs that have passed, taken out."""
        passed: list[tuple[int, int]] = []
        while self._heap and self._heap[0][0] <= now:
            each = heappop(self._heap)
            if self._runs[each[1]].status == "running":
                passed.append(each)
        return passed
