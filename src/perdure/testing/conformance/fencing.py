"""Fencing: what is sent under a lease that has lost its run is refused, and nothing of it is written (E3)."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from perdure.errors import LeaseLost
from perdure.stores.port import Store
from perdure.stores.records import Blocked, Closing, Committed, Run, Turn
from perdure.testing.conformance.expecting import only, raises, refused, same
from perdure.testing.conformance.making import JOB, a_beat, a_commit, a_retry, a_task, a_turn, an_answer
from perdure.testing.conformance.stage import LEASE_SECONDS, Stores, Worker, begin, hire, reread, task_of

WHY = Blocked(kind="error", reason="why", since_us=1)


async def _is_refused(store: Store, worker: Worker, run: Run, **content: Any) -> None:
    """A turn under this lease is refused, and changes neither the run, nor its turns, nor its tasks."""
    before = await reread(store, run), await store.list_turns(run.number), await store.list_tasks(run.number)
    refused(await worker.try_commit(run, new_tasks=(a_task("stale", 99),), **content), LeaseLost)
    after = await reread(store, run), await store.list_turns(run.number), await store.list_tasks(run.number)
    same(after, before)


async def a_turn_under_a_lost_lease_is_refused(stores: Stores) -> None:
    """After `close_lease` and after `end_dead_leases`, while nobody has taken the run over yet."""
    store = await stores.open()
    closed, dead = await hire(store, "w-1"), await hire(store, "w-2")
    one, two = await closed.begin("o-1"), await dead.begin("o-2")
    await store.close_lease(closed.lease)
    await _is_refused(store, closed, one)
    stores.clock.advance(LEASE_SECONDS + 1)
    await store.end_dead_leases()
    await _is_refused(store, dead, two)


async def a_turn_is_refused_once_another_has_taken_over(stores: Stores) -> None:
    """The new owner's turn stands, whether it was made before or after the stale one came."""
    store, other = await stores.open(), await stores.open()
    old, new = await hire(store, "w-1"), await hire(other, "w-2", seconds=1000)
    run = await old.begin("o-1")
    stores.clock.advance(LEASE_SECONDS + 1)
    await other.end_dead_leases()
    taken = await new.own(run)
    await _is_refused(store, old, run)
    await new.commit(taken)
    await _is_refused(store, old, run)
    await _is_refused(store, old, await reread(store, run))


async def a_turn_under_somebody_elses_lease_is_refused(stores: Stores) -> None:
    """A run takes turns of its owner alone, however alive the other is."""
    store = await stores.open()
    one, two = await hire(store, "w-1"), await hire(store, "w-2")
    run = await one.begin("o-1")
    await _is_refused(store, two, run)
    same(await one.try_commit(run), Committed())


async def a_turn_of_a_run_that_nobody_owns_is_refused(stores: Stores) -> None:
    """A free run takes no turn: it has to be claimed first. So does one that was parked."""
    store = await stores.open()
    worker = await hire(store)
    await _is_refused(store, worker, await begin(store, "o-1"))
    parked = await worker.commit(await worker.begin("o-2"), park=True)
    await _is_refused(store, worker, parked)


async def a_turn_of_a_run_that_does_not_exist_is_refused(stores: Stores) -> None:
    """It has its error like any other that cannot be."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    nowhere = replace(run, number=run.number + 100)
    answer = only(await store.commit_turns([a_commit(nowhere, worker.lease)]))
    refused(answer, LeaseLost)
    same((await store.counts())["turns"], 0)


async def a_turn_that_was_made_already_is_refused(stores: Stores) -> None:
    """Sent twice, it is written once."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    await worker.commit(run)
    await _is_refused(store, worker, run)
    await _is_refused(store, worker, run, turn=a_turn(run, "another"))


async def a_turn_that_skips_one_is_refused(stores: Stores) -> None:
    """History has no gaps (E8)."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.commit(await worker.begin("o-1"))
    follower = a_turn(run)
    ahead = a_turn(replace(run, last_turn=follower.number, checksum=follower.checksum))
    await _is_refused(store, worker, run, turn=ahead)
    await _is_refused(store, worker, run, turn=ahead, previous=follower.checksum)


async def a_turn_upon_another_history_is_refused(stores: Stores) -> None:
    """Its number may fit: the run must stand where the turn begins, by checksum."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.commit(await worker.begin("o-1"))
    elsewhere = replace(run, checksum=b"\x01" * 16)
    turn: Turn = a_turn(elsewhere)
    await _is_refused(store, worker, run, turn=turn, previous=elsewhere.checksum)


async def a_turn_behind_the_end_is_refused(stores: Stores) -> None:
    """A run that has ended stays as it ended (E8)."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    await worker.commit(run, closing=Closing("completed", b"[1]"))
    await _is_refused(store, worker, await reread(store, run))
    await _is_refused(store, worker, await reread(store, run), closing=Closing("failed", b"{}"))


async def only_the_owner_blocks_a_run(stores: Stores) -> None:
    """`LeaseLost` for anybody else, and for `owner` None where somebody owns the run."""
    store = await stores.open()
    one, two = await hire(store, "w-1"), await hire(store, "w-2")
    run = await one.begin("o-1")
    await raises(LeaseLost, store.block_run(two.lease, run.number, WHY, []))
    await raises(LeaseLost, store.block_run(None, run.number, WHY, []))
    same(await reread(store, run), run)
    free = await begin(store, "o-2")
    await raises(LeaseLost, store.block_run(one.lease, free.number, WHY, []))
    same(await reread(store, free), free)


async def a_block_that_is_refused_drops_its_reports(stores: Stores) -> None:
    """Nothing was written: the tasks are open as before."""
    store = await stores.open()
    one, two = await hire(store, "w-1"), await hire(store, "w-2")
    run = await one.commit(await one.begin("o-1"), new_tasks=(a_task("t-1", claimed=True),))
    task = await task_of(store, run)
    await raises(LeaseLost, store.block_run(two.lease, run.number, WHY, [an_answer(task)]))
    same((await task_of(store, run), await reread(store, run)), (task, run))


async def a_report_under_a_lost_lease_is_refused(stores: Stores) -> None:
    """An attempt that was given to somebody else is not the reporter's any more (I14)."""
    store = await stores.open()
    old, new = await hire(store, "w-1"), await hire(store, "w-2", seconds=1000)
    run = await old.commit(await old.begin("o-1"), new_tasks=(a_task("t-1"),), park=True)
    lost = only(await old.claim_tasks())
    stores.clock.advance(LEASE_SECONDS + 1)
    await store.end_dead_leases()
    same(await store.report_tasks([an_answer(lost)]), [False])
    same(await store.report_tasks([a_retry(lost, stores.clock.now_us())]), [False])
    taken = only(await new.claim_tasks())
    same(await store.report_tasks([an_answer(lost)]), [False])
    same((await task_of(store, run), await store.list_messages(run.number, 0)), (taken, []))
    same(await store.report_tasks([an_answer(taken)]), [True])


async def a_heartbeat_under_a_lost_lease_changes_nothing(stores: Stores) -> None:
    """It is answered with None: the task was lost."""
    store = await stores.open()
    old, new = await hire(store, "w-1"), await hire(store, "w-2", seconds=1000)
    run = await old.commit(await old.begin("o-1"), new_tasks=(a_task("t-1"),), park=True)
    lost = only(await old.claim_tasks())
    await store.close_lease(old.lease)
    same(await store.beat_tasks([a_beat(lost, b"1")]), [None])
    taken = only(await new.claim_tasks())
    same(await store.beat_tasks([a_beat(lost, b"1")]), [None])
    same(await task_of(store, run), taken)


async def a_lost_lease_takes_no_tasks(stores: Stores) -> None:
    """A lease that was lost claims nothing, tasks included."""
    store = await stores.open()
    old, new = await hire(store, "w-1"), await hire(store, "w-2")
    run = await new.commit(await new.begin("o-1"), new_tasks=(a_task("t-1"),), park=True)
    await store.close_lease(old.lease)
    same((await old.claim_tasks(), (await task_of(store, run)).attempt), ([], 0))


async def a_message_for_a_run_that_was_taken_over_is_not_lost(stores: Stores) -> None:
    """What the old owner had not taken is there for the new one (E8)."""
    store = await stores.open()
    old, new = await hire(store, "w-1"), await hire(store, "w-2")
    run = await old.begin("o-1")
    await store.accept_message("o-1", None, JOB)
    await store.close_lease(old.lease)
    refused(await old.try_commit(run, consumed=1), LeaseLost)
    taken = only(await new.claim())
    same((taken.accepted, taken.consumed, len(await store.list_messages(run.number, 0))), (1, 0, 1))
