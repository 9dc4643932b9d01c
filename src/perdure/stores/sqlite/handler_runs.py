"""Runs of handlers: begun, carried through their stages, committed, blocked, settled; and deploys, which they mind."""

from __future__ import annotations

from msgspec.structs import replace

from perdure.stores import pipeline_rules as rules
from perdure.stores.pipeline_records import (
    Decision,
    Deployed,
    Finished,
    HandlerRun,
    LedgerEntry,
    MutationOutcome,
    NewPipeline,
    PipelineRow,
    PipelineView,
    Preparation,
    Reservation,
    RunBeginning,
    RunCommit,
    RunFailure,
)
from perdure.stores.sqlite import events, pipelines, runs
from perdure.stores.sqlite import pipeline_sql as sql
from perdure.stores.sqlite.access import Access
from perdure.stores.sqlite.pipeline_rows import Standing, read_run, run_row
from perdure.stores.sqlite.rows import damaged

# --- deploying and claiming ----------------------------------------------------------------------


def deploy_pipeline(access: Access, new: NewPipeline, owner: int | None) -> Deployed:
    there = pipelines.seek(access, new.name)
    if there is None:
        row, count = rules.new_row(new, access.now_us), 0
    elif there.row.digest == new.digest or (pipelines.is_alive(access, there.row.owner) and there.row.owner != owner):
        return Deployed(there.row, changed=False)
    else:
        row, count = _redeployed(access, there.row, new), there.runs
    pipelines.save(access, row, count)
    pipelines.put_handlers(access, row)
    events.add_topics(access, row.name, row.topics)
    return Deployed(row, changed=True)


def claim_pipeline(access: Access, owner: int, name: str) -> PipelineView | None:
    there = pipelines.load(access, name)
    if not pipelines.is_alive(access, owner):
        return None
    if pipelines.is_alive(access, there.row.owner) and there.row.owner != owner:
        return None
    row = replace(there.row, owner=owner)
    pipelines.save(access, row, there.runs)
    return _view(access, row)


def view_pipeline(access: Access, name: str) -> PipelineView:
    return _view(access, pipelines.load(access, name).row)


def _redeployed(access: Access, row: PipelineRow, new: NewPipeline) -> PipelineRow:
    row = rules.redeployed(row, new, access.now_us)
    run = _open_run(access, row)
    if run is None:
        return row
    kept = rules.minded(run, new, access.now_us)
    if kept is not None:
        _save(access, kept)
        return row
    run, status = rules.given_up(run, access.now_us)
    _save(access, run)
    if status == "pending":
        events.release(access, run.id)
    else:
        events.finish(access, run.id, status)
    return replace(row, open_run=None)


def _view(access: Access, row: PipelineRow) -> PipelineView:
    run, topics = _open_run(access, row), row.topics
    return PipelineView(row, run, events.oldest(access, row.name, topics), events.newest(access, row.name, topics))


def _open_run(access: Access, row: PipelineRow) -> HandlerRun | None:
    """`StoreCorrupt`, also where it has been lost."""
    if row.open_run is not None and access.row(sql.RUN, row.open_run) is None:
        raise damaged("handler_runs", f"of {row.name}", f"the open one, {row.open_run}, is missing")
    return None if row.open_run is None else load(access, row.open_run)


# --- stages --------------------------------------------------------------------------------------


def begin_run(access: Access, owner: int, pipeline: str, beginning: RunBeginning) -> HandlerRun | None:
    there = pipelines.owned(access, owner, pipeline)
    row = there.row
    if row.paused:
        return None
    rules.check_beginning(row, beginning)
    old = None if beginning.retry_of is None else load(access, beginning.retry_of)
    run = rules.begun(row, beginning, there.runs + 1, old, access.now_us)
    if old is not None and beginning.takes_over:
        events.hand_over(access, old.id, run.id)
    elif old is not None:
        events.release(access, old.id)
    handler = rules.handler_of(row, beginning.handler)
    times = handler.times if beginning.times is None else beginning.times
    pipelines.save_handler(access, pipeline, replace(handler, times=times, dirty=False))
    pipelines.save(access, replace(row, open_run=run.id), run.number)
    access.write_row(sql.INSERT_RUN, run_row(run))
    return run


def save_prepared(access: Access, owner: int, pipeline: str, preparation: Preparation) -> Reservation:
    run = _active(access, pipelines.owned(access, owner, pipeline), preparation.run, "preparing")
    found = events.named(access, pipeline, preparation.reserve)
    wanted, dropped, refused = rules.sorted_out(found, preparation)
    if refused:
        return Reservation(0, dropped, refused)
    events.reserve(access, wanted, run.id)
    prepared = rules.without_dropped(preparation.prepared, dropped)
    _save(
        access,
        replace(run, stage="prepared", prepared=prepared, wake_us=preparation.wake_us, updated_us=access.now_us),
    )
    return Reservation(len(wanted), dropped)


def begin_mutation(access: Access, owner: int, pipeline: str, run: str, what: str) -> LedgerEntry:
    active = _active(access, pipelines.owned(access, owner, pipeline), run, "prepared")
    begun = rules.in_flight(active, what, access.now_us)
    _save(access, begun)
    assert begun.ledger is not None
    return begun.ledger


def end_mutation(
    access: Access, owner: int, pipeline: str, run: str, known: tuple[MutationOutcome, bytes | None]
) -> None:
    active = _active(access, pipelines.owned(access, owner, pipeline), run, "prepared", "mutating")
    _save(access, rules.mutated(active, *known, access.now_us))


def commit_run(access: Access, owner: int, pipeline: str, commit: RunCommit) -> Finished:
    there = pipelines.owned(access, owner, pipeline)
    row = there.row
    run = _active(access, there, commit.run)
    rules.check_topics(row, commit.events)
    handler = rules.handler_of(row, run.handler)
    for start in commit.starts:
        runs.start_run(access, start)
    state = handler.state if commit.state is None else commit.state
    pipelines.save_handler(access, pipeline, replace(handler, state=state, times=commit.times))
    pipelines.save(access, replace(row, open_run=None), there.runs)
    events.finish(access, run.id, "skipped" if run.mutation == "skipped" else "consumed")
    new = events.publish(access, pipeline, commit.events, run.id)
    news = [event.topic for event, is_new in zip(commit.events, new, strict=True) if is_new]
    _save(access, rules.committed(run, access.now_us))
    return Finished(events.oldest(access, pipeline, row.topics), tuple(dict.fromkeys(news)))


def fail_run(access: Access, owner: int, pipeline: str, failure: RunFailure) -> HandlerRun:
    there = pipelines.owned(access, owner, pipeline)
    rules.check_open(there.row, failure.run)
    run = rules.failed(load(access, failure.run), failure, access.now_us)
    _save(access, run)
    if failure.release:
        events.release(access, run.id)
    return run


def settle_run(access: Access, decision: Decision) -> HandlerRun:
    run = load(access, decision.run)
    run = rules.settled(pipelines.load(access, run.pipeline).row, run, decision, access.now_us)
    _save(access, run)
    if decision.release:
        events.release(access, run.id)
    return run


# --- reading -------------------------------------------------------------------------------------


def load(access: Access, run: str) -> HandlerRun:
    """`NotFound`, `StoreCorrupt`."""
    row = access.row(sql.RUN, run)
    if row is None:
        raise rules.no_run(run)
    return read_run(row)


def list_handler_runs(access: Access, pipeline: str, limit: int, after: int) -> list[HandlerRun]:
    there = pipelines.load(access, pipeline)
    found = [read_run(row) for row in access.rows(sql.RUNS, pipeline, after, limit)]
    expected = range(after + 1, min(after + limit, there.runs) + 1)
    if [run.number for run in found] != list(expected):
        raise damaged("handler_runs", f"of {pipeline}", f"one of the numbers {expected} is missing")
    return found


def list_last_handler_runs(access: Access, pipeline: str, limit: int) -> list[HandlerRun]:
    there = pipelines.load(access, pipeline)
    return list_handler_runs(access, pipeline, limit, max(0, there.runs - limit))


def _active(access: Access, there: Standing, run: str, *stages: str) -> HandlerRun:
    rules.check_open(there.row, run)
    return rules.check_active(load(access, run), *stages)


def _save(access: Access, run: HandlerRun) -> None:
    row = run_row(run)
    access.write_row(sql.UPDATE_RUN, (*row[:2], *row[8:17], *row[18:]))
