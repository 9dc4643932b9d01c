"""Promises, updates, generations, state: what passes between a run and the outside (M2, M4, M8, M10)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from perdure import (
    AlreadyExists,
    InvalidValue,
    NotFound,
    PromiseRejected,
    QueryFailed,
    Rejected,
    RunClosed,
    UpdateFailed,
    activity,
    attributes,
    child,
    continue_as_new,
    get_state,
    info,
    promise,
    publish,
    query,
    race,
    receive,
    set_state,
    signal,
    sleep,
    update,
    wait_until,
    workflow,
)

Opened = Callable[..., Any]


@workflow
class Cart:
    def __init__(self) -> None:
        self.items: list[str] = []
        self.closed = False

    async def run(self, customer: str) -> list[str]:
        await wait_until(lambda: self.closed)
        return self.items

    @signal
    def close(self) -> None:
        self.closed = True

    @update
    async def add(self, item: str) -> int:
        self.items.append(item)
        if item == "slow":
            await sleep("1h")
        if item == "rotten":
            raise ValueError("it smells")
        return len(self.items)

    @add.validator
    def check(self, item: str) -> None:
        if not item:
            raise ValueError("empty item")

    @query
    def size(self) -> int:
        return len(self.items)


# --- queries (M3) --------------------------------------------------------------------------------


@activity
async def takes_long(item: str) -> str:
    await asyncio.sleep(3600)
    return f"fresh {item}"


@workflow
class Shelf:
    def __init__(self) -> None:
        self.items: list[str] = []

    async def run(self) -> list[str]:
        self.items.append(await takes_long("tea"))
        await wait_until(lambda: len(self.items) > 1)
        return self.items

    @signal
    def put(self, item: str) -> None:
        self.items.append(item)

    @query
    def empties(self) -> int:
        self.items.clear()
        return len(self.items)

    @query
    def size(self) -> int:
        return len(self.items)


async def test_a_query_that_changes_the_run_is_told_so_and_the_run_goes_on_as_it_was(engine: Opened) -> None:
    """M3: while an activity of the run is under way, while it is parked, with signals around it, and at its end."""
    async with engine(workflows=[Shelf], activities=[takes_long]) as e:

        async def asked_badly() -> None:
            with pytest.raises(QueryFailed, match=r"query `empties` changed self\.items, and may only read"):
                await handle.query(Shelf.empties)

        handle = await e.start(Shelf, id="s")
        await handle.signal(Shelf.put, "cup")
        await asked_badly()
        assert await handle.query(Shelf.size) == 1
        await asyncio.sleep(60)
        await asked_badly()
        await asked_badly()
        await asyncio.sleep(7200)
        assert await handle.result() == ["cup", "fresh tea"]
        await asked_badly()
        assert await handle.query(Shelf.size) == 2
        (only,) = [turn for turn in await handle.history() if turn.attempts]
        assert [each.outcome for each in only.attempts] == ["completed"]


# --- promises (M4) -------------------------------------------------------------------------------


@workflow
async def promised(key: str) -> str:
    try:
        return await promise("answer", str, timeout="1d", key=key)
    except PromiseRejected as error:
        return f"rejected: {error.failure.message}"
    except TimeoutError:
        return "too late"


async def test_a_promise_is_resolved_by_its_name_or_its_key_once(engine: Opened) -> None:
    """Rule M4."""

    async with engine(workflows=[promised]) as e:
        one, two, three = [await e.start(promised, f"key-{number}", id=f"p-{number}") for number in range(3)]
        await one.resolve("answer", "by name")
        await e.resolve_promise("key-1", "by key")
        await e.reject_promise("key-2", "no")
        assert [await run.result() for run in (one, two, three)] == ["by name", "by key", "rejected: no"]
        await e.resolve_promise("key-1", "by key")
        with pytest.raises(AlreadyExists):
            await e.resolve_promise("key-1", "something else")
        with pytest.raises(NotFound):
            await e.resolve_promise("no such key", 1)
        with pytest.raises((NotFound, RunClosed)):
            await one.resolve("other", 1)


async def test_a_promise_times_out(engine: Opened) -> None:
    """Rule M4."""

    async with engine(workflows=[promised]) as e:
        assert await e.run(promised, "k") == "too late"


@workflow
async def impatient() -> list[str]:
    """A promise times out, another loses a race; the run goes on, and makes the first one again."""
    got: list[str] = []
    try:
        await promise("answer", str, timeout="1m", key="k")
    except TimeoutError:
        got.append("too late")
    await race(promise("lost", str), sleep("1m"))
    await sleep("1m")
    got.append(await promise("answer", str, key="k"))
    return got


@pytest.mark.parametrize("cache", [100, 0])
async def test_what_a_run_does_not_wait_for_any_more_cannot_be_settled(engine: Opened, cache: int) -> None:
    """M4: who settles a promise that timed out or was cancelled is told so, and nothing is written."""

    async with engine(workflows=[impatient], cache=cache) as e:
        handle = await e.start(impatient, id="p")
        await asyncio.sleep(150)
        before = await handle.history()
        for settle in (
            lambda: handle.resolve("answer", "late"),
            lambda: handle.reject("answer", "late"),
            lambda: handle.resolve("lost", "late"),
            lambda: e.resolve_promise("k", "late"),
            lambda: e.reject_promise("k", "late"),
        ):
            with pytest.raises(AlreadyExists, match=r"of the run 'p' has lapsed: it timed out, .* Nothing was written"):
                await settle()
        assert await handle.history() == before
        await asyncio.sleep(60)
        await e.resolve_promise("k", "in time")
        assert await handle.result() == ["too late", "in time"]


async def test_a_promise_key_that_is_taken_is_a_failed_answer(engine: Opened) -> None:
    """Rule E2."""

    async with engine(workflows=[promised]) as e:
        await e.start(promised, "same")
        other = await e.start(promised, "same")
        assert "same" in await other.result()


# --- updates (M2) --------------------------------------------------------------------------------


async def test_updates_are_answered_rejected_or_fail(engine: Opened) -> None:
    """Rule M2."""

    async with engine(workflows=[Cart]) as e:
        cart = await e.start(Cart, "ann", id="cart")
        assert await cart.update(Cart.add, "tea") == 1
        assert await cart.update("add", "milk", id="u-1") == 2
        assert await cart.update("add", "milk", id="u-1") == 2
        with pytest.raises(Rejected, match="empty item"):
            await cart.update("add", "")
        with pytest.raises(Rejected, match="nothing"):
            await cart.update("nothing")
        with pytest.raises(UpdateFailed, match="it smells"):
            await cart.update("add", "rotten")
        slow = asyncio.create_task(cart.update("add", "slow"))
        await asyncio.sleep(1)
        await cart.signal("close")
        assert await cart.result() == ["tea", "milk", "rotten", "slow"]
        with pytest.raises(RunClosed):
            await slow
        with pytest.raises(RunClosed):
            await cart.update("add", "more")
        assert await cart.update("add", "anything", id="u-1") == 2, "an id that was used gets the first answer"


async def test_an_update_of_a_run_that_is_terminated_is_answered_with_an_error(engine: Opened) -> None:
    """Rule M2."""

    async with engine(workflows=[Cart]) as e:
        cart = await e.start(Cart, "ann", id="cart")
        slow = asyncio.create_task(cart.update("add", "slow"))
        await asyncio.sleep(1)
        await cart.terminate()
        with pytest.raises(RunClosed):
            await slow


# --- generations (M8) ----------------------------------------------------------------------------


@workflow
async def counting(total: int, upto: int) -> int:
    set_state("total", total)
    if total >= upto:
        return total
    total += await receive("add", int)
    return continue_as_new(total, upto)


async def test_generations_carry_over_signals_and_state_and_results_follow(engine: Opened) -> None:
    """Rule M8."""

    @workflow
    async def states(count: int) -> list[str]:
        seen = get_state("seen", list[str], list[str]())
        set_state("seen", [*seen, f"{info().generation}"])
        if count:
            continue_as_new(count - 1)
        return get_state("seen", list[str], list[str]())

    async with engine(workflows=[counting, states]) as e:
        handle = await e.start(counting, 0, 50, id="c")
        for _ in range(50):
            await handle.signal("add", 1)
        assert await handle.result() == 50
        assert (await e.handle("c").describe()).generation == 50
        assert await e.handle("c").state() == {"total": 50}
        assert await e.run(states, 3) == ["0", "1", "2", "3"]


async def test_a_signal_is_delivered_once_over_all_generations(engine: Opened) -> None:
    """Rule M1."""

    async with engine(workflows=[counting]) as e:
        handle = await e.start(counting, 0, 3, id="c")
        for number in (1, 1, 1):
            await handle.signal("add", number, message_id="m-1")
            await asyncio.sleep(5)
        assert await handle.state() == {"total": 1}
        await handle.signal("add", 2)
        assert await handle.result() == 3


async def test_a_child_that_continues_is_waited_for_to_its_last_generation(engine: Opened) -> None:
    """Rule M8."""

    @workflow
    async def parent() -> int:
        counter = child(counting, 0, 2, id="counter")
        await counter.signal("add", 1)
        await counter.signal("add", 1)
        return await counter

    async with engine(workflows=[parent, counting]) as e:
        assert await e.run(parent) == 2


async def test_an_update_that_is_open_is_answered_by_the_next_generation(engine: Opened) -> None:
    """Rule M8."""

    @workflow
    class Rolling:
        def __init__(self) -> None:
            self.rolled = False

        async def run(self, generation: int) -> None:
            await wait_until(lambda: self.rolled)
            continue_as_new(generation + 1)

        @signal
        def roll(self) -> None:
            self.rolled = True

        @update
        async def ask(self, text: str) -> str:
            await sleep("1h")
            return f"{text} {info().generation}"

    async with engine(workflows=[Rolling]) as e:
        handle = await e.start(Rolling, 0, id="r")
        answer = asyncio.create_task(handle.update("ask", "hello", id="u-1"))
        await asyncio.sleep(60)
        await handle.signal("roll")
        assert await answer == "hello 1"
        assert await handle.update("ask", "hello", id="u-1") == "hello 1"


# --- state, attributes, published values (M10) ------------------------------------------------------


async def test_state_and_published_values_are_seen_from_outside(engine: Opened) -> None:
    """Rule M10."""

    @workflow
    async def progress(steps: int) -> str:
        for step in range(steps):
            publish({"step": step})
            set_state("step", step)
            attributes(step=step)
            await sleep(60)
        return "done"

    async with engine(workflows=[progress]) as e:
        handle = await e.start(progress, 4, id="p")
        await asyncio.sleep(90)
        assert await handle.state() == {"step": 1}
        assert (await handle.describe()).attributes == {"step": 1}
        assert [value async for value in handle.watch()] == [{"step": 1}, {"step": 2}, {"step": 3}]
        assert await handle.result() == "done"


# --- nonsense ------------------------------------------------------------------------------------


NONSENSE: list[tuple[Callable[[Any], Any], type[Exception]]] = [
    (lambda e: e.resolve_promise("", 1), InvalidValue),
    (lambda e: e.resolve_promise("k", object()), InvalidValue),
    (lambda e: e.reject_promise("k", 5), InvalidValue),
    (lambda e: e.handle("nobody").update("add", 1), NotFound),
    (lambda e: e.handle("nobody").resolve("p", 1), NotFound),
    (lambda e: e.handle("nobody").state(), NotFound),
    (lambda e: e.handle("").state(), InvalidValue),
    (lambda e: e.handle("n").update(5), InvalidValue),
    (lambda e: e.handle("n").signal(Cart.size), InvalidValue),
    (lambda e: e.handle("n").query(Cart.close), InvalidValue),
]


@pytest.mark.parametrize(("call", "error"), NONSENSE)
async def test_nonsense_is_refused_and_nothing_is_written(engine: Opened, call: Any, error: type[Exception]) -> None:
    async with engine(workflows=[Cart]) as e:
        before = await e.store.counts()
        with pytest.raises(error):
            await call(e)
        assert await e.store.counts() == before
