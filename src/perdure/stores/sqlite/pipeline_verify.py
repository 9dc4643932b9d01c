"""Verification of pipelines: every row, and what rows say of each other (E9).

Kept in memory is one topic's reckoning, and the names of pipelines; events and runs are gone through row by row.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from perdure.errors import StoreCorrupt
from perdure.stores.records import Damage
from perdure.stores.sqlite.access import Access, Row, Value
from perdure.stores.sqlite.pipeline_rows import (
    Standing,
    TopicRow,
    read_event,
    read_handler,
    read_pipeline,
    read_run,
    read_topic,
)
from perdure.stores.sqlite.streams import Stream, damage_of, read_one


def verify(access: Access) -> list[Damage]:
    """Everything that is kept of pipelines."""
    standing: dict[Value, Standing | None] = {}
    found = [*_pipelines(access, standing), *_runs(access, standing)]
    topics: dict[Value, TopicRow | None] = {}
    found += _topics(access, standing, topics)
    found += _events(access, standing, topics)
    return found


def _pipelines(access: Access, standing: dict[Value, Standing | None]) -> Iterator[Damage]:
    handlers = {name: list(rows) for name, rows in groupby(Stream(access, "handlers", "pipeline, name").rest(), _first)}
    for row in Stream(access, "pipelines", "name").rest():
        read = [read_one("handlers", each, read_handler) for each in handlers.pop(row[0], [])]
        damages = [damage for _, each in read for damage in each]
        yield from damages
        standing[row[0]] = None
        if not damages:
            try:
                standing[row[0]] = read_pipeline(row, [handler for handler, _ in read])
            except StoreCorrupt as error:
                yield damage_of("pipelines", str(row[0]), error)
    for name in handlers:
        yield Damage("pipelines", str(name), "it is missing, and has handlers")


def _runs(access: Access, standing: dict[Value, Standing | None]) -> Iterator[Damage]:
    counted: dict[Value, int] = {}
    for name, rows in groupby(Stream(access, "handler_runs", "pipeline, number").rest(), _first):
        for row in rows:
            counted[name] = counted.get(name, 0) + 1
            yield from read_one("handler_runs", row, read_run)[1]
    for name, there in standing.items():
        if there is not None and counted.get(name, 0) != there.runs:
            problem = f"there are {counted.get(name, 0)}, and should be {there.runs}"
            yield Damage("handler_runs", f"of {name}", problem)
    for name in counted.keys() - standing.keys():
        yield Damage("pipelines", str(name), "it is missing, and has runs")


def _topics(
    access: Access, standing: dict[Value, Standing | None], topics: dict[Value, TopicRow | None]
) -> Iterator[Damage]:
    names: set[tuple[str, str]] = set()
    for row in Stream(access, "topics", "number").rest():
        topic, damages = read_one("topics", row, read_topic)
        topics[row[0]] = topic
        names.add((str(row[1]), str(row[2])))
        yield from damages
    for there in standing.values():
        for topic in () if there is None else there.row.topics:
            if there is not None and (there.row.name, topic) not in names:
                yield Damage("topics", f"{there.row.name}/{topic}", "it is missing")


def _events(
    access: Access, standing: dict[Value, Standing | None], topics: dict[Value, TopicRow | None]
) -> Iterator[Damage]:
    counted: dict[Value, tuple[int, int]] = {}
    for number, rows in groupby(Stream(access, "events", "topic, number").rest(), _first):
        topic = topics.get(number)
        there = None if topic is None else standing.get(topic.pipeline)
        events = pending = 0
        for row in rows:
            event, damages = read_one("events", row, lambda row: read_event(row, ""))
            yield from damages
            events += 1
            if event is None:
                continue
            pending += event.status == "pending"
            if event.status == "reserved" and there is not None and event.reserved_by != there.row.open_run:
                yield Damage("events", f"{number}/{event.number}", "it is reserved, and not by the open run")
        counted[number] = events, pending
    for number, topic in topics.items():
        events, pending = counted.pop(number, (0, 0))
        if topic is not None and (events, pending) != (topic.events, topic.pending):
            problem = (
                f"there are {events}, {pending} of them pending; it has counted {topic.events} and {topic.pending}"
            )
            yield Damage("events", f"of {topic.pipeline}/{topic.name}", problem)
    for number in counted:
        yield Damage("topics", str(number), "it is missing, and has events")


def _first(row: Row) -> Value:
    return row[0]
