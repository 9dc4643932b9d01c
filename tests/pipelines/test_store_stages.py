"""How stores keep runs of handlers: each stage is written with what belongs to it (L3, L4)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from perdure.errors import AlreadyExists, NotFound, UsageError
from perdure.stores.pipeline_records import (
    Finished,
    Preparation,
    Times,
)
from perdure.stores.records import EVERY, NewRun, Start
from tests.pipelines.store_world import World, event, told


@told
async def test_prepared_saves_the_result_the_reservations_and_the_wake_time_together(world: World) -> None:
    """L4."""
    await world.begin()
    reservation = await world.prepare("a", "c", "a")
    assert (reservation.reserved, reservation.dropped, reservation.refused) == (2, (), ())
    run = await world.store.get_handler_run("r1")
    assert (run.stage, run.prepared, run.wake_us) == ("prepared", b"{}", 5)
    assert await world.statuses() == ["reserved 1", "pending 1", "reserved 1"]


@told
async def test_reserving_what_is_not_pending_writes_nothing(world: World) -> None:
    """L4: a logic error, which the host makes of it."""
    await world.begin()
    reservation = await world.prepare("a", "unknown")
    assert reservation.refused == (("inbox", "unknown"),)
    assert (await world.store.get_handler_run("r1")).stage == "preparing"
    assert await world.statuses() == ["pending 1"] * 3


@told
async def test_what_was_skipped_since_it_was_peeked_is_dropped(world: World) -> None:
    """L4."""
    await world.begin()
    await world.store.skip_event("mail", "inbox", "a")
    reservation = await world.prepare("a", "b")
    assert (reservation.reserved, reservation.dropped, reservation.refused) == (1, (("inbox", "a"),), ())
    await world.commit()
    await world.begin("r2")
    preparation = Preparation(run="r2", prepared=b"", reserve={"inbox": ("a",)})  # never peeked: it was long gone
    reservation = await world.store.save_prepared(world.owner, "mail", preparation)
    assert reservation.refused == (("inbox", "a"),)


@told
async def test_a_mutation_stands_in_the_ledger_before_its_call_and_its_result_with_the_stage(world: World) -> None:
    """L3, L4."""
    await world.begin()
    await world.prepare("a")
    entry = await world.store.begin_mutation(world.owner, "mail", "r1", "append_row")
    run = await world.store.get_handler_run("r1")
    assert (run.stage, run.mutation, run.ledger) == ("mutating", "uncertain", entry)
    assert (entry.status, entry.key, entry.what) == ("in_flight", "k1", "append_row")
    await world.store.end_mutation(world.owner, "mail", "r1", "success", b"7")
    run = await world.store.get_handler_run("r1")
    assert run.ledger is not None
    assert (run.stage, run.mutation, run.result, run.ledger.status) == ("mutated", "success", b"7", "success")
    assert run.ledger.ended_us == world.now


@told
async def test_a_commit_stores_state_consumes_publishes_and_starts_together(world: World) -> None:
    """L4."""
    await world.begin()
    await world.prepare("a", "b")
    start = Start(facts=NewRun(run_id="w1", workflow_id="audit", workflow="audit", seed=1, input=b"[]", started=b"{}"))
    finished = await world.commit(
        state=b"9", times=Times(wake_us=8), events=(event("row", topic="rows"),), starts=(start, start)
    )
    assert finished == Finished({"inbox": world.now, "rows": world.now}, ("rows",))
    assert await world.statuses() == ["consumed 1", "consumed 1", "pending 1"]
    (row,) = await world.store.list_events("mail", "rows", 100)
    assert (row.status, row.published_by) == ("pending", "r1")
    sheet = (await world.store.view_pipeline("mail")).pipeline.handlers[1]
    assert (sheet.state, sheet.times, sheet.dirty) == (b"9", Times(wake_us=8), False)
    audit = await world.store.get_run("audit")
    assert (audit.status, await world.store.count_runs(EVERY)) == ("running", 1)
    run = await world.store.get_handler_run("r1")
    assert (run.stage, run.status) == ("committed", "committed")


@told
async def test_a_commit_that_cannot_start_its_workflow_or_publish_its_event_writes_nothing(world: World) -> None:
    """L4: all or nothing."""
    facts = NewRun(run_id="w1", workflow_id="audit", workflow="audit", seed=1, input=b"[]", started=b"{}")
    await world.store.start_run(Start(facts=facts))
    await world.begin()
    await world.prepare("a")
    other = Start(facts=replace(facts, run_id="w2", input=b"[1]"))
    with pytest.raises(AlreadyExists, match="audit"):
        await world.commit(events=(event("row", topic="rows"),), starts=(other,))
    with pytest.raises(NotFound, match="gone"):
        await world.commit(events=(event("row", topic="rows"), event("x", topic="gone")))
    assert await world.store.list_events("mail", "rows", 100) == []
    assert (await world.store.get_handler_run("r1")).status == "active"
    assert (await world.statuses())[0] == "reserved 1"


@told
async def test_a_commit_without_a_state_keeps_the_old_one(world: World) -> None:
    """L3: a run that reserved nothing keeps its state when *next* returns None."""
    await world.begin()
    await world.commit(state=b"1")
    await world.begin("r2")
    await world.commit("r2")
    assert (await world.store.view_pipeline("mail")).pipeline.handlers[1].state == b"1"


@told
async def test_stages_only_go_forward_and_one_run_is_open_at_a_time(world: World) -> None:
    """L3, L6."""
    await world.begin()
    with pytest.raises(UsageError, match="r1"):
        await world.begin("r2", "poll")
    with pytest.raises(UsageError, match="preparing"):
        await world.store.begin_mutation(world.owner, "mail", "r1", "append")
    await world.prepare("a")
    with pytest.raises(UsageError, match="prepared"):
        await world.prepare("b")
    await world.commit()
    with pytest.raises(UsageError, match="not open"):
        await world.commit()
    with pytest.raises(UsageError, match="not open"):
        await world.fail("failed:logic", "emitting")
