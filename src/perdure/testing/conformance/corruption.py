"""Corruption: what is stored is verified when it is read, and a damaged run is named (E9).

A case can damage only what it may write: a turn whose checksum does not fit. Flipped bits below that are for the tests
of each store to make. A store may refuse such a turn at once instead; that is as good.
"""

from __future__ import annotations

from msgspec.structs import replace

from perdure.errors import StoreCorrupt
from perdure.stores.port import Store
from perdure.stores.records import Committed, Run, Turn
from perdure.testing.conformance.expecting import NotConforming, raises, same
from perdure.testing.conformance.making import a_turn
from perdure.testing.conformance.stage import Stores, Worker, hire, reread


async def _damaged(stores: Stores, worker: Worker, run: Run, turn: Turn) -> bool:
    """Commit such a turn; whether the store has accepted it."""
    stores.healthy = False
    return isinstance(await worker.try_commit(run, turn=turn), Committed)


async def _is_found(store: Store, run: Run) -> None:
    """Reading this run's turns is refused with its id, and it is listed as damaged."""
    try:
        await store.list_turns(run.number)
    except StoreCorrupt as error:
        same(run.facts.run_id in str(error), True)
    else:
        raise NotConforming(f"the turns of run {run.number} are damaged, and were read")
    same({damage.run_id for damage in await store.verify()}, {run.facts.run_id})


async def a_turn_that_is_not_what_was_written_is_found(stores: Stores) -> None:
    """The record does not fit its checksum: `StoreCorrupt`, naming the run."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    changed = replace(a_turn(run), record=b'{"turn": 0,  "text":"changed"}')
    if await _damaged(stores, worker, run, changed):
        await _is_found(store, run)


async def a_turn_that_does_not_follow_the_one_before_is_found(stores: Stores) -> None:
    """Its checksum fits the record, but not the chain."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.commit(await worker.begin("o-1"))
    elsewhere = a_turn(replace(run, checksum=b"\x01" * 16))
    if await _damaged(stores, worker, run, elsewhere):
        await _is_found(store, run)


async def damage_stays_found_behind_turns_that_are_whole(stores: Stores) -> None:
    """A sound turn upon a damaged one does not mend it, nor does reopening."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.begin("o-1")
    if await _damaged(stores, worker, run, replace(a_turn(run), record=b"{}")):
        run = await worker.commit(await reread(store, run))
        await worker.commit(run, park=True)
        await _is_found(store, run)
        await _is_found(await stores.reopen(store), run)


async def damage_stops_one_run_only(stores: Stores) -> None:
    """All others are read and go on (E9)."""
    store = await stores.open()
    worker = await hire(store)
    runs = [await worker.begin(f"o-{i}") for i in range(3)]
    if await _damaged(stores, worker, runs[1], replace(a_turn(runs[1]), record=b"{}")):
        await _is_found(store, runs[1])
    for run in (runs[0], runs[2]):
        run = await worker.commit(await worker.commit(run), park=True)
        same([turn.number for turn in await store.list_turns(run.number)], [0, 1])


async def what_is_whole_is_found_whole(stores: Stores) -> None:
    """`verify` reads everything, and lists what is damaged: nothing."""
    store = await stores.open()
    worker = await hire(store)
    for i in range(3):
        run = await worker.commit(await worker.begin(f"o-{i}"))
        await worker.commit(run, park=True)
    same(await store.verify(), [])
    same(len(await store.list_turns(1 << 40)), 0)


async def turns_after_one_are_verified_against_it(stores: Stores) -> None:
    """A tail is chained to the turn before it, which is not read itself."""
    store = await stores.open()
    worker = await hire(store)
    run = await worker.commit(await worker.commit(await worker.begin("o-1")))
    if await _damaged(stores, worker, run, a_turn(replace(run, checksum=b"\x02" * 16))):
        await raises(StoreCorrupt, store.list_turns(run.number, after=1))
        same([turn.number for turn in await store.list_turns(run.number, limit=2)], [0, 1])
