"""Promises: created by turns, settled once from outside, by their name or by a key (M4)."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.errors import AlreadyExists, NotFound, RunClosed
from perdure.stores.port import Store
from perdure.stores.records import Closing, Committed, NewPromise, Run, Settlement
from perdure.testing.conformance.expecting import only, raises, same
from perdure.testing.conformance.making import a_start
from perdure.testing.conformance.stage import Stores, Worker, hire, numbers, reread

PAID = Settlement(value=b'{ "cents":990 }')
REFUSED = Settlement(rejected="no funds")


async def _promised(stores: Stores, *names: str, key: str | None = None) -> tuple[Store, Worker, Run]:
    """A parked run that has made promises of these names, the first with this key."""
    store = await stores.open()
    worker = await hire(store)
    promises = tuple(NewPromise(seq=i, name=name, key=None if i else key) for i, name in enumerate(names))
    run = await worker.commit(await worker.begin("o-1"), promises=promises, park=True)
    return store, worker, run


async def _told(store: Store, run: Run) -> list[Any]:
    """What a run is told, decoded."""
    return [msgspec.json.decode(message.job) for message in await store.list_messages(run.number, 0)]


async def a_promise_is_resolved_by_its_name(stores: Stores) -> None:
    """The run is told the value, and is due now."""
    store, worker, run = await _promised(stores, "paid")
    accepted = await store.settle_promise("o-1", None, "paid", PAID)
    same(accepted and (accepted.number, accepted.claimed, accepted.run.number), (1, False, run.number))
    same(await _told(store, run), [{"kind": "promise_resolved", "name": "paid", "value": {"cents": 990}}])
    same(numbers(await worker.claim()), [run.number])


async def a_promise_is_rejected_by_its_name(stores: Stores) -> None:
    """The run is told why."""
    store, _, run = await _promised(stores, "paid")
    await store.settle_promise("o-1", run.facts.run_id, "paid", REFUSED)
    same(await _told(store, run), [{"kind": "promise_rejected", "name": "paid", "message": "no funds"}])


async def a_promise_is_settled_by_its_key(stores: Stores) -> None:
    """A webhook needs no id of ours: `workflow_id` is None, and the name is the key."""
    store, _, run = await _promised(stores, "paid", key="invoice 7")
    await store.settle_promise(None, None, "invoice 7", PAID)
    same([job["name"] for job in await _told(store, run)], ["paid"])
    await raises(NotFound, store.settle_promise(None, None, "paid", PAID))
    await raises(NotFound, store.settle_promise("o-1", None, "invoice 7", PAID))


async def the_same_settlement_again_changes_nothing(stores: Stores) -> None:
    """By name or key, before the run has read it and after, open or ended (M4)."""
    store, worker, run = await _promised(stores, "paid", key="invoice 7")
    await store.settle_promise("o-1", None, "paid", PAID)
    same(await store.settle_promise(None, None, "invoice 7", PAID), None)
    run = await worker.commit(await worker.own(run), consumed=1, park=True)
    same(await store.settle_promise("o-1", None, "paid", PAID), None)
    same(await reread(store, run), run)
    await store.close_run("o-1", None, Closing("completed", b"1"))
    same(await store.settle_promise("o-1", None, "paid", PAID), None)


async def another_settlement_is_refused(stores: Stores) -> None:
    """`AlreadyExists`: a promise is settled once."""
    store, _, run = await _promised(stores, "paid", "sent", key="invoice 7")
    await store.settle_promise("o-1", None, "paid", PAID)
    await store.settle_promise("o-1", None, "sent", REFUSED)
    for other in (REFUSED, Settlement(value=b"1"), Settlement()):
        await raises(AlreadyExists, store.settle_promise(None, None, "invoice 7", other))
    for other in (PAID, Settlement(rejected="another reason")):
        await raises(AlreadyExists, store.settle_promise("o-1", None, "sent", other))
    same(len(await _told(store, run)), 2)


async def a_promise_that_its_run_does_not_wait_for_any_more_is_refused(stores: Stores) -> None:
    """`AlreadyExists`, by name and by key, open or ended: it timed out, and nothing was written (M4)."""
    store, worker, run = await _promised(stores, "paid", "sent", key="invoice 7")
    run = await worker.commit(await worker.own(run), lapsed=("paid",), park=True)
    for settlement in (PAID, REFUSED):
        await raises(AlreadyExists, store.settle_promise("o-1", None, "paid", settlement))
        await raises(AlreadyExists, store.settle_promise(None, None, "invoice 7", settlement))
    same(await reread(store, run), run)
    await store.settle_promise("o-1", None, "sent", PAID)
    same(len(await _told(store, run)), 1)
    await store.close_run("o-1", None, Closing("completed", b"1"))
    await raises(AlreadyExists, store.settle_promise("o-1", None, "paid", PAID))


async def what_lapses_after_it_was_settled_stays_settled(stores: Stores) -> None:
    """The first one counts: who has settled it may say so again (M4)."""
    store, worker, run = await _promised(stores, "paid")
    run = await worker.own(run)
    await store.settle_promise("o-1", None, "paid", PAID)
    run = await worker.commit(run, lapsed=("paid", "never promised"), park=True)
    same(await store.settle_promise("o-1", None, "paid", PAID), None)
    await raises(AlreadyExists, store.settle_promise("o-1", None, "paid", REFUSED))
    same(len(await _told(store, run)), 1)


async def a_promise_that_is_made_again_is_open(stores: Stores) -> None:
    """A new one of the same name, after one that lapsed; one that lapses in the turn that makes it is not."""
    store, worker, run = await _promised(stores, "paid")
    run = await worker.commit(await worker.own(run), lapsed=("paid",))
    made = (NewPromise(seq=4, name="paid"), NewPromise(seq=5, name="sent"))
    run = await worker.commit(run, promises=made, lapsed=("sent",), park=True)
    await store.settle_promise("o-1", None, "paid", PAID)
    await raises(AlreadyExists, store.settle_promise("o-1", None, "sent", PAID))
    same(len(await _told(store, run)), 1)


async def an_old_key_settles_no_promise_that_is_made_again(stores: Stores) -> None:
    """Whoever has the key was told of the first promise; the second one has none, or another."""
    store, worker, run = await _promised(stores, "paid", key="invoice 7")
    await store.settle_promise(None, None, "invoice 7", PAID)
    run = await worker.commit(await worker.own(run), promises=(NewPromise(seq=4, name="paid"),))
    await raises(NotFound, store.settle_promise(None, None, "invoice 7", REFUSED))
    await worker.commit(run, promises=(NewPromise(seq=5, name="sent", key="invoice 7"),), park=True)
    await store.settle_promise(None, None, "invoice 7", REFUSED)
    same([job["name"] for job in await _told(store, run)], ["paid", "sent"])


async def what_was_not_promised_is_not_found(stores: Stores) -> None:
    """`NotFound` for an unknown run, name, or key; nothing was written."""
    store, _, run = await _promised(stores, "paid")
    await raises(NotFound, store.settle_promise("o-1", None, "sent", PAID))
    await raises(NotFound, store.settle_promise("o-2", None, "paid", PAID))
    await raises(NotFound, store.settle_promise(None, None, "invoice 7", PAID))
    same(await reread(store, run), run)


async def a_promise_of_a_run_that_has_ended_is_refused(stores: Stores) -> None:
    """`RunClosed`, by name and by key."""
    store, _, _ = await _promised(stores, "paid", key="invoice 7")
    await store.close_run("o-1", None, Closing("completed", b"1"))
    await raises(RunClosed, store.settle_promise("o-1", None, "paid", PAID))
    await raises(RunClosed, store.settle_promise(None, None, "invoice 7", PAID))


async def a_key_belongs_to_one_open_run(stores: Stores) -> None:
    """A key that another open run's promise has is the answer to the command, never a failed turn (E2)."""
    store, worker, run = await _promised(stores, "paid", key="invoice 7")
    other = await worker.begin("o-2")
    answer = await worker.try_commit(other, promises=(NewPromise(seq=4, name="p", key="invoice 7"),), park=True)
    same(isinstance(answer, Committed) and (answer.pending, answer.parked), (1, False))
    job = only(await _told(store, other))
    same((job["kind"], job["seq"], job["failure"]["type"]), ("failed", 4, "AlreadyExists"))
    await raises(NotFound, store.settle_promise("o-2", None, "p", PAID))
    await store.settle_promise(None, None, "invoice 7", PAID)
    same(len(await _told(store, run)), 1)


async def a_key_is_free_again_when_its_run_has_ended(stores: Stores) -> None:
    """It is the new promise's then."""
    store, worker, _ = await _promised(stores, "paid", key="invoice 7")
    await store.close_run("o-1", None, Closing("cancelled"))
    other = await worker.begin("o-2")
    await worker.commit(other, promises=(NewPromise(seq=4, name="p", key="invoice 7"),), park=True)
    await store.settle_promise(None, None, "invoice 7", PAID)
    same([job["name"] for job in await _told(store, other)], ["p"])


async def the_promises_of_runs_are_kept_apart(stores: Stores) -> None:
    """A name belongs to one run; the next run of the same workflow id has promised nothing."""
    store, worker, run = await _promised(stores, "paid")
    other = await worker.begin("o-2")
    await worker.commit(other, promises=(NewPromise(seq=0, name="paid"),), park=True)
    await store.settle_promise("o-2", None, "paid", REFUSED)
    same(len(await _told(store, run)), 0)
    await store.start_run(a_start("o-1", run="second", id_policy="terminate"))
    await raises(NotFound, store.settle_promise("o-1", None, "paid", PAID))


async def whoever_settles_a_promise_may_own_the_run_at_once(stores: Stores) -> None:
    """With `claim`, a free run of one of the workflows `claims`."""
    store, worker, run = await _promised(stores, "paid")
    accepted = await store.settle_promise("o-1", None, "paid", PAID, claim=worker.lease, claims=("order",))
    same(accepted and (accepted.claimed, accepted.run.owner), (True, worker.lease))
    same((await reread(store, run)).owner, worker.lease)
