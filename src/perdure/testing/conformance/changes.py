"""Changes: a store object tells when somebody else has written, so that nobody has to ask again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from perdure.stores.port import Store
from perdure.testing.conformance.expecting import NotConforming, only, same
from perdure.testing.conformance.making import JOB, a_start, a_task, an_answer
from perdure.testing.conformance.stage import Stores, Worker, begin, hire

PATIENCE_SECONDS = 30.0


async def _tells(
    stores: Stores, prepare: Callable[[Store, Worker], Awaitable[Callable[[], Awaitable[object]]]]
) -> None:
    """What this prepares and then does on one store object is told on another."""
    store, other = await stores.open(), await stores.open()
    act = await prepare(other, await hire(other))
    told = asyncio.Event()
    stop = store.on_change(told.set)
    await act()
    await _is_set(told)
    stop()


async def _is_set(told: asyncio.Event) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(told.wait(), PATIENCE_SECONDS)
    if not told.is_set():
        raise NotConforming(f"somebody else has written, and for {PATIENCE_SECONDS} s nothing was told")


async def a_start_elsewhere_is_told(stores: Stores) -> None:
    """A worker that waits hears of a new run."""

    async def prepare(other: Store, _: Worker) -> Callable[[], Awaitable[object]]:
        return lambda: other.start_run(a_start("o-1"))

    await _tells(stores, prepare)


async def a_message_from_elsewhere_is_told(stores: Stores) -> None:
    """The owner of a run hears of it."""

    async def prepare(other: Store, _: Worker) -> Callable[[], Awaitable[object]]:
        await begin(other, "o-1")
        return lambda: other.accept_message("o-1", None, JOB)

    await _tells(stores, prepare)


async def a_turn_elsewhere_is_told(stores: Stores) -> None:
    """Whoever waits for a result hears of it."""

    async def prepare(other: Store, worker: Worker) -> Callable[[], Awaitable[object]]:
        run = await worker.begin("o-1")
        return lambda: worker.commit(run, park=True)

    await _tells(stores, prepare)


async def an_answer_from_elsewhere_is_told(stores: Stores) -> None:
    """The owner of the run hears of what an activity came to."""

    async def prepare(other: Store, worker: Worker) -> Callable[[], Awaitable[object]]:
        await worker.commit(await worker.begin("o-1"), new_tasks=(a_task("t-1"),), park=True)
        task = only(await worker.claim_tasks())
        return lambda: other.report_tasks([an_answer(task)])

    await _tells(stores, prepare)


async def a_question_from_elsewhere_is_told(stores: Stores) -> None:
    """A process that has the code hears of it."""

    async def prepare(other: Store, _: Worker) -> Callable[[], Awaitable[object]]:
        await begin(other, "o-1")
        return lambda: other.ask("o-1", None, "state", b"[]")

    await _tells(stores, prepare)


async def what_is_told_can_be_read(stores: Stores) -> None:
    """When the call comes, the change is there."""
    store, other = await stores.open(), await stores.open()
    told = asyncio.Event()
    stop = store.on_change(told.set)
    run = await begin(other, "o-1")
    await _is_set(told)
    stop()
    same(await store.get_run("o-1"), run)


async def the_call_comes_on_the_event_loop_that_asked_for_it(stores: Stores) -> None:
    """In its thread, and not within the call that has written."""
    store, other = await stores.open(), await stores.open()
    loops: list[asyncio.AbstractEventLoop] = []
    told = asyncio.Event()

    def note() -> None:
        loops.append(asyncio.get_running_loop())
        told.set()

    stop = store.on_change(note)
    await begin(other, "o-1")
    await _is_set(told)
    stop()
    same({loop is asyncio.get_running_loop() for loop in loops}, {True})


async def several_may_listen_and_each_may_stop(stores: Stores) -> None:
    """Who has stopped is not called any more, and the others are."""
    store, other = await stores.open(), await stores.open()
    one, two = asyncio.Event(), asyncio.Event()
    calls: list[str] = []
    stop_one, stop_two = store.on_change(one.set), store.on_change(two.set)
    stop_three = store.on_change(lambda: calls.append("stopped"))
    stop_three()
    await begin(other, "o-1")
    for each in (one, two):
        await _is_set(each)
    stop_one()
    one.clear()
    two.clear()
    await begin(other, "o-2")
    await _is_set(two)
    stop_two()
    same((one.is_set(), calls), (False, []))
