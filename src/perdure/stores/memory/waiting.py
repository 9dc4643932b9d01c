"""Waiting: the events of a topic, and the numbers of those that are pending, in order."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterator
from heapq import merge
from itertools import islice

from perdure.stores.pipeline_records import StoredEvent

_SPARE = 64


class Waiting:
    """The numbers of the pending events of a topic, in order; those that were given back find their old place."""

    def __init__(self) -> None:
        self._fresh: deque[int] = deque()  # may hold numbers that do not wait any more
        self._returned: list[int] = []
        self._alive: set[int] = set()

    def put(self, number: int) -> None:
        """A new event."""
        self._fresh.append(number)
        self._alive.add(number)

    def give_back(self, number: int) -> None:
        """One that was taken."""
        insort(self._returned, number)
        self._alive.add(number)

    def take(self, number: int) -> None:
        """It does not wait any more."""
        self._alive.discard(number)
        while self._fresh and self._fresh[0] not in self._alive:
            self._fresh.popleft()
        if len(self._fresh) + len(self._returned) > 2 * len(self._alive) + _SPARE:
            self._fresh, self._returned = deque(sorted(self._alive)), []

    def first(self, limit: int) -> list[int]:
        """The oldest ones."""
        return list(islice(self._in_order(), limit))

    def last(self) -> int:
        """The newest one; 0 if there is none."""
        while self._fresh and self._fresh[-1] not in self._alive:
            self._fresh.pop()
        while self._returned and self._returned[-1] not in self._alive:
            self._returned.pop()
        return max(self._fresh[-1] if self._fresh else 0, self._returned[-1] if self._returned else 0)

    def _in_order(self) -> Iterator[int]:
        last = 0
        for number in merge(self._fresh, self._returned):
            if number != last and number in self._alive:
                yield number
            last = number


class Topic:
    """The events of one topic."""

    def __init__(self) -> None:
        self.events: dict[int, StoredEvent] = {}
        self.numbers: dict[str, int] = {}  # by message id
        self.waiting = Waiting()
