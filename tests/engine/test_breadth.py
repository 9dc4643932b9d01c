"""Children, promises, updates, generations, state and other runs, through the engine (M2, M4, M7 to M10)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from perdure import (
    ActivityFailed,
    AlreadyExists,
    ChildFailed,
    ExternalFailed,
    InvalidValue,
    NotFound,
    PromiseRejected,
    Rejected,
    Retry,
    RunCancelled,
    RunClosed,
    RunTerminated,
    UpdateFailed,
    activity,
    attributes,
    child,
    continue_as_new,
    get_state,
    info,
    parallel,
    promise,
    publish,
    query,
    receive,
    run_of,
    set_state,
    signal,
    sleep,
    update,
    wait_until,
    workflow,
)

Opened = Callable[..., Any]


@workflow
async def doubled(number: int) -> int:
    await sleep(1)
    return 2 * number


@workflow
async def failing(text: str) -> str:
    raise ValueError(text)


@workflow
async def approval(who: str) -> str:
    return f"{who}: {await receive('approve', str)}"


@workflow
async def sum_of_children(count: int) -> int:
    return sum(await parallel(*(doubled(number) for number in range(count))))


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


# --- children (M7) -------------------------------------------------------------------------------


async def test_children_run_and_their_values_arrive(engine: Opened) -> None:
    """Rule M7."""

    async with engine(workflows=[doubled, sum_of_children]) as e:
        assert await e.run(sum_of_children, 100) == 9900


async def test_a_childs_failure_arrives_with_its_cause(engine: Opened) -> None:
    """Rule M7."""

    @workflow
    async def parent() -> str:
        try:
            await failing("no")
        except ChildFailed as error:
            return str(error.failure)
        return "it did not fail"

    async with engine(workflows=[parent, failing]) as e:
        assert await e.run(parent) == "ValueError: no"


async def test_a_child_id_that_is_taken_is_a_failed_answer(engine: Opened) -> None:
    """Rule E2."""

    @workflow
    async def parent() -> str:
        try:
            await child(doubled, 1, id="taken")
        except ChildFailed as error:
            return error.failure.type
        return "nobody had it"

    async with engine(workflows=[parent, doubled, approval]) as e:
        await e.start(approval, "ann", id="taken")
        assert await e.run(parent) == "AlreadyExists"


async def test_a_child_is_signalled_and_cancelled(engine: Opened) -> None:
    """Rule M7."""

    @workflow
    async def parent() -> list[str]:
        told = child(approval, "ann", id="told")
        stopped = child(approval, "bob", id="stopped", parent_close="abandon")
        await told.signal("approve", "yes")
        stopped.cancel()
        values = [await told]
        try:
            await stopped
        except asyncio.CancelledError:
            values.append("cancelled")
        return values

    async with engine(workflows=[parent, approval]) as e:
        assert await e.run(parent) == ["ann: yes", "cancelled"]
        with pytest.raises(RunCancelled):
            await e.handle("stopped").result()


@pytest.mark.parametrize(
    ("policy", "ending"), [("terminate", RunTerminated), ("cancel", RunCancelled), ("abandon", None)]
)
async def test_the_end_of_a_parent_does_to_its_children_what_they_asked_for(
    engine: Opened, policy: Any, ending: Any
) -> None:
    """Rule M7."""

    @workflow
    async def parent() -> str:
        child(approval, "ann", id="kid", parent_close=policy)
        await sleep(5)
        return "done"

    async with engine(workflows=[parent, approval]) as e:
        assert await e.run(parent) == "done"
        kid = e.handle("kid")
        if ending is None:
            await kid.signal("approve", "yes")
            assert await kid.result() == "ann: yes"
        else:
            with pytest.raises(ending):
                await kid.result(timeout=10)


async def test_terminating_a_tree_ends_all_of_it(engine: Opened) -> None:
    """Rule M7."""

    @workflow
    async def tree(depth: int) -> None:
        if depth:
            await parallel(tree(depth - 1), tree(depth - 1))
        else:
            await sleep("10d")

    async with engine(workflows=[tree]) as e:
        handle = await e.start(tree, 4)
        await asyncio.sleep(10)
        await handle.terminate("enough")
        await asyncio.sleep(10)
        runs = [run async for run in e.list("status = 'running'")]
        assert not runs


# --- other runs ----------------------------------------------------------------------------------


async def test_another_run_is_signalled_and_an_unknown_one_is_a_failed_answer(engine: Opened) -> None:
    """Rule E2."""

    @workflow
    async def sender() -> str:
        await run_of("listener").signal("approve", "yes")
        try:
            await run_of("nobody").signal("approve", "yes")
        except ExternalFailed as error:
            return error.failure.type
        return "somebody"

    async with engine(workflows=[sender, approval]) as e:
        listener = await e.start(approval, "ann", id="listener")
        assert await e.run(sender) == "NotFound"
        assert await listener.result() == "ann: yes"


async def test_another_run_is_cancelled(engine: Opened) -> None:
    @workflow
    async def stopper() -> None:
        await run_of("listener").cancel("enough")

    async with engine(workflows=[stopper, approval]) as e:
        listener = await e.start(approval, "ann", id="listener")
        await e.run(stopper)
        with pytest.raises(RunCancelled):
            await listener.result()


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


async def test_an_activity_that_fails_in_a_child_is_the_cause_of_its_failure(engine: Opened) -> None:
    @activity
    async def refuse() -> None:
        raise KeyError("gone")

    @workflow
    async def kid() -> None:
        await refuse.options(retry=Retry(attempts=1))()

    @workflow
    async def parent() -> list[str]:
        try:
            await child(kid)
        except ChildFailed as error:
            cause = error.failure.cause
            return [error.failure.type, cause.type if cause else ""]
        return []

    async with engine(workflows=[parent, kid], activities=[refuse]) as e:
        assert await e.run(parent) == [ActivityFailed.__name__, "KeyError"]
