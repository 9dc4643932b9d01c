"""Claiming runs: who may own what, in which order, and how it is given back (E3)."""

from __future__ import annotations

from perdure.stores.records import Closing
from perdure.testing.conformance.expecting import only, same
from perdure.testing.conformance.making import JOB
from perdure.testing.conformance.stage import Stores, begin, hire, numbers, reread, workflow_ids

SECOND = 1_000_000
QUEUE = ("default",)


async def a_due_run_is_claimed(stores: Stores) -> None:
    """What is claimed comes back as it stands, with its owner."""
    store = await stores.open()
    worker = await hire(store)
    run = await begin(store, "o-1")
    claimed = only(await worker.claim())
    same((claimed.number, claimed.owner, claimed.facts), (run.number, worker.lease, run.facts))
    same(await reread(store, run), claimed)


async def a_run_has_one_owner(stores: Stores) -> None:
    """What somebody owns is claimed by nobody else; its owner may ask by its number whether it still is (E3)."""
    store, other = await stores.open(), await stores.open()
    one, two = await hire(store, "w-1"), await hire(other, "w-2")
    run = await begin(store, "o-1")
    same(numbers(await one.claim()), [run.number])
    same((await one.claim(), await two.claim()), ([], []))
    same(await other.claim_run(two.lease, run.number), None)
    same(await store.claim_run(one.lease, run.number), await reread(store, run))


async def the_larger_priority_is_claimed_first(stores: Stores) -> None:
    """Of what is due, priority decides; a larger one goes first."""
    store = await stores.open()
    worker = await hire(store)
    for name, priority in (("low", -5), ("usual", 0), ("high", 7), ("higher", 8)):
        await begin(store, name, priority=priority)
        stores.clock.advance(1)
    same([workflow_ids(await worker.claim(1)) for _ in range(4)], [["higher"], ["high"], ["usual"], ["low"]])


async def of_one_priority_what_is_due_longest_is_claimed_first(stores: Stores) -> None:
    """Among equals the time from which on they are due decides, not the time of their creation."""
    store = await stores.open()
    worker = await hire(store, seconds=100)
    now = stores.clock.now_us()
    for name, seconds in (("third", 3), ("first", 1), ("second", 2), ("fourth", 4)):
        await begin(store, name, wake_us=now + seconds * SECOND)
    stores.clock.advance(5)
    same(workflow_ids(await worker.claim(3)), ["first", "second", "third"])
    same(workflow_ids(await worker.claim(3)), ["fourth"])


async def priority_goes_before_time_across_queues(stores: Stores) -> None:
    """The most urgent of all queues that were asked for come first, whichever queue they are in."""
    store = await stores.open()
    worker = await hire(store)
    for name, queue, priority in (("a", "q-1", 0), ("b", "q-2", 5), ("c", "q-1", 5), ("d", "q-2", 0)):
        await begin(store, name, queue=queue, priority=priority)
        stores.clock.advance(1)
    same(workflow_ids(await worker.claim(3, queues=("q-1", "q-2"))), ["b", "c", "a"])
    same(workflow_ids(await worker.claim(3, queues=("q-1", "q-2"))), ["d"])


async def only_runs_of_the_queues_that_a_worker_serves_are_claimed(stores: Stores) -> None:
    """Others stay free, and a queue is its whole name."""
    store = await stores.open()
    worker = await hire(store)
    await begin(store, "o-1", queue="boxes")
    await begin(store, "o-2", queue="default2")
    same((await worker.claim(), await worker.claim(queues=())), ([], []))
    same(workflow_ids(await worker.claim(queues=("boxes", "letters"))), ["o-1"])


async def only_runs_of_workflows_that_a_worker_knows_are_claimed(stores: Stores) -> None:
    """Others stay free for somebody who knows them, and hold up nobody."""
    store = await stores.open()
    worker = await hire(store)
    for i in range(5):
        await begin(store, f"unknown-{i}", workflow="other", priority=9)
    await begin(store, "o-1")
    same(workflow_ids(await worker.claim(2)), ["o-1"])
    same(await worker.claim(workflows=()), [])
    same(len(await worker.claim(workflows=("other", "order"))), 5)


async def no_more_runs_are_claimed_than_asked_for(stores: Stores) -> None:
    """The rest stays free."""
    store = await stores.open()
    worker = await hire(store)
    for i in range(5):
        await begin(store, f"o-{i}")
    same(([len(await worker.claim(2)) for _ in range(4)], await worker.claim(0)), ([2, 2, 1, 0], []))


async def a_run_is_not_claimed_before_it_is_due(stores: Stores) -> None:
    """It is due from `wake_us` on: at that microsecond, and not the one before."""
    store = await stores.open()
    worker = await hire(store, seconds=100)
    await begin(store, "o-1", wake_us=stores.clock.now_us() + 2 * SECOND)
    stores.clock.advance(1.999_999)
    same(await worker.claim(), [])
    stores.clock.advance(0.000_001)
    same(workflow_ids(await worker.claim()), ["o-1"])


async def one_run_is_claimed_by_its_number_due_or_not(stores: Stores) -> None:
    """`claim_run` owns a free, running run; None for one that is not there."""
    store = await stores.open()
    worker = await hire(store)
    await begin(store, "o-1", wake_us=stores.clock.now_us() + 100 * SECOND, queue="boxes", workflow="other")
    run = await store.get_run("o-1")
    claimed = await store.claim_run(worker.lease, run.number)
    same(claimed and (claimed.number, claimed.owner), (run.number, worker.lease))
    same(await reread(store, run), claimed)
    same(await store.claim_run(worker.lease, run.number + 100), None)


async def a_parked_run_is_claimed_by_its_number(stores: Stores) -> None:
    """Also one that is not due before a message comes."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.commit(await worker.begin("o-1"), park=True)
    same((run.owner, run.wake_us), (None, None))
    same((await worker.own(run)).last_turn, 0)


async def the_next_wake_is_the_earliest_of_the_free_runs_of_these_queues(stores: Stores) -> None:
    """What is owned, has ended, waits for a message or is in another queue does not count."""
    store = await stores.open()
    worker = await hire(store)
    now = stores.clock.now_us()
    same(await store.get_next_wake(QUEUE), None)
    await begin(store, "o-5", wake_us=now + 5 * SECOND, priority=9)
    await begin(store, "o-3", wake_us=now + 3 * SECOND, priority=-9)
    await begin(store, "boxes", wake_us=now + 1 * SECOND, queue="boxes")
    same(await store.get_next_wake(QUEUE), now + 3 * SECOND)
    same(await store.get_next_wake(("boxes", "default")), now + SECOND)
    same((await store.get_next_wake(()), await store.get_next_wake(("letters",))), (None, None))
    run = await worker.own(await store.get_run("o-3"))
    same(await store.get_next_wake(QUEUE), now + 5 * SECOND)
    await worker.commit(run, park=True)
    await store.close_run("o-5", None, Closing("cancelled"))
    same(await store.get_next_wake(QUEUE), None)


async def the_next_wake_is_in_the_past_for_what_is_due(stores: Stores) -> None:
    """A free run that is due already counts with its time."""
    store = await stores.open()
    run = await begin(store, "o-1")
    stores.clock.advance(5)
    same(await store.get_next_wake(QUEUE), run.wake_us)


async def a_lost_lease_claims_nothing(stores: Stores) -> None:
    """After its end a lease owns nothing any more, whichever way it asks (E3)."""
    store = await stores.open()
    worker = await hire(store)
    run = await begin(store, "o-1")
    await store.close_lease(worker.lease)
    same((await worker.claim(), await store.claim_run(worker.lease, run.number)), ([], None))
    accepted = await store.accept_message("o-1", None, JOB, claim=worker.lease, claims=("order",))
    same((accepted.claimed, (await reread(store, run)).owner), (False, None))


async def a_lease_that_never_was_claims_nothing(stores: Stores) -> None:
    """A number that no lease has owns nothing."""
    store = await stores.open()
    run = await begin(store, "o-1")
    same((await store.claim_runs(4711, QUEUE, ["order"], 9), await store.claim_run(4711, run.number)), ([], None))
    same((await reread(store, run)).owner, None)


async def a_run_is_given_back_until_a_time(stores: Stores) -> None:
    """`release_run` frees a run that needs no turn; it is due from then on."""
    store = await stores.open()
    worker = await hire(store, seconds=100)
    run = await worker.begin("o-1")
    later = stores.clock.now_us() + SECOND
    await store.release_run(worker.lease, run.number, later)
    released = await reread(store, run)
    same((released.owner, released.wake_us, released.last_turn), (None, later, run.last_turn))
    same((await worker.claim(), await store.get_next_wake(QUEUE)), ([], later))
    stores.clock.advance(1)
    same(numbers(await worker.claim()), [run.number])


async def a_run_is_given_back_until_a_message_comes(stores: Stores) -> None:
    """With no time, it is not due before that."""
    store = await stores.open()
    worker = await hire(store, seconds=100)
    run = await worker.begin("o-1")
    await store.release_run(worker.lease, run.number, None)
    stores.clock.advance(50)
    same((await worker.claim(), await store.get_next_wake(QUEUE)), ([], None))
    await store.accept_message("o-1", None, JOB)
    same(numbers(await worker.claim()), [run.number])


async def a_run_that_is_given_back_while_a_message_waits_is_due(stores: Stores) -> None:
    """A message that came while the run was owned is not forgotten."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    await store.accept_message("o-1", None, JOB)
    await store.release_run(worker.lease, run.number, None)
    same(numbers(await worker.claim()), [run.number])
    await store.release_run(worker.lease, run.number, stores.clock.now_us() + 100 * SECOND)
    same(numbers(await worker.claim()), [run.number])


async def only_the_owner_gives_a_run_back(stores: Stores) -> None:
    """Anybody else changes nothing (E3)."""
    store = await stores.open()
    one, two = await hire(store, "w-1"), await hire(store, "w-2")
    run = await one.begin("o-1")
    await store.release_run(two.lease, run.number, None)
    same(await reread(store, run), run)


async def what_is_pending_is_what_an_owner_has_not_taken(stores: Stores) -> None:
    """`list_pending` gives the runs of this owner for which more was accepted than turns have taken."""
    store, other = await stores.open(), await stores.open()
    one, two = await hire(store, "w-1"), await hire(store, "w-2")
    runs = [await one.begin(f"o-{i}") for i in range(3)]
    theirs = await two.begin("theirs")
    await begin(store, "free")
    same(await store.list_pending(one.lease), [])
    for workflow_id in ("o-0", "o-2", "theirs", "free"):
        await other.accept_message(workflow_id, None, JOB)
    same(sorted(numbers(await store.list_pending(one.lease))), [runs[0].number, runs[2].number])
    same(await store.list_pending(two.lease), [await reread(store, theirs)])
    await one.commit(runs[0], consumed=1)
    await one.commit(runs[2], closing=Closing("completed"), consumed=1)
    same(await store.list_pending(one.lease), [])


async def unknown_are_the_runs_whose_workflow_nobody_here_has(stores: Stores) -> None:
    """`list_unknown` gives free, due runs of these queues of any other workflow, so many."""
    store = await stores.open()
    worker = await hire(store, seconds=100)
    await begin(store, "known")
    for i in range(3):
        await begin(store, f"lost-{i}", workflow=f"gone-{i}")
    await begin(store, "boxes", workflow="gone-0", queue="boxes")
    await begin(store, "later", wake_us=stores.clock.now_us() + 50 * SECOND, workflow="gone-0")
    owned = await worker.begin("owned", workflow="gone-0")
    found = await store.list_unknown(QUEUE, ["order"], 10)
    same(sorted(workflow_ids(found)), ["lost-0", "lost-1", "lost-2"])
    same(sorted(workflow_ids(await store.list_unknown(QUEUE, ["order", "gone-1"], 10))), ["lost-0", "lost-2"])
    same(len(await store.list_unknown(QUEUE, ["order"], 2)), 2)
    same([run.owner for run in found], [None] * 3)
    same(await reread(store, owned), owned)
