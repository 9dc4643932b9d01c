"""The transitions of pipelines in a store, each atomic, and what holds after every one of them (L1, L3, L4, L7, L9)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest
from msgspec.structs import replace

from perdure.errors import AlreadyExists, Failure, InvalidValue, LeaseLost, NotFound, UsageError
from perdure.stores.memory import MemoryStore
from perdure.stores.memory.events import MemoryEvents
from perdure.stores.memory.handler_runs import MemoryHandlerRuns
from perdure.stores.memory.pipelines import MemoryPipelines
from perdure.stores.pipeline_port import EventStore, HandlerRunStore, PipelineStore
from perdure.stores.pipeline_records import (
    Decision,
    Finished,
    HandlerRun,
    NewEvent,
    NewHandler,
    NewPipeline,
    Preparation,
    RunBeginning,
    RunCommit,
    RunFailure,
    Times,
)
from perdure.stores.records import EVERY, NewRun, Start
from perdure.testing.clock import VirtualClock

MAIL = NewPipeline(
    name="mail",
    digest="1",
    topics=("inbox", "rows"),
    handlers=(
        NewHandler(name="poll", kind="producer"),
        NewHandler(name="sheet", kind="consumer", topics=("inbox",)),
        NewHandler(name="archive", kind="consumer", topics=("rows",)),
    ),
)
IDS = ("a", "b", "c")


class Store(MemoryStore, MemoryPipelines, MemoryHandlerRuns, MemoryEvents):
    """A memory store that keeps pipelines too."""


class World:
    """A store with a pipeline that one worker owns, and three events in its inbox."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = Store(self.clock)
        self.owner = 0

    @property
    def now(self) -> int:
        return self.clock.now_us()

    async def open(self) -> None:
        await self.store.open()
        self.owner = await self.lease()
        await self.store.deploy_pipeline(MAIL)
        await self.store.claim_pipeline(self.owner, "mail")
        await self.store.publish_events("mail", [event(id) for id in IDS])

    async def lease(self) -> int:
        return (await self.store.open_lease("worker", {"default": 1}, 10)).number

    async def begin(self, run: str = "r1", handler: str = "sheet", **more: Any) -> HandlerRun:
        begun = await self.store.begin_run(self.owner, "mail", RunBeginning(run=run, handler=handler, key="k1", **more))
        assert begun is not None
        return begun

    async def prepare(self, *ids: str, run: str = "r1") -> Any:
        peeked = {"inbox": frozenset(IDS)}
        preparation = Preparation(run=run, prepared=b"{}", reserve={"inbox": ids}, peeked=peeked, wake_us=5)
        return await self.store.save_prepared(self.owner, "mail", preparation)

    async def commit(self, run: str = "r1", **more: Any) -> Any:
        defaults: dict[str, Any] = {"times": Times()}
        return await self.store.commit_run(self.owner, "mail", RunCommit(run=run, **defaults | more))

    async def fail(self, status: Any, stage: Any, mutation: Any = "none", run: str = "r1", **more: Any) -> HandlerRun:
        failure = RunFailure(run=run, status=status, stage=stage, mutation=mutation, **more)
        return await self.store.fail_run(self.owner, "mail", failure)

    async def statuses(self, topic: str = "inbox") -> list[str]:
        return [f"{one.status} {one.attempt}" for one in await self.store.list_events("mail", topic, 100)]

    async def check(self) -> None:
        """What always holds: one open run, and no reservation without it."""
        view = await self.store.view_pipeline("mail")
        for topic in view.pipeline.topics:
            for one in await self.store.list_events("mail", topic, 1000):
                assert (one.status == "reserved") <= (one.reserved_by == view.pipeline.open_run is not None)
        active = [run for run in await self.store.list_handler_runs("mail", 1000) if run.status == "active"]
        assert [run.id for run in active] in ([], [view.pipeline.open_run])


def event(id: str, payload: bytes = b"1", topic: str = "inbox", **more: Any) -> NewEvent:
    return NewEvent(topic=topic, message_id=id, payload=payload, **more)


Story = Callable[[World], Coroutine[Any, Any, None]]


def told(story: Story) -> Callable[[], None]:
    """A test of a story in a world."""

    async def whole() -> None:
        world = World()
        await world.open()
        await story(world)
        await world.check()

    @wraps(story)
    def test() -> None:
        asyncio.run(whole())

    del test.__wrapped__  # pytest would ask for a fixture
    return test


def test_the_memory_store_is_a_pipeline_store() -> None:
    store = Store(VirtualClock())
    pipelines: PipelineStore = store
    runs: HandlerRunStore = store
    events: EventStore = store
    assert pipelines is runs is events


# --- deploying and owning -----------------------------------------------------------------------


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


# --- events -------------------------------------------------------------------------------------


@told
async def test_an_event_is_known_by_its_topic_and_id_and_a_second_one_replaces_the_payload(world: World) -> None:
    """L1: payload and causes are replaced, the status is kept."""
    await world.begin()
    await world.prepare("a")
    new = [event("a", b"2", causes=("rows/1",)), event("b", b"3"), event("a", topic="rows")]
    assert await world.store.publish_events("mail", new) == [False, False, True]
    first, second, _ = await world.store.list_events("mail", "inbox", 100)
    assert (first.status, first.facts.payload, first.facts.causes) == ("reserved", b"2", ("rows/1",))
    assert (second.status, second.facts.payload) == ("pending", b"3")


@told
async def test_peek_gives_pending_events_oldest_first(world: World) -> None:
    await world.begin()
    await world.prepare("c", "b")
    assert [one.facts.message_id for one in await world.store.peek_events("mail", "inbox", 100)] == ["a"]
    await world.fail("paused:transient", "prepared", release=True)
    await world.store.publish_events("mail", [event("d")])
    assert [one.facts.message_id for one in await world.store.peek_events("mail", "inbox", 3)] == ["a", "b", "c"]
    assert [one.facts.message_id for one in await world.store.peek_events("mail", "inbox", 9)] == ["a", "b", "c", "d"]
    assert await world.store.count_events("mail") == {"inbox": {"pending": 4}}


@told
async def test_only_a_pending_event_can_be_skipped(world: World) -> None:
    await world.begin()
    await world.prepare("a")
    assert (await world.store.skip_event("mail", "inbox", "b")).status == "skipped"
    for id in ("a", "b"):
        with pytest.raises(UsageError, match=id):
            await world.store.skip_event("mail", "inbox", id)


@told
async def test_events_that_come_and_go_leave_the_others_in_order(world: World) -> None:
    """The queue of what waits forgets what is gone, wherever that stood."""
    ids = [f"{number:04}" for number in range(1000)]
    await world.store.publish_events("mail", [event(id) for id in ids])
    for id in (*IDS, *ids[1:998]):
        await world.store.skip_event("mail", "inbox", id)
    left = [ids[0], *ids[998:]]
    assert [one.facts.message_id for one in await world.store.peek_events("mail", "inbox", 100)] == left


# --- stages -------------------------------------------------------------------------------------


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


# --- failures, retries, a person's word -----------------------------------------------------------


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
def test_a_person_decides_what_became_of_a_mutation(decision: Decision, stage: str, mutation: str, ledger: str) -> None:
    """L7: happened, did not happen, skip, try again."""

    @told
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

    story()


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
