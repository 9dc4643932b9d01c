"""Pipelines: deployed, owned, paused; their runs are in handler_runs, their events in events."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from perdure.stores import pipeline_rules as rules
from perdure.stores.pipeline_records import (
    HandlerRow,
    PipelineRow,
    Times,
)
from perdure.stores.sqlite import leases
from perdure.stores.sqlite import pipeline_sql as sql
from perdure.stores.sqlite.access import Access, Row
from perdure.stores.sqlite.pipeline_rows import Standing, handler_row, pipeline_row, read_handler, read_pipeline
from perdure.stores.sqlite.rows import damaged


def list_pipelines(access: Access) -> list[PipelineRow]:
    for (name,) in access.rows(sql.ORPHANS):
        raise damaged("pipelines", name, "it is missing")
    return [_stand(access, row).row for row in access.rows(sql.PIPELINES)]


def pause_pipeline(access: Access, name: str, paused: bool) -> PipelineRow:
    there = load(access, name)
    row = replace(there.row, paused=paused)
    save(access, row, there.runs)
    return row


def queue_producers(access: Access, name: str, times: Mapping[str, Times]) -> PipelineRow:
    row = rules.queued(load(access, name).row, times)
    for one in row.handlers:
        if one.facts.name in times:
            save_handler(access, name, one)
    return row


def release_pipeline(access: Access, owner: int, name: str) -> None:
    there = load(access, name)
    if there.row.owner == owner:
        save(access, replace(there.row, owner=None), there.runs)


# --- for the others ------------------------------------------------------------------------------


def seek(access: Access, name: str) -> Standing | None:
    """`StoreCorrupt`."""
    row = access.row(sql.PIPELINE, name)
    if row is None and access.rows(sql.HANDLERS, name):
        raise damaged("pipelines", name, "it is missing")
    return None if row is None else _stand(access, row)


def load(access: Access, name: str) -> Standing:
    """`NotFound`, `StoreCorrupt`."""
    there = seek(access, name)
    if there is None:
        raise rules.no_pipeline(name)
    return there


def owned(access: Access, owner: int, name: str) -> Standing:
    """The pipeline, if this lease still has it. `LeaseLost`."""
    there = load(access, name)
    if there.row.owner != owner or not leases.alive(access, owner):
        raise rules.lost(owner, name)
    return there


def save(access: Access, row: PipelineRow, runs: int) -> None:
    """The pipeline alone, without its handlers."""
    access.write_row(sql.REPLACE_PIPELINE, pipeline_row(row, runs))


def save_handler(access: Access, pipeline: str, one: HandlerRow) -> None:
    """What changes of a handler."""
    row = handler_row(pipeline, one)
    access.write_row(sql.UPDATE_HANDLER, (*row[:2], *row[5:]))


def put_handlers(access: Access, row: PipelineRow) -> None:
    """All handlers of a declaration."""
    access.write(sql.DELETE_HANDLERS, row.name)
    access.write_many(sql.INSERT_HANDLER, [handler_row(row.name, one) for one in row.handlers])


def is_alive(access: Access, owner: int | None) -> bool:
    return owner is not None and leases.alive(access, owner)


def _stand(access: Access, row: Row) -> Standing:
    handlers = [read_handler(each) for each in access.rows(sql.HANDLERS, row[0])]
    return read_pipeline(row, handlers)
