"""Generations: a run that ends and goes on as another, with all that was on its way to it (M8)."""

from __future__ import annotations

from perdure.stores.port import Store
from perdure.stores.records import Closing, Committed, NewPromise, Run, Sent, Settlement
from perdure.testing.conformance.expecting import NotConforming, only, same
from perdure.testing.conformance.making import (
    JOB,
    a_child,
    a_commit,
    a_start,
    a_successor,
    a_task,
    an_answer,
    some_facts,
)
from perdure.testing.conformance.stage import Stores, Worker, begin, hire, numbers, reread, task_of

ON = Closing("continued", b'"next"')


async def _next(store: Store, worker: Worker, run: Run, *carried: tuple[bytes, str | None]) -> Run:
    """The next generation, parked before its first turn."""
    await worker.commit(run, closing=ON, successor=a_successor(run, *carried))
    return await store.get_run(run.facts.workflow_id)


async def a_run_goes_on_as_another(stores: Stores) -> None:
    """One commit ends the old and starts the new, with a fresh history, free and due now."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.commit(await worker.begin("o-1"))
    stores.clock.advance(1)
    successor = a_successor(run, attributes=b'{ "a":1 }')
    answer = await worker.try_commit(run, closing=ON, successor=successor)
    new, now = await store.get_run("o-1"), stores.clock.now_us()
    same((new.facts, new.status, new.last_turn, new.attributes), (successor.facts, "running", -1, b'{ "a":1 }'))
    same((new.owner, new.wake_us, new.created_us, await store.list_turns(new.number)), (None, now, now, []))
    old = await reread(store, run)
    same((old.status, old.result, old.closed_us, old.last_turn), ("continued", ON.result, now, 1))
    if not isinstance(answer, Committed):
        raise NotConforming(f"got {answer!r}")
    same([(told.run, told.claimed) for told in answer.told], [(new, False)])
    same(numbers(await worker.claim()), [new.number])


async def a_worker_may_own_the_next_generation_at_once(stores: Stores) -> None:
    """If its workflow is one of `claims`."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    commit = a_commit(run, worker.lease, closing=ON, successor=a_successor(run))
    answer = only(await store.commit_turns([commit], ["order"]))
    new = await store.get_run("o-1")
    same(isinstance(answer, Committed) and [(told.run, told.claimed) for told in answer.told], [(new, True)])
    same(new.owner, worker.lease)


async def what_was_carried_comes_before_what_waits(stores: Stores) -> None:
    """Signals that were taken and not read, and then those that no turn has taken: none lost, in order (M1)."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    for i in range(4):
        await store.accept_message("o-1", None, b"%d" % i, message_id=f"m-{i}")
    run = await worker.commit(run, consumed=2)
    new = await _next(store, worker, run, (b"1", "m-1"))
    messages = await store.list_messages(new.number, 0)
    same([(m.number, m.job, m.message_id) for m in messages], [(1, b"1", "m-1"), (2, b"2", "m-2"), (3, b"3", "m-3")])
    same((new.accepted, new.consumed, await store.list_messages(run.number, 0)), (3, 0, []))


async def the_message_of_a_start_is_carried_over(stores: Stores) -> None:
    """A signal that came with the start of a run is one like any other (M1)."""
    store = await stores.open()
    worker = await hire(store)
    run = (await store.start_run(a_start("o-1", message=b"1", message_id="m-1"))).run
    await store.start_run(a_start("o-1", message=b"2"))
    await store.request_update("o-1", None, b"3", "u-1")
    new = await _next(store, worker, await worker.own(run))
    messages = await store.list_messages(new.number, 0)
    same([(m.job, m.message_id) for m in messages], [(b"1", "m-1"), (b"2", None), (b"3", None)])


async def what_was_sent_while_the_last_turn_ran_is_carried_over(stores: Stores) -> None:
    """Also jobs of other runs, and by the commit that ends the generation itself."""
    store = await stores.open()
    worker = await hire(store)
    run, other = await worker.begin("o-1"), await worker.begin("o-2")
    await store.accept_message("o-1", None, b"1")
    commits = [
        a_commit(other, worker.lease, sent=(Sent(workflow_id="o-1", job=b"2"),)),
        a_commit(run, worker.lease, closing=ON, successor=a_successor(run)),
    ]
    await store.commit_turns(commits)
    await store.accept_message("o-1", None, b"3")
    new = await store.get_run("o-1")
    same([message.job for message in await store.list_messages(new.number, 0)], [b"1", b"2", b"3"])


async def answers_to_the_old_generation_are_left_behind(stores: Stores) -> None:
    """What activities, children, sent jobs and promises came to belongs to whoever asked for it."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    await begin(store, "target")
    run = await worker.commit(
        run,
        new_tasks=(a_task("t-1", claimed=True),),
        promises=(NewPromise(seq=1, name="paid"),),
        children=(a_child(run, "child", 2),),
        sent=(Sent(workflow_id="target", job=JOB, seq=3),),
    )
    await store.report_tasks([an_answer(await task_of(store, run))])
    await store.settle_promise("o-1", None, "paid", Settlement(value=b"1"))
    await store.close_run("child", None, Closing("completed", b"1"))
    await store.accept_message("o-1", None, b'"for any generation"')
    same((await reread(store, run)).accepted, 5)
    new = await _next(store, worker, run)
    same([message.job for message in await store.list_messages(new.number, 0)], [b'"for any generation"'])


async def a_late_answer_to_an_old_generation_is_dropped(stores: Stores) -> None:
    """The next one has not asked for it."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    run = await worker.commit(run, children=(a_child(run, "child", 2, close="abandon"),))
    new = await _next(store, worker, run)
    await store.close_run("child", None, Closing("completed", b"1"))
    same((await reread(store, new), await store.list_messages(new.number, 0)), (new, []))


async def the_tasks_of_the_old_generation_are_cancelled(stores: Stores) -> None:
    """As at any end, but for those that its last turn scheduled."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.commit(await worker.begin("o-1"), new_tasks=(a_task("t-1"),))
    await worker.commit(run, new_tasks=(a_task("t-2", 1),), closing=ON, successor=a_successor(run))
    same([task.seq for task in await worker.claim_tasks()], [1])


async def children_are_not_ended_by_a_next_generation(stores: Stores) -> None:
    """A run that is continued tells nobody, and ends nobody."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    run = await worker.commit(run, children=(a_child(run, "child"), a_child(run, "asked", 1, close="cancel")))
    answer = await worker.try_commit(run, closing=ON, successor=a_successor(run))
    same(isinstance(answer, Committed) and answer.ended, 0)
    same(
        [((await store.get_run(id)).status, (await store.get_run(id)).accepted) for id in ("child", "asked")],
        [("running", 0)] * 2,
    )


async def children_of_every_generation_end_with_the_last_one(stores: Stores) -> None:
    """By its own turn, or from outside: they are nobody's any more (M7, M8)."""
    store = await stores.open()
    worker = await hire(store)
    for workflow_id in ("by-itself", "from-outside"):
        run = await worker.begin(workflow_id)
        for generation in range(3):
            ids = (f"{workflow_id}-{generation}", f"{workflow_id}-{generation}-asked")
            children = (a_child(run, ids[0]), a_child(run, ids[1], 1, close="cancel"))
            await worker.commit(run, children=children, closing=ON, successor=a_successor(run))
            run = await worker.own(await store.get_run(workflow_id))
        if workflow_id == "by-itself":
            await worker.commit(run, closing=Closing("completed", b"1"))
        else:
            await store.close_run(workflow_id, None, Closing("terminated"))
        for generation in range(3):
            ended, asked = f"{workflow_id}-{generation}", f"{workflow_id}-{generation}-asked"
            same((await store.get_run(ended)).status, "terminated")
            same([(each.status, each.accepted) for each in [await store.get_run(asked)]], [("running", 1)])


async def a_message_id_counts_for_all_generations(stores: Stores) -> None:
    """Accepted by one, it changes nothing in the next; while it waits there, its number is given again (M1)."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    for i in range(3):
        await store.accept_message("o-1", None, b"%d" % i, message_id=f"m-{i}")
    run = await worker.commit(run, consumed=2)
    new = await _next(store, worker, run, (b"1", "m-1"))
    given = [(await store.accept_message("o-1", None, JOB, message_id=f"m-{i}")).number for i in range(3)]
    same((given, (await reread(store, new)).accepted), ([0, 1, 2], 2))
    new = await worker.own(new)
    await worker.commit(new, consumed=2)
    given = [(await store.accept_message("o-1", None, JOB, message_id=f"m-{i}")).number for i in range(4)]
    same(given, [0, 0, 0, 3])


async def a_chain_of_generations_loses_and_doubles_nothing(stores: Stores) -> None:
    """Messages of thirty generations arrive once each, in order; some wait through several of them."""
    store, other = await stores.open(), await stores.open()
    worker = await hire(store, seconds=1000)
    run = await worker.begin("o-1")
    taken: list[bytes] = []
    for generation in range(30):
        for i in range(3):
            await other.accept_message("o-1", None, b"%d" % (3 * generation + i), message_id=f"{generation}-{i}")
        messages = await store.list_messages(run.number, 0)
        taking = 0 if generation % 3 else len(messages) - 1
        taken += [message.job for message in messages[:taking]]
        await worker.commit(run, consumed=taking, closing=ON, successor=a_successor(run))
        run = await worker.own(await store.get_run("o-1"))
    taken += [message.job for message in await store.list_messages(run.number, 0)]
    same(taken, [b"%d" % i for i in range(90)])


async def a_turn_changes_the_attributes_of_its_run(stores: Stores) -> None:
    """A run begins with those of its facts; a turn gives all of them anew, or leaves them as they are."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1", attributes=b'{"city" : "Ulm"}')
    same(run.attributes, b'{"city" : "Ulm"}')
    run = await worker.commit(run)
    same(run.attributes, b'{"city" : "Ulm"}')
    run = await worker.commit(run, attributes=b'{ "n":1.0 }')
    same((run.attributes, (await worker.commit(run)).attributes), (b'{ "n":1.0 }', b'{ "n":1.0 }'))
    same(((await store.get_run("o-1")).facts.attributes, some_facts("o-1").attributes), (b'{"city" : "Ulm"}', b"{}"))
