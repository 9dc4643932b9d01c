"""Deadlines: runs that reach their time limit are ended, whoever knows their workflow and serves their queue."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.stores.port import Store
from perdure.stores.records import Blocked, Closing, Run
from perdure.testing.conformance.expecting import only, same
from perdure.testing.conformance.making import JOB, a_child, a_successor, a_task
from perdure.testing.conformance.stage import Stores, begin, hire, numbers, reread, workflow_ids

SECOND = 1_000_000
OVER = Closing("timed_out", b'{ "type": "TimedOut", "message":"" }')


async def _limited(stores: Stores, store: Store, workflow_id: str, seconds: int, **facts: Any) -> Run:
    """A free run that times out in so many seconds."""
    return await begin(store, workflow_id, deadline_us=stores.clock.now_us() + seconds * SECOND, **facts)


async def the_next_deadline_is_that_of_an_open_run_that_lies_ahead(stores: Stores) -> None:
    """Of any queue and workflow, whoever owns it; one that has passed is its owner's to see to, if there is one."""
    store = await stores.open()
    worker = await hire(store, seconds=100)
    same(await store.get_next_deadline(), None)
    await begin(store, "unlimited")
    late = await _limited(stores, store, "late", 9, queue="elsewhere", workflow="unknown")
    soon = await _limited(stores, store, "soon", 5)
    await worker.own(soon)
    same(await store.get_next_deadline(), soon.facts.deadline_us)
    stores.clock.advance(5)
    same(await store.get_next_deadline(), late.facts.deadline_us)
    await store.release_run(worker.lease, soon.number, None)
    same(await store.get_next_deadline(), soon.facts.deadline_us)
    for id in ("soon", "late"):
        await store.close_run(id, None, Closing("cancelled"))
    same(await store.get_next_deadline(), None)


async def what_is_overdue_is_ended_and_nothing_else(stores: Stores) -> None:
    """From its moment on: free, blocked, parked, not begun; with the closing that is given, and as it was before."""
    store = await stores.open()
    worker = await hire(store, seconds=100)
    await begin(store, "unlimited")
    later = await _limited(stores, store, "later", 6)
    new = await _limited(stores, store, "new", 5, queue="elsewhere", workflow="unknown", priority=-7)
    parked = await _limited(stores, store, "parked", 5)
    parked = await worker.commit(await worker.own(parked), new_tasks=(a_task("t"),), park=True)
    blocked = await worker.own(await _limited(stores, store, "blocked", 5))
    await store.block_run(worker.lease, blocked.number, Blocked(kind="error", reason="", since_us=1), [])
    await store.accept_message("new", None, JOB)
    stores.clock.advance(4.999_999)
    same(await store.time_out_runs(OVER, 10), [])
    stores.clock.advance(0.000_001)
    new = await reread(store, new)
    ended = await store.time_out_runs(OVER, 10)
    same((ended[0], numbers(ended)), (new, [new.number, parked.number, blocked.number]))
    for run in ended:
        now = await reread(store, run)
        same((now.status, now.result, now.closed_us), ("timed_out", OVER.result, stores.clock.now_us()))
        same((now.wake_us, now.blocked), (None, None))
    same((await store.list_tasks(parked.number), (await store.counts())["messages"]), ([], 0))
    same((await reread(store, later)).status, "running")
    same(await store.time_out_runs(OVER, 10), [])


async def so_many_are_ended_at_most_the_longest_overdue_first(stores: Stores) -> None:
    """Whoever asks for less gets the rest by asking again."""
    store = await stores.open()
    for seconds in (4, 3, 5, 1, 2):
        await _limited(stores, store, f"o-{seconds}", seconds)
    stores.clock.advance(4)
    same(workflow_ids(await store.time_out_runs(OVER, 3)), ["o-1", "o-2", "o-3"])
    same(workflow_ids(await store.time_out_runs(OVER, 3)), ["o-4"])
    same(workflow_ids(await store.time_out_runs(OVER, 3)), [])


async def what_somebody_owns_is_left_to_its_owner(stores: Stores) -> None:
    """Until that one gives it back, or is dead: then anybody may."""
    store = await stores.open()
    worker = await hire(store, seconds=8)
    own = await worker.own(await _limited(stores, store, "owned", 5))
    held = await worker.own(await _limited(stores, store, "held", 5))
    stores.clock.advance(6)
    same(await store.time_out_runs(OVER, 10), [])
    await store.release_run(worker.lease, own.number, None)
    same(numbers(await store.time_out_runs(OVER, 10)), [own.number])
    stores.clock.advance(3)
    same(await store.time_out_runs(OVER, 10), [])
    same(len(await store.end_dead_leases()), 1)
    same(numbers(await store.time_out_runs(OVER, 10)), [held.number])


async def a_run_that_times_out_takes_its_children_along_and_tells_its_parent(stores: Stores) -> None:
    """By the parent-close policies, level by level, and by the answer to its parent's command (M7)."""
    store = await stores.open()
    worker = await hire(store, seconds=100)
    parent = await worker.begin("parent")
    deadline_us = stores.clock.now_us() + 5 * SECOND
    child = a_child(parent, "child", seq=3, queue="elsewhere", deadline_us=deadline_us)
    parent = await worker.commit(parent, children=(child,), park=True)
    middle = await worker.own(await store.get_run("child"))
    kids = [a_child(middle, f"kid-{close}", seq=at, close=close) for at, close in enumerate(("terminate", "cancel"))]
    kids.append(a_child(middle, "kid-abandon", seq=2, close="abandon", deadline_us=deadline_us + SECOND))
    await worker.commit(middle, children=tuple(kids), park=True)
    stores.clock.advance(5)
    same(workflow_ids(await store.time_out_runs(OVER, 10)), ["child"])
    job = msgspec.json.decode(only(await store.list_messages(parent.number, 0)).job)
    same((job["kind"], job["seq"], job["failure"]["type"]), ("failed", 3, "TimedOut"))
    same((await store.get_run("kid-terminate")).status, "terminated")
    cancelled = await store.get_run("kid-cancel")
    same((cancelled.status, cancelled.accepted), ("running", 1))
    same((await store.get_run("kid-abandon")).status, "running")
    same(sorted(numbers(await worker.claim())), [parent.number, cancelled.number, cancelled.number + 1])
    same(await store.get_next_deadline(), deadline_us + SECOND)


async def a_parent_and_its_child_may_be_overdue_together(stores: Stores) -> None:
    """The child ends with its parent, or by itself: once."""
    store = await stores.open()
    worker = await hire(store, seconds=100)
    deadline_us = stores.clock.now_us() + 5 * SECOND
    parent = await worker.begin("parent", deadline_us=deadline_us)
    await worker.commit(parent, children=(a_child(parent, "child", deadline_us=deadline_us),), park=True)
    stores.clock.advance(9)
    same(workflow_ids(await store.time_out_runs(OVER, 10)), ["parent"])
    statuses = [(await store.get_run(id)).status for id in ("parent", "child")]
    same(statuses, ["timed_out", "terminated"])


async def the_limit_of_a_run_is_that_of_all_its_generations(stores: Stores) -> None:
    """The next one has what the last one had, and the last one has ended (M8)."""
    store = await stores.open()
    worker = await hire(store, seconds=100)
    run = await worker.begin("o-1", deadline_us=stores.clock.now_us() + 5 * SECOND)
    next_run = a_successor(run)
    closing = Closing("continued", msgspec.json.encode(next_run.facts.run_id))
    await worker.commit(run, closing=closing, successor=next_run)
    same(await store.get_next_deadline(), run.facts.deadline_us)
    stores.clock.advance(5)
    ended = only(await store.time_out_runs(OVER, 10))
    same((ended.facts.run_id, ended.facts.chain), (next_run.facts.run_id, run.facts.run_id))
    same((await reread(store, run)).status, "continued")


async def limits_are_kept_by_the_file(stores: Stores) -> None:
    """Another store object on the same data finds them, of runs that this one has started."""
    store, other = await stores.open(), await stores.open()
    run = await _limited(stores, store, "o-1", 5)
    same(await other.get_next_deadline(), run.facts.deadline_us)
    stores.clock.advance(5)
    same(numbers(await other.time_out_runs(OVER, 10)), [run.number])
    same((await reread(store, run)).status, "timed_out")
    same(await store.get_next_deadline(), None)
