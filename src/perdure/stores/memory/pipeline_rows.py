"""Pipeline rows of a memory store: what it keeps of pipelines, and the few ways in which that changes.

Whoever comes here holds the lock of the state. Nothing here waits, and what can be refused is refused before anything
is written. The transitions are in pipelines, handler_runs and events beside.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import count, islice
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from perdure.errors import LeaseLost, NotFound
from perdure.stores.memory.state import State
from perdure.stores.pipeline_records import (
    EventStatus,
    HandlerRow,
    HandlerRun,
    NewEvent,
    PipelineRow,
    PipelineView,
    StoredEvent,
)

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


class PipelineRows:
    """The tables, shared by all store objects of one state."""

    def __init__(self) -> None:
        self.pipelines: dict[str, PipelineRow] = {}
        self.runs: dict[str, HandlerRun] = {}
        self.chains: dict[str, list[str]] = {}  # the ids of its runs, by pipeline
        self.topics: dict[tuple[str, str], Topic] = {}
        self.reserved: dict[str, dict[tuple[str, int], None]] = {}  # by run: topic and number
        self.run_numbers = count(1)
        self.event_numbers = count(1)

    # --- pipelines --------------------------------------------------------------------------

    def find(self, name: str) -> PipelineRow:
        """The pipeline of this name."""
        row = self.pipelines.get(name)
        if row is None:
            raise NotFound(f"no pipeline is called {name!r}; look it up with `perdure pipeline list`")
        return row

    def owned(self, state: State, owner: int, name: str) -> PipelineRow:
        """The same, if this lease still has it."""
        row = self.find(name)
        if row.owner != owner or owner not in state.rows.leases:
            raise LeaseLost(f"another worker may run the pipeline {name!r} now (lease {owner}). Nothing was written")
        return row

    def put_handler(self, row: PipelineRow, changed: HandlerRow) -> PipelineRow:
        """The row with a handler as it is now."""
        handlers = tuple(changed if one.facts.name == changed.facts.name else one for one in row.handlers)
        return replace(row, handlers=handlers)

    def view(self, row: PipelineRow) -> PipelineView:
        """What a scheduler begins with."""
        return PipelineView(row, None if row.open_run is None else self.runs[row.open_run], self.oldest(row.name))

    # --- events -----------------------------------------------------------------------------

    def topic(self, pipeline: str, name: str) -> Topic:
        """The events of a topic, also of one that an older declaration had."""
        return self.topics.setdefault((pipeline, name), Topic())

    def look_up(self, pipeline: str, name: str) -> Topic:
        """The events of a topic that is declared, or of which there are any."""
        if (pipeline, name) not in self.topics and name not in self.find(pipeline).topics:
            raise NotFound(f"pipeline {pipeline!r} has no topic {name!r}")
        return self.topic(pipeline, name)

    def check_topics(self, row: PipelineRow, events: Iterable[NewEvent]) -> None:
        """`NotFound` if any of these events is of a topic that is not declared."""
        for event in events:
            if event.topic not in row.topics:
                raise NotFound(
                    f"pipeline {row.name!r} has no topic {event.topic!r}; it has {', '.join(row.topics) or 'none'}"
                )

    def publish(self, pipeline: str, new: NewEvent, now: int, by: str | None) -> bool:
        """Write an event; False if its id was known, and only payload and causes were replaced."""
        topic = self.topic(pipeline, new.topic)
        number = topic.numbers.get(new.message_id)
        if number is not None:
            topic.events[number] = replace(topic.events[number], facts=new)
            return False
        number = next(self.event_numbers)
        topic.numbers[new.message_id] = number
        topic.events[number] = StoredEvent(number=number, facts=new, published_us=now, published_by=by)
        topic.waiting.put(number)
        return True

    def reserve(self, pipeline: str, event: StoredEvent, run: str) -> None:
        """A pending event is this run's."""
        topic = self.topic(pipeline, event.facts.topic)
        topic.waiting.take(event.number)
        topic.events[event.number] = replace(event, status="reserved", reserved_by=run)
        self.reserved.setdefault(run, {})[event.facts.topic, event.number] = None

    def hand_over(self, pipeline: str, old: str, new: str) -> None:
        """What one run has reserved is the other's."""
        for name, number in self.reserved.get(old, ()):
            events = self.topic(pipeline, name).events
            events[number] = replace(events[number], reserved_by=new)
        if old in self.reserved:
            self.reserved[new] = self.reserved.pop(old)

    def release(self, pipeline: str, run: str) -> None:
        """What a run has reserved is pending again."""
        for name, number in self.reserved.pop(run, ()):
            topic = self.topic(pipeline, name)
            event = topic.events[number]
            topic.events[number] = replace(event, status="pending", reserved_by=None, attempt=event.attempt + 1)
            topic.waiting.give_back(number)

    def finish(self, pipeline: str, run: str, status: EventStatus) -> None:
        """What a run has reserved is done."""
        for name, number in self.reserved.pop(run, ()):
            events = self.topic(pipeline, name).events
            events[number] = replace(events[number], status=status)

    def oldest(self, pipeline: str) -> dict[str, int]:
        """When the oldest pending event of each topic that has one was published."""
        found: dict[str, int] = {}
        for name in self.find(pipeline).topics:
            topic = self.topics.get((pipeline, name))
            for number in topic.waiting.first(1) if topic else ():
                found[name] = self.topic(pipeline, name).events[number].published_us
        return found


_kept: WeakKeyDictionary[State, PipelineRows] = WeakKeyDictionary()


def pipeline_rows(state: State) -> PipelineRows:
    """The rows that belong to a state, whose lock the caller holds."""
    rows = _kept.get(state)
    if rows is None:
        rows = _kept[state] = PipelineRows()
    return rows
