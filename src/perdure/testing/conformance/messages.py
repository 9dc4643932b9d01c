"""Messages: accepted for a run, numbered without a gap, kept until a turn takes them (E8)."""

from __future__ import annotations

import asyncio

from perdure.errors import NotFound, RunClosed
from perdure.stores.records import Closing
from perdure.testing.conformance.expecting import only, raises, same
from perdure.testing.conformance.making import JOB, a_start, an_id
from perdure.testing.conformance.stage import Stores, begin, hire, numbers, reread

SECOND = 1_000_000


async def a_message_is_kept_as_it_was_given(stores: Stores) -> None:
    """The job is kept to the byte, with its id and its time."""
    store = await stores.open()
    run = await begin(store, "o-1")
    stores.clock.advance(1)
    job = b'{"kind" : "signalled", "x": 1.0, "text":"\xc3\xa4\\u0000"}'
    accepted = await store.accept_message("o-1", None, job, message_id="m '1' \u00e4")
    same((accepted.number, accepted.claimed, accepted.run.number, accepted.run.accepted), (1, False, run.number, 1))
    message = only(await store.list_messages(run.number, 0))
    same((message.number, message.job, message.message_id), (1, job, "m '1' \u00e4"))
    same((message.accepted_us, message.notes), (stores.clock.now_us(), None))


async def messages_are_numbered_from_one_in_their_order(stores: Stores) -> None:
    """The numbers of a run's messages are 1, 2, 3 and so on, whoever sends them."""
    store, other = await stores.open(), await stores.open()
    run = await begin(store, "o-1")
    await begin(store, "o-2")
    for i in range(12):
        await store.accept_message("o-2", None, JOB)
        sender = other if i % 2 else store
        same((await sender.accept_message("o-1", None, b"%d" % i)).number, i + 1)
    listed = await store.list_messages(run.number, 0)
    same([(message.number, message.job) for message in listed], [(i + 1, b"%d" % i) for i in range(12)])
    same((await reread(store, run)).accepted, 12)


async def numbers_go_on_where_a_turn_has_taken_messages(stores: Stores) -> None:
    """No number is given twice, also when nothing waits any more."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    await store.accept_message("o-1", None, b"1")
    await store.accept_message("o-1", None, b"2")
    await worker.commit(run, consumed=2)
    same((await store.accept_message("o-1", None, b"3")).number, 3)
    same([(message.number, message.job) for message in await store.list_messages(run.number, 0)], [(3, b"3")])


async def the_messages_after_one_are_listed(stores: Stores) -> None:
    """`list_messages` gives those with a larger number."""
    store = await stores.open()
    run = await begin(store, "o-1")
    for i in range(4):
        await store.accept_message("o-1", None, b"%d" % i)
    same([message.number for message in await store.list_messages(run.number, 2)], [3, 4])
    same((await store.list_messages(run.number, 4), await store.list_messages(run.number + 100, 0)), ([], []))


async def messages_sent_at_once_are_all_accepted_and_each_has_its_number(stores: Stores) -> None:
    """Of many senders in several processes, none is lost and none doubled (E8)."""
    store, other = await stores.open(), await stores.open()
    run = await begin(store, "o-1")
    sends = [(other if i % 2 else store).accept_message("o-1", None, b"%d" % i) for i in range(40)]
    given = [accepted.number for accepted in await asyncio.gather(*sends)]
    same(sorted(given), list(range(1, 41)))
    kept = {message.number: message.job for message in await store.list_messages(run.number, 0)}
    same(kept, {number: b"%d" % i for i, number in enumerate(given)})


async def a_message_id_that_waits_is_accepted_once(stores: Stores) -> None:
    """It is accepted again as the same message: same number, first content."""
    store, other = await stores.open(), await stores.open()
    run = await begin(store, "o-1")
    await store.accept_message("o-1", None, b"0")
    first = await store.accept_message("o-1", None, b"1", message_id="m-1")
    again = await other.accept_message("o-1", None, b"2", message_id="m-1")
    same((first.number, again.number, again.run.accepted), (2, 2, 2))
    same([message.job for message in await store.list_messages(run.number, 0)], [b"0", b"1"])


async def a_message_id_belongs_to_one_run(stores: Stores) -> None:
    """The same id for another run is another message, and messages without an id are never the same."""
    store = await stores.open()
    one, two = await begin(store, "o-1"), await begin(store, "o-2")
    for workflow_id in ("o-1", "o-2"):
        same((await store.accept_message(workflow_id, None, JOB, message_id="m-1")).number, 1)
        same((await store.accept_message(workflow_id, None, JOB)).number, 2)
        same((await store.accept_message(workflow_id, None, JOB)).number, 3)
    same([len(await store.list_messages(run.number, 0)) for run in (one, two)], [3, 3])


async def a_message_id_that_was_taken_changes_nothing(stores: Stores) -> None:
    """A message id that a turn has taken is answered with 0, and nothing is delivered again (M1)."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    await store.accept_message("o-1", None, JOB, message_id="m-1")
    run = await worker.commit(run, consumed=1, park=True)
    again = await store.accept_message("o-1", None, JOB, message_id="m-1")
    same((again.number, again.claimed), (0, False))
    same((await reread(store, run), await store.list_messages(run.number, 0)), (run, []))
    joined = await store.start_run(a_start("o-1", run="second", message=JOB, message_id="m-1"))
    same((joined.new, joined.message, await reread(store, run)), (False, 0, run))


async def a_message_id_that_was_accepted_outlives_its_run(stores: Stores) -> None:
    """Whoever sends it again, not knowing that it was accepted, learns that it was, and not that the run has ended."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    await store.accept_message("o-1", None, JOB, message_id="taken")
    run = await worker.commit(run, consumed=1)
    await store.accept_message("o-1", None, JOB, message_id="waits")
    await store.close_run("o-1", None, Closing("completed", b"[]"))
    for message_id in ("taken", "waits"):
        same((await store.accept_message("o-1", None, JOB, message_id=message_id)).number, 0)
    await raises(RunClosed, store.accept_message("o-1", None, JOB, message_id="new"))
    again = await store.start_run(a_start("o-1", run="second", message=JOB, message_id="taken"))
    same((again.new, again.message), (False, 0))


async def a_run_that_starts_anew_knows_no_message_ids(stores: Stores) -> None:
    """Only a run and its generations share them: the next run of the same workflow id is another one (M1)."""
    store = await stores.open()
    await begin(store, "o-1")
    await store.accept_message("o-1", None, JOB, message_id="m-1")
    await store.start_run(a_start("o-1", run="second", id_policy="terminate"))
    same((await store.accept_message("o-1", None, JOB, message_id="m-1")).number, 1)


async def a_message_makes_a_parked_run_due_now(stores: Stores) -> None:
    """Also one that waits for a time."""
    store = await stores.open()
    worker = await hire(store)
    later = stores.clock.now_us() + 100 * SECOND
    run = await worker.commit(await worker.begin("o-1"), park=True, wake_us=later)
    stores.clock.advance(1)
    await store.accept_message("o-1", None, JOB)
    same(await store.get_next_wake(["default"]), stores.clock.now_us())
    same(numbers(await worker.claim()), [run.number])


async def a_message_leaves_an_owned_run_to_its_owner(stores: Stores) -> None:
    """Nobody else may claim it."""
    store = await stores.open()
    one, two = await hire(store, "w-1"), await hire(store, "w-2")
    run = await one.begin("o-1")
    await store.accept_message("o-1", None, JOB)
    same((await two.claim(), (await reread(store, run)).owner), ([], one.lease))


async def whoever_sends_a_message_may_own_the_run_at_once(stores: Stores) -> None:
    """With `claim`, a free run of one of the workflows `claims` is the caller's as well."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.commit(await worker.begin("o-1"), park=True)
    accepted = await store.accept_message("o-1", None, JOB, claim=worker.lease, claims=("other", "order"))
    same((accepted.claimed, accepted.run.owner, accepted.run.accepted), (True, worker.lease, 1))
    same(await reread(store, run), accepted.run)


async def a_sender_does_not_own_what_it_has_no_code_for(stores: Stores) -> None:
    """The message is accepted all the same, and the run stays free."""
    store = await stores.open()
    worker = await hire(store)
    run = await begin(store, "o-1", workflow="other")
    accepted = await store.accept_message("o-1", None, JOB, claim=worker.lease, claims=("order",))
    same((accepted.claimed, accepted.number, (await reread(store, run)).owner), (False, 1, None))


async def a_sender_does_not_own_what_another_owns(stores: Stores) -> None:
    """The message waits for the run's owner (E3)."""
    store = await stores.open()
    one, two = await hire(store, "w-1"), await hire(store, "w-2")
    run = await one.begin("o-1")
    accepted = await store.accept_message("o-1", None, JOB, claim=two.lease, claims=("order",))
    same((accepted.claimed, accepted.run.owner, (await reread(store, run)).owner), (False, one.lease, one.lease))


async def a_message_for_nobody_is_refused(stores: Stores) -> None:
    """`NotFound` for an id that nobody has; nothing was written."""
    store = await stores.open()
    await begin(store, "o-1")
    await raises(NotFound, store.accept_message("o-2", None, JOB))
    await raises(NotFound, store.accept_message("o-1", an_id("nobody"), JOB))
    same((await store.counts())["messages"], 0)


async def a_message_for_a_run_that_has_ended_is_refused(stores: Stores) -> None:
    """`RunClosed`; nothing was written."""
    store = await stores.open()
    run = await begin(store, "o-1")
    await store.close_run("o-1", None, Closing("completed", b"[]"))
    ended = await reread(store, run)
    await raises(RunClosed, store.accept_message("o-1", None, JOB))
    same((await reread(store, run), (await store.counts())["messages"]), (ended, 0))


async def a_message_goes_to_the_newest_run_or_to_the_one_that_is_named(stores: Stores) -> None:
    """Without a run id, the newest generation is meant."""
    store = await stores.open()
    old = await begin(store, "o-1")
    new = (await store.start_run(a_start("o-1", run="second", id_policy="terminate"))).run
    same((await store.accept_message("o-1", None, JOB)).run.number, new.number)
    same((await store.accept_message("o-1", new.facts.run_id, JOB)).run.number, new.number)
    await raises(RunClosed, store.accept_message("o-1", old.facts.run_id, JOB))
