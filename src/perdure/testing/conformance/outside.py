"""Outside: activities that nobody runs, answered by whoever was given their key (E4, E5)."""

from __future__ import annotations

from msgspec.structs import replace

from perdure.errors import NotFound
from perdure.stores.port import Store
from perdure.stores.records import NEVER_US, Report, Run, Task
from perdure.testing.conformance.expecting import only, raises, same
from perdure.testing.conformance.making import JOB, a_task, an_answer, an_attempt
from perdure.testing.conformance.stage import Stores, Worker, hire, numbers, reread, task_of


async def _given_out(stores: Stores) -> tuple[Store, Worker, Run, Task]:
    """A parked run, one task of it that waits for the outside, and the worker that has given it back."""
    store = await stores.open()
    worker = await hire(store, seconds=1000)
    run = await worker.commit(await worker.begin("o-1"), new_tasks=(a_task("t-1", 3),), park=True)
    task = only(await worker.claim_tasks())
    later = Report(
        run=task.run, id=task.id, owner=task.owner, attempt=an_attempt(task, "later"), retry_us=NEVER_US, counts=False
    )
    same(await store.report_tasks([later]), [True])
    return store, worker, run, await task_of(store, run)


async def a_task_is_found_by_its_run_and_its_id(stores: Stores) -> None:
    """A run id and a task's id give both, as they stand; the task is None once it is answered."""
    store, _, run, task = await _given_out(stores)
    same(await store.get_task(run.facts.run_id, task.id), (await reread(store, run), task))
    await store.report_tasks([an_answer(task)])
    same((await store.get_task(run.facts.run_id, task.id))[1], None)


async def a_task_of_another_run_is_not_found(stores: Stores) -> None:
    """The task is looked for in that run alone; a run that is not there is `NotFound`."""
    store, worker, _, task = await _given_out(stores)
    other = await worker.begin("o-2")
    same((await store.get_task(other.facts.run_id, task.id))[1], None)
    await raises(NotFound, store.get_task("nobody", task.id))


async def what_waits_for_the_outside_is_taken_by_nobody(stores: Stores) -> None:
    """It is due at the end of time: no worker claims it, however long it waits."""
    store, worker, run, task = await _given_out(stores)
    stores.clock.advance(10 * 365 * 86_400)
    same(await worker.claim_tasks(), [])
    same(await store.get_next_due(["default"]), NEVER_US)
    same(await task_of(store, run), task)


async def the_outside_answers_a_task_that_nobody_has(stores: Stores) -> None:
    """A report without an owner is accepted for a free task; the job is a message of its run, which is due now."""
    store, worker, run, task = await _given_out(stores)
    same(await store.report_tasks([an_answer(task)]), [True])
    message = only(await store.list_messages(run.number, 0))
    same((message.job, (await store.counts())["tasks"]), (JOB, 0))
    same(numbers(await worker.claim()), [run.number])


async def the_outside_answers_once(stores: Stores) -> None:
    """Of two answers the second is refused, and nothing is written for it."""
    store, _, run, task = await _given_out(stores)
    same(await store.report_tasks([an_answer(task), an_answer(task)]), [True, False])
    same(len(await store.list_messages(run.number, 0)), 1)


async def the_outside_has_a_free_task_tried_again(stores: Stores) -> None:
    """With `retry_us` it is due from then on, and the outside's word is among its attempts."""
    store, worker, run, task = await _given_out(stores)
    again = Report(
        run=task.run,
        id=task.id,
        owner=None,
        attempt=an_attempt(task, "failed"),
        retry_us=stores.clock.now_us(),
        counts=True,
    )
    same(await store.report_tasks([again]), [True])
    taken = only(await worker.claim_tasks())
    same((taken.attempt, taken.failures), (2, 1))
    same([(each.attempt, each.outcome) for each in taken.attempts], [(1, "later"), (1, "failed")])
    same((await task_of(store, run)).owner, worker.lease)


async def the_outside_says_nothing_of_a_task_that_somebody_has(stores: Stores) -> None:
    """Without an owner, a report on a task that was taken meanwhile is refused."""
    store, worker, run, task = await _given_out(stores)
    due = Report(
        run=task.run, id=task.id, owner=None, attempt=an_attempt(task, "failed"), retry_us=stores.clock.now_us()
    )
    await store.report_tasks([due])
    taken = only(await worker.claim_tasks())
    same(await store.report_tasks([replace(an_answer(taken), owner=None)]), [False])
    same((await task_of(store, run), await store.list_messages(run.number, 0)), (taken, []))


async def a_task_that_waits_for_the_outside_outlives_its_worker(stores: Stores) -> None:
    """The lease under which it was given out does not matter to it."""
    store, worker, run, task = await _given_out(stores)
    await store.close_lease(worker.lease)
    same(await task_of(store, run), task)
