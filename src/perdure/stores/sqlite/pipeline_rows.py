"""Rows of pipelines: sealed when they are written, verified whenever their values are used (E9)."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from perdure.errors import Failure
from perdure.stores.checks import checksum
from perdure.stores.pipeline_records import (
    HandlerRow,
    HandlerRun,
    LedgerEntry,
    NewEvent,
    NewHandler,
    PipelineRow,
    StoredEvent,
    Times,
)
from perdure.stores.sqlite.access import Row, to_json
from perdure.stores.sqlite.rows import damaged, sealed, verified

FACTS = 7  # columns of an event before its seal
_names = msgspec.json.Decoder(tuple[str, ...]).decode
_ledger = msgspec.json.Decoder(LedgerEntry).decode
_failure = msgspec.json.Decoder(Failure).decode


class Standing(msgspec.Struct, frozen=True):
    """A pipeline, and how many runs it ever had."""

    row: PipelineRow
    runs: int


def pipeline_row(row: PipelineRow, runs: int) -> Row:
    values: Row = (
        row.name,
        row.digest,
        _text(row.topics),
        _text(one.facts.name for one in row.handlers),
        row.owner,
        int(row.paused),
        row.open_run,
        runs,
        row.created_us,
        row.deployed_us,
    )
    return sealed("pipelines", values)


def read_pipeline(row: Row, handlers: list[HandlerRow]) -> Standing:
    """`StoreCorrupt`, also where a handler is missing."""
    values: Any = verified("pipelines", row, row[0])
    by_name = {one.facts.name: one for one in handlers}
    declared = _names(values[3])
    if sorted(by_name) != sorted(declared):
        problem = f"there are {sorted(by_name)}, and should be {sorted(declared)}"
        raise damaged("handlers", f"of {values[0]}", problem)
    there = PipelineRow(
        name=values[0],
        digest=values[1],
        topics=_names(values[2]),
        handlers=tuple(by_name[name] for name in declared),
        owner=values[4],
        paused=bool(values[5]),
        open_run=values[6],
        created_us=values[8],
        deployed_us=values[9],
    )
    return Standing(there, values[7])


def handler_row(pipeline: str, one: HandlerRow) -> Row:
    facts, times = one.facts, one.times
    kept = (one.state, times.next_run_us, times.wake_us, int(times.queued), int(one.dirty))
    return sealed("handlers", (pipeline, facts.name, facts.kind, _text(facts.topics), facts.words, *kept))


def read_handler(row: Row) -> HandlerRow:
    """`StoreCorrupt`."""
    values: Any = verified("handlers", row, f"{row[0]}/{row[1]}")
    _, name, kind, topics, words, state, next_run_us, wake_us, queued, dirty = values
    return HandlerRow(
        facts=NewHandler(name=name, kind=kind, topics=_names(topics), words=words),
        state=state,
        times=Times(next_run_us, wake_us, bool(queued)),
        dirty=bool(dirty),
    )


def run_row(run: HandlerRun) -> Row:
    values: Row = (
        run.pipeline,
        run.number,
        run.id,
        run.handler,
        run.kind,
        run.retry_of,
        run.attempt,
        run.key,
        run.stage,
        run.status,
        run.mutation,
        run.prepared,
        run.wake_us,
        run.result,
        None if run.ledger is None else to_json(run.ledger),
        None if run.error is None else to_json(run.error),
        run.retry_us,
        run.created_us,
        run.updated_us,
    )
    return sealed("handler_runs", values)


def read_run(row: Row) -> HandlerRun:
    """`StoreCorrupt`."""
    values: Any = verified("handler_runs", row, f"{row[0]}/{row[1]}")
    return HandlerRun(
        pipeline=values[0],
        number=values[1],
        id=values[2],
        handler=values[3],
        kind=values[4],
        retry_of=values[5],
        attempt=values[6],
        key=values[7],
        stage=values[8],
        status=values[9],
        mutation=values[10],
        prepared=values[11],
        wake_us=values[12],
        result=values[13],
        ledger=None if values[14] is None else _ledger(values[14]),
        error=None if values[15] is None else _failure(values[15]),
        retry_us=values[16],
        created_us=values[17],
        updated_us=values[18],
    )


class TopicRow(msgspec.Struct):
    """A row of `topics`, in the order of its columns."""

    number: int
    pipeline: str
    name: str
    events: int = 0
    pending: int = 0


def topic_row(topic: TopicRow) -> Row:
    return sealed("topics", msgspec.structs.astuple(topic))


def read_topic(row: Row) -> TopicRow:
    """`StoreCorrupt`."""
    return TopicRow(*cast("Any", verified("topics", row, f"{row[1]}/{row[2]}")))


class Mark(msgspec.Struct):
    """What changes of an event: a part of a row of `events`, in the order of its columns."""

    topic: int
    number: int
    status: str = "pending"
    attempt: int = 1
    reserved_by: str | None = None


def mark_row(mark: Mark) -> Row:
    return sealed("marks", msgspec.structs.astuple(mark))


def read_mark(row: Row) -> Mark:
    """`StoreCorrupt`."""
    return Mark(*cast("Any", _marked(row)))


def facts_row(topic: int, event: StoredEvent) -> Row:
    facts = event.facts
    written = (facts.message_id, facts.payload, _text(facts.causes), event.published_us, event.published_by)
    return sealed("events", (topic, event.number, *written))


def new_event_row(topic: int, event: StoredEvent) -> Row:
    return (*facts_row(topic, event), *mark_row(Mark(topic, event.number))[2:])


def read_event(row: Row, topic: str) -> StoredEvent:
    """`StoreCorrupt`."""
    values: Any = verified("events", row[: FACTS + 1], f"{row[0]}/{row[1]}")
    status, attempt, reserved_by = cast("Any", _marked((*row[:2], *row[FACTS + 1 :])))[2:]
    return StoredEvent(
        number=values[1],
        facts=NewEvent(topic=topic, message_id=values[2], payload=values[3], causes=_names(values[4])),
        status=status,
        attempt=attempt,
        published_us=values[5],
        published_by=values[6],
        reserved_by=reserved_by,
    )


def _marked(row: Row) -> Row:
    values = row[:-1]
    if checksum("marks", values) != row[-1]:
        raise damaged("events", f"{row[0]}/{row[1]}", "its mark does not fit: it is not as it was written")
    return values


def _text(names: Any) -> str:
    return to_json(tuple(names)).decode()
