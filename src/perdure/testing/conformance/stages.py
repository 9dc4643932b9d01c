"""Stages: each is written with what belongs to it, all or nothing (L3, L4)."""

from __future__ import annotations

from msgspec.structs import replace

from perdure.errors import AlreadyExists, NotFound, UsageError
from perdure.stores.pipeline_records import (
    Finished,
    Preparation,
    Times,
)
from perdure.stores.records import EVERY, NewRun, Start
from perdure.testing.conformance.expecting import raises, same
from perdure.testing.conformance.piping import World, event, there
from perdure.testing.conformance.stage import Stores


async def prepared_saves_the_result_the_reservations_and_the_wake_time_together(stores: Stores) -> None:
    """L4."""
    world = await World.of(stores)
    await world.begin()
    reservation = await world.prepare("a", "c", "a")
    same((reservation.reserved, reservation.dropped, reservation.refused), (2, (), ()))
    run = await world.store.get_handler_run("r1")
    same((run.stage, run.prepared, run.wake_us), ("prepared", b"{}", 5))
    same(await world.statuses(), ["reserved 1", "pending 1", "reserved 1"])
    await world.check()


async def reserving_what_is_not_pending_writes_nothing(stores: Stores) -> None:
    """L4: a logic error, which the host makes of it."""
    world = await World.of(stores)
    await world.begin()
    reservation = await world.prepare("a", "unknown")
    same(reservation.refused, (("inbox", "unknown"),))
    same((await world.store.get_handler_run("r1")).stage, "preparing")
    same(await world.statuses(), ["pending 1"] * 3)
    await world.check()


async def what_was_skipped_since_it_was_peeked_is_dropped(stores: Stores) -> None:
    """L4."""
    world = await World.of(stores)
    await world.begin()
    await world.store.skip_event("mail", "inbox", "a")
    reservation = await world.prepare("a", "b")
    same((reservation.reserved, reservation.dropped, reservation.refused), (1, (("inbox", "a"),), ()))
    await world.commit()
    await world.begin("r2")
    preparation = Preparation(run="r2", prepared=b"", reserve={"inbox": ("a",)})
    reservation = await world.store.save_prepared(world.owner, "mail", preparation)
    same(reservation.refused, (("inbox", "a"),))
    await world.check()


async def a_mutation_stands_in_the_ledger_before_its_call_and_its_result_with_the_stage(stores: Stores) -> None:
    """L3, L4."""
    world = await World.of(stores)
    await world.begin()
    await world.prepare("a")
    entry = await world.store.begin_mutation(world.owner, "mail", "r1", "append_row")
    run = await world.store.get_handler_run("r1")
    same((run.stage, run.mutation, run.ledger), ("mutating", "uncertain", entry))
    same((entry.status, entry.key, entry.what), ("in_flight", "k1", "append_row"))
    await world.store.end_mutation(world.owner, "mail", "r1", "success", b"7")
    run = await world.store.get_handler_run("r1")
    ledger = there(run.ledger)
    same((run.stage, run.mutation, run.result, ledger.status), ("mutated", "success", b"7", "success"))
    same(ledger.ended_us, world.now)
    await world.check()


async def a_commit_stores_state_consumes_publishes_and_starts_together(stores: Stores) -> None:
    """L4."""
    world = await World.of(stores)
    await world.begin()
    await world.prepare("a", "b")
    start = Start(facts=NewRun(run_id="w1", workflow_id="audit", workflow="audit", seed=1, input=b"[]", started=b"{}"))
    finished = await world.commit(
        state=b"9", times=Times(wake_us=8), events=(event("row", topic="rows"),), starts=(start, start)
    )
    same(finished, Finished({"inbox": world.now, "rows": world.now}, ("rows",)))
    same(await world.statuses(), ["consumed 1", "consumed 1", "pending 1"])
    (row,) = await world.store.list_events("mail", "rows", 100)
    same((row.status, row.published_by), ("pending", "r1"))
    sheet = (await world.store.view_pipeline("mail")).pipeline.handlers[1]
    same((sheet.state, sheet.times, sheet.dirty), (b"9", Times(wake_us=8), False))
    audit = await world.store.get_run("audit")
    same((audit.status, await world.store.count_runs(EVERY)), ("running", 1))
    run = await world.store.get_handler_run("r1")
    same((run.stage, run.status), ("committed", "committed"))
    await world.check()


async def a_commit_consumes_what_its_run_reserved_and_no_more(stores: Stores) -> None:
    """L4: not what waits beside it, nor what comes meanwhile under another id."""
    world = await World.of(stores)
    await world.begin()
    await world.prepare("b")
    await world.store.publish_events("mail", [event("d")])
    await world.commit()
    same(await world.statuses(), ["pending 1", "consumed 1", "pending 1", "pending 1"])
    await world.begin("r2")
    await world.prepare("a", run="r2")
    await world.commit("r2")
    same(await world.statuses(), ["consumed 1", "consumed 1", "pending 1", "pending 1"])
    taken = [one.reserved_by for one in await world.store.list_events("mail", "inbox", 100)]
    same(taken, ["r2", "r1", None, None])
    await world.check()


async def a_commit_that_cannot_start_its_workflow_or_publish_its_event_writes_nothing(stores: Stores) -> None:
    """L4: all or nothing."""
    world = await World.of(stores)
    facts = NewRun(run_id="w1", workflow_id="audit", workflow="audit", seed=1, input=b"[]", started=b"{}")
    await world.store.start_run(Start(facts=facts))
    await world.begin()
    await world.prepare("a")
    other = Start(facts=replace(facts, run_id="w2", input=b"[1]"))
    await raises(AlreadyExists, world.commit(events=(event("row", topic="rows"),), starts=(other,)))
    await raises(NotFound, world.commit(events=(event("row", topic="rows"), event("x", topic="gone"))))
    same(await world.store.list_events("mail", "rows", 100), [])
    same((await world.store.get_handler_run("r1")).status, "active")
    same((await world.statuses())[0], "reserved 1")
    await world.check()


async def a_commit_without_a_state_keeps_the_old_one(stores: Stores) -> None:
    """L3: a run that reserved nothing keeps its state when *next* returns None."""
    world = await World.of(stores)
    await world.begin()
    await world.commit(state=b"1")
    await world.begin("r2")
    await world.commit("r2")
    same((await world.store.view_pipeline("mail")).pipeline.handlers[1].state, b"1")
    await world.check()


async def stages_only_go_forward_and_one_run_is_open_at_a_time(stores: Stores) -> None:
    """L3, L6."""
    world = await World.of(stores)
    await world.begin()
    await raises(UsageError, world.begin("r2", "poll"))
    await raises(UsageError, world.store.begin_mutation(world.owner, "mail", "r1", "append"))
    await world.prepare("a")
    await raises(UsageError, world.prepare("b"))
    await world.commit()
    await raises(UsageError, world.commit())
    await raises(UsageError, world.fail("failed:logic", "emitting"))
    await world.check()
