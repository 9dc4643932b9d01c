"""Cancelling activities: free ones are over at once, whoever runs one learns of it (M6)."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.stores.answers import AttemptNotes
from perdure.stores.port import Store
from perdure.stores.records import Committed, Message, Run, Task, TaskCancel
from perdure.testing.conformance.expecting import only, same
from perdure.testing.conformance.making import JOB, a_beat, a_retry, a_task, an_answer, an_id
from perdure.testing.conformance.stage import LEASE_SECONDS, Stores, Worker, hire, task_of

SECOND = 1_000_000
ID = an_id("t-1")
ASKED, AWAITED = TaskCancel(ID), TaskCancel(ID, answer=True)


async def _ordered(stores: Stores, **options: Any) -> tuple[Store, Worker, Run]:
    """A run that its worker owns, and that has ordered one task."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.commit(await worker.begin("o-1"), new_tasks=(a_task("t-1", 3, **options),))
    return store, worker, run


async def _running(stores: Stores, cancel: TaskCancel) -> tuple[Store, Worker, Run, Task]:
    """The same, cancelled while somebody runs it."""
    store, worker, run = await _ordered(stores)
    other = await hire(store, "w-2")
    task = only(await other.claim_tasks())
    run = await worker.commit(run, cancels=(cancel,), park=True)
    return store, other, run, task


def _is_cancelled(message: Message, outcomes: list[str]) -> None:
    """This message answers the task as cancelled, after attempts that came to this."""
    same(msgspec.json.decode(message.job), {"kind": "cancelled", "seq": 3})
    notes = msgspec.json.decode(message.notes or b"null", type=AttemptNotes)
    same((notes.id, notes.seq, notes.name), (ID, 3, "charge"))
    same([attempt.outcome for attempt in notes.attempts], outcomes)


async def a_free_task_that_is_not_wanted_is_gone(stores: Stores) -> None:
    """Nobody takes it, and the run hears nothing of it."""
    store, worker, run = await _ordered(stores)
    same(await worker.try_commit(run, cancels=(ASKED,), park=True), Committed(0, parked=True))
    same((await store.list_tasks(run.number), await worker.claim_tasks()), ([], []))
    same(await store.list_messages(run.number, 0), [])


async def a_free_task_that_is_cancelled_is_answered_at_once(stores: Stores) -> None:
    """With `answer`, the workflow waits for how it ends: as cancelled, in the same commit, which does not park."""
    store, worker, run = await _ordered(stores)
    same(await worker.try_commit(run, cancels=(AWAITED,), park=True), Committed(1, parked=False))
    same((await store.list_tasks(run.number), await worker.claim_tasks()), ([], []))
    message = only(await store.list_messages(run.number, 0))
    _is_cancelled(message, [])


async def a_delayed_task_that_is_cancelled_does_not_wait_for_its_time(stores: Stores) -> None:
    """It is answered at once as well."""
    store, worker, run = await _ordered(stores, due_us=2**52)
    same(await worker.try_commit(run, cancels=(AWAITED,)), Committed(1))
    same(await store.get_next_due(["default"]), None)


async def a_task_may_be_ordered_and_cancelled_by_one_turn(stores: Stores) -> None:
    """It is never taken."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    same(await worker.try_commit(run, new_tasks=(a_task("t-1", 3),), cancels=(AWAITED,)), Committed(1))
    same(await worker.claim_tasks(), [])


async def a_cancel_of_what_is_not_there_does_nothing(stores: Stores) -> None:
    """Its answer may be on its way already."""
    store, worker, run = await _ordered(stores)
    same(await worker.try_commit(run, cancels=(TaskCancel(an_id("gone"), answer=True),)), Committed())
    same((len(await store.list_tasks(run.number)), await store.list_messages(run.number, 0)), (1, []))


async def whoever_runs_a_task_learns_that_it_shall_cancel(stores: Stores) -> None:
    """By the list of its lease and by the answer to its heartbeat, until it has reported."""
    store, other, run, task = await _running(stores, AWAITED)
    same(await store.list_cancelled(other.lease), [ID])
    same((await store.beat_tasks([a_beat(task)]), (await task_of(store, run)).cancel), ([True], True))
    same((await task_of(store, run)).owner, other.lease)
    same(await store.list_messages(run.number, 0), [])
    await store.report_tasks([an_answer(task)])
    same(await store.list_cancelled(other.lease), [])


async def whoever_runs_a_task_that_is_not_wanted_learns_of_it(stores: Stores) -> None:
    """Without `answer` too; what it reports reaches nobody."""
    store, other, run, task = await _running(stores, ASKED)
    same(await store.list_cancelled(other.lease), [ID])
    same(await store.beat_tasks([a_beat(task)]) in ([True], [None]), True)
    await store.report_tasks([an_answer(task)])
    same((await store.list_tasks(run.number), await store.list_messages(run.number, 0)), ([], []))
    same(await store.list_cancelled(other.lease), [])


async def nobody_else_is_told_to_cancel(stores: Stores) -> None:
    """The list is of one lease, and of its own tasks."""
    store, other, _, task = await _running(stores, AWAITED)
    third = await hire(store, "w-3")
    await third.commit(await third.begin("o-2"), new_tasks=(a_task("mine", claimed=True),))
    same((await store.list_cancelled(third.lease), await store.list_cancelled(other.lease)), ([], [task.id]))


async def a_cancelled_task_may_still_end_with_a_value(stores: Stores) -> None:
    """Cancellation is asked for: what the attempt came to is what counts."""
    store, _, run, task = await _running(stores, AWAITED)
    same(await store.report_tasks([an_answer(task)]), [True])
    message = only(await store.list_messages(run.number, 0))
    same((message.job, await store.list_tasks(run.number)), (JOB, []))


async def a_cancelled_task_is_not_tried_again(stores: Stores) -> None:
    """With `retry_us` it is answered as cancelled instead, with all its attempts."""
    store, other, run, task = await _running(stores, AWAITED)
    same(await store.report_tasks([a_retry(task, stores.clock.now_us())]), [True])
    same((await store.list_tasks(run.number), await other.claim_tasks()), ([], []))
    message = only(await store.list_messages(run.number, 0))
    _is_cancelled(message, ["failed"])


async def a_cancelled_task_ends_with_its_worker(stores: Stores) -> None:
    """When that dies, the task is answered as cancelled, and nobody takes it up."""
    store, other, run, _ = await _running(stores, AWAITED)
    stores.clock.advance(LEASE_SECONDS + 1)
    await store.end_dead_leases()
    third = await hire(store, "w-3")
    same((await store.list_tasks(run.number), await third.claim_tasks()), ([], []))
    message = only(await store.list_messages(run.number, 0))
    _is_cancelled(message, ["worker_died"])
    same(await store.renew_lease(other.lease), False)


async def a_cancelled_task_that_is_handed_back_is_over(stores: Stores) -> None:
    """The same when its worker stops politely."""
    store, other, run, _ = await _running(stores, AWAITED)
    await store.close_lease(other.lease)
    same((await store.list_tasks(run.number), (await store.counts())["tasks"]), ([], 0))
    message = only(await store.list_messages(run.number, 0))
    _is_cancelled(message, ["handed_over"])


async def a_task_that_nobody_wants_is_over_with_its_worker(stores: Stores) -> None:
    """Without `answer`, nobody takes it up, and the run hears nothing of it."""
    store, other, run, _ = await _running(stores, ASKED)
    await store.close_lease(other.lease)
    third = await hire(store, "w-3")
    same((await third.claim_tasks(), await store.list_messages(run.number, 0)), ([], []))
    same((await store.counts())["tasks"], 0)


async def cancelled_tasks_are_answered_in_the_order_of_their_cancels(stores: Stores) -> None:
    """Each as a message of its own."""
    store = await stores.open()
    worker = await hire(store)
    ordered = tuple(a_task(f"t-{i}", i) for i in range(4))
    run = await worker.commit(await worker.begin("o-1"), new_tasks=ordered)
    cancels = tuple(TaskCancel(an_id(f"t-{i}"), answer=True) for i in (2, 0, 3))
    same(await worker.try_commit(run, cancels=cancels), Committed(3))
    jobs = [msgspec.json.decode(message.job) for message in await store.list_messages(run.number, 0)]
    same([job["seq"] for job in jobs], [2, 0, 3])
    same([task.seq for task in await store.list_tasks(run.number)], [1])
