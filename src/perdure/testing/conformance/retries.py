"""Retries: what the next attempt takes over, and a person's word (L7 to L9)."""

from __future__ import annotations

from msgspec.structs import replace

from perdure.errors import Failure, InvalidValue, UsageError
from perdure.stores.pipeline_records import (
    Decision,
)
from perdure.testing.conformance.expecting import raises, same
from perdure.testing.conformance.piping import MAIL, World, there
from perdure.testing.conformance.stage import Stores


async def a_failure_before_the_mutation_releases_and_counts_the_attempt(stores: Stores) -> None:
    """L7."""
    world = await World.of(stores)
    await world.begin()
    await world.prepare("a")
    error = Failure("Transient", "too many requests")
    run = await world.fail("paused:transient", "prepared", release=True, retry_us=50, error=error)
    same((run.status, run.stage, run.retry_us, run.error), ("paused:transient", "prepared", 50, error))
    same(await world.statuses(), ["pending 2", "pending 1", "pending 1"])
    retried = await world.begin("r2", retry_of="r1", attempt=2)
    same((retried.retry_of, retried.attempt, retried.stage, retried.prepared), ("r1", 2, "preparing", None))
    same([one.id for one in await world.store.list_handler_runs("mail", 10)], ["r1", "r2"])
    await world.check()


async def a_retry_after_the_mutation_takes_results_and_reservations_over(stores: Stores) -> None:
    """L7: forgetting that orphaned events upstream."""
    world = await World.of(stores)
    await world.begin()
    await world.prepare("a")
    await world.store.begin_mutation(world.owner, "mail", "r1", "append")
    await world.store.end_mutation(world.owner, "mail", "r1", "success", b"7")
    await world.fail("failed:logic", "emitting", "success")
    retried = await world.begin("r2", retry_of="r1", takes_over=True, stage="emitting")
    same((retried.stage, retried.mutation, retried.result), ("emitting", "success", b"7"))
    same((retried.prepared, retried.wake_us, retried.ledger is not None), (b"{}", 5, True))
    await world.check()
    await world.commit("r2")
    same(await world.statuses(), ["consumed 1", "pending 1", "pending 1"])
    await world.check()


async def a_run_that_waited_for_approval_keeps_what_it_prepared_and_tries_its_mutation_anew(stores: Stores) -> None:
    """L7: it goes on from its last checkpoint."""
    world = await World.of(stores)
    await world.begin()
    await world.prepare("a")
    await world.store.begin_mutation(world.owner, "mail", "r1", "append")
    await world.fail("paused:approval", "mutating", "failure")
    retried = await world.begin("r2", retry_of="r1", takes_over=True, stage="prepared")
    same((retried.stage, retried.mutation, retried.prepared, retried.ledger), ("prepared", "none", b"{}", None))
    await world.store.begin_mutation(world.owner, "mail", "r2", "append")
    await world.store.end_mutation(world.owner, "mail", "r2", "success", None)
    await world.commit("r2")
    same(await world.statuses(), ["consumed 1", "pending 1", "pending 1"])
    await world.check()


async def a_retry_that_takes_nothing_over_leaves_no_reservation_behind(stores: Stores) -> None:
    """L9."""
    world = await World.of(stores)
    await world.begin()
    await world.prepare("a")
    await world.fail("crashed", "prepared")
    await world.begin("r2", retry_of="r1")
    same(await world.statuses(), ["pending 2", "pending 1", "pending 1"])
    await world.check()


async def a_person_says_that_a_mutation_happened(stores: Stores) -> None:
    """L7: the run goes on from there, with that result."""
    decision = Decision(run="r1", mutation="success", result=b"7", decided_by="ann")
    await _decided(stores, decision, ("mutated", "success", "success"))


async def a_person_says_that_a_mutation_did_not_happen(stores: Stores) -> None:
    """L7: what was reserved is given back."""
    await _decided(stores, Decision(run="r1", mutation="failure", release=True), ("mutating", "failure", "failure"))


async def a_person_gives_a_mutation_up(stores: Stores) -> None:
    """L7: its events are skipped with the commit of the next attempt, which nobody can settle any more."""
    decision = Decision(run="r1", mutation="skipped")
    world = await _decided(stores, decision, ("mutated", "skipped", "skipped"))
    await world.begin("r2", retry_of="r1", takes_over=True, stage="emitting")
    await world.commit("r2")
    same((await world.statuses())[0], "skipped 1")
    await raises(UsageError, world.store.settle_run(decision))


async def a_person_has_a_mutation_tried_again(stores: Stores) -> None:
    """L7: nothing new is known of it."""
    await _decided(stores, Decision(run="r1"), ("mutating", "uncertain", "uncertain"))


async def _decided(stores: Stores, decision: Decision, becomes: tuple[str, str, str]) -> World:
    world = await World.of(stores)
    await world.begin()
    await world.prepare("a")
    await world.store.begin_mutation(world.owner, "mail", "r1", "append")
    await raises(UsageError, world.store.settle_run(decision))
    paused = await world.fail("paused:reconciliation", "mutating", "uncertain", reconcile_us=70, reconciliations=2)
    entry = there(paused.ledger)
    same((entry.reconciliations, entry.next_us, entry.ended_us), (2, 70, None))
    run = await world.store.settle_run(decision)
    entry = there(run.ledger)
    same((run.stage, run.mutation, entry.status), becomes)
    same((run.result, run.retry_us, entry.next_us), (decision.result, world.now, None))
    same((entry.decided_by, entry.reconciliations), (decision.decided_by, 0))
    same((await world.statuses())[0], "pending 2" if decision.release else "reserved 1")
    await world.check()
    return world


async def a_deploy_lets_a_run_with_a_mistake_be_tried_again_and_gives_up_one_whose_handler_is_gone(
    stores: Stores,
) -> None:
    """L2, L9."""
    world = await World.of(stores)
    await world.begin()
    await world.prepare("a")
    await world.fail("failed:logic", "emitting")
    view = await world.store.deploy_pipeline(replace(MAIL, digest="2"), world.owner)
    same(view.pipeline.open_run, "r1")
    same((await world.store.get_handler_run("r1")).retry_us, world.now)
    gone = replace(MAIL, digest="3", handlers=MAIL.handlers[:1])
    same((await world.store.deploy_pipeline(gone, world.owner)).pipeline.open_run, None)
    same(await world.statuses(), ["pending 2", "pending 1", "pending 1"])
    await world.check()


async def a_failure_has_a_status_of_failures(stores: Stores) -> None:
    """L8: active and committed are none."""
    world = await World.of(stores)
    await world.begin()
    await raises(InvalidValue, world.fail("committed", "preparing"))
    await world.check()
