"""Reopening: what was acknowledged is there for whoever opens the data next, however its writer ended (E8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from perdure.stores.port import Store
from perdure.stores.records import EVERY, Blocked, Closing, Committed
from perdure.testing.conformance.expecting import only, same
from perdure.testing.conformance.making import JOB, a_start, a_task, an_answer
from perdure.testing.conformance.stage import LEASE_SECONDS, Stores, begin, hire, numbers, reread, task_of

Again = Callable[[Stores, Store], Awaitable[Store]]


async def _reopened(stores: Stores, store: Store) -> Store:
    return await stores.reopen(store)


async def _killed(stores: Stores, store: Store) -> Store:
    await stores.kill(store)
    return await stores.open()


async def _everything(store: Store) -> list[Any]:
    """All that can be read of a store, but for its leases."""
    runs = await store.list_runs(EVERY, 1000)
    of_runs = [
        (await store.list_turns(n), await store.list_messages(n, 0), await store.list_tasks(n)) for n in numbers(runs)
    ]
    return [runs, of_runs, await store.list_questions(("order",))]


async def _fill(store: Store) -> None:
    """One run of each sort, none of them owned."""
    worker = await hire(store)
    for i in range(3):
        run = await worker.commit(await worker.begin(f"turns-{i}"), new_tasks=(a_task(f"t-{i}"),))
        await worker.commit(run, park=True, waiting=b"[ 1 ]", wake_us=2**52)
    done = await worker.begin("done", priority=3, queue="boxes", version="v2", deadline_us=5)
    await worker.commit(done, closing=Closing("failed", b'{"type":"E"}'))
    await worker.commit(await worker.begin("told"), park=True)
    for i in range(3):
        await store.accept_message("told", None, b"%d" % i, message_id=f"m-{i}")
    blocked = await begin(store, "blocked")
    await store.block_run(None, blocked.number, Blocked(kind="error", reason="why", since_us=1, tries=3), [])
    await store.ask("done", None, "state", b"[ ]")
    await store.close_lease(worker.lease)


async def _keeps_everything(stores: Stores, again: Again) -> None:
    store = await stores.open()
    await _fill(store)
    before = await _everything(store)
    store = await again(stores, store)
    same(await _everything(store), before)
    same(await store.verify(), [])


async def what_was_written_is_there_after_reopening(stores: Stores) -> None:
    """Runs, turns, messages, tasks and questions are kept as they were."""
    await _keeps_everything(stores, _reopened)


async def what_was_written_is_there_after_a_kill(stores: Stores) -> None:
    """After `kill -9` nothing acknowledged is lost (E8)."""
    await _keeps_everything(stores, _killed)


async def each_acknowledged_turn_is_there_after_a_kill(stores: Stores) -> None:
    """Killed behind each of several commits: the history has no gap, and goes on where it was (E8)."""
    store = await stores.open()
    run = await begin(store, "o-1")
    for number in range(4):
        worker = await hire(store, f"w-{number}")
        run = await worker.own(run)
        same(run.last_turn, number - 1)
        same(await worker.try_commit(run), Committed())
        store = await _killed(stores, store)
        stores.clock.advance(LEASE_SECONDS + 1)
        await store.end_dead_leases()
        run = await reread(store, run)
    same([turn.number for turn in await store.list_turns(run.number)], [0, 1, 2, 3])


async def what_a_killed_worker_owned_is_free_when_its_lease_has_ended(stores: Stores) -> None:
    """Another goes on: the run is due, the activity is repeated as its next attempt (E8, I14)."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.commit(await worker.begin("o-1"), new_tasks=(a_task("t-1", claimed=True),))
    store = await _killed(stores, store)
    stores.clock.advance(LEASE_SECONDS + 1)
    same([lease.number for lease in await store.end_dead_leases()], [worker.lease])
    new = await hire(store, "w-2")
    same(numbers(await new.claim()), [run.number])
    task = only(await new.claim_tasks())
    same((task.attempt, [each.outcome for each in task.attempts]), (2, ["worker_died"]))


async def what_a_killed_worker_sends_later_is_refused(stores: Stores) -> None:
    """A process that was only stopped, and goes on after its lease has ended, writes nothing stale (E3)."""
    store, other = await stores.open(), await stores.open()
    worker = await hire(store)
    run = await worker.commit(await worker.begin("o-1"), new_tasks=(a_task("t-1", claimed=True),))
    task = await task_of(store, run)
    stores.clock.advance(LEASE_SECONDS + 1)
    await other.end_dead_leases()
    before = await _everything(other)
    same(isinstance(await worker.try_commit(run), Exception), True)
    same((await store.report_tasks([an_answer(task)]), await store.renew_lease(worker.lease)), ([False], False))
    same(await _everything(other), before)


async def no_number_is_given_again_after_reopening(stores: Stores) -> None:
    """Runs, leases and messages go on counting where they were, whatever was the last of them."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    await store.accept_message("o-1", None, JOB)
    await worker.commit(run, consumed=1, park=True)
    await store.close_lease(worker.lease)
    question = await store.ask("o-1", None, "state", b"[]")
    store = await stores.reopen(store)
    same((await hire(store)).lease > worker.lease, True)
    same((await begin(store, "o-2")).number > run.number, True)
    same((await store.accept_message("o-1", None, JOB)).number, 2)
    same((await store.ask("o-1", None, "state", b"[]")).number > question.number, True)


async def an_id_is_still_taken_after_reopening(stores: Stores) -> None:
    """Starts and message ids are known to whoever comes later (E2)."""
    store = await stores.open()
    first = await store.start_run(a_start("o-1", message=JOB, message_id="m-1"))
    store = await _killed(stores, store)
    again = await store.start_run(a_start("o-1", run="second", message=JOB, message_id="m-1"))
    same((again.new, again.message, again.run.number), (False, 1, first.run.number))
    same(len(await store.list_messages(first.run.number, 0)), 1)


async def several_store_objects_see_the_same(stores: Stores) -> None:
    """What one has written, every other reads at once, and each says that others can write."""
    store, other = await stores.open(), await stores.open()
    same((store.others_possible, other.others_possible, store.url == other.url), (True, True, True))
    await _fill(store)
    same(await _everything(other), await _everything(store))
    await other.accept_message("told", None, JOB)
    same(await _everything(store), await _everything(other))


async def what_was_read_before_is_read_anew(stores: Stores) -> None:
    """A store object that has read something shows what others have made of it since (E3)."""
    store, other = await stores.open(), await stores.open()
    worker = await hire(other)
    await _fill(store)
    same(await _everything(store), await _everything(await stores.open()))
    for workflow_id in ("told", "turns-0"):
        run = await worker.own(await other.get_run(workflow_id))
        await worker.commit(run, consumed=run.accepted, new_tasks=(a_task(f"{workflow_id} later", 9),), park=True)
        same(await _everything(store), await _everything(await stores.open()))
    await other.close_run("turns-0", None, Closing("cancelled"))
    await other.accept_message("told", None, JOB)
    await other.ask("told", None, "state", b"[]")
    same(await _everything(store), await _everything(await stores.open()))
    same((await store.get_run("told")).accepted, 4)
