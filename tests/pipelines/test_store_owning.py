"""How stores keep pipelines: deployed, owned, paused, run now (L2, L9 to L11)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from perdure.errors import LeaseLost, NotFound, UsageError
from perdure.stores.pipeline_records import (
    Decision,
    RunBeginning,
    Times,
)
from tests.pipelines.store_world import MAIL, World, event, told


@told
async def test_a_deploy_makes_every_producer_due_and_every_consumer_dirty(world: World) -> None:
    """L2."""
    row = (await world.store.view_pipeline("mail")).pipeline
    poll, sheet, _ = row.handlers
    assert poll.times == Times(next_run_us=world.now)
    assert (sheet.times, sheet.dirty) == (Times(), True)
    again = await world.store.deploy_pipeline(MAIL, world.owner)
    assert (again.pipeline, again.changed) == (row, False)


@told
async def test_a_changed_declaration_keeps_states_wake_times_and_events(world: World) -> None:
    """L2."""
    await world.begin()
    await world.prepare("a")
    await world.commit(state=b'"s"', times=Times(wake_us=7))
    world.clock.advance(60)
    changed = replace(MAIL, digest="2", handlers=MAIL.handlers[:2], topics=("inbox",))
    row = (await world.store.deploy_pipeline(changed, world.owner)).pipeline
    poll, sheet = row.handlers
    assert (poll.times.next_run_us, sheet.times.wake_us, sheet.state, sheet.dirty) == (world.now, 7, b'"s"', True)
    assert await world.statuses() == ["consumed 1", "pending 1", "pending 1"]


@told
async def test_while_a_live_worker_owns_it_nobody_else_changes_or_claims_it(world: World) -> None:
    """L9."""
    other = await world.lease()
    assert not (await world.store.deploy_pipeline(replace(MAIL, digest="2"), other)).changed
    assert await world.store.claim_pipeline(other, "mail") is None
    await world.store.release_pipeline(other, "mail")
    assert await world.store.claim_pipeline(other, "mail") is None
    await world.store.release_pipeline(world.owner, "mail")
    assert await world.store.claim_pipeline(other, "mail") is not None
    with pytest.raises(LeaseLost, match="mail"):
        await world.begin()


@told
async def test_every_transition_of_a_worker_whose_lease_was_lost_is_refused(world: World) -> None:
    """L9: fenced, like runs of workflows."""
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
        with pytest.raises(LeaseLost):
            await call()
    assert await world.store.claim_pipeline(world.owner, "mail") is None
    assert await world.store.view_pipeline("mail") == before
    world.owner = await world.lease()
    view = await world.store.claim_pipeline(world.owner, "mail")
    assert view is not None
    assert view.open_run is not None
    assert (view.open_run.id, view.open_run.status, view.open_run.stage) == ("r1", "active", "prepared")


@told
async def test_a_persons_pause_keeps_runs_from_beginning_and_touches_no_block(world: World) -> None:
    """L11."""
    await world.begin()
    await world.store.pause_pipeline("mail", True)
    await world.fail("paused:approval", "preparing")
    assert (await world.store.view_pipeline("mail")).pipeline.open_run == "r1"
    beginning = RunBeginning(run="r2", handler="sheet", key="k", retry_of="r1")
    assert await world.store.begin_run(world.owner, "mail", beginning) is None
    row = await world.store.pause_pipeline("mail", False)
    assert (row.paused, row.open_run) == (False, "r1")
    assert await world.store.begin_run(world.owner, "mail", beginning) is not None


@told
async def test_run_now_is_refused_while_a_run_is_open_or_the_pipeline_is_paused(world: World) -> None:
    """L10."""
    times = {"poll": Times(next_run_us=9, queued=True)}
    row = await world.store.queue_producers("mail", times)
    assert row.handlers[0].times == times["poll"]
    await world.begin()
    with pytest.raises(UsageError, match="r1"):
        await world.store.queue_producers("mail", times)
    await world.commit()
    await world.store.pause_pipeline("mail", True)
    with pytest.raises(UsageError, match="paused"):
        await world.store.queue_producers("mail", times)


@told
async def test_what_is_not_there_is_not_found(world: World) -> None:
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
        with pytest.raises(NotFound, match="gone"):
            await call
    assert len(await world.statuses()) == 3
