"""Agenda: who is free, and from when on, by queue.

The heaps are lazy, so that a claim costs what it takes and not what waits.
An entry is made anew whenever something changes; what is left of the older one is skipped when it comes up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import count
from typing import Generic, NamedTuple, TypeVar

Key = TypeVar("Key")


class Entry(NamedTuple):
    """One that is free. `order` names the entry: entries are told apart, and stand in the order in which they came."""

    queue: str
    when: int
    priority: int
    order: int


class Agenda(Generic[Key]):
    """What is free, and may be taken from its time on."""

    def __init__(self) -> None:
        self._entries: dict[Key, Entry] = {}
        self._order = count()
        self._by_time: defaultdict[str, list[tuple[int, int, Key]]] = defaultdict(list)
        self._later: defaultdict[str, list[tuple[int, int, Key]]] = defaultdict(list)
        self._ready: defaultdict[str, list[tuple[int, int, int, Key]]] = defaultdict(list)

    def put(self, key: Key, queue: str, when: int, priority: int) -> None:
        """It is free, from then on."""
        old = self._entries.get(key)
        if old is not None and old[:3] == (queue, when, priority):
            return
        entry = self._entries[key] = Entry(queue, when, priority, next(self._order))
        heappush(self._by_time[queue], (when, entry.order, key))
        heappush(self._later[queue], (when, entry.order, key))

    def drop(self, key: Key) -> None:
        """It is not free."""
        self._entries.pop(key, None)

    def take(self, queues: Iterable[str], now: int, limit: int, fits: Callable[[Key], bool]) -> list[Key]:
        """The most urgent of those that are due and fit. They stay free until they are dropped."""
        heaps = [self._promote(queue, now) for queue in dict.fromkeys(queues)]
        taken: list[Key] = []
        seen: list[tuple[list[tuple[int, int, int, Key]], tuple[int, int, int, Key]]] = []
        while len(taken) < limit:
            heads = [heap for heap in heaps if self._clean(heap)]
            if not heads:
                break
            heap = min(heads, key=lambda heap: heap[0][:3])
            item = heappop(heap)
            seen.append((heap, item))
            if fits(item[3]):
                taken.append(item[3])
        for heap, item in seen:
            heappush(heap, item)
        return taken

    def next_time(self, queues: Iterable[str]) -> int | None:
        """When the first of these queues is due."""
        times: list[int] = []
        for queue in queues:
            heap = self._by_time[queue]
            while heap and not self._current(heap[0][2], heap[0][1]):
                heappop(heap)
            if heap:
                times.append(heap[0][0])
        return min(times, default=None)

    def _promote(self, queue: str, now: int) -> list[tuple[int, int, int, Key]]:
        later, ready = self._later[queue], self._ready[queue]
        while later and later[0][0] <= now:
            when, order, key = heappop(later)
            if self._current(key, order):
                heappush(ready, (-self._entries[key].priority, when, order, key))
        return ready

    def _clean(self, heap: list[tuple[int, int, int, Key]]) -> bool:
        while heap and not self._current(heap[0][3], heap[0][2]):
            heappop(heap)
        return bool(heap)

    def _current(self, key: Key, order: int) -> bool:
        entry = self._entries.get(key)
        return entry is not None and entry.order == order
