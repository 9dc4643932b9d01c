"""Reports: what attempts came to, as an answer to the run or as another try (I14)."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from perdure.stores.answers import AttemptNotes, attempt_notes
from perdure.stores.port import Store
from perdure.stores.records import Closing, Report, Run, Task
from perdure.testing.conformance.expecting import only, raises, same
from perdure.testing.conformance.making import JOB, a_beat, a_retry, a_task, an_answer, an_attempt
from perdure.testing.conformance.stage import Stores, Worker, hire, numbers, reread, task_of

SECOND = 1_000_000


async def _taken(stores: Stores, **options: Any) -> tuple[Store, Worker, Run, Task]:
    """A parked run, one task of it, and the worker that has taken that."""
    store = await stores.open()
    worker = await hire(store, seconds=1000)
    run = await worker.commit(await worker.begin("o-1"), new_tasks=(a_task("t-1", 3, **options),), park=True)
    task = only(await worker.claim_tasks())
    return store, worker, run, task


async def an_answer_becomes_a_message_of_its_run(stores: Stores) -> None:
    """With `job`, the task is done: it is removed, and the job is a message of its run, which is due now."""
    store, worker, run, task = await _taken(stores)
    stores.clock.advance(2)
    same(await store.report_tasks([an_answer(task)]), [True])
    same((await store.list_tasks(run.number), (await store.counts())["tasks"]), ([], 0))
    message = only(await store.list_messages(run.number, 0))
    same((message.number, message.job, message.message_id), (1, JOB, None))
    same(message.accepted_us, stores.clock.now_us())
    same(numbers(await worker.claim()), [run.number])


async def an_answer_says_how_it_came_about(stores: Stores) -> None:
    """A message that comes of a report carries all attempts at the task as its notes."""
    store, worker, run, task = await _taken(stores)
    await store.report_tasks([a_retry(task, stores.clock.now_us())])
    again = only(await worker.claim_tasks())
    await store.report_tasks([an_answer(again)])
    message = only(await store.list_messages(run.number, 0))
    same(message.notes, attempt_notes(again, an_attempt(again)))
    notes = msgspec.json.decode(message.notes or b"null", type=AttemptNotes)
    same([(each.attempt, each.outcome) for each in notes.attempts], [(1, "failed"), (2, "completed")])
    same((notes.id, notes.seq, notes.name), (task.id, 3, "charge"))


async def answers_come_behind_the_messages_that_wait(stores: Stores) -> None:
    """They are numbered with all others, in the order in which they were reported."""
    store, worker, run, task = await _taken(stores)
    await worker.commit(await worker.own(run), new_tasks=(a_task("t-2", 4, claimed=True),), park=True)
    second = (await store.list_tasks(run.number))[1]
    await store.accept_message("o-1", None, b"0")
    same(await store.report_tasks([an_answer(second, b"2"), an_answer(task, b"1")]), [True, True])
    await store.accept_message("o-1", None, b"3")
    listed = await store.list_messages(run.number, 0)
    same([(message.number, message.job) for message in listed], [(1, b"0"), (2, b"2"), (3, b"1"), (4, b"3")])


async def an_answer_is_delivered_once(stores: Stores) -> None:
    """Reported again, it is refused: no answer is delivered twice (E8)."""
    store, _, run, task = await _taken(stores)
    same(await store.report_tasks([an_answer(task), an_answer(task)]), [True, False])
    same(await store.report_tasks([an_answer(task)]), [False])
    same(len(await store.list_messages(run.number, 0)), 1)


async def an_answer_to_an_owned_run_waits_for_its_owner(stores: Stores) -> None:
    """It is pending for whoever owns the run, and is not lost when that parks."""
    store, worker, run, task = await _taken(stores)
    owned = await worker.own(run)
    await store.report_tasks([an_answer(task)])
    same(numbers(await store.list_pending(worker.lease)), [run.number])
    parked = await worker.commit(owned, park=True)
    same((parked.owner, parked.accepted, parked.consumed), (worker.lease, 1, 0))


async def a_failed_attempt_is_tried_again_at_its_time(stores: Stores) -> None:
    """With `retry_us`, the task is free again from then on; its run hears nothing."""
    store, worker, run, task = await _taken(stores)
    later = stores.clock.now_us() + 5 * SECOND
    same(await store.report_tasks([a_retry(task, later)]), [True])
    freed = await task_of(store, run)
    same((freed.owner, freed.due_us, freed.started_us, freed.heartbeat_us), (None, later, None, None))
    same((await worker.claim_tasks(), await store.get_next_due(["default"])), ([], later))
    same((await worker.claim(), await store.list_messages(run.number, 0)), ([], []))
    stores.clock.advance(5)
    again = only(await worker.claim_tasks())
    same((again.id, again.attempt, again.started_us), (task.id, 2, stores.clock.now_us()))


async def every_attempt_is_counted_and_kept(stores: Stores) -> None:
    """Attempts are numbered one after another, and each is kept for people to see (I14)."""
    store, worker, run, task = await _taken(stores)
    kept = [an_attempt(task, "failed")]
    for number in range(2, 6):
        await store.report_tasks([a_retry(task, stores.clock.now_us())])
        stores.clock.advance(1)
        task = only(await worker.claim_tasks())
        same((task.attempt, task.failures, task.attempts), (number, number - 1, tuple(kept)))
        kept.append(an_attempt(task, "failed"))
    same(await task_of(store, run), task)


async def an_attempt_may_not_count_as_a_failure(stores: Stores) -> None:
    """With `counts` False the attempt is kept and numbered, and the retry policy does not see it."""
    store, worker, run, task = await _taken(stores)
    await store.report_tasks([a_retry(task, stores.clock.now_us(), counts=False)])
    freed = await task_of(store, run)
    same((freed.failures, len(freed.attempts)), (0, 1))
    again = only(await worker.claim_tasks())
    same((again.attempt, again.failures), (2, 0))


async def the_details_of_a_heartbeat_are_there_for_the_next_attempt(stores: Stores) -> None:
    """It may go on where the last one was (E4); it has not beaten itself yet."""
    store, worker, _, task = await _taken(stores)
    await store.beat_tasks([a_beat(task, b"[7]")])
    await store.report_tasks([a_retry(task, stores.clock.now_us())])
    again = only(await worker.claim_tasks())
    same((again.details, again.heartbeat_us), (b"[7]", None))


async def an_attempt_is_known_by_its_number(stores: Stores) -> None:
    """The same worker may have the task again: what its earlier attempt says is refused (I14)."""
    store, worker, run, task = await _taken(stores)
    await store.report_tasks([a_retry(task, stores.clock.now_us())])
    again = only(await worker.claim_tasks())
    same(await store.report_tasks([an_answer(task)]), [False])
    same(await store.report_tasks([a_retry(task, stores.clock.now_us())]), [False])
    same((await task_of(store, run), await store.list_messages(run.number, 0)), (again, []))


async def an_attempt_is_known_by_its_owner(stores: Stores) -> None:
    """What anybody else says of a task is refused, and so is what is said of a free one."""
    store, _, run, task = await _taken(stores)
    other = await hire(store, "w-2")
    same(await store.report_tasks([replace(an_answer(task), owner=other.lease)]), [False])
    same(await task_of(store, run), task)
    await store.report_tasks([a_retry(task, stores.clock.now_us())])
    same(await store.report_tasks([an_answer(task)]), [False])
    same((await task_of(store, run)).owner, None)


async def a_report_on_nothing_is_refused(stores: Stores) -> None:
    """No task has that id: nothing was written, and the reports beside it are."""
    store, _, run, task = await _taken(stores)
    nothing: Report = replace(an_answer(task), id="nothing")
    same(await store.report_tasks([nothing, an_answer(task), nothing]), [False, True, False])
    same(len(await store.list_messages(run.number, 0)), 1)


async def an_answer_to_a_run_that_has_ended_is_dropped(stores: Stores) -> None:
    """A task that outlives its run is done all the same; there is nobody to tell."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    await worker.commit(run, closing=Closing("completed", b"[]"), new_tasks=(a_task("t-1"),))
    ended = await reread(store, run)
    task = only(await worker.claim_tasks())
    same(await store.report_tasks([an_answer(task)]), [True])
    same((await reread(store, run), (await store.counts())["messages"]), (ended, 0))
    same((await store.counts())["tasks"], 0)


async def a_report_that_says_nothing_is_refused(stores: Stores) -> None:
    """Either `job` or `retry_us`: with neither, nothing is written, for the reports beside it neither."""
    store, _, run, task = await _taken(stores)
    nothing = replace(an_answer(task), job=None)
    await raises(Exception, store.report_tasks([an_answer(task), nothing]))
    same((await task_of(store, run), await store.list_messages(run.number, 0)), (task, []))
