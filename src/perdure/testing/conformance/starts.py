"""Starting runs: what is kept of a new one, and what a second start of the same workflow id comes to (E2)."""

from __future__ import annotations

import msgspec

from perdure.errors import AlreadyExists, Failure, NotFound, RunClosed
from perdure.stores.port import Store
from perdure.stores.records import EVERY, NO_CHECKSUM, NO_TURN, Closing, IdPolicy, Run
from perdure.testing.conformance.expecting import only, raises, same
from perdure.testing.conformance.making import JOB, a_start, an_id, some_facts
from perdure.testing.conformance.stage import Stores, begin, hire, numbers, reread

SECOND = 1_000_000
POLICIES: tuple[IdPolicy, ...] = ("use_existing", "reject", "terminate", "again")


async def _ended(store: Store, workflow_id: str) -> Run:
    run = await begin(store, workflow_id)
    await store.close_run(workflow_id, None, Closing("completed", b"[1]"))
    return await reread(store, run)


async def a_new_run_is_running_free_and_due_now(stores: Stores) -> None:
    """A run that begins is due at once, unless its start says when; nobody owns it, no turn was made."""
    store = await stores.open()
    begun = await store.start_run(a_start("o-1"))
    run, now = begun.run, stores.clock.now_us()
    same((begun.new, begun.message, begun.claimed), (True, 0, False))
    same((run.status, run.owner, run.created_us, run.wake_us), ("running", None, now, now))
    same((run.last_turn, run.checksum, run.accepted, run.consumed), (NO_TURN, NO_CHECKSUM, 0, 0))
    same((run.blocked, run.result, run.closed_us, run.waiting), (None, None, None, None))


async def every_fact_of_a_run_is_kept_as_it_was_given(stores: Stores) -> None:
    """What never changes of a run is kept to the byte: no store reads JSON, and no number is rounded."""
    store = await stores.open()
    given = a_start(
        "Größe 注文 '; --",
        workflow="shop.order",
        version="v2",
        queue="big boxes",
        priority=-3,
        seed=2**63 - 1,
        input=b'[ "\\u00e4", 1e2,  1.0, 12345678901234567890 ]',
        keywords=b'{"b": 1, "a":2, "a":2}',
        started=b'{"kind":"started" , "memo":{}}',
        deadline_us=2**53 + 1,
        generation=3,
        attributes=b'{"price" : 1.0, "id":12345678901234567890}',
    )
    begun = await store.start_run(given)
    same(begun.run.facts, given.facts)
    same((await store.get_run(given.facts.workflow_id)).facts, given.facts)


async def an_input_of_a_megabyte_is_kept(stores: Stores) -> None:
    """A store sets no limit to the values that a run is given, and writes them as they are."""
    store = await stores.open()
    long = b'["' + b"x" * 1_000_000 + b'"]'
    run = await begin(store, "o-1", input=long)
    same((await reread(store, run)).facts.input == long, True)


async def runs_are_numbered_in_the_order_of_their_creation(stores: Stores) -> None:
    """The store's own name for a run grows in the order of creation."""
    store, other = await stores.open(), await stores.open()
    made = [await begin(each, f"o-{i}") for i, each in enumerate([store, other, store, store, other])]
    same(numbers(made), sorted(set(numbers(made))))


async def a_second_start_comes_to_the_same_run(stores: Stores) -> None:
    """Starting a workflow id that exists returns that run (E2)."""
    store = await stores.open()
    first = await store.start_run(a_start("o-1"))
    second = await store.start_run(a_start("o-1", run="second"))
    same((second.new, second.run), (False, first.run))
    same(await store.count_runs(EVERY), 1)


async def a_second_start_comes_to_the_same_run_from_another_store_object(stores: Stores) -> None:
    """A workflow id is taken for everybody, not only for whoever took it (E2)."""
    store, other = await stores.open(), await stores.open()
    first = await store.start_run(a_start("o-1"))
    second = await other.start_run(a_start("o-1", run="second"))
    same((second.new, second.run), (False, first.run))


async def a_second_start_of_a_finished_run_returns_it(stores: Stores) -> None:
    """`use_existing` returns the run that is there, open or finished (E2)."""
    store = await stores.open()
    done = await _ended(store, "o-1")
    again = await store.start_run(a_start("o-1", run="second"))
    same((again.new, again.run), (False, done))


async def a_second_start_does_not_make_a_run_due(stores: Stores) -> None:
    """A start that comes to a run which is there changes nothing of it (E2)."""
    store = await stores.open()
    later = stores.clock.now_us() + SECOND
    run = (await store.start_run(a_start("o-1", wake_us=later))).run
    worker = await hire(store)
    begun = await store.start_run(a_start("o-1", run="second", claim=worker.lease))
    same((begun.claimed, begun.run), (False, run))
    same(await worker.claim(), [])


async def reject_refuses_an_id_that_is_taken_by_an_open_run(stores: Stores) -> None:
    """`reject` raises AlreadyExists (E2)."""
    store = await stores.open()
    run = await begin(store, "o-1")
    await raises(AlreadyExists, store.start_run(a_start("o-1", run="second", id_policy="reject")))
    same(await store.list_runs(EVERY, 10), [run])


async def reject_refuses_an_id_that_is_taken_by_a_finished_run(stores: Stores) -> None:
    """`reject` raises AlreadyExists, whether the run has ended or not (E2)."""
    store = await stores.open()
    done = await _ended(store, "o-1")
    await raises(AlreadyExists, store.start_run(a_start("o-1", run="second", id_policy="reject")))
    same(await store.list_runs(EVERY, 10), [done])


async def terminate_ends_an_open_run_and_starts_anew(stores: Stores) -> None:
    """`terminate` ends an open run, as terminated and with a failure that says why, and starts anew (E2)."""
    store = await stores.open()
    old = await begin(store, "o-1")
    stores.clock.advance(1)
    begun = await store.start_run(a_start("o-1", run="second", id_policy="terminate", input=b"[2]"))
    same((begun.new, begun.run.facts.run_id), (True, an_id("o-1 second")))
    ended = await reread(store, old)
    same((ended.status, ended.closed_us, ended.wake_us), ("terminated", stores.clock.now_us(), None))
    same(msgspec.json.decode(ended.result or b"null", type=Failure).type, "Terminated")
    same((await store.get_run("o-1")).number, begun.run.number)


async def terminate_starts_anew_after_a_finished_run(stores: Stores) -> None:
    """`terminate` has nothing to end where the run has ended, and leaves it as it is (E2)."""
    store = await stores.open()
    done = await _ended(store, "o-1")
    begun = await store.start_run(a_start("o-1", run="second", id_policy="terminate"))
    same((begun.new, await reread(store, done)), (True, done))


async def again_returns_an_open_run(stores: Stores) -> None:
    """`again` returns a run that is open (E2)."""
    store = await stores.open()
    run = await begin(store, "o-1")
    begun = await store.start_run(a_start("o-1", run="second", id_policy="again"))
    same((begun.new, begun.run), (False, run))


async def again_starts_anew_after_a_finished_run_with_any_input(stores: Stores) -> None:
    """`again` starts anew after a finished run; what that one was given does not matter (E2)."""
    store = await stores.open()
    done = await _ended(store, "o-1")
    begun = await store.start_run(a_start("o-1", run="second", id_policy="again", workflow="other", input=b"[2]"))
    same((begun.new, begun.run.facts.workflow, await reread(store, done)), (True, "other", done))


async def a_workflow_id_with_other_input_is_refused(stores: Stores) -> None:
    """`use_existing`, and `again` on an open run, never hand out a run that is not what was asked for (E2)."""
    store = await stores.open()
    run = await begin(store, "o-1")
    for policy in ("use_existing", "again"):
        await raises(AlreadyExists, store.start_run(a_start("o-1", run="2", id_policy=policy, input=b"[2]")))
        await raises(AlreadyExists, store.start_run(a_start("o-1", run="2", id_policy=policy, keywords=b'{"a":1}')))
        await raises(AlreadyExists, store.start_run(a_start("o-1", run="2", id_policy=policy, workflow="other")))
    same(await store.list_runs(EVERY, 10), [run])


async def a_finished_run_with_other_input_is_not_handed_out(stores: Stores) -> None:
    """`use_existing` compares workflow and input with a finished run as well (E2)."""
    store = await stores.open()
    await _ended(store, "o-1")
    await raises(AlreadyExists, store.start_run(a_start("o-1", run="second", input=b"[2]")))


async def no_policy_gives_two_runs_one_run_id(stores: Stores) -> None:
    """A run id names one run for ever; a start that would take it again is refused, and nothing is written."""
    store = await stores.open()
    run = await begin(store, "o-1")
    taken = some_facts("o-2").run_id
    await store.start_run(a_start("o-2"))
    await raises(AlreadyExists, store.start_run(a_start("o-1", run_id=taken, id_policy="terminate")))
    same(await reread(store, run), run)
    same(await store.count_runs(EVERY), 2)


async def a_run_may_start_later(stores: Stores) -> None:
    """A run is due from `wake_us` on, and not before."""
    store = await stores.open()
    worker = await hire(store, seconds=100)
    later = stores.clock.now_us() + 5 * SECOND
    begun = await store.start_run(a_start("o-1", wake_us=later, claim=worker.lease))
    same((begun.run.wake_us, begun.claimed, begun.run.owner), (later, False, None))
    same(await worker.claim(), [])
    stores.clock.advance(5)
    same(numbers(await worker.claim()), [begun.run.number])


async def a_worker_may_own_at_once_what_it_starts(stores: Stores) -> None:
    """With `claim`, the new run is the caller's, and nobody else's."""
    store = await stores.open()
    one, other = await hire(store, "w-1"), await hire(store, "w-2")
    begun = await store.start_run(a_start("o-1", claim=one.lease))
    same((begun.claimed, begun.run.owner, begun.new), (True, one.lease, True))
    same(await reread(store, begun.run), begun.run)
    same((await other.claim(), await store.claim_run(other.lease, begun.run.number)), ([], None))


async def a_lost_lease_owns_nothing_that_it_starts(stores: Stores) -> None:
    """A lease that was lost claims nothing (E3); the run begins all the same."""
    store = await stores.open()
    worker = await hire(store)
    await store.close_lease(worker.lease)
    begun = await store.start_run(a_start("o-1", claim=worker.lease))
    same((begun.new, begun.claimed, begun.run.owner), (True, False, None))


async def a_run_may_start_with_a_message(stores: Stores) -> None:
    """A start with a message accepts it as the run's first, in the same transition."""
    store = await stores.open()
    begun = await store.start_run(a_start("o-1", message=JOB, message_id="m-1"))
    same((begun.new, begun.message, begun.run.accepted), (True, 1, 1))
    message = only(await store.list_messages(begun.run.number, 0))
    same((message.number, message.job, message.message_id), (1, JOB, "m-1"))


async def a_run_that_starts_later_does_so_with_its_message(stores: Stores) -> None:
    """What comes with the start does not hasten it; what comes behind does."""
    store = await stores.open()
    worker = await hire(store, seconds=100)
    later = stores.clock.now_us() + 5 * SECOND
    await store.start_run(a_start("o-1", wake_us=later, message=JOB))
    same((await worker.claim(), await store.get_next_wake(["default"])), ([], later))
    await store.accept_message("o-1", None, JOB)
    same(len(await worker.claim()), 1)


async def a_start_with_a_message_tells_an_open_run(stores: Stores) -> None:
    """Where the run is there and open, the message is accepted for it, and makes it due."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.commit(await worker.begin("o-1"), park=True)
    begun = await store.start_run(a_start("o-1", run="second", message=JOB))
    same((begun.new, begun.message, begun.claimed, begun.run.number), (False, 1, False, run.number))
    same(numbers(await worker.claim()), [run.number])


async def a_start_with_a_message_may_own_the_run_that_it_told(stores: Stores) -> None:
    """With `claim`, a free run that a start has told something is the caller's as well."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.commit(await worker.begin("o-1"), park=True)
    begun = await store.start_run(a_start("o-1", run="second", message=JOB, claim=worker.lease))
    same((begun.claimed, begun.run.owner, begun.run.accepted), (True, worker.lease, 1))
    same(await reread(store, run), begun.run)


async def a_start_with_a_message_that_waits_already_accepts_it_once(stores: Stores) -> None:
    """A message id that waits already is accepted again as the same message (E2)."""
    store = await stores.open()
    first = await store.start_run(a_start("o-1", message=JOB, message_id="m-1"))
    second = await store.start_run(a_start("o-1", message=JOB, message_id="m-1"))
    same((first.message, second.message), (1, 1))
    same(len(await store.list_messages(first.run.number, 0)), 1)


async def a_start_with_a_message_does_not_reach_a_finished_run(stores: Stores) -> None:
    """Where the run has ended, its message is refused with RunClosed: it would be lost."""
    store = await stores.open()
    done = await _ended(store, "o-1")
    await raises(RunClosed, store.start_run(a_start("o-1", run="second", message=JOB)))
    same(await store.list_runs(EVERY, 10), [done])


async def a_start_that_is_refused_writes_nothing(stores: Stores) -> None:
    """An error says that nothing was written: no run, no message, no end of another run."""
    store = await stores.open()
    run = await begin(store, "o-1")
    before = await store.counts()
    for policy in POLICIES[:2]:
        start = a_start("o-1", run="second", id_policy=policy, input=b"[2]", message=JOB)
        await raises(AlreadyExists, store.start_run(start))
    same((await store.counts(), await reread(store, run)), (before, run))
    await raises(NotFound, store.get_run("o-1", an_id("o-1 second")))
