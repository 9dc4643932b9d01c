"""Groups of turns: several runs in one commit, each turn whole or not at all (E1)."""

from __future__ import annotations

from msgspec.structs import replace

from perdure.errors import LeaseLost
from perdure.stores.records import Closing, Committed, Run, TaskCancel, Turn
from perdure.testing.conformance.expecting import only, refused, same
from perdure.testing.conformance.making import JOB, a_commit, a_task, a_turn, an_id
from perdure.testing.conformance.stage import Stores, hire, reread, task_of


def _after(run: Run, turn: Turn) -> Run:
    return replace(run, last_turn=turn.number, checksum=turn.checksum)


async def a_group_of_turns_is_written(stores: Stores) -> None:
    """Turns of different runs share a commit where they are ready together (E1)."""
    store = await stores.open()
    worker = await hire(store)
    runs = [await worker.begin(f"o-{i}") for i in range(20)]
    answers = await store.commit_turns([a_commit(run, worker.lease) for run in runs])
    same(answers, [Committed()] * 20)
    for run in runs:
        same(await store.list_turns(run.number), [a_turn(run)])
        same((await reread(store, run)).last_turn, 0)


async def each_turn_of_a_group_is_answered_in_its_place(stores: Stores) -> None:
    """The answers come in the order of the commits."""
    store = await stores.open()
    worker = await hire(store)
    runs = [await worker.begin(f"o-{i}") for i in range(4)]
    for _ in range(2):
        await store.accept_message("o-1", None, JOB)
    await store.accept_message("o-3", None, JOB)
    commits = [a_commit(run, worker.lease, park=True) for run in reversed(runs)]
    same(
        await store.commit_turns(commits),
        [Committed(1), Committed(0, parked=True), Committed(2), Committed(0, parked=True)],
    )


async def a_turn_that_cannot_be_holds_up_no_other(stores: Stores) -> None:
    """It has its error in its place; the turns before and behind it are written."""
    store = await stores.open()
    worker, other = await hire(store), await hire(store, "w-2")
    runs = [await worker.begin("o-0"), await other.begin("o-1"), await worker.begin("o-2")]
    answers = await store.commit_turns([a_commit(run, worker.lease) for run in runs])
    same((answers[0], answers[2]), (Committed(), Committed()))
    refused(answers[1], LeaseLost)
    same([(await reread(store, run)).last_turn for run in runs], [0, -1, 0])


async def a_turn_that_cannot_be_leaves_nothing_behind(stores: Stores) -> None:
    """All that one turn comes to is written, or nothing: no message taken, no task made, finished or cancelled (E1)."""
    store = await stores.open()
    worker = await hire(store)
    first = (a_task("t-0", 0, claimed=True), a_task("t-1", 1), a_task("t-2", 2, claimed=True))
    run = await worker.commit(await worker.begin("o-1"), new_tasks=first)
    await store.accept_message("o-1", None, JOB)
    run = await reread(store, run)
    before = await store.counts(), await store.list_tasks(run.number), await store.list_messages(run.number, 0)
    commit = a_commit(
        run,
        worker.lease,
        previous=b"another's",
        consumed=1,
        finished=(an_id("t-0"),),
        cancels=(TaskCancel(an_id("t-1")), TaskCancel(an_id("t-2"), answer=True)),
        new_tasks=(a_task("t-3", 3),),
        closing=Closing("completed", b"[]"),
    )
    answer = only(await store.commit_turns([commit]))
    refused(answer, LeaseLost)
    same(await reread(store, run), run)
    after = await store.counts(), await store.list_tasks(run.number), await store.list_messages(run.number, 0)
    same(after, before)
    same((await store.list_cancelled(worker.lease), len(await store.list_turns(run.number))), ([], 1))


async def a_turn_that_cannot_be_for_what_comes_last_in_it_leaves_nothing_behind(stores: Stores) -> None:
    """Also where only its second task is what refuses it."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.commit(await worker.begin("o-1"), new_tasks=(a_task("t-0"),))
    new = (a_task("t-1", 1), a_task("t-0", 2, name="refund"))
    ok = await worker.begin("o-2")
    answers = await store.commit_turns([a_commit(run, worker.lease, new_tasks=new), a_commit(ok, worker.lease)])
    refused(answers[0])
    same(answers[1], Committed())
    same((await reread(store, run), (await task_of(store, run)).id), (run, an_id("t-0")))


async def one_run_may_have_two_turns_in_a_group(stores: Stores) -> None:
    """They are written in their order, the second upon the first."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    first = a_commit(run, worker.lease, new_tasks=(a_task("t-0", claimed=True),))
    second = a_commit(_after(run, first.turn), worker.lease, finished=(an_id("t-0"),), closing=Closing("completed"))
    same(await store.commit_turns([first, second]), [Committed(), Committed()])
    same([turn.number for turn in await store.list_turns(run.number)], [0, 1])
    same(((await reread(store, run)).status, await store.list_tasks(run.number)), ("completed", []))


async def of_the_same_turn_twice_in_a_group_the_second_is_refused(stores: Stores) -> None:
    """A run has each turn once, whoever sends it (E3)."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    one, two = a_commit(run, worker.lease), a_commit(run, worker.lease, turn=a_turn(run, "another"))
    answers = await store.commit_turns([one, two])
    same(answers[0], Committed())
    refused(answers[1], LeaseLost)
    same(await store.list_turns(run.number), [one.turn])


async def what_ends_in_a_group_takes_no_further_turn(stores: Stores) -> None:
    """A turn behind the end of its run is refused."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    end = a_commit(run, worker.lease, closing=Closing("completed", b"[]"))
    late = a_commit(_after(run, end.turn), worker.lease)
    answers = await store.commit_turns([end, late])
    same(answers[0], Committed())
    refused(answers[1], LeaseLost)
    same(len(await store.list_turns(run.number)), 1)


async def an_empty_group_writes_nothing(stores: Stores) -> None:
    """It has no answers."""
    store = await stores.open()
    same((await store.commit_turns([]), (await store.counts())["turns"]), ([], 0))
    same((await store.report_tasks([]), await store.beat_tasks([])), ([], []))
