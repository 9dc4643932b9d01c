"""Sending: jobs that a turn sends to other runs, written with the turn (E1, E2)."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.stores.port import Store
from perdure.stores.records import Closing, Committed, Run, Sent
from perdure.testing.conformance.expecting import NotConforming, only, same
from perdure.testing.conformance.making import JOB, a_child, a_commit, a_start
from perdure.testing.conformance.stage import Stores, begin, hire, numbers, reread

SIGNAL = b'{"kind": "signal",  "name":"paid"}'


async def _told(store: Store, run: Run) -> list[Any]:
    """What a run is told, decoded."""
    return [msgspec.json.decode(message.job) for message in await store.list_messages(run.number, 0)]


async def a_turn_sends_jobs_to_other_runs(stores: Stores) -> None:
    """They are messages of theirs with its commit, to the byte and in their order; the runs are due now."""
    store = await stores.open()
    worker = await hire(store)
    target = await worker.commit(await worker.begin("target"), park=True)
    run = await worker.begin("o-1")
    stores.clock.advance(1)
    answer = await worker.try_commit(
        run, sent=(Sent(workflow_id="target", job=SIGNAL), Sent(workflow_id="target", job=JOB))
    )
    messages = await store.list_messages(target.number, 0)
    same(
        [(m.number, m.job, m.accepted_us) for m in messages],
        [(1, SIGNAL, stores.clock.now_us()), (2, JOB, stores.clock.now_us())],
    )
    if not isinstance(answer, Committed):
        raise NotConforming(f"got {answer!r}")
    same([(told.run.number, told.message) for told in answer.told], [(target.number, m) for m in messages])
    same((answer.pending, numbers(await worker.claim())), (0, [target.number]))


async def a_sender_is_answered_that_its_job_has_arrived(stores: Stores) -> None:
    """With `seq`, in the same commit, which does not park its run."""
    store = await stores.open()
    worker = await hire(store)
    await begin(store, "target")
    run = await worker.begin("o-1")
    answer = await worker.try_commit(run, sent=(Sent(workflow_id="target", job=SIGNAL, seq=7),), park=True)
    same(isinstance(answer, Committed) and (answer.pending, answer.parked), (1, False))
    same([(job["kind"], job["seq"]) for job in await _told(store, run)], [("resolved", 7)])


async def a_sender_is_answered_that_nobody_is_there(stores: Stores) -> None:
    """For an id that no run has, and for a run that has ended; the turn itself stands (E2)."""
    store = await stores.open()
    worker = await hire(store)
    await begin(store, "ended")
    await store.close_run("ended", None, Closing("completed", b"[]"))
    run = await worker.begin("o-1")
    sent = tuple(Sent(workflow_id=id, job=SIGNAL, seq=seq) for seq, id in enumerate(("nobody", "ended")))
    answer = await worker.try_commit(run, sent=sent)
    same(isinstance(answer, Committed) and (answer.pending, answer.told), (2, ()))
    jobs = await _told(store, run)
    same([(job["kind"], job["seq"]) for job in jobs], [("failed", 0), ("failed", 1)])
    same([job["failure"]["type"] for job in jobs], ["NotFound", "RunClosed"])


async def a_sender_that_does_not_ask_is_not_answered(stores: Stores) -> None:
    """Without `seq`, whether anybody was there or not."""
    store = await stores.open()
    worker = await hire(store)
    await begin(store, "target")
    run = await worker.begin("o-1")
    sent = tuple(Sent(workflow_id=id, job=SIGNAL) for id in ("nobody", "target"))
    answer = await worker.try_commit(run, sent=sent, park=True)
    same(isinstance(answer, Committed) and (answer.pending, answer.parked), (0, True))


async def a_job_goes_to_the_newest_run(stores: Stores) -> None:
    """Of a workflow id that several runs have had."""
    store = await stores.open()
    worker = await hire(store)
    await begin(store, "target")
    new = (await store.start_run(a_start("target", run="second", id_policy="terminate"))).run
    await worker.commit(await worker.begin("o-1"), sent=(Sent(workflow_id="target", job=SIGNAL),))
    same(len(await store.list_messages(new.number, 0)), 1)


async def a_run_may_send_to_a_child_that_the_same_turn_starts(stores: Stores) -> None:
    """Children are there before anything is sent."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    await worker.commit(run, children=(a_child(run, "child"),), sent=(Sent(workflow_id="child", job=SIGNAL, seq=1),))
    same([job["kind"] for job in await _told(store, run)], ["resolved"])
    same([m.job for m in await store.list_messages((await store.get_run("child")).number, 0)], [SIGNAL])


async def a_run_may_send_to_itself(stores: Stores) -> None:
    """It has a message more, and is not parked; no other run was told."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    answer = await worker.try_commit(run, sent=(Sent(workflow_id="o-1", job=SIGNAL),), park=True)
    same(isinstance(answer, Committed) and (answer.pending, answer.parked, answer.told), (1, False, ()))
    same([m.job for m in await store.list_messages(run.number, 0)], [SIGNAL])


async def whoever_sends_may_own_the_run_that_it_told(stores: Stores) -> None:
    """What a turn tells that is free and of the workflows `claims` is its owner's as well, and no other."""
    store = await stores.open()
    worker, other = await hire(store), await hire(store, "w-2")
    free = await begin(store, "free")
    taken = await other.begin("taken")
    unknown = await begin(store, "unknown", workflow="other")
    run = await worker.begin("o-1")
    sent = tuple(Sent(workflow_id=id, job=SIGNAL) for id in ("free", "taken", "unknown"))
    answer = only(await store.commit_turns([a_commit(run, worker.lease, sent=sent)], ["order"]))
    same(isinstance(answer, Committed) and [told.claimed for told in answer.told], [True, False, False])
    owners = [(await reread(store, each)).owner for each in (free, taken, unknown)]
    same(owners, [worker.lease, other.lease, None])


async def a_turn_that_is_refused_sends_nothing(stores: Stores) -> None:
    """All of it is written, or nothing (E1)."""
    store = await stores.open()
    worker, other = await hire(store), await hire(store, "w-2")
    target = await begin(store, "target")
    run = await other.begin("o-1")
    same(isinstance(await worker.try_commit(run, sent=(Sent(workflow_id="target", job=SIGNAL),)), Exception), True)
    same((await reread(store, target), (await store.counts())["messages"]), (target, 0))
