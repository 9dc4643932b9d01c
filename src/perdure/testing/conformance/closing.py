"""Closing runs from outside: they end whoever owns them, and leave nothing behind that would go on."""

from __future__ import annotations

from perdure.errors import LeaseLost, NotFound, RunClosed
from perdure.stores.records import Blocked, Closing, Compare
from perdure.testing.conformance.expecting import only, raises, refused, same
from perdure.testing.conformance.making import JOB, a_start, a_task, an_answer, an_id
from perdure.testing.conformance.stage import Stores, begin, hire, reread, task_of

ENDED = Closing("terminated", b'{"type":"Terminated",  "message":"enough"}')


async def a_run_is_ended_from_outside(stores: Stores) -> None:
    """`close_run` ends a run with a status and a result, which are kept to the byte."""
    store = await stores.open()
    run = await begin(store, "o-1")
    stores.clock.advance(3)
    await store.close_run("o-1", None, ENDED)
    ended = await reread(store, run)
    same((ended.status, ended.result, ended.closed_us), (ENDED.status, ENDED.result, stores.clock.now_us()))
    same((ended.owner, ended.wake_us, ended.created_us), (None, None, run.created_us))


async def a_run_that_is_ended_comes_back_as_it_was(stores: Stores) -> None:
    """`close_run` gives the run as it stood before, so that its owner can be told."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    same(await store.close_run("o-1", None, ENDED), run)


async def a_run_is_ended_whoever_owns_it(stores: Stores) -> None:
    """Its owner's next commit is refused, and writes nothing (E3)."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    await store.close_run("o-1", None, ENDED)
    ended = await reread(store, run)
    refused(await worker.try_commit(run, new_tasks=(a_task("t-1"),)), LeaseLost)
    same((await reread(store, run), await store.list_turns(run.number)), (ended, []))
    same(await store.list_tasks(run.number), [])


async def what_does_not_exist_cannot_be_ended(stores: Stores) -> None:
    """`NotFound` for an id that nobody has."""
    store = await stores.open()
    await begin(store, "o-1")
    await raises(NotFound, store.close_run("o-2", None, ENDED))
    await raises(NotFound, store.close_run("o-1", an_id("nobody"), ENDED))


async def what_has_ended_cannot_be_ended_again(stores: Stores) -> None:
    """`RunClosed`, and the run keeps the end that it had: every run ends exactly once (E8)."""
    store = await stores.open()
    run = await begin(store, "o-1")
    await store.close_run("o-1", None, Closing("completed", b"[1]"))
    ended = await reread(store, run)
    stores.clock.advance(1)
    await raises(RunClosed, store.close_run("o-1", None, ENDED))
    await raises(RunClosed, store.close_run("o-1", run.facts.run_id, ENDED))
    same(await reread(store, run), ended)


async def an_older_run_is_ended_by_its_run_id_alone(stores: Stores) -> None:
    """With a run id that run is meant, and with none the newest."""
    store = await stores.open()
    old = await begin(store, "o-1")
    await store.close_run("o-1", old.facts.run_id, ENDED)
    new = (await store.start_run(a_start("o-1", run="second", id_policy="again"))).run
    await raises(RunClosed, store.close_run("o-1", old.facts.run_id, ENDED))
    same((await reread(store, new)).status, "running")
    await store.close_run("o-1", None, ENDED)
    same((await reread(store, new)).status, "terminated")


async def a_run_that_has_ended_is_never_claimed(stores: Stores) -> None:
    """Only what is running is due."""
    store = await stores.open()
    worker = await hire(store)
    run = await begin(store, "o-1")
    await store.close_run("o-1", None, ENDED)
    same((await worker.claim(), await store.claim_run(worker.lease, run.number)), ([], None))
    same((await store.get_next_wake(["default"]), await store.list_unknown(["default"], [], 10)), (None, []))


async def the_messages_of_a_run_that_is_ended_are_gone(stores: Stores) -> None:
    """What waits for a run that has ended waits no more."""
    store = await stores.open()
    run = await begin(store, "o-1")
    for _ in range(3):
        await store.accept_message("o-1", None, JOB)
    await store.close_run("o-1", None, ENDED)
    same((await store.counts())["messages"], 0)
    same(await store.list_messages(run.number, 0), [])


async def the_free_tasks_of_a_run_that_is_ended_are_gone(stores: Stores) -> None:
    """Nobody runs an activity of a run that has ended."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.commit(await worker.begin("o-1"), new_tasks=(a_task("t-1"), a_task("t-2", 1)), park=True)
    await store.close_run("o-1", None, ENDED)
    same((await worker.claim_tasks(), await store.get_next_due(["default"])), ([], None))
    same(await store.list_tasks(run.number), [])


async def whoever_runs_a_task_of_a_run_that_is_ended_learns_of_it(stores: Stores) -> None:
    """A running task of a run that has ended is to be cancelled, and its report changes nothing."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.commit(await worker.begin("o-1"), new_tasks=(a_task("t-1"),), park=True)
    task = only(await worker.claim_tasks())
    await store.close_run("o-1", None, ENDED)
    same(await store.list_cancelled(worker.lease), [task.id])
    ended = await reread(store, run)
    await store.report_tasks([an_answer(task)])
    same((await reread(store, run), await store.list_messages(run.number, 0)), (ended, []))


async def the_tasks_and_messages_of_others_stay(stores: Stores) -> None:
    """Ending one run touches no other."""
    store = await stores.open()
    worker = await hire(store)
    await worker.commit(await worker.begin("o-1"), new_tasks=(a_task("t-1"),), park=True)
    other = await worker.commit(await worker.begin("o-2"), new_tasks=(a_task("t-2"),), park=True)
    await store.accept_message("o-1", None, JOB)
    await store.accept_message("o-2", None, JOB)
    before = await reread(store, other), await task_of(store, other), await store.list_messages(other.number, 0)
    await store.close_run("o-1", None, ENDED)
    after = await reread(store, other), await task_of(store, other), await store.list_messages(other.number, 0)
    same(after, before)


async def the_history_of_a_run_that_is_ended_stays(stores: Stores) -> None:
    """What was committed before the end is kept, and can be read."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.commit(await worker.begin("o-1"))
    run = await worker.commit(run)
    turns = await store.list_turns(run.number)
    await store.close_run("o-1", None, ENDED)
    same((len(turns), await store.list_turns(run.number)), (2, turns))


async def a_blocked_run_that_is_ended_is_not_blocked_any_more(stores: Stores) -> None:
    """What has ended waits for nothing and is held up by nothing."""
    store = await stores.open()
    run = await begin(store, "o-1")
    await store.block_run(None, run.number, Blocked(kind="error", reason="why", since_us=1, retry_us=2), [])
    await store.close_run("o-1", None, ENDED)
    ended = await reread(store, run)
    same((ended.blocked, ended.waiting, await store.count_runs(Compare("blocked", "=", True))), (None, None, 0))
