"""Agenda: who is free, and from when on, by queue and kind.

The heaps are lazy, so that a claim costs what it takes and not what waits: an entry is made anew whenever something
changes, and what is left of the older one is skipped when it comes up. When most of a heap is such leftovers, it is
made anew without them; so it never outgrows what is free by much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Generic, NamedTuple, TypeVar

Key = TypeVar("Key")
SLACK = 64


class Entry(NamedTuple):
    """One that is free. `order` names the entry: entries are told apart, and stand in the order in which they came."""

    queue: str
    kind: str
    when: int
    priority: int
    order: int


class Lane(Generic[Key]):
    """What is free of one queue and one kind."""

    def __init__(self) -> None:
        self.by_time: list[tuple[int, int, Key]] = []
        self.later: list[tuple[int, int, Key]] = []
        self.ready: list[tuple[int, int, int, Key]] = []
        self.free = 0


class Agenda(Generic[Key]):
    """What is free, and may be taken from its time on."""

    def __init__(self) -> None:
        self._entries: dict[Key, Entry] = {}
        self._order = count()
        self._queues: dict[str, dict[str, Lane[Key]]] = {}

    def put(self, key: Key, queue: str, kind: str, when: int, priority: int) -> None:
        """It is free, from then on."""
        old = self._entries.get(key)
        if old is not None and old[:4] == (queue, kind, when, priority):
            return
        self.drop(key)
        entry = self._entries[key] = Entry(queue, kind, when, priority, next(self._order))
        lane = self._queues.setdefault(queue, {}).setdefault(kind, Lane[Key]())
        lane.free += 1
        heappush(lane.by_time, (when, entry.order, key))
        heappush(lane.later, (when, entry.order, key))
        if max(len(lane.by_time), len(lane.later) + len(lane.ready)) > 2 * lane.free + SLACK:
            self._sweep(lane)

    def drop(self, key: Key) -> None:
        """It is not free."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            lane = self._queues[entry.queue][entry.kind]
            lane.free -= 1
            if not lane.free:
                del self._queues[entry.queue][entry.kind]

    def kinds(self, queues: Iterable[str]) -> set[str]:
        """The kinds of what is free in these queues, due or not."""
        return {kind for queue in queues for kind in self._queues.get(queue, ())}

    def take(
        self,
        queues: Iterable[str],
        kinds: Iterable[str],
        now: int,
        limit: int,
        fits: Callable[[Key], bool] | None = None,
    ) -> list[Key]:
        """The most urgent of those that are due and fit. They stay free until they are dropped."""
        wanted = list(dict.fromkeys(kinds))
        lanes = [
            lanes[kind]
            for queue in dict.fromkeys(queues)
            if (lanes := self._queues.get(queue))
            for kind in wanted
            if kind in lanes
        ]
        for lane in lanes:
            self._promote(lane, now)
        heads = [(lane.ready[0], number) for number, lane in enumerate(lanes) if self._clean(lane)]
        heapify(heads)
        taken: list[Key] = []
        seen: list[tuple[Lane[Key], tuple[int, int, int, Key]]] = []
        while heads and len(taken) < limit:
            item, number = heappop(heads)
            lane = lanes[number]
            seen.append((lane, heappop(lane.ready)))
            if item[1] <= now and (fits is None or fits(item[3])):  # the clock may have gone back
                taken.append(item[3])
            if self._clean(lane):
                heappush(heads, (lane.ready[0], number))
        for lane, item in seen:
            heappush(lane.ready, item)
        return taken

    def next_time(self, queues: Iterable[str]) -> int | None:
        """When the first of these queues is due."""
        times: list[int] = []
        for lane in (lane for queue in queues for lane in self._queues.get(queue, {}).values()):
            heap = lane.by_time
            while not self._is_current(heap[0][2], heap[0][1]):
                heappop(heap)
            times.append(heap[0][0])
        return min(times, default=None)

    def _promote(self, lane: Lane[Key], now: int) -> None:
        while lane.later and lane.later[0][0] <= now:
            when, order, key = heappop(lane.later)
            if self._is_current(key, order):
                heappush(lane.ready, (-self._entries[key].priority, when, order, key))

    def _clean(self, lane: Lane[Key]) -> bool:
        """Whether anything is due, which is then the first."""
        while lane.ready and not self._is_current(lane.ready[0][3], lane.ready[0][2]):
            heappop(lane.ready)
        return bool(lane.ready)

    def _is_current(self, key: Key, order: int) -> bool:
        entry = self._entries.get(key)
        return entry is not None and entry.order == order

    def _sweep(self, lane: Lane[Key]) -> None:
        lane.by_time = [item for item in lane.by_time if self._is_current(item[2], item[1])]
        lane.later = [item for item in lane.later if self._is_current(item[2], item[1])]
        lane.ready = [item for item in lane.ready if self._is_current(item[3], item[2])]
        for heap in (lane.by_time, lane.later):
            heapify(heap)
        heapify(lane.ready)
