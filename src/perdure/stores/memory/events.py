"""Events in a memory store: published, skipped, peeked at, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice

from msgspec.structs import replace

from perdure.stores import pipeline_rules as rules
from perdure.stores.memory.part import Part
from perdure.stores.memory.pipeline_rows import pipeline_rows
from perdure.stores.pipeline_records import EventStatus, NewEvent, StoredEvent


class MemoryEvents(Part):
    """perdure.stores.pipeline_port.EventStore."""

    async def publish_events(self, pipeline: str, events: Sequence[NewEvent]) -> list[bool]:
        with self._writing() as (state, now):
            rows = pipeline_rows(state)
            rules.check_topics(rows.find(pipeline), events)
            state.changes += 1
            return [rows.publish(pipeline, event, now, None) for event in events]

    async def skip_event(self, pipeline: str, topic: str, message_id: str) -> StoredEvent:
        with self._writing() as (state, _):
            rows = pipeline_rows(state)
            there = rows.look_up(pipeline, topic)
            event = there.events.get(there.numbers.get(message_id, 0))
            if event is None:
                raise rules.no_event(pipeline, topic, message_id)
            rules.check_pending(event)
            there.waiting.take(event.number)
            skipped = there.events[event.number] = replace(event, status="skipped")
            state.changes += 1
            return skipped

    async def peek_events(self, pipeline: str, topic: str, limit: int) -> list[StoredEvent]:
        with self._reading() as state:
            rows = pipeline_rows(state)
            there = rows.look_up(pipeline, topic)
            return [there.events[number] for number in there.waiting.first(limit)]

    async def list_events(self, pipeline: str, topic: str, limit: int, after: int = 0) -> list[StoredEvent]:
        with self._reading() as state:
            events = pipeline_rows(state).look_up(pipeline, topic).events
            return list(islice((event for event in events.values() if event.number > after), limit))

    async def count_events(self, pipeline: str) -> Mapping[str, Mapping[EventStatus, int]]:
        with self._reading() as state:
            rows = pipeline_rows(state)
            rows.find(pipeline)
            return {
                name: Counter(event.status for event in topic.events.values())
                for (owner, name), topic in rows.topics.items()
                if owner == pipeline
            }
