"""A store that dies before or after a chosen write: what is left of it, and what whoever holds it sees (E8)."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from pathlib import Path
from typing import Literal

import pytest

from perdure.clock import Clock
from perdure.errors import StoreUnavailable
from perdure.stores.memory import MemoryStore
from perdure.stores.port import Store
from perdure.stores.records import EVERY, Condition
from perdure.testing.clock import VirtualClock
from perdure.testing.conformance import CASES, Case, run_case
from perdure.testing.conformance.making import JOB, a_commit, a_start
from perdure.testing.crashing import Crashed, CrashingStore


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_store_that_never_dies_is_the_store_behind_it(case: Case, tmp_path: Path) -> None:
    def make(clock: Clock) -> Store:
        return CrashingStore(MemoryStore(clock, str(tmp_path))).as_store()

    run_case(case, make)


async def scenario(store: Store) -> None:
    """Four writes, and looks between them."""
    await store.start_run(a_start("o-1"))
    lease = await store.open_lease("w-1", {}, 10)
    (run,) = await store.claim_runs(lease.number, ["default"], ["order"], 1)
    await store.get_run("o-1")
    await store.commit_turns([a_commit(run, lease.number)])


async def standing(store: Store) -> tuple[int, int, int | None, int]:
    """How far the scenario came."""
    counts = await store.counts()
    runs = await store.list_runs(EVERY, 1)
    return counts["runs"], counts["leases"], runs[0].owner if runs else None, counts["turns"]


STANDINGS = [(0, 0, None, 0), (1, 0, None, 0), (1, 1, None, 0), (1, 1, 1, 0), (1, 1, 1, 1)]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_the_chosen_write_is_the_last_or_does_not_happen(
    at: int, when: Literal["before", "after"], tmp_path: Path
) -> None:
    async def play() -> None:
        clock = VirtualClock()
        crashing = CrashingStore(MemoryStore(clock, str(tmp_path)), at, when)
        store = crashing.as_store()
        await store.open()
        with pytest.raises(Crashed, match=f"write {at} .{when}."):
            await scenario(store)
        assert crashing.death.is_set()
        assert crashing.writes == at
        await store.close()  # which does nothing: the dead do not tidy up
        after = MemoryStore(clock, str(tmp_path))
        await after.open()
        assert await standing(after) == STANDINGS[at - (when == "before")]
        assert await after.end_dead_leases() == []
        await crashing.bury()
        assert len(await after.end_dead_leases()) == STANDINGS[at - (when == "before")][1]

    asyncio.run(play())


def test_every_later_call_finds_it_dead_reads_included() -> None:
    async def play() -> None:
        crashing = CrashingStore(MemoryStore(VirtualClock()), 2)
        store = crashing.as_store()
        await store.open()
        with pytest.raises(Crashed):
            await scenario(store)
        for call in (store.get_run("o-1"), store.accept_message("o-1", None, JOB), store.counts(), store.verify()):
            with pytest.raises(Crashed):
                await call
        assert crashing.trail == ["start_run", "open_lease"]

    asyncio.run(play())


def test_what_is_under_way_at_the_death_is_told_to_nobody() -> None:
    """A call of another task that has begun by then does not return either."""

    class SlowStore(MemoryStore):
        async def count_runs(self, wanted: Condition) -> int:
            await may_end.wait()
            return await super().count_runs(wanted)

    may_end = asyncio.Event()

    async def play() -> None:
        crashing = CrashingStore(SlowStore(VirtualClock()), 1)
        store = crashing.as_store()
        await store.open()
        reading = asyncio.create_task(store.count_runs(EVERY))
        await asyncio.sleep(0)
        with pytest.raises(Crashed):
            await store.start_run(a_start("o-1"))
        may_end.set()
        assert [type(end) for end in await asyncio.gather(reading, return_exceptions=True)] == [Crashed]

    asyncio.run(play())


def test_a_dead_store_may_hang_instead() -> None:
    """So does nobody learn anything, not even that it is dead."""

    async def play() -> None:
        crashing = CrashingStore(MemoryStore(VirtualClock()), 1, "after", then="hang")
        store = crashing.as_store()
        await store.open()
        calls = [asyncio.create_task(store.start_run(a_start("o-1"))), asyncio.create_task(store.counts())]
        await crashing.death.wait()
        calls.append(asyncio.create_task(store.counts()))
        done, hanging = await asyncio.wait(calls, timeout=0)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not any(task.done() for task in hanging)
        assert len(hanging) == 3
        assert not done
        for task in hanging:
            task.cancel()
        await asyncio.wait(hanging)

    asyncio.run(play())


def test_only_the_writes_that_were_named_count() -> None:
    async def play() -> None:
        crashing = CrashingStore(MemoryStore(VirtualClock()), 1, of={"commit_turns"})
        await crashing.as_store().open()
        with pytest.raises(Crashed):
            await scenario(crashing.as_store())
        assert crashing.trail == ["commit_turns"]

    asyncio.run(play())
    with pytest.raises(ValueError, match="count_runs"):
        CrashingStore(MemoryStore(VirtualClock()), of={"count_runs"})


def test_every_call_of_the_port_is_a_look_or_counts() -> None:
    """Whatever a store has that may write, the transitions of later ports included."""

    async def play() -> None:
        for name in [name for name in dir(Store) if not name.startswith("_")]:
            crashing = CrashingStore(MemoryStore(VirtualClock()), 1, "after")
            call = getattr(crashing.as_store(), name)
            if inspect.iscoroutinefunction(call):
                with contextlib.suppress(Crashed, TypeError, StoreUnavailable):
                    await call()
                counted[name] = crashing.trail

    counted: dict[str, list[str]] = {}
    asyncio.run(play())
    looks = {name for name, trail in counted.items() if trail == []}
    assert all(trail == [name] for name, trail in counted.items() if name not in looks)
    assert looks - {"open", "close", "verify", "counts"} == {
        name for name in counted if name.startswith(("get_", "list_", "count_", "view_", "peek_"))
    }
