"""Committing turns: all that one turn comes to, written at once, and read again as it was written (E1)."""

from __future__ import annotations

from perdure.errors import NondeterminismError
from perdure.stores.records import Blocked, Closing, Committed, TaskCancel
from perdure.testing.conformance.expecting import NotConforming, only, refused, same
from perdure.testing.conformance.making import JOB, a_task, a_turn, an_id
from perdure.testing.conformance.stage import Stores, hire, numbers, reread, task_of

SECOND = 1_000_000


async def a_turn_is_read_as_it_was_written(stores: Stores) -> None:
    """Record, checksum and notes are kept to the byte; no store reads JSON."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    turn = a_turn(run, "\u00e4 \\u0000 '\" ", notes=b'[ {"attempt":1},  1.0 ]')
    same(await worker.try_commit(run, turn=turn), Committed())
    same(await store.list_turns(run.number), [turn])


async def a_turn_of_a_megabyte_is_kept(stores: Stores) -> None:
    """A store sets no limit to what a turn may come to."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    turn = a_turn(run, "x" * 1_000_000)
    await worker.commit(run, turn=turn, waiting=b'["' + b"y" * 300_000 + b'"]')
    same(await store.list_turns(run.number) == [turn], True)


async def a_run_knows_its_last_turn(stores: Stores) -> None:
    """The run carries number and checksum of its last turn, so that a lost tail is found (E9)."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    for number in range(3):
        turn = a_turn(run)
        run = await worker.commit(run)
        same((run.last_turn, run.checksum), (number, turn.checksum))


async def turns_are_listed_in_their_order(stores: Stores) -> None:
    """All of them, those after one, and so many."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    written = [a_turn(run)]
    for _ in range(11):
        run = await worker.commit(run)
        written.append(a_turn(run))
    del written[-1]
    same(await store.list_turns(run.number), written)
    same(await store.list_turns(run.number, after=4), written[5:])
    same(await store.list_turns(run.number, after=4, limit=3), written[5:8])
    same(await store.list_turns(run.number, limit=2), written[:2])
    same(await store.list_turns(run.number, after=8, limit=100), written[9:])
    same(await store.list_turns(run.number, after=10), [])


async def a_run_without_turns_has_none(stores: Stores) -> None:
    """Nor has a run that does not exist."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    same((await store.list_turns(run.number), await store.list_turns(run.number + 100)), ([], []))


async def the_turns_of_runs_are_kept_apart(stores: Stores) -> None:
    """Each run has its own chain."""
    store = await stores.open()
    worker = await hire(store)
    one, two = await worker.begin("o-1"), await worker.begin("o-2")
    turns = a_turn(one, "one"), a_turn(two, "two")
    await worker.commit(one, turn=turns[0])
    await worker.commit(two, turn=turns[1])
    same((await store.list_turns(one.number), await store.list_turns(two.number)), ([turns[0]], [turns[1]]))


async def a_turn_keeps_its_run_owned(stores: Stores) -> None:
    """Unless it parks the run, which goes on under the same owner and is nobody else's."""
    store = await stores.open()
    one, two = await hire(store, "w-1"), await hire(store, "w-2")
    run = await one.begin("o-1")
    same(await one.try_commit(run, wake_us=stores.clock.now_us()), Committed(0, parked=False))
    same(((await reread(store, run)).owner, await two.claim()), (one.lease, []))


async def a_turn_parks_its_run_until_a_time(stores: Stores) -> None:
    """A parked run is owned by nobody, and due from `wake_us` on."""
    store = await stores.open()
    worker = await hire(store, seconds=100)
    run = await worker.begin("o-1")
    later = stores.clock.now_us() + 3 * SECOND
    same(await worker.try_commit(run, park=True, wake_us=later, waiting=b'[ "timer" ]'), Committed(0, parked=True))
    parked = await reread(store, run)
    same((parked.owner, parked.wake_us, parked.waiting), (None, later, b'[ "timer" ]'))
    same(await worker.claim(), [])
    stores.clock.advance(3)
    same(numbers(await worker.claim()), [run.number])


async def a_turn_parks_its_run_until_a_message_comes(stores: Stores) -> None:
    """With no time, the run is not due before that."""
    store = await stores.open()
    worker = await hire(store, seconds=1000)
    run = await worker.commit(await worker.begin("o-1"), park=True)
    stores.clock.advance(900)
    same((run.wake_us, await worker.claim(), await store.get_next_wake(["default"])), (None, [], None))
    await store.accept_message("o-1", None, JOB)
    same(numbers(await worker.claim()), [run.number])


async def a_run_is_not_parked_while_a_message_waits(stores: Stores) -> None:
    """A message that came during the turn is answered with its number, and the owner goes on."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    for _ in range(3):
        await store.accept_message("o-1", None, JOB)
    same(await worker.try_commit(run, park=True, consumed=1), Committed(pending=2, parked=False))
    run = await reread(store, run)
    same((run.owner, run.accepted, run.consumed), (worker.lease, 3, 1))
    same(await worker.try_commit(run, park=True, consumed=3), Committed(pending=0, parked=True))


async def a_turn_takes_messages_for_good(stores: Stores) -> None:
    """What a turn has taken is gone with its commit, and is never delivered again (E8)."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    for _ in range(3):
        await store.accept_message("o-1", None, JOB)
    same((await worker.try_commit(run, consumed=2)), Committed(pending=1))
    same([message.number for message in await store.list_messages(run.number, 0)], [3])
    run = await worker.commit(await reread(store, run), consumed=3, park=True)
    same((await store.list_messages(run.number, 0), (await store.counts())["messages"]), ([], 0))
    same(await worker.claim(), [])


async def a_turn_does_not_take_what_was_not_accepted(stores: Stores) -> None:
    """More messages than there are, or fewer than were taken before: refused, and nothing is written."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    await store.accept_message("o-1", None, JOB)
    run = await worker.commit(run, consumed=1)
    refused(await worker.try_commit(run, consumed=2))
    refused(await worker.try_commit(run, consumed=0))
    same(await reread(store, run), run)


async def a_turn_orders_tasks(stores: Stores) -> None:
    """What a turn orders is there with its commit, free and due now, with all that was said of it."""
    store = await stores.open()
    worker = await hire(store)
    new = a_task("t-1", 3, input=b"[ 1.0 ]", keywords=b'{"a" :1}', options=b'{ "x":2}', priority=4)
    run = await worker.commit(await worker.begin("o-1"), new_tasks=(new,))
    task, now = await task_of(store, run), stores.clock.now_us()
    same((task.id, task.seq, task.name, task.queue, task.priority), (new.id, 3, "charge", "default", 4))
    same((task.input, task.keywords, task.options), (new.input, new.keywords, new.options))
    same((task.run, task.run_id, task.workflow_id), (run.number, run.facts.run_id, "o-1"))
    same((task.scheduled_us, task.due_us, task.owner, task.started_us), (now, now, None, None))
    same((task.attempt, task.failures, task.attempts, task.cancel), (0, 0, (), False))
    same((task.details, task.heartbeat_us), (None, None))


async def a_task_may_be_ordered_as_claimed_already(stores: Stores) -> None:
    """What its worker runs at once is inserted as its first attempt (E1, I14), and nobody else takes it."""
    store = await stores.open()
    worker, other = await hire(store), await hire(store, "w-2")
    run = await worker.commit(await worker.begin("o-1"), new_tasks=(a_task("t-1", claimed=True),), park=True)
    task = await task_of(store, run)
    same((task.owner, task.attempt, task.started_us), (worker.lease, 1, stores.clock.now_us()))
    same((await other.claim_tasks(), await store.get_next_due(["default"])), ([], None))


async def a_task_that_is_there_is_not_ordered_again(stores: Stores) -> None:
    """A task whose id exists is skipped if it is the same: it keeps its attempts and its owner (E2)."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.commit(await worker.begin("o-1"), new_tasks=(a_task("t-1"),))
    task = only(await worker.claim_tasks())
    run = await worker.commit(run, new_tasks=(a_task("t-1"), a_task("t-2", 1)))
    same((await store.list_tasks(run.number))[0], task)
    same(len(await store.list_tasks(run.number)), 2)


async def a_task_that_is_there_under_another_name_refuses_the_turn(stores: Stores) -> None:
    """That is a determinism violation (E2): the turn's error says so, and nothing of it is written."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.commit(await worker.begin("o-1"), new_tasks=(a_task("t-1"),))
    refused(await worker.try_commit(run, new_tasks=(a_task("t-1", name="refund"),)), NondeterminismError)
    same((await reread(store, run), (await task_of(store, run)).name), (run, "charge"))


async def a_turn_removes_the_tasks_whose_answers_it_took(stores: Stores) -> None:
    """What its worker has answered itself is gone with the commit, and nobody is told to cancel it."""
    store = await stores.open()
    worker = await hire(store)
    ordered = tuple(a_task(f"t-{i}", i, claimed=True) for i in range(3))
    run = await worker.commit(await worker.begin("o-1"), new_tasks=ordered)
    run = await worker.commit(run, finished=(an_id("t-0"), an_id("t-2"), an_id("unknown")))
    same([task.id for task in await store.list_tasks(run.number)], [an_id("t-1")])
    same(await store.list_cancelled(worker.lease), [])


async def a_turn_ends_its_run(stores: Stores) -> None:
    """With `closing`, the run has that status and result; nobody owns it and nothing makes it due."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    stores.clock.advance(1)
    await worker.commit(run, closing=Closing("completed", b'[ "r-1",  1.0 ]'), wake_us=stores.clock.now_us())
    ended = await store.get_run("o-1")
    same((ended.status, ended.result), ("completed", b'[ "r-1",  1.0 ]'))
    same((ended.owner, ended.wake_us, ended.waiting), (None, None, None))
    same((ended.closed_us, ended.last_turn), (stores.clock.now_us(), 0))
    same((await worker.claim(), await store.get_next_wake(["default"])), ([], None))
    same(len(await store.list_turns(run.number)), 1)


async def the_end_of_a_run_drops_its_messages(stores: Stores) -> None:
    """What nobody will take waits no more."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    for _ in range(2):
        await store.accept_message("o-1", None, JOB, message_id="m-1")
    await worker.commit(run, closing=Closing("failed", b"{}"))
    same(((await store.counts())["messages"], await store.list_messages(run.number, 0)), (0, []))


async def the_end_of_a_run_cancels_its_tasks_but_not_those_of_its_last_turn(stores: Stores) -> None:
    """Its open tasks are cancelled, but for those that its last turn scheduled."""
    store = await stores.open()
    worker = await hire(store)
    early = (a_task("t-0"), a_task("t-1", 1, claimed=True))
    run = await worker.commit(await worker.begin("o-1"), new_tasks=early)
    await worker.commit(run, closing=Closing("completed", b"[]"), new_tasks=(a_task("t-2", 2),))
    same(await store.list_cancelled(worker.lease), [an_id("t-1")])
    task = only(await worker.claim_tasks())
    same(task.id, an_id("t-2"))


async def a_committed_turn_takes_a_block_away(stores: Stores) -> None:
    """The next commit of a turn of a blocked run takes the mark away."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    await store.block_run(worker.lease, run.number, Blocked(kind="error", reason="why", since_us=1), [])
    run = await worker.own(run)
    if run.blocked is None:
        raise NotConforming("a claim alone took the mark away")
    same((await worker.commit(run)).blocked, None)


async def everything_of_a_turn_is_there_at_once(stores: Stores) -> None:
    """One commit takes messages, finishes, orders and cancels tasks, and parks (E1)."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    first = (a_task("t-0", 0, claimed=True), a_task("t-1", 1), a_task("t-2", 2))
    run = await worker.commit(run, new_tasks=first)
    await store.accept_message("o-1", None, JOB)
    later = stores.clock.now_us() + SECOND
    answer = await worker.try_commit(
        run,
        consumed=1,
        finished=(an_id("t-0"),),
        cancels=(TaskCancel(an_id("t-1")),),
        new_tasks=(a_task("t-3", 3),),
        park=True,
        wake_us=later,
    )
    same(answer, Committed(0, parked=True))
    same([task.id for task in await store.list_tasks(run.number)], [an_id("t-2"), an_id("t-3")])
    run = await reread(store, run)
    same((run.consumed, run.owner, run.wake_us, run.last_turn), (1, None, later, 1))
