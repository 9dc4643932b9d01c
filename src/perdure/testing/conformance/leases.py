"""Leases: one per worker, renewed while it lives; what is owned under one is free when it ends (E3)."""

from __future__ import annotations

import asyncio

from perdure.stores.records import Committed
from perdure.testing.conformance.expecting import only, same
from perdure.testing.conformance.making import a_task, an_answer
from perdure.testing.conformance.stage import LEASE_SECONDS, Stores, hire, numbers, reread, task_of

SECOND = 1_000_000


async def a_lease_stands_as_it_was_opened(stores: Stores) -> None:
    """With its name and its queues, from now for so many seconds."""
    store = await stores.open()
    now = stores.clock.now_us()
    lease = await store.open_lease("host \u00e4:17", {"default": 10, "boxes": 2}, 2.5)
    same((lease.name, dict(lease.queues)), ("host \u00e4:17", {"default": 10, "boxes": 2}))
    same((lease.started_us, lease.expires_us), (now, now + 2_500_000))
    same(await store.list_leases(), [lease])


async def every_worker_has_a_lease_of_its_own(stores: Stores) -> None:
    """All of them are listed, for everybody."""
    store, other = await stores.open(), await stores.open()
    made = [await each.open_lease(f"w-{i}", {}, 10) for i, each in enumerate([store, other, store])]
    for each in (store, other):
        same(sorted(await each.list_leases(), key=lambda lease: lease.number), made)


async def the_number_of_a_lease_is_never_given_twice(stores: Stores) -> None:
    """It is the fencing number: each is larger than all before, whatever became of those (E3)."""
    store, other = await stores.open(), await stores.open()
    given: list[int] = []
    for i in range(6):
        each = (store, other)[i % 2]
        given.append((await hire(each)).lease)
        if i % 3 == 1:
            await each.close_lease(given[-1])
    same(given, sorted(set(given)))


async def a_lease_is_renewed_for_as_long_as_it_was_opened_for(stores: Stores) -> None:
    """From the time of the renewal on."""
    store = await stores.open()
    worker = await hire(store, seconds=10)
    stores.clock.advance(7)
    same(await store.renew_lease(worker.lease), True)
    lease = only(await store.list_leases())
    same(lease.expires_us, stores.clock.now_us() + 10 * SECOND)
    stores.clock.advance(7)
    same((await store.end_dead_leases(), await store.renew_lease(worker.lease)), ([], True))


async def a_lease_that_has_expired_is_not_lost_yet(stores: Stores) -> None:
    """Only `end_dead_leases` and `close_lease` end one: until then it can be renewed, and its turns are accepted."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    stores.clock.advance(LEASE_SECONDS + 5)
    same(await worker.try_commit(run), Committed())
    same((await store.renew_lease(worker.lease), await store.end_dead_leases()), (True, []))
    same((await reread(store, run)).owner, worker.lease)


async def a_lost_lease_is_not_renewed(stores: Stores) -> None:
    """False: it was lost, and so is all that was owned under it. One that never was is lost as well."""
    store = await stores.open()
    closed, dead = await hire(store, "w-1"), await hire(store, "w-2")
    await store.close_lease(closed.lease)
    stores.clock.advance(LEASE_SECONDS + 1)
    await store.end_dead_leases()
    same([await store.renew_lease(each) for each in (closed.lease, dead.lease, 4711)], [False] * 3)
    same(await store.list_leases(), [])


async def a_worker_that_stops_hands_its_runs_back_at_once(stores: Stores) -> None:
    """They are free and due now, whatever they were waiting for."""
    store = await stores.open()
    worker, other = await hire(store, "w-1"), await hire(store, "w-2")
    runs = [await worker.commit(await worker.begin(f"o-{i}"), wake_us=2**52) for i in range(2)]
    parked = await worker.commit(await worker.begin("parked"), park=True)
    theirs = await other.begin("theirs")
    stores.clock.advance(1)
    await store.close_lease(worker.lease)
    freed = await store.get_runs(numbers(runs))
    same([(run.owner, run.wake_us, run.last_turn) for run in freed], [(None, stores.clock.now_us(), 0)] * 2)
    same((await reread(store, parked), await reread(store, theirs)), (parked, theirs))
    same(sorted(numbers(await other.claim())), numbers(runs))


async def a_worker_that_stops_hands_its_tasks_back_at_once(stores: Stores) -> None:
    """They are free and due now; the attempt is noted as handed over, and is no failure."""
    store = await stores.open()
    worker, other = await hire(store, "host:1"), await hire(store, "host:2")
    run = await worker.commit(await worker.begin("o-1"), new_tasks=(a_task("t-1"),), park=True)
    task = only(await worker.claim_tasks())
    stores.clock.advance(3)
    await store.close_lease(worker.lease)
    freed, now = await task_of(store, run), stores.clock.now_us()
    same((freed.owner, freed.due_us, freed.attempt, freed.failures), (None, now, 1, 0))
    (attempt,) = freed.attempts
    same((attempt.attempt, attempt.worker, attempt.outcome), (1, "host:1", "handed_over"))
    same((attempt.started_us, attempt.ended_us), (task.started_us, now))
    again = only(await other.claim_tasks())
    same((again.attempt, again.attempts), (2, (attempt,)))


async def a_worker_that_has_died_loses_its_runs_when_its_lease_has_expired(stores: Stores) -> None:
    """`end_dead_leases` frees what it owns, and says whose; the living keep theirs."""
    store, other = await stores.open(), await stores.open()
    dead, alive = await hire(store, "w-1"), await hire(other, "w-2", seconds=100)
    run, theirs = await dead.begin("o-1"), await alive.begin("o-2")
    stores.clock.advance(LEASE_SECONDS - 1)
    same(await other.end_dead_leases(), [])
    stores.clock.advance(2)
    same([lease.number for lease in await other.end_dead_leases()], [dead.lease])
    freed = await reread(store, run)
    same((freed.owner, freed.wake_us), (None, stores.clock.now_us()))
    same((await reread(store, theirs), numbers(await alive.claim())), (theirs, [run.number]))
    same([lease.number for lease in await store.list_leases()], [alive.lease])


async def a_worker_that_has_died_loses_its_tasks(stores: Stores) -> None:
    """Somebody else takes them up: the attempt counts, and is noted as its worker's death (I14)."""
    store = await stores.open()
    worker, other = await hire(store, "host:1"), await hire(store, "host:2", seconds=100)
    run = await worker.commit(await worker.begin("o-1"), new_tasks=(a_task("t-1", claimed=True),))
    stores.clock.advance(LEASE_SECONDS + 1)
    await store.end_dead_leases()
    freed = await task_of(store, run)
    same((freed.owner, freed.attempt, freed.failures), (None, 1, 0))
    same([(each.attempt, each.worker, each.outcome) for each in freed.attempts], [(1, "host:1", "worker_died")])
    again = only(await other.claim_tasks())
    same((again.attempt, await store.report_tasks([an_answer(again)])), (2, [True]))


async def the_dead_are_ended_once(stores: Stores) -> None:
    """Whoever comes second has nothing to do, and takes nothing from the new owner."""
    store, other = await stores.open(), await stores.open()
    worker, new = await hire(store, "w-1"), await hire(other, "w-2", seconds=100)
    run = await worker.begin("o-1")
    stores.clock.advance(LEASE_SECONDS + 1)
    same(len(await store.end_dead_leases()), 1)
    taken = await new.own(run)
    same((await other.end_dead_leases(), await store.end_dead_leases()), ([], []))
    await store.close_lease(worker.lease)
    same(await reread(store, run), taken)


async def a_worker_may_end_without_having_owned_anything(stores: Stores) -> None:
    """And more than once; a number that no lease has is no error either."""
    store = await stores.open()
    worker = await hire(store)
    for number in (worker.lease, worker.lease, 4711):
        await store.close_lease(number)
    same((await store.list_leases(), await store.end_dead_leases()), ([], []))


async def a_lease_is_renewed_from_another_thread(stores: Stores) -> None:
    """Every method may be awaited on any event loop, in any thread, while others are under way."""
    store = await stores.open()
    worker = await hire(store)
    stores.clock.advance(5)

    def renew() -> bool:
        async def call() -> bool:
            return await store.renew_lease(worker.lease)

        return asyncio.run(call())

    renewals = [asyncio.to_thread(renew) for _ in range(4)]
    done = await asyncio.gather(*renewals, *(worker.begin(f"o-{i}") for i in range(10)))
    same(list(done[:4]), [True] * 4)
    lease = only(await store.list_leases())
    same(lease.expires_us, stores.clock.now_us() + round(LEASE_SECONDS * SECOND))
