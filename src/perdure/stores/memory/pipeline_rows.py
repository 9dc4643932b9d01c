"""Pipeline rows of a memory store: what it keeps of pipelines, and the few ways in which that changes.

Whoever comes here holds the lock of the state. Nothing here waits, and what can be refused is refused before anything
is written. The transitions are in pipelines, handler_runs and events beside.
"""

from __future__ import annotations

from itertools import count
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from perdure.stores.memory.state import State
from perdure.stores.memory.waiting import Topic
from perdure.stores.pipeline_records import (
    EventStatus,
    HandlerRun,
    NewEvent,
    PipelineRow,
    PipelineView,
    StoredEvent,
)
from perdure.stores.pipeline_rules import lost, no_pipeline, no_topic


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
            raise no_pipeline(name)
        return row

    def owned(self, state: State, owner: int, name: str) -> PipelineRow:
        """The same, if this lease still has it."""
        row = self.find(name)
        if row.owner != owner or owner not in state.rows.leases:
            raise lost(owner, name)
        return row

    def view(self, row: PipelineRow) -> PipelineView:
        """What a scheduler begins with."""
        run = None if row.open_run is None else self.runs[row.open_run]
        return PipelineView(row, run, self.oldest(row.name), self.newest(row.name))

    # --- events -----------------------------------------------------------------------------

    def topic(self, pipeline: str, name: str) -> Topic:
        """The events of a topic, also of one that an older declaration had."""
        return self.topics.setdefault((pipeline, name), Topic())

    def look_up(self, pipeline: str, name: str) -> Topic:
        """The events of a topic that is declared, or of which there are any."""
        if (pipeline, name) not in self.topics and name not in self.find(pipeline).topics:
            raise no_topic(pipeline, name)
        return self.topic(pipeline, name)

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

    def newest(self, pipeline: str) -> dict[str, int]:
        """The number of the newest pending event of each topic that has one."""
        topics = {name: self.topics.get((pipeline, name)) for name in self.find(pipeline).topics}
        return {name: last for name, topic in topics.items() if topic and (last := topic.waiting.last())}


_kept: WeakKeyDictionary[State, PipelineRows] = WeakKeyDictionary()


def pipeline_rows(state: State) -> PipelineRows:
    """The rows that belong to a state, whose lock the caller holds."""
    rows = _kept.get(state)
    if rows is None:
        rows = _kept[state] = PipelineRows()
    return rows
