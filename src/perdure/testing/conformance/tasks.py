"""Tasks: taken in their order, each attempt counted, kept alive by heartbeats (I14)."""

from __future__ import annotations

import asyncio

from perdure.stores.port import Store
from perdure.stores.records import Beat, NewTask, Run, Task
from perdure.testing.conformance.expecting import only, same
from perdure.testing.conformance.making import a_beat, a_task, an_id
from perdure.testing.conformance.stage import Stores, Worker, hire, task_of

SECOND = 1_000_000


async def _order(worker: Worker, *tasks: NewTask, workflow_id: str = "o-1") -> Run:
    """A parked run that has ordered these tasks."""
    return await worker.commit(await worker.begin(workflow_id), new_tasks=tasks, park=True)


def _names(tasks: list[Task], *known: str) -> list[str]:
    """What the cases call these tasks."""
    return [next(name for name in known if an_id(name) == task.id) for task in tasks]


async def a_free_task_is_taken_and_counted(stores: Stores) -> None:
    """It is the worker's, as its first attempt, which begins now (I14)."""
    store = await stores.open()
    worker = await hire(store)
    run = await _order(worker, a_task("t-1"))
    stores.clock.advance(1)
    task = only(await worker.claim_tasks())
    same((task.owner, task.attempt, task.started_us), (worker.lease, 1, stores.clock.now_us()))
    same((task.failures, task.attempts, task.cancel, task.heartbeat_us), (0, (), False, None))
    same(await task_of(store, run), task)


async def a_task_is_taken_by_one(stores: Stores) -> None:
    """What somebody has, nobody else takes, nor the same worker once more."""
    store, other = await stores.open(), await stores.open()
    one, two = await hire(store, "w-1"), await hire(other, "w-2")
    await _order(one, a_task("t-1"))
    same(len(await one.claim_tasks()), 1)
    same((await two.claim_tasks(), await one.claim_tasks()), ([], []))


async def tasks_taken_at_once_are_shared_out(stores: Stores) -> None:
    """Several workers that ask at the same time get each task once."""
    store, other = await stores.open(), await stores.open()
    workers = [await hire(each, f"w-{i}") for i, each in enumerate([store, other, store, other])]
    await _order(workers[0], *(a_task(f"t-{i}", i) for i in range(20)))
    taken = await asyncio.gather(*(worker.claim_tasks(7) for worker in workers))
    ids = [task.id for each in taken for task in each]
    same((len(ids), len(set(ids))), (20, 20))
    for worker, its in zip(workers, taken, strict=True):
        same({task.owner for task in its} - {worker.lease}, set())


async def the_larger_priority_is_taken_first(stores: Stores) -> None:
    """Of what is due, priority decides; a larger one goes first."""
    store = await stores.open()
    worker = await hire(store)
    await _order(worker, *(a_task(f"t{p}", i, priority=p) for i, p in enumerate((0, -4, 9, 3))))
    taken = [*await worker.claim_tasks(1), *await worker.claim_tasks(2), *await worker.claim_tasks(9)]
    same([task.priority for task in taken], [9, 3, 0, -4])


async def of_one_priority_what_is_due_longest_is_taken_first(stores: Stores) -> None:
    """Among equals the due time decides."""
    store = await stores.open()
    worker = await hire(store, seconds=100)
    now = stores.clock.now_us()
    due = {"third": 3, "first": 1, "second": 2}
    await _order(worker, *(a_task(n, i, due_us=now + s * SECOND) for i, (n, s) in enumerate(due.items())))
    stores.clock.advance(5)
    same(_names(await worker.claim_tasks(2), *due), ["first", "second"])
    same(_names(await worker.claim_tasks(2), *due), ["third"])


async def only_tasks_of_that_queue_are_taken(stores: Stores) -> None:
    """Whatever the queue of their run is."""
    store = await stores.open()
    worker = await hire(store)
    await _order(worker, a_task("t-1", queue="boxes"), a_task("t-2", 1))
    same(_names(await worker.claim_tasks(queue="boxes"), "t-1"), ["t-1"])
    same(await worker.claim_tasks(queue="boxes"), [])
    same(_names(await worker.claim_tasks(), "t-2"), ["t-2"])


async def only_tasks_of_activities_that_a_worker_knows_are_taken(stores: Stores) -> None:
    """The others stay free, however urgent, and hold up nobody."""
    store = await stores.open()
    worker = await hire(store)
    await _order(worker, *(a_task(f"u-{i}", i, name="unknown", priority=9) for i in range(5)), a_task("t-1", 9))
    same(_names(await worker.claim_tasks(2), "t-1"), ["t-1"])
    same((await worker.claim_tasks(names=()), len(await worker.claim_tasks(names=("x", "unknown")))), ([], 5))


async def no_more_tasks_are_taken_than_asked_for(stores: Stores) -> None:
    """The rest stays free and uncounted."""
    store = await stores.open()
    worker = await hire(store)
    run = await _order(worker, *(a_task(f"t-{i}", i) for i in range(5)))
    same((len(await worker.claim_tasks(2)), len(await worker.claim_tasks(0))), (2, 0))
    same(sorted(task.attempt for task in await store.list_tasks(run.number)), [0, 0, 0, 1, 1])


async def a_task_is_not_taken_before_it_is_due(stores: Stores) -> None:
    """A delayed start is kept to the microsecond."""
    store = await stores.open()
    worker = await hire(store, seconds=100)
    due_us = stores.clock.now_us() + 2 * SECOND
    run = await _order(worker, a_task("t-1", due_us=due_us))
    same((await task_of(store, run)).due_us, due_us)
    stores.clock.advance(1.999_999)
    same(await worker.claim_tasks(), [])
    stores.clock.advance(0.000_001)
    same(len(await worker.claim_tasks()), 1)


async def the_next_due_is_the_earliest_of_the_free_tasks_of_these_queues(stores: Stores) -> None:
    """What somebody has, or what is in another queue, does not count."""
    store = await stores.open()
    worker = await hire(store, seconds=100)
    now = stores.clock.now_us()
    same(await store.get_next_due(["default"]), None)
    later = [a_task(f"t-{s}", s, due_us=now + s * SECOND, priority=s) for s in (5, 3)]
    await _order(worker, *later, a_task("boxes", 9, queue="boxes", due_us=now + SECOND))
    same(await store.get_next_due(["default"]), now + 3 * SECOND)
    same(await store.get_next_due(["boxes", "default"]), now + SECOND)
    same((await store.get_next_due([]), await store.get_next_due(["letters"])), (None, None))
    stores.clock.advance(4)
    await worker.claim_tasks()
    same(await store.get_next_due(["default"]), now + 5 * SECOND)


async def the_open_tasks_of_a_run_are_listed_by_seq(stores: Stores) -> None:
    """In the order in which the workflow asked for them, whoever has them; those of no other run."""
    store = await stores.open()
    worker = await hire(store)
    run = await _order(worker, *(a_task(f"t-{i}", i, claimed=i % 2 == 0) for i in (10, 2, 9, 0, 11)))
    other = await _order(worker, a_task("theirs"), workflow_id="o-2")
    same([task.seq for task in await store.list_tasks(run.number)], [0, 2, 9, 10, 11])
    same([task.id for task in await store.list_tasks(other.number)], [an_id("theirs")])
    same(await store.list_tasks(other.number + 100), [])


async def _taken(stores: Stores) -> tuple[Store, Worker, Run, Task]:
    store = await stores.open()
    worker = await hire(store, seconds=100)
    run = await _order(worker, a_task("t-1"))
    task = only(await worker.claim_tasks())
    stores.clock.advance(1)
    return store, worker, run, task


async def a_heartbeat_keeps_its_time_and_its_details(stores: Stores) -> None:
    """Details are kept to the byte; a heartbeat without any keeps those before."""
    store, _, run, task = await _taken(stores)
    same(await store.beat_tasks([a_beat(task, b'[ 1.0,  "row 7" ]')]), [False])
    beaten = await task_of(store, run)
    same((beaten.details, beaten.heartbeat_us), (b'[ 1.0,  "row 7" ]', stores.clock.now_us()))
    stores.clock.advance(1)
    await store.beat_tasks([a_beat(task)])
    beaten = await task_of(store, run)
    same((beaten.details, beaten.heartbeat_us), (b'[ 1.0,  "row 7" ]', stores.clock.now_us()))
    same((beaten.owner, beaten.attempt, beaten.started_us), (task.owner, task.attempt, task.started_us))


async def heartbeats_are_answered_in_their_order(stores: Stores) -> None:
    """None for a task that is somebody else's, or nobody's, or not there any more."""
    store, _, run, task = await _taken(stores)
    other = await hire(store, "w-2")
    await other.commit(await other.begin("o-2"), new_tasks=(a_task("free"),), park=True)
    beats = [
        Beat(run.number, an_id("free"), other.lease, b"1"),
        a_beat(task),
        Beat(task.run, task.id, other.lease, b"1"),
        Beat(run.number, an_id("nowhere"), other.lease),
    ]
    same(await store.beat_tasks(beats), [None, False, None, None])
    same((await task_of(store, run)).details, None)


async def a_task_outlives_the_parking_of_its_run(stores: Stores) -> None:
    """Its worker need not own the run, nor does it hold the run back."""
    store, worker, run, task = await _taken(stores)
    other = await hire(store, "w-2")
    owned = await other.own(run)
    same(await store.beat_tasks([a_beat(task)]), [False])
    await other.commit(owned, park=True)
    same((await task_of(store, run)).owner, worker.lease)
