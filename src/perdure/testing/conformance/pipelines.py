"""Pipelines: deployed, owned by one worker at a time, paused, run now (L2, L9 to L11)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from perdure.errors import LeaseLost, NotFound, UsageError
from perdure.stores.pipeline_records import (
    Decision,
    RunBeginning,
    Times,
)
from perdure.testing.conformance.expecting import raises, same
from perdure.testing.conformance.piping import MAIL, World, event, there
from perdure.testing.conformance.stage import Stores


async def a_deploy_makes_every_producer_due_and_every_consumer_dirty(stores: Stores) -> None:
    """L2."""
    world = await World.of(stores)
    row = (await world.store.view_pipeline("mail")).pipeline
    poll, sheet, _ = row.handlers
    same(poll.times, Times(next_run_us=world.now))
    same((sheet.times, sheet.dirty), (Times(), True))
    again = await world.store.deploy_pipeline(MAIL, world.owner)
    same((again.pipeline, again.changed), (row, False))
    await world.check()


async def pipelines_their_runs_and_events_are_counted(stores: Stores) -> None:
    """`counts` tells people how many there are, whatever became of them."""
    world = await World.of(stores)
    await world.begin()
    await world.prepare("a")
    await world.commit()
    await world.begin("r2")
    counted = await world.store.counts()
    same([counted[kind] for kind in ("pipelines", "handler_runs", "events", "runs")], [1, 2, 3, 0])


async def a_changed_declaration_keeps_states_wake_times_and_events(stores: Stores) -> None:
    """L2."""
    world = await World.of(stores)
    await world.begin()
    await world.prepare("a")
    await world.commit(state=b'"s"', times=Times(wake_us=7))
    world.clock.advance(60)
    changed = replace(MAIL, digest="2", handlers=MAIL.handlers[:2], topics=("inbox",))
    row = (await world.store.deploy_pipeline(changed, world.owner)).pipeline
    poll, sheet = row.handlers
    same((poll.times.next_run_us, sheet.times.wake_us, sheet.state, sheet.dirty), (world.now, 7, b'"s"', True))
    same(await world.statuses(), ["consumed 1", "pending 1", "pending 1"])
    await world.check()


async def while_a_live_worker_owns_it_nobody_else_changes_or_claims_it(stores: Stores) -> None:
    """L9."""
    world = await World.of(stores)
    other = await world.lease()
    same((await world.store.deploy_pipeline(replace(MAIL, digest="2"), other)).changed, False)
    same(await world.store.claim_pipeline(other, "mail"), None)
    await world.store.release_pipeline(other, "mail")
    same(await world.store.claim_pipeline(other, "mail"), None)
    await world.store.release_pipeline(world.owner, "mail")
    same(await world.store.claim_pipeline(other, "mail") is not None, True)
    await raises(LeaseLost, world.begin())
    await world.check()


async def every_transition_of_a_worker_whose_lease_was_lost_is_refused(stores: Stores) -> None:
    """L9: fenced, like runs of workflows."""
    world = await World.of(stores)
    await world.begin()
    await world.prepare("a")
    await world.store.close_lease(world.owner)
    before = await world.store.view_pipeline("mail")
    refused: list[Callable[[], Coroutine[Any, Any, Any]]] = [
        world.begin,
        lambda: world.prepare("b"),
        lambda: world.store.begin_mutation(world.owner, "mail", "r1", "append"),
        lambda: world.store.end_mutation(world.owner, "mail", "r1", "none", None),
        world.commit,
        lambda: world.fail("failed:logic", "preparing"),
    ]
    for call in refused:
        await raises(LeaseLost, call())
    same(await world.store.claim_pipeline(world.owner, "mail"), None)
    same(await world.store.view_pipeline("mail"), before)
    world.owner = await world.lease()
    view = await world.store.claim_pipeline(world.owner, "mail")
    run = there(there(view).open_run)
    same((run.id, run.status, run.stage), ("r1", "active", "prepared"))
    await world.check()


async def a_persons_pause_keeps_runs_from_beginning_and_touches_no_block(stores: Stores) -> None:
    """L11."""
    world = await World.of(stores)
    await world.begin()
    await world.store.pause_pipeline("mail", True)
    await world.fail("paused:approval", "preparing")
    same((await world.store.view_pipeline("mail")).pipeline.open_run, "r1")
    beginning = RunBeginning(run="r2", handler="sheet", key="k", retry_of="r1")
    same(await world.store.begin_run(world.owner, "mail", beginning), None)
    row = await world.store.pause_pipeline("mail", False)
    same((row.paused, row.open_run), (False, "r1"))
    same(await world.store.begin_run(world.owner, "mail", beginning) is not None, True)
    await world.check()


async def run_now_is_refused_while_a_run_is_open_or_the_pipeline_is_paused(stores: Stores) -> None:
    """L10."""
    world = await World.of(stores)
    times = {"poll": Times(next_run_us=9, queued=True)}
    row = await world.store.queue_producers("mail", times)
    same(row.handlers[0].times, times["poll"])
    await world.begin()
    await raises(UsageError, world.store.queue_producers("mail", times))
    await world.commit()
    await world.store.pause_pipeline("mail", True)
    await raises(UsageError, world.store.queue_producers("mail", times))
    await world.check()


async def what_is_not_there_is_not_found(stores: Stores) -> None:
    """Section 6: and nothing was written."""
    world = await World.of(stores)
    calls: list[Coroutine[Any, Any, Any]] = [
        world.store.view_pipeline("gone"),
        world.store.claim_pipeline(world.owner, "gone"),
        world.store.pause_pipeline("gone", True),
        world.store.publish_events("gone", []),
        world.store.publish_events("mail", [event("x"), event("y", topic="gone")]),
        world.store.peek_events("mail", "gone", 1),
        world.store.list_events("mail", "gone", 1),
        world.store.skip_event("mail", "inbox", "gone"),
        world.store.get_handler_run("gone"),
        world.store.list_handler_runs("gone", 1),
        world.store.settle_run(Decision(run="gone")),
        world.begin(handler="gone"),
    ]
    for call in calls:
        await raises(NotFound, call)
    same(len(await world.statuses()), 3)
    await world.check()
