"""Events: published, looked at, reserved, given back, done; and what their topics count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from perdure.stores import pipeline_rules as rules
from perdure.stores.event_records import NewEvent, TurnEvent
from perdure.stores.pipeline_records import EventStatus, StoredEvent
from perdure.stores.sqlite import pipeline_sql as sql
from perdure.stores.sqlite import pipelines
from perdure.stores.sqlite.access import Access, json_of
from perdure.stores.sqlite.pipeline_rows import (
    Mark,
    TopicRow,
    facts_row,
    mark_row,
    new_event_row,
    read_event,
    read_mark,
    read_topic,
    topic_row,
)
from perdure.stores.sqlite.rows import damaged


def publish_events(access: Access, pipeline: str, events: Sequence[NewEvent]) -> list[bool]:
    rules.check_topics(pipelines.load(access, pipeline).row, events)
    return publish(access, pipeline, events, None)


def publish(access: Access, pipeline: str, events: Sequence[NewEvent], by: str | None) -> list[bool]:
    """Publish to topics that are declared; which of them are new."""
    of: dict[str, list[NewEvent]] = {}
    for event in events:
        of.setdefault(event.topic, []).append(event)
    new = {topic: iter(_publish_to(access, pipeline, topic, each, by)) for topic, each in of.items()}
    return [next(new[event.topic]) for event in events]


def publish_turn(access: Access, events: Sequence[TurnEvent]) -> None:
    """What a turn of a workflow publishes. `UsageError` where there is no such topic."""
    rows = pipelines.list_pipelines(access)
    for each in events:
        publish(access, rules.pipeline_with(rows, each.pipeline, each.event.topic), [each.event], each.by)


def skip_event(access: Access, pipeline: str, topic: str, message_id: str) -> StoredEvent:
    there = look_up(access, pipeline, topic)
    row = access.row(sql.EVENT, there.number, message_id)
    if row is None:
        raise rules.no_event(pipeline, topic, message_id)
    event = rules.check_pending(read_event(row, topic))
    _set(access, [Mark(there.number, event.number, "skipped", event.attempt, event.reserved_by)])
    _count(access, there, pending=-1)
    return replace(event, status="skipped")


def peek_events(access: Access, pipeline: str, topic: str, limit: int) -> list[StoredEvent]:
    there = look_up(access, pipeline, topic)
    found = [read_event(row, topic) for row in access.rows(sql.PENDING, there.number, limit)]
    if len(found) != min(limit, there.pending):
        raise damaged("events", f"of {pipeline}/{topic}", f"there are fewer pending ones than {there.pending}")
    return found


def list_events(access: Access, pipeline: str, topic: str, limit: int, after: int) -> list[StoredEvent]:
    there = look_up(access, pipeline, topic)
    found = [read_event(row, topic) for row in access.rows(sql.EVENTS, there.number, after, limit)]
    expected = range(after + 1, min(after + limit, there.events) + 1)
    if [one.number for one in found] != list(expected):
        raise damaged("events", f"of {pipeline}/{topic}", f"one of the numbers {expected} is missing")
    return found


def count_events(access: Access, pipeline: str) -> Mapping[str, Mapping[EventStatus, int]]:
    pipelines.load(access, pipeline)
    found: dict[str, Mapping[EventStatus, int]] = {}
    for row in access.rows(sql.TOPICS, pipeline):
        topic = read_topic(row)
        counts = {str(status): number for status, number in access.rows(sql.STATUSES, topic.number)}
        counts |= {"pending": topic.pending} if topic.pending else {}
        if counts:
            found[topic.name] = counts  # pyright: ignore[reportArgumentType]
    return found


# --- for runs of handlers ------------------------------------------------------------------------


def named(access: Access, pipeline: str, ids: Mapping[str, Sequence[str]]) -> dict[tuple[str, str], Mark]:
    """Those of these ids that there are, by topic and id. Payloads are not looked at."""
    found: dict[tuple[str, str], Mark] = {}
    for name, wanted in ids.items():
        topic = seek(access, pipeline, name)
        for row in access.rows(sql.MARKS_NAMED, topic.number, json_of(wanted)) if topic else ():
            found[name, str(row[-1])] = read_mark(row[:-1])
    return found


def reserve(access: Access, marks: Sequence[Mark], run: str) -> None:
    """These pending events are this run's."""
    _set(access, [Mark(mark.topic, mark.number, "reserved", mark.attempt, run) for mark in marks])
    _count_pending(access, marks, -1)


def hand_over(access: Access, old: str, new: str) -> None:
    """What one run has reserved is the other's."""
    _set(access, [replace(mark, reserved_by=new) for mark in _reserved(access, old)])


def release(access: Access, run: str) -> None:
    """What a run has reserved is pending again."""
    marks = _reserved(access, run)
    _set(
        access,
        [replace(mark, status="pending", reserved_by=None, attempt=mark.attempt + 1) for mark in marks],
    )
    _count_pending(access, marks, 1)


def finish(access: Access, run: str, status: EventStatus) -> None:
    """What a run has reserved is done."""
    _set(access, [replace(mark, status=status) for mark in _reserved(access, run)])


def oldest(access: Access, pipeline: str, topics: Sequence[str]) -> dict[str, int]:
    """When the oldest pending event of each topic that has one was published."""
    found: dict[str, int] = {}
    for name in topics:
        for event in peek_events(access, pipeline, name, 1):
            found[name] = event.published_us
    return found


def newest(access: Access, pipeline: str, topics: Sequence[str]) -> dict[str, int]:
    """The number of the newest pending event of each topic that has one."""
    found: dict[str, int] = {}
    for name in topics:
        row = access.row(sql.NEWEST, look_up(access, pipeline, name).number)
        if row is not None:
            found[name] = read_event(row, name).number
    return found


# --- topics --------------------------------------------------------------------------------------


def seek(access: Access, pipeline: str, name: str) -> TopicRow | None:
    row = access.row(sql.TOPIC, pipeline, name)
    return None if row is None else read_topic(row)


def look_up(access: Access, pipeline: str, name: str) -> TopicRow:
    """`NotFound`."""
    found = seek(access, pipeline, name)
    if found is None:
        if name in pipelines.load(access, pipeline).row.topics:
            raise damaged("topics", f"{pipeline}/{name}", "it is missing")
        raise rules.no_topic(pipeline, name)
    return found


def add_topics(access: Access, pipeline: str, names: Sequence[str]) -> None:
    """Those that are not there yet."""
    for name in names:
        if seek(access, pipeline, name) is None:
            number = (access.number(sql.LAST_TOPIC) or 0) + 1
            access.write_row(sql.INSERT_TOPIC, topic_row(TopicRow(number, pipeline, name)))


# --- leaves --------------------------------------------------------------------------------------


def _publish_to(access: Access, pipeline: str, name: str, events: Sequence[NewEvent], by: str | None) -> list[bool]:
    topic = look_up(access, pipeline, name)
    known = set(access.texts(sql.KNOWN, topic.number, json_of([event.message_id for event in events])))
    new: dict[str, StoredEvent] = {}
    answers: list[bool] = []
    for event in events:
        id = event.message_id
        answers.append(id not in known and id not in new)
        if id in known:
            _replace(access, topic, event)
        elif id in new:
            new[id] = replace(new[id], facts=event)
        else:
            number = topic.events + len(new) + 1
            new[id] = StoredEvent(number=number, facts=event, published_us=access.now_us, published_by=by)
    access.write_many(sql.INSERT_EVENT, [new_event_row(topic.number, event) for event in new.values()])
    if new:
        _count(access, topic, events=len(new), pending=len(new))
    return answers


def _replace(access: Access, topic: TopicRow, new: NewEvent) -> None:
    row = access.row(sql.EVENT, topic.number, new.message_id)
    if row is None:
        raise damaged("events", f"{topic.number}/{new.message_id}", "it is missing")
    facts = facts_row(topic.number, replace(read_event(row, topic.name), facts=new))
    access.write(sql.SET_FACTS, facts[0], facts[1], facts[3], facts[4], facts[7])


def _reserved(access: Access, run: str) -> list[Mark]:
    return [read_mark(row) for row in access.rows(sql.RESERVED, run)]


def _set(access: Access, marks: Sequence[Mark]) -> None:
    access.write_many(sql.SET_MARK, [mark_row(mark) for mark in marks])


def _count_pending(access: Access, marks: Sequence[Mark], sign: int) -> None:
    """So many more of each topic are pending, or fewer."""
    for number, amount in Counter(mark.topic for mark in marks).items():
        row = access.row(sql.TOPIC_BY_NUMBER, number)
        if row is None:
            raise damaged("topics", number, "it is missing")
        _count(access, read_topic(row), pending=sign * amount)


def _count(access: Access, topic: TopicRow, *, events: int = 0, pending: int = 0) -> None:
    topic = replace(topic, events=topic.events + events, pending=topic.pending + pending)
    access.write(sql.UPDATE_TOPIC, topic.number, topic.events, topic.pending, topic_row(topic)[-1])
