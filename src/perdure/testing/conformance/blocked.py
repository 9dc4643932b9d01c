"""Blocked runs: put aside with a reason, tried again at their time, and holding up nobody else."""

from __future__ import annotations

from msgspec.structs import replace

from perdure.errors import LeaseLost
from perdure.stores.records import Blocked, Closing
from perdure.testing.conformance.expecting import only, raises, same
from perdure.testing.conformance.making import JOB, a_task, an_answer
from perdure.testing.conformance.stage import Stores, begin, hire, numbers, reread, task_of

SECOND = 1_000_000
QUEUE = ("default",)


async def a_run_is_blocked_with_its_reason(stores: Stores) -> None:
    """The reason is kept for people and for the next try, and nobody owns the run."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    why = Blocked(kind="violation", reason="line 3:\n'ä'", since_us=5, tries=7, retry_us=2**52 + 1)
    await store.block_run(worker.lease, run.number, why, [])
    blocked = await reread(store, run)
    same((blocked.blocked, blocked.owner, blocked.status, blocked.last_turn), (why, None, "running", -1))
    same(await store.list_turns(run.number), [])


async def a_blocked_run_is_due_again_at_its_time(stores: Stores) -> None:
    """It is due from `retry_us` on, and not before."""
    store = await stores.open()
    worker = await hire(store, seconds=100)
    run = await worker.begin("o-1")
    later = stores.clock.now_us() + 2 * SECOND
    await store.block_run(worker.lease, run.number, Blocked(kind="error", reason="", since_us=1, retry_us=later), [])
    same((await worker.claim(), await store.get_next_wake(QUEUE)), ([], later))
    stores.clock.advance(2)
    claimed = only(await worker.claim())
    same((claimed.number, claimed.blocked and claimed.blocked.retry_us), (run.number, later))


async def a_blocked_run_without_a_time_waits(stores: Stores) -> None:
    """It is not due before somebody wakes it, or tells it something."""
    store = await stores.open()
    worker = await hire(store, seconds=1000)
    run = await worker.begin("o-1")
    await store.block_run(worker.lease, run.number, Blocked(kind="error", reason="", since_us=1), [])
    stores.clock.advance(900)
    same((await worker.claim(), await store.get_next_wake(QUEUE)), ([], None))
    await store.accept_message("o-1", None, JOB)
    same(numbers(await worker.claim()), [run.number])


async def a_message_that_a_blocked_run_cannot_take_can_be_corrected(stores: Stores) -> None:
    """Under its number, with what it was accepted as but for job and notes; the run is due at once."""
    store = await stores.open()
    worker = await hire(store, seconds=100)
    run = await worker.begin("o-1")
    for id in ("m-1", "m-2", "m-3"):
        await store.accept_message("o-1", None, JOB, message_id=id)
    before = await store.list_messages(run.number, 0)
    later = stores.clock.now_us() + SECOND
    await store.block_run(worker.lease, run.number, Blocked(kind="error", reason="", since_us=1, retry_us=later), [])
    better = replace(before[1], job=b'{ "kind": "better" }', notes=b"[ 1 ]")
    same(await store.correct_message(run.number, better), True)
    same(await store.list_messages(run.number, 0), [before[0], better, before[2]])
    same((await store.accept_message("o-1", None, JOB, message_id="m-2")).number, 2)
    same(numbers(await worker.claim()), [run.number])


async def only_what_waits_for_a_blocked_run_of_nobody_can_be_corrected(stores: Stores) -> None:
    """False, and nothing is written: not blocked, somebody has it, taken, never accepted, ended, no such run."""
    store = await stores.open()
    worker = await hire(store, seconds=100)
    run = await worker.begin("o-1")
    await store.accept_message("o-1", None, JOB)
    await store.accept_message("o-1", None, JOB)
    run = await worker.commit(run, consumed=1)
    (message,) = await store.list_messages(run.number, 0)
    better = replace(message, job=b"{}")
    same(await store.correct_message(run.number, better), False)
    await store.block_run(worker.lease, run.number, Blocked(kind="error", reason="", since_us=1), [])
    for number in (1, 3):
        same(await store.correct_message(run.number, replace(better, number=number)), False)
    same(await store.correct_message(run.number + 1, better), False)
    same(await worker.claim(), [])
    await worker.own(run)
    same(await store.correct_message(run.number, better), False)
    same(await store.list_messages(run.number, 0), [message])
    await store.close_run("o-1", None, Closing("terminated"))
    same(await store.correct_message(run.number, better), False)


async def a_blocked_run_is_not_due_for_messages_that_wait_already(stores: Stores) -> None:
    """Its time counts: what could not be taken now cannot be taken a moment later either."""
    store = await stores.open()
    worker = await hire(store, seconds=100)
    run = await worker.begin("o-1")
    await store.accept_message("o-1", None, JOB)
    later = stores.clock.now_us() + SECOND
    await store.block_run(worker.lease, run.number, Blocked(kind="error", reason="", since_us=1, retry_us=later), [])
    same(await worker.claim(), [])
    stores.clock.advance(1)
    same(numbers(await worker.claim()), [run.number])
    same(len(await store.list_messages(run.number, 0)), 1)


async def a_blocked_run_holds_up_nobody_else(stores: Stores) -> None:
    """The other runs of its queue are claimed as before, however urgent it was."""
    store = await stores.open()
    worker = await hire(store)
    bad = await worker.begin("bad", priority=9)
    await begin(store, "o-1")
    await store.block_run(worker.lease, bad.number, Blocked(kind="error", reason="", since_us=1), [])
    same([run.facts.workflow_id for run in await worker.claim()], ["o-1"])


async def a_free_run_is_blocked_by_nobody_in_particular(stores: Stores) -> None:
    """`owner` None: it is free. So is put aside what no worker has code for."""
    store = await stores.open()
    run = await begin(store, "o-1", workflow="gone")
    why = Blocked(kind="unknown_workflow", reason="gone", since_us=1, retry_us=stores.clock.now_us() + SECOND)
    await store.block_run(None, run.number, why, [])
    same(((await reread(store, run)).blocked, await store.get_next_wake(QUEUE)), (why, why.retry_us))


async def what_is_blocked_is_not_listed_as_unknown(stores: Stores) -> None:
    """`list_unknown` leaves it out, also when it is due again."""
    store = await stores.open()
    run = await begin(store, "o-1", workflow="gone")
    same(numbers(await store.list_unknown(QUEUE, ["order"], 10)), [run.number])
    why = Blocked(kind="unknown_workflow", reason="gone", since_us=1, retry_us=stores.clock.now_us() + SECOND)
    await store.block_run(None, run.number, why, [])
    stores.clock.advance(2)
    same(await store.list_unknown(QUEUE, ["order"], 10), [])


async def a_new_worker_wakes_what_is_blocked(stores: Stores) -> None:
    """`wake_blocked` makes the blocked, free runs of these queues due now, and says how many."""
    store = await stores.open()
    worker = await hire(store)
    later = stores.clock.now_us() + 50 * SECOND
    for name, queue, retry_us in (("a", "default", None), ("b", "default", later), ("c", "boxes", None)):
        run = await begin(store, name, queue=queue)
        why = Blocked(kind="error", reason="", since_us=1, retry_us=retry_us)
        await store.block_run(None, run.number, why, [])
    parked = await worker.commit(await worker.begin("parked"), park=True)
    same(await worker.claim(), [])
    same(await store.wake_blocked(QUEUE), 2)
    same(sorted(run.facts.workflow_id for run in await worker.claim()), ["a", "b"])
    same((await worker.claim(queues=("boxes",)), await reread(store, parked)), ([], parked))
    same((await store.wake_blocked(("boxes", "letters")), await store.wake_blocked(())), (1, 0))
    same([run.facts.workflow_id for run in await worker.claim(queues=("boxes",))], ["c"])


async def a_run_that_is_tried_again_is_not_woken(stores: Stores) -> None:
    """Somebody owns it already."""
    store = await stores.open()
    worker = await hire(store)
    run = await begin(store, "o-1")
    await store.block_run(None, run.number, Blocked(kind="error", reason="", since_us=1), [])
    owned = await worker.own(run)
    same((await store.wake_blocked(QUEUE), await reread(store, run)), (0, owned))


async def what_is_not_blocked_any_more_is_not_woken(stores: Stores) -> None:
    """A run that went on waits for what it waits for."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    await store.block_run(worker.lease, run.number, Blocked(kind="error", reason="", since_us=1), [])
    parked = await worker.commit(await worker.own(run), park=True)
    same((await store.wake_blocked(QUEUE), await reread(store, run), await worker.claim()), (0, parked, []))


async def a_block_keeps_the_answers_that_its_turn_should_have_taken(stores: Stores) -> None:
    """`reports` become messages of the run, which is not due before its time all the same."""
    store = await stores.open()
    worker = await hire(store, seconds=100)
    run = await worker.commit(await worker.begin("o-1"), new_tasks=(a_task("t-1", claimed=True),))
    task = await task_of(store, run)
    later = stores.clock.now_us() + SECOND
    why = Blocked(kind="error", reason="", since_us=1, retry_us=later)
    await store.block_run(worker.lease, run.number, why, [an_answer(task)])
    same((await store.list_tasks(run.number), await worker.claim()), ([], []))
    message = only(await store.list_messages(run.number, 0))
    same((message.job, (await reread(store, run)).wake_us), (JOB, later))


async def what_has_ended_cannot_be_blocked(stores: Stores) -> None:
    """`LeaseLost`: nobody owns it, and it is not free."""
    store = await stores.open()
    run = await begin(store, "o-1")
    await store.close_run("o-1", None, Closing("completed", b"[]"))
    ended = await reread(store, run)
    why = Blocked(kind="error", reason="", since_us=1)
    await raises(LeaseLost, store.block_run(None, run.number, why, []))
    await raises(LeaseLost, store.block_run(None, run.number + 100, why, []))
    same(await reread(store, run), ended)
