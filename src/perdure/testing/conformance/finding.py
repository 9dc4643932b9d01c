"""Finding runs: by id, by number, newest first, and by what is asked of them."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.errors import NotFound
from perdure.stores.port import Store
from perdure.stores.records import EVERY, AllOf, Blocked, Closing, Compare, Condition, Not, Run, Status
from perdure.testing.conformance.expecting import raises, same
from perdure.testing.conformance.making import JOB, a_start, a_task, an_id
from perdure.testing.conformance.stage import Stores, begin, hire, numbers, workflow_ids

SECOND = 1_000_000
ENDINGS: tuple[Status, ...] = ("completed", "failed", "cancelled", "terminated", "timed_out", "continued")


async def _wanted(store: Store, *wanted: Condition) -> Sequence[str]:
    """The workflow ids of the runs that fit all these conditions; as many as are counted."""
    only = wanted[0] if len(wanted) == 1 else AllOf(wanted)
    found = await store.list_runs(only, 100)
    same(await store.count_runs(only), len(found))
    return workflow_ids(found)


async def a_run_is_found_by_its_workflow_id(stores: Stores) -> None:
    """`get_run` gives the run as it stands."""
    store = await stores.open()
    run = await begin(store, "o-1")
    await begin(store, "o-2")
    same(await store.get_run("o-1"), run)


async def a_workflow_id_means_its_newest_run(stores: Stores) -> None:
    """Of several runs of one workflow id, the newest generation is meant where no run id is given."""
    store = await stores.open()
    old = await begin(store, "o-1")
    new = (await store.start_run(a_start("o-1", run="second", id_policy="terminate"))).run
    same(await store.get_run("o-1"), new)
    same((await store.get_run("o-1", old.facts.run_id)).number, old.number)


async def a_run_that_does_not_exist_is_not_found(stores: Stores) -> None:
    """`NotFound`, for an unknown workflow id, an unknown run id, and the run id of another workflow id."""
    store = await stores.open()
    await begin(store, "o-1")
    other = await begin(store, "o-2")
    await raises(NotFound, store.get_run("o-3"))
    await raises(NotFound, store.get_run("o-1", an_id("nobody")))
    await raises(NotFound, store.get_run("o-1", other.facts.run_id))


async def ids_are_told_apart_by_every_character(stores: Stores) -> None:
    """Two ids are the same if all their characters are: case, blanks and accents count."""
    store = await stores.open()
    ids = ["a", "A", "a ", " a", "a\u0301", "\u00e1", "%", "_", "a\nb", ""]
    made = {id: (await begin(store, id)).number for id in ids}
    same({id: (await store.get_run(id)).number for id in ids}, made)
    same(len(set(made.values())), len(ids))


async def runs_come_in_the_order_in_which_they_are_asked_for(stores: Stores) -> None:
    """`get_runs` keeps the order of its numbers, and leaves out what does not exist."""
    store = await stores.open()
    made = [await begin(store, f"o-{i}") for i in range(4)]
    asked = [made[2].number, made[3].number + 100, made[0].number, made[3].number]
    same(await store.get_runs(asked), [made[2], made[0], made[3]])
    same(await store.get_runs([]), [])


async def the_newest_runs_are_listed_first(stores: Stores) -> None:
    """`list_runs` gives the newest first, as many as asked for, from those before a number."""
    store = await stores.open()
    made = [await begin(store, f"o-{i}") for i in range(7)]
    first = await store.list_runs(EVERY, 3)
    same(first, [made[6], made[5], made[4]])
    second = await store.list_runs(EVERY, 3, first[-1].number)
    same(second, [made[3], made[2], made[1]])
    same(await store.list_runs(EVERY, 3, second[-1].number), [made[0]])
    same(await store.list_runs(EVERY, 3, made[0].number), [])


async def a_list_shows_each_run_as_it_stands(stores: Stores) -> None:
    """What is listed is the run as `get_run` gives it."""
    store = await stores.open()
    worker = await hire(store)
    await worker.commit(await worker.begin("o-1"), waiting=b'[{"unit":"/"}]', park=True)
    same(await store.list_runs(EVERY, 10), [await store.get_run("o-1")])


async def runs_are_listed_by_status(stores: Stores) -> None:
    """One status, or any of several."""
    store = await stores.open()
    await begin(store, "running")
    for status in ENDINGS:
        await begin(store, status)
        await store.close_run(status, None, Closing(status))
    for status in ("running", *ENDINGS):
        same(await _wanted(store, Compare("status", "=", status)), [status])
    same(await _wanted(store, Compare("status", "in", ("failed", "running"))), ["failed", "running"])
    same(await _wanted(store, Compare("status", "in", ())), [])


async def runs_are_listed_by_workflow_and_by_workflow_id(stores: Stores) -> None:
    """Names fit as a whole, and are no patterns; all that is asked for has to fit."""
    store = await stores.open()
    await begin(store, "o-1")
    await begin(store, "o-11", workflow="order2")
    await begin(store, "o-2", workflow="order2")
    same(await _wanted(store, Compare("type", "=", "order")), ["o-1"])
    same(await _wanted(store, Compare("type", "=", "order2")), ["o-2", "o-11"])
    same(await _wanted(store, Compare("type", "=", "ORDER")), [])
    same(await _wanted(store, Compare("id", "=", "o-1")), ["o-1"])
    same(await _wanted(store, Compare("id", "=", "o-%")), [])
    same(await _wanted(store, Compare("id", "=", "o-1"), Compare("type", "=", "order2")), [])


async def every_generation_of_a_workflow_id_is_listed(stores: Stores) -> None:
    """A filter by workflow id gives all runs of it, the newest first."""
    store = await stores.open()
    made: list[Run] = []
    for generation in range(3):
        start = a_start("o-1", run=str(generation), id_policy="terminate")
        made.append((await store.start_run(start)).run)
    found = await store.list_runs(Compare("id", "=", "o-1"), 10)
    same(numbers(found), numbers(reversed(made)))


async def runs_are_listed_by_when_they_were_started(stores: Stores) -> None:
    """To the microsecond, whichever way it is compared."""
    store = await stores.open()
    start = stores.clock.now_us()
    for i in range(4):
        await begin(store, f"o-{i}")
        stores.clock.advance(1)
    same(await _wanted(store, Compare("started", ">=", start + SECOND)), ["o-3", "o-2", "o-1"])
    same(await _wanted(store, Compare("started", "<", start + 2 * SECOND)), ["o-1", "o-0"])
    both = Compare("started", ">", start), Compare("started", "<=", start + 2 * SECOND)
    same(await _wanted(store, *both), ["o-2", "o-1"])
    same(await _wanted(store, Compare("started", "=", start + SECOND)), ["o-1"])
    same(await _wanted(store, Compare("started", "=", start + SECOND + 1)), [])


async def runs_are_listed_by_when_they_were_closed(stores: Stores) -> None:
    """The same for the time of closing; what has not ended has none."""
    store = await stores.open()
    start = stores.clock.now_us()
    for i in range(4):
        await begin(store, f"o-{i}")
    for i in (2, 0, 1):
        await store.close_run(f"o-{i}", None, Closing("failed"))
        stores.clock.advance(1)
    same(await _wanted(store, Compare("closed", ">=", start)), ["o-2", "o-1", "o-0"])
    same(await _wanted(store, Compare("closed", ">=", start + SECOND)), ["o-1", "o-0"])
    same(await _wanted(store, Compare("closed", "<", start + SECOND)), ["o-2"])
    both = Compare("closed", ">=", start + SECOND), Compare("closed", "<", start + 2 * SECOND)
    same(await _wanted(store, *both), ["o-0"])
    same(await _wanted(store, Not(Compare("closed", ">", 0))), ["o-3"])


async def runs_are_listed_by_whether_they_are_blocked(stores: Stores) -> None:
    """Blocked, not blocked, or whether or not."""
    store = await stores.open()
    run = await begin(store, "o-1")
    await begin(store, "o-2")
    await store.block_run(None, run.number, Blocked(kind="error", reason="why", since_us=1), [])
    same(await _wanted(store, Compare("blocked", "=", True)), ["o-1"])
    same(await _wanted(store, Compare("blocked", "=", False)), ["o-2"])
    same(await _wanted(store, EVERY), ["o-2", "o-1"])
    same(await _wanted(store, Not(Compare("blocked", "=", True))), ["o-2"])


async def an_empty_store_has_nothing(stores: Stores) -> None:
    """A store that is new lists nothing, and counts nothing."""
    store = await stores.open()
    same((await store.list_runs(EVERY, 10), await store.count_runs(EVERY)), ([], 0))
    of_runs = ("runs", "turns", "messages", "tasks", "leases", "questions")
    same(
        list((await store.counts()).items()), [(kind, 0) for kind in (*of_runs, "pipelines", "handler_runs", "events")]
    )
    same((await store.verify(), await store.list_leases()), ([], []))


async def everything_is_counted(stores: Stores) -> None:
    """`counts` tells people how many runs, turns, messages, tasks, leases and questions there are."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.commit(await worker.begin("o-1"), new_tasks=(a_task("t-1"), a_task("t-2", 1)))
    await worker.commit(run, park=True)
    await begin(store, "o-2")
    for _ in range(4):
        await store.accept_message("o-1", None, JOB)
    for _ in range(5):
        await store.ask("o-1", None, "state", b"[]")
    counted = await store.counts()
    same([counted[kind] for kind in ("runs", "turns", "messages", "tasks", "leases")], [2, 2, 4, 2, 1])
    same(counted["questions"], 5)
