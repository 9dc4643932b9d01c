"""Children: started by a turn of their parent, told of its end, and telling it of theirs (M7)."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.stores.port import Store
from perdure.stores.records import Closing, Committed, Run, Sent, Status
from perdure.testing.conformance.expecting import NotConforming, only, same
from perdure.testing.conformance.making import a_child, a_commit, a_start, a_successor, a_task, an_id
from perdure.testing.conformance.stage import Stores, Worker, begin, hire, numbers, reread, workflow_ids

DONE = Closing("completed", b'[ "r-1",  1.0 ]')
BROKEN = Closing("failed", b'{"type":"CardRefused","message":"no funds"}')


async def _family(stores: Stores, *ids: str, **facts: Any) -> tuple[Store, Worker, Run]:
    """A run that its worker owns, with these children, none of them owned."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("parent")
    children = tuple(a_child(run, id, seq, **facts) for seq, id in enumerate(ids))
    return store, worker, await worker.commit(run, children=children)


async def _told(store: Store, run: Run) -> list[Any]:
    """What a run is told, decoded."""
    return [msgspec.json.decode(message.job) for message in await store.list_messages(run.number, 0)]


async def a_turn_starts_children(stores: Stores) -> None:
    """They are there with its commit, with all their facts, free and due now (E1)."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("parent")
    wanted = [a_child(run, f"c-{i}", i, input=b"[ %d ]" % i, priority=i, queue="boxes") for i in range(3)]
    answer = await worker.try_commit(run, children=tuple(wanted), park=True)
    children = await store.list_children(run.number)
    same([child.facts for child in children], [each.facts for each in wanted])
    now = stores.clock.now_us()
    same([(child.status, child.owner, child.wake_us) for child in children], [("running", None, now)] * 3)
    if not isinstance(answer, Committed):
        raise NotConforming(f"got {answer!r}")
    same((answer.parked, [told.run for told in answer.told]), (True, children))
    same({(told.message, told.claimed) for told in answer.told}, {(None, False)})
    same(workflow_ids(await worker.claim(queues=("boxes",))), ["c-2", "c-1", "c-0"])


async def a_turn_that_is_refused_starts_no_children(stores: Stores) -> None:
    """All of it is written, or nothing (E1)."""
    store = await stores.open()
    worker, other = await hire(store), await hire(store, "w-2")
    run = await other.begin("parent")
    same(isinstance(await worker.try_commit(run, children=(a_child(run, "c-1"),)), Exception), True)
    same((await store.list_children(run.number), (await store.counts())["runs"]), ([], 1))


async def a_child_may_be_owned_at_once_by_the_worker_of_its_parent(stores: Stores) -> None:
    """What a turn starts of the workflows `claims` is its owner's as well."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("parent")
    children = (a_child(run, "c-0"), a_child(run, "c-1", 1, workflow="other"))
    answer = only(await store.commit_turns([a_commit(run, worker.lease, children=children)], ["order"]))
    if not isinstance(answer, Committed):
        raise NotConforming(f"got {answer!r}")
    same([(told.claimed, told.run.owner) for told in answer.told], [(True, worker.lease), (False, None)])
    same(await store.list_children(run.number), [told.run for told in answer.told])


async def a_child_whose_id_is_taken_is_answered_so(stores: Stores) -> None:
    """What only the store can know comes back as a failed answer, never as a failed turn (E2)."""
    store = await stores.open()
    worker = await hire(store)
    taken = await begin(store, "taken")
    run = await worker.begin("parent")
    answer = await worker.try_commit(
        run, children=(a_child(run, "taken", 4, run="mine"), a_child(run, "free", 5)), park=True
    )
    same(isinstance(answer, Committed) and (answer.pending, answer.parked, len(answer.told)), (1, False, 1))
    job = only(await _told(store, run))
    same((job["kind"], job["seq"], job["failure"]["type"]), ("failed", 4, "AlreadyExists"))
    same((await reread(store, taken), workflow_ids(await store.list_children(run.number))), (taken, ["free"]))


async def the_children_of_a_run_are_listed_in_their_order(stores: Stores) -> None:
    """Those of its later turns behind, those of others and its own children's not at all."""
    store, worker, run = await _family(stores, "b", "a")
    run = await worker.commit(run, children=(a_child(run, "c", 2),))
    child = await worker.own(await store.get_run("a"))
    await worker.commit(child, children=(a_child(child, "grandchild"),), park=True)
    await begin(store, "stranger")
    same(workflow_ids(await store.list_children(run.number)), ["b", "a", "c"])
    same(workflow_ids(await store.list_children(child.number)), ["grandchild"])
    same((await store.list_children((await store.get_run("b")).number), await store.list_children(4711)), ([], []))


async def a_parent_is_told_what_its_child_returned(stores: Stores) -> None:
    """The value to the byte, as the answer to the command that started it; the parent is due now."""
    store, worker, run = await _family(stores, "c-0", "c-1")
    run = await worker.commit(run, park=True)
    child = await worker.own(await store.get_run("c-1"))
    answer = await worker.try_commit(child, closing=DONE)
    message = only(await store.list_messages(run.number, 0))
    same(b'[ "r-1",  1.0 ]' in message.job, True)
    same(msgspec.json.decode(message.job), {"kind": "resolved", "seq": 1, "value": ["r-1", 1.0]})
    if not isinstance(answer, Committed):
        raise NotConforming(f"got {answer!r}")
    same([(told.run.number, told.message, told.claimed) for told in answer.told], [(run.number, message, False)])
    same(sorted(numbers(await worker.claim())), [run.number, (await store.get_run("c-0")).number])


async def a_parent_is_told_how_its_child_failed(stores: Stores) -> None:
    """Its failure, whichever way it ended without a value."""
    store, worker, run = await _family(stores, "c-0", "c-1", "c-2", "c-3")
    ends: list[tuple[Status, bytes | None]] = [
        ("failed", BROKEN.result),
        ("terminated", b'{"type":"Terminated","message":"enough"}'),
        ("timed_out", None),
        ("cancelled", b'{"type":"Cancelled"}'),
    ]
    for seq, (status, result) in enumerate(ends):
        await store.close_run(f"c-{seq}", None, Closing(status, result))
    jobs = await _told(store, run)
    same([(job["kind"], job["seq"]) for job in jobs], [("failed", seq) for seq in range(4)])
    same([job["failure"]["type"] for job in jobs], ["CardRefused", "Terminated", "TimedOut", "Cancelled"])
    same(numbers(await store.list_pending(worker.lease)), [run.number])


async def a_parent_that_has_ended_is_not_told(stores: Stores) -> None:
    """Nothing waits for a run that has ended."""
    store, worker, run = await _family(stores, "c-0", close="abandon")
    await worker.commit(run, closing=DONE)
    await store.close_run("c-0", None, BROKEN)
    same(((await store.counts())["messages"], (await reread(store, run)).accepted), (0, 0))


async def children_end_with_their_parent(stores: Stores) -> None:
    """With the policy `terminate`, whoever owns them; with their tasks, and their children too (M7)."""
    store, worker, run = await _family(stores, "c-0", "c-1")
    child = await worker.own(await store.get_run("c-0"))
    orders = {"children": (a_child(child, "grandchild"),), "new_tasks": (a_task("t-1"),)}
    await worker.commit(child, **orders)
    answer = await worker.try_commit(run, closing=DONE)
    same(isinstance(answer, Committed) and answer.ended, 3)
    for workflow_id in ("c-0", "c-1", "grandchild"):
        ended = await store.get_run(workflow_id)
        same((ended.status, ended.owner, ended.closed_us), ("terminated", None, stores.clock.now_us()))
        same(msgspec.json.decode(ended.result or b"null")["type"], "Terminated")
    same((await worker.claim(), await worker.claim_tasks()), ([], []))


async def children_end_with_a_parent_that_is_ended_from_outside(stores: Stores) -> None:
    """By `close_run`, and by a start that terminates it."""
    store, worker, run = await _family(stores, "c-0")
    await store.close_run("parent", None, Closing("terminated"))
    same((await store.get_run("c-0")).status, "terminated")
    run = (await store.start_run(a_start("parent", run="second", id_policy="again"))).run
    run = await worker.own(run)
    await worker.commit(run, children=(a_child(run, "c-1"),))
    await store.start_run(a_start("parent", run="third", id_policy="terminate"))
    same((await store.get_run("c-1")).status, "terminated")


async def children_may_be_told_to_cancel_with_their_parent(stores: Stores) -> None:
    """With the policy `cancel` they are asked, and are due now; with `abandon` they go on as they were."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("parent")
    children = (a_child(run, "asked", close="cancel"), a_child(run, "left", 1, close="abandon"))
    run = await worker.commit(run, children=children)
    asked = await worker.commit(await worker.own(await store.get_run("asked")), park=True)
    left = await worker.commit(await worker.own(await store.get_run("left")), park=True)
    answer = await worker.try_commit(run, closing=BROKEN)
    same(isinstance(answer, Committed) and answer.ended, 0)
    job = only(await _told(store, asked))
    same((job["kind"], await reread(store, left)), ("cancel", left))
    same(numbers(await worker.claim()), [asked.number])


async def children_of_a_parent_that_ends_cancelled_are_told_to_cancel(stores: Stores) -> None:
    """With the policy `terminate` as well, so that they clean up (M6, M7)."""
    store, worker, run = await _family(stores, "c-0")
    asked = await worker.commit(await worker.own(await store.get_run("c-0")), park=True)
    answer = await worker.try_commit(run, closing=Closing("cancelled"))
    same(isinstance(answer, Committed) and answer.ended, 0)
    same(only(await _told(store, asked))["kind"], "cancel")
    same(numbers(await worker.claim()), [asked.number])


async def a_child_that_the_last_turn_cancels_ends_by_itself(stores: Stores) -> None:
    """It is told once, and its sisters end with their parent (M6, M7)."""
    store, worker, run = await _family(stores, "c-0", "c-1")
    asked = await worker.commit(await worker.own(await store.get_run("c-0")), park=True)
    cancels = Sent(workflow_id="c-0", job=b'{"kind":"cancel","reason":"lost"}')
    answer = await worker.try_commit(run, sent=(cancels,), closing=DONE)
    same(isinstance(answer, Committed) and answer.ended, 1)
    same((only(await _told(store, asked))["reason"], (await store.get_run("c-1")).status), ("lost", "terminated"))


async def the_end_of_a_child_that_ended_before_is_left_alone(stores: Stores) -> None:
    """A run ends exactly once (E8)."""
    store, worker, run = await _family(stores, "c-0")
    await store.close_run("c-0", None, DONE)
    ended = await store.get_run("c-0")
    stores.clock.advance(1)
    answer = await worker.try_commit(run, closing=DONE, consumed=1)
    same((isinstance(answer, Committed) and answer.ended, await store.get_run("c-0")), (0, ended))


async def a_child_that_goes_on_as_another_generation_tells_nobody(stores: Stores) -> None:
    """Its successor stands for it: that one's end is the answer, and ends with the parent (M8)."""
    store, worker, run = await _family(stores, "c-0", "c-1")
    run = await worker.commit(run, park=True)
    for workflow_id in ("c-0", "c-1"):
        child = await worker.own(await store.get_run(workflow_id))
        await worker.commit(child, closing=Closing("continued", b'"next"'), successor=a_successor(child))
    same((await _told(store, run), workflow_ids(await store.list_children(run.number))), ([], ["c-0", "c-1"]))
    children = await store.list_children(run.number)
    same([child.facts.run_id for child in children], [an_id(f"{an_id(f'c-{i} first')} next") for i in (0, 1)])
    await store.close_run("c-0", None, DONE)
    same([(job["kind"], job["seq"]) for job in await _told(store, run)], [("resolved", 0)])
    await store.close_run("parent", None, Closing("terminated"))
    same((await reread(store, children[1])).status, "terminated")
