"""How stores keep runs that failed: retries, what they take over, a person's word (L7 to L9)."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from perdure.errors import Failure, InvalidValue, UsageError
from perdure.stores.pipeline_records import (
    Decision,
)
from tests.pipelines.store_world import MAIL, STORES, World, tell, told


@told
async def test_a_failure_before_the_mutation_releases_and_counts_the_attempt(world: World) -> None:
    """L7."""
    await world.begin()
    await world.prepare("a")
    error = Failure("Transient", "too many requests")
    run = await world.fail("paused:transient", "prepared", release=True, retry_us=50, error=error)
    assert (run.status, run.stage, run.retry_us, run.error) == ("paused:transient", "prepared", 50, error)
    assert await world.statuses() == ["pending 2", "pending 1", "pending 1"]
    retried = await world.begin("r2", retry_of="r1", attempt=2)
    assert (retried.retry_of, retried.attempt, retried.stage, retried.prepared) == ("r1", 2, "preparing", None)
    assert [one.id for one in await world.store.list_handler_runs("mail", 10)] == ["r1", "r2"]


@told
async def test_a_retry_after_the_mutation_takes_results_and_reservations_over(world: World) -> None:
    """L7: forgetting that orphaned events upstream."""
    await world.begin()
    await world.prepare("a")
    await world.store.begin_mutation(world.owner, "mail", "r1", "append")
    await world.store.end_mutation(world.owner, "mail", "r1", "success", b"7")
    await world.fail("failed:logic", "emitting", "success")
    retried = await world.begin("r2", retry_of="r1", takes_over=True, stage="emitting")
    assert (retried.stage, retried.mutation, retried.result) == ("emitting", "success", b"7")
    assert (retried.prepared, retried.wake_us, retried.ledger is not None) == (b"{}", 5, True)
    await world.check()
    await world.commit("r2")
    assert await world.statuses() == ["consumed 1", "pending 1", "pending 1"]


@told
async def test_a_run_that_waited_for_approval_keeps_what_it_prepared_and_tries_its_mutation_anew(world: World) -> None:
    """L7: it goes on from its last checkpoint."""
    await world.begin()
    await world.prepare("a")
    await world.store.begin_mutation(world.owner, "mail", "r1", "append")
    await world.fail("paused:approval", "mutating", "failure")
    retried = await world.begin("r2", retry_of="r1", takes_over=True, stage="prepared")
    assert (retried.stage, retried.mutation, retried.prepared, retried.ledger) == ("prepared", "none", b"{}", None)
    await world.store.begin_mutation(world.owner, "mail", "r2", "append")
    await world.store.end_mutation(world.owner, "mail", "r2", "success", None)
    await world.commit("r2")
    assert await world.statuses() == ["consumed 1", "pending 1", "pending 1"]


@told
async def test_a_retry_that_takes_nothing_over_leaves_no_reservation_behind(world: World) -> None:
    """L9."""
    await world.begin()
    await world.prepare("a")
    await world.fail("crashed", "prepared")
    await world.begin("r2", retry_of="r1")
    assert await world.statuses() == ["pending 2", "pending 1", "pending 1"]


@pytest.mark.parametrize(
    ("decision", "stage", "mutation", "ledger"),
    [
        (Decision(run="r1", mutation="success", result=b"7", decided_by="ann"), "mutated", "success", "success"),
        (Decision(run="r1", mutation="failure", release=True), "mutating", "failure", "failure"),
        (Decision(run="r1", mutation="skipped"), "mutated", "skipped", "skipped"),
        (Decision(run="r1"), "mutating", "uncertain", "uncertain"),
    ],
)
@pytest.mark.parametrize("store", STORES)
def test_a_person_decides_what_became_of_a_mutation(
    decision: Decision, stage: str, mutation: str, ledger: str, store: str, tmp_path: Path
) -> None:
    """L7: happened, did not happen, skip, try again."""

    async def story(world: World) -> None:
        await world.begin()
        await world.prepare("a")
        await world.store.begin_mutation(world.owner, "mail", "r1", "append")
        with pytest.raises(UsageError, match="does not wait"):
            await world.store.settle_run(decision)
        paused = await world.fail("paused:reconciliation", "mutating", "uncertain", reconcile_us=70, reconciliations=2)
        assert paused.ledger is not None
        assert (paused.ledger.reconciliations, paused.ledger.next_us, paused.ledger.ended_us) == (2, 70, None)
        run = await world.store.settle_run(decision)
        assert run.ledger is not None
        assert (run.stage, run.mutation, run.ledger.status, run.result) == (stage, mutation, ledger, decision.result)
        assert (run.retry_us, run.ledger.next_us, run.ledger.decided_by) == (world.now, None, decision.decided_by)
        assert (await world.statuses())[0] == ("pending 2" if decision.release else "reserved 1")
        if mutation == "skipped":
            await world.begin("r2", retry_of="r1", takes_over=True, stage="emitting")
            await world.commit("r2")
            assert (await world.statuses())[0] == "skipped 1"
            with pytest.raises(UsageError, match="does not wait"):
                await world.store.settle_run(decision)

    tell(story, store, tmp_path)


@told
async def test_a_deploy_lets_a_run_with_a_mistake_be_tried_again_and_gives_up_one_whose_handler_is_gone(
    world: World,
) -> None:
    """L2, L9."""
    await world.begin()
    await world.prepare("a")
    await world.fail("failed:logic", "emitting")
    view = await world.store.deploy_pipeline(replace(MAIL, digest="2"), world.owner)
    assert view.pipeline.open_run == "r1"
    assert (await world.store.get_handler_run("r1")).retry_us == world.now
    gone = replace(MAIL, digest="3", handlers=MAIL.handlers[:1])
    assert (await world.store.deploy_pipeline(gone, world.owner)).pipeline.open_run is None
    assert await world.statuses() == ["pending 2", "pending 1", "pending 1"]


@told
async def test_a_failure_has_a_status_of_failures(world: World) -> None:
    await world.begin()
    with pytest.raises(InvalidValue, match="committed"):
        await world.fail("committed", "preparing")
