"""Updates: accepted once by their id, answered once, whoever asks and however often (M2)."""

from __future__ import annotations

import msgspec

from perdure.errors import NotFound, RunClosed
from perdure.stores.records import Closing, UpdateAnswer
from perdure.testing.conformance.expecting import NotConforming, raises, same
from perdure.testing.conformance.making import a_start, a_successor, an_id
from perdure.testing.conformance.stage import Stores, begin, hire, numbers, reread

JOB = b'{"kind":"update", "name":"add",  "id":"u-1"}'
ANSWER = b'{ "id":"u-1", "kind":"update","value":1.0}'


async def an_update_is_accepted_as_a_message(stores: Stores) -> None:
    """The run is due now; there is no answer yet."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.commit(await worker.begin("o-1"), park=True)
    requested = await store.request_update("o-1", None, JOB, "u-1")
    accepted = requested.accepted
    same(accepted and (accepted.number, accepted.claimed, accepted.run.number), (1, False, run.number))
    same((requested.answer, requested.run.number), (None, run.number))
    same([message.job for message in await store.list_messages(run.number, 0)], [JOB])
    same((await store.get_answer("o-1", None, "u-1"), numbers(await worker.claim())), (None, [run.number]))


async def an_update_id_is_accepted_once(stores: Stores) -> None:
    """While it waits, while it is worked on, and after it was answered; a repeated id gets the first answer."""
    store, other = await stores.open(), await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    await store.request_update("o-1", None, JOB, "u-1")
    again = await other.request_update("o-1", None, JOB, "u-1")
    same((again.accepted, again.answer, (await reread(store, run)).accepted), (None, None, 1))
    run = await worker.commit(await reread(store, run), consumed=1)
    again = await other.request_update("o-1", None, JOB, "u-1")
    same((again.accepted, again.answer, await store.list_messages(run.number, 0)), (None, None, []))
    await worker.commit(run, answers=(UpdateAnswer("u-1", ANSWER),))
    again = await other.request_update("o-1", None, JOB, "u-1")
    same((again.accepted, again.answer), (None, ANSWER))
    same((await other.get_answer("o-1", None, "u-1"), (await reread(store, run)).accepted), (ANSWER, 1))


async def the_first_answer_counts(stores: Stores) -> None:
    """What was answered once is never answered otherwise."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    await store.request_update("o-1", None, JOB, "u-1")
    run = await worker.commit(run, answers=(UpdateAnswer("u-1", ANSWER),))
    await worker.commit(run, answers=(UpdateAnswer("u-1", b"{}"),))
    same(await store.get_answer("o-1", None, "u-1"), ANSWER)


async def updates_of_different_ids_and_runs_are_kept_apart(stores: Stores) -> None:
    """An id belongs to one run."""
    store = await stores.open()
    worker = await hire(store)
    one = await worker.begin("o-1")
    await begin(store, "o-2")
    for workflow_id, update_id in (("o-1", "u-1"), ("o-1", "u-2"), ("o-2", "u-1")):
        same((await store.request_update(workflow_id, None, JOB, update_id)).accepted is None, False)
    await worker.commit(one, answers=(UpdateAnswer("u-1", ANSWER),))
    asked = [("o-1", "u-1"), ("o-1", "u-2"), ("o-2", "u-1")]
    same([await store.get_answer(workflow, None, update) for workflow, update in asked], [ANSWER, None, None])


async def an_update_of_nobody_is_refused(stores: Stores) -> None:
    """`NotFound`, and an answer to what was never asked for is not found either."""
    store = await stores.open()
    await begin(store, "o-1")
    await raises(NotFound, store.request_update("o-2", None, JOB, "u-1"))
    await raises(NotFound, store.request_update("o-1", an_id("nobody"), JOB, "u-1"))
    await raises(NotFound, store.get_answer("o-2", None, "u-1"))
    await raises(NotFound, store.get_answer("o-1", None, "u-1"))
    same((await store.counts())["messages"], 0)


async def a_new_update_of_a_run_that_has_ended_is_refused(stores: Stores) -> None:
    """`RunClosed`; one that was answered before still has its answer."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    await store.request_update("o-1", None, JOB, "u-1")
    await worker.commit(run, consumed=1, answers=(UpdateAnswer("u-1", ANSWER),), closing=Closing("completed", b"1"))
    await raises(RunClosed, store.request_update("o-1", None, JOB, "u-2"))
    same((await store.request_update("o-1", None, JOB, "u-1")).answer, ANSWER)
    await raises(NotFound, store.get_answer("o-1", None, "u-2"))


async def an_update_that_is_open_when_its_run_ends_is_answered_with_an_error(stores: Stores) -> None:
    """Whether a turn has taken it or not, and whoever ends the run."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    await store.request_update("o-1", None, JOB, "taken")
    await worker.commit(run, consumed=1)
    await store.request_update("o-1", None, JOB, "waits")
    await store.close_run("o-1", None, Closing("terminated"))
    for update_id in ("taken", "waits"):
        answer = msgspec.json.decode(await store.get_answer("o-1", None, update_id) or b"null")
        same(answer is None, False)
        same((answer["id"], answer["kind"], answer["error"]["type"]), (update_id, "update", "RunClosed"))
    same((await store.request_update("o-1", None, JOB, "waits")).answer is None, False)


async def an_update_id_counts_for_all_generations(stores: Stores) -> None:
    """Accepted by one and answered by the next, it is known to whoever asks either (M2, M8)."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    await store.request_update("o-1", None, JOB, "u-1")
    run = await worker.commit(run, consumed=1)
    await worker.commit(run, closing=Closing("continued"), successor=a_successor(run, (JOB, None)))
    same((await store.request_update("o-1", None, JOB, "u-1")).accepted, None)
    same(await store.get_answer("o-1", run.facts.run_id, "u-1"), None)
    new = await worker.own(await store.get_run("o-1"))
    same(new.number == run.number, False)
    await worker.commit(new, consumed=1, answers=(UpdateAnswer("u-1", ANSWER),))
    for run_id in (None, run.facts.run_id, new.facts.run_id):
        same(await store.get_answer("o-1", run_id, "u-1"), ANSWER)


async def a_run_that_starts_anew_knows_no_update_ids(stores: Stores) -> None:
    """The next run of the same workflow id, which is no generation of it, is asked anew."""
    store = await stores.open()
    await begin(store, "o-1")
    await store.request_update("o-1", None, JOB, "u-1")
    await store.start_run(a_start("o-1", run="second", id_policy="terminate"))
    if (await store.request_update("o-1", None, JOB, "u-1")).accepted is None:
        raise NotConforming("the update of another run was taken for this one's")


async def whoever_asks_for_an_update_may_own_the_run_at_once(stores: Stores) -> None:
    """With `claim`, a free run of one of the workflows `claims`."""
    store = await stores.open()
    worker = await hire(store)
    run = await begin(store, "o-1")
    requested = await store.request_update("o-1", None, JOB, "u-1", claim=worker.lease, claims=("order",))
    same((requested.accepted and requested.accepted.claimed, requested.run.owner), (True, worker.lease))
    same(await reread(store, run), requested.run)
    await begin(store, "o-2")
    requested = await store.request_update("o-2", None, JOB, "u-1", claim=worker.lease, claims=("other",))
    same(requested.accepted and requested.accepted.claimed, False)
