"""Activities on a worker: what they come to, their slots, their order, and what they cannot do to it (E4)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from perdure import ApplicationError, UsageError, activity, heartbeat
from perdure.engine.settings import Settings
from perdure.model import jobs
from perdure.testing.clock import VirtualClock
from tests.engine.performing import Stage, inline_places, pause, value_of, virtual


@dataclass
class Order:
    id: str
    amount: int


@activity
async def price(order: Order, *extras: int, discount: int = 0) -> Order:
    return Order(order.id, order.amount + sum(extras) - discount)


@activity
def price_in_thread(order: Order, *extras: int, discount: int = 0) -> Order:
    return Order(order.id, order.amount + sum(extras) - discount)


both = pytest.mark.parametrize("plain", [False, True], ids=["async", "thread"])


@both
def test_arguments_arrive_as_annotated_and_the_result_as_json(plain: bool) -> None:
    """K20."""
    priced = price_in_thread if plain else price

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, priced) as stage:
            job = await stage.perform(priced, Order("o-1", 990), 5, 6, keywords={"discount": 1})
            assert value_of(job) == {"id": "o-1", "amount": 1000}

    virtual(main)


def test_an_engine_without_threads_runs_plain_functions_on_the_loop() -> None:
    """Semantics of `threads=False`: everything on one event loop."""
    seen: list[object] = []

    @activity
    def where() -> str:
        seen.append(threading.current_thread())
        return "here"

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, where, places=inline_places()) as stage:
            assert value_of(await stage.perform(where)) == "here"
            assert seen == [threading.current_thread()]

    virtual(main)


# --- what cannot be read, written or called -----------------------------------------------------


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (b'[{"id": "o-1", "amount": "much"}]', "order.amount"),
        (b"[]", "order"),
        (b'[{"id": "o-1", "amount": 1}, "x"]', "argument 2"),
        (b"{}", "input of activity `price`"),
    ],
)
@both
def test_an_input_that_does_not_fit_fails_the_activity_for_good_and_calls_nothing(
    given: bytes, says: str, plain: bool
) -> None:
    called: list[int] = []

    @activity(name="price")
    async def strict(order: Order, *extras: int) -> None:
        called.append(1)

    @activity(name="price")
    def strict_in_thread(order: Order, *extras: int) -> None:
        called.append(1)

    async def main(clock: VirtualClock) -> None:
        chosen = strict_in_thread if plain else strict
        async with Stage(clock, chosen) as stage:
            failure = await stage.failure(chosen, Order("o-1", 1), input=given)
            assert failure.message.startswith("activity `price` was not called"), failure
            assert says in failure.message
            assert not failure.retryable
            assert (called, stage.retries) == ([], [])

    virtual(main)


@both
def test_a_result_that_cannot_be_stored_fails_the_activity_for_good(plain: bool) -> None:
    @activity(name="gives")
    async def gives() -> Any:
        return {"a": [1, {2}]}

    @activity(name="gives")
    def gives_in_thread() -> Any:
        return {"a": [1, {2}]}

    async def main(clock: VirtualClock) -> None:
        chosen = gives_in_thread if plain else gives
        async with Stage(clock, chosen) as stage:
            failure = await stage.failure(chosen)
            assert failure.type == "InvalidValue"
            assert failure.message.startswith("the result of activity `gives`.a[1]")
            assert not failure.retryable

    virtual(main)


def test_a_plain_function_that_returns_a_coroutine_is_told_to_be_async() -> None:
    @activity
    def forgets() -> Any:
        return price.fn(Order("o-1", 1))

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, forgets) as stage:
            assert "make it `async def`" in (await stage.failure(forgets)).message

    virtual(main)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Silent(BaseException):
    def __str__(self) -> str:
        raise KeyboardInterrupt


def raises(error: Callable[[], BaseException]) -> None:
    raise error()


ERRORS: dict[str, Callable[[], BaseException]] = {
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": lambda: KeyboardInterrupt(),
    "GeneratorExit": lambda: GeneratorExit(),
    "StopIteration": lambda: StopIteration(1),
    "Unspeakable": Unspeakable,
    "Silent": Silent,
    "CancelledError": lambda: asyncio.CancelledError(),
    "OSError": lambda: OSError("a name with half a character: \udcff"),
    "Odd": lambda: ApplicationError(7, type="Odd", details={1, 2}),  # type: ignore[arg-type]
    "Long": lambda: ApplicationError("x" * 1_000_000, type="Long"),
    "ExceptionGroup": lambda: ExceptionGroup("two", [ValueError(1), Unspeakable()]),
}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("where", ["async", "thread", "inline"])
def test_whatever_an_activity_raises_is_a_failure_of_the_activity_and_never_of_the_worker(
    name: str, where: str
) -> None:
    @activity(name="bad")
    async def bad() -> None:
        raises(ERRORS[name])

    @activity(name="bad")
    def bad_in_thread() -> None:
        raises(ERRORS[name])

    async def main(clock: VirtualClock) -> None:
        chosen = bad if where == "async" else bad_in_thread
        places = {"places": inline_places()} if where == "inline" else {}
        async with Stage(clock, chosen, price, **places) as stage:
            failure = await stage.failure(chosen)
            expected = "RuntimeError" if name == "StopIteration" and where == "async" else name
            assert failure.type == expected
            assert len(failure.message) < 110_000
            assert value_of(await stage.perform(price, Order("o-1", 1)))["amount"] == 1
            assert stage.runner.free == stage.settings.queues

    virtual(main)


# --- slots and order ----------------------------------------------------------------------------


@both
def test_a_queue_runs_no_more_at_once_than_its_limit(plain: bool) -> None:
    """E4: named queues with a limit per worker."""
    now: dict[str, int] = {"a": 0, "b": 0}
    most = dict(now)
    lock = threading.Lock()
    gate = threading.Event()

    def count(queue: str, by: int) -> None:
        with lock:
            now[queue] += by
            most[queue] = max(most[queue], now[queue])

    @activity(name="work")
    async def work(queue: str) -> None:
        count(queue, 1)
        await pause(1)
        count(queue, -1)

    @activity(name="work")
    def work_in_thread(queue: str) -> None:
        count(queue, 1)
        if now == {"a": 3, "b": 1}:
            gate.set()
        assert gate.wait(10)
        count(queue, -1)

    async def main(clock: VirtualClock) -> None:
        chosen = work_in_thread if plain else work
        async with Stage(clock, chosen, queues={"a": 3, "b": 1}, hold=True) as stage:
            ids = [await stage.schedule(chosen, queue, queue=queue) for queue in "abab" * 5]
            for id in ids:
                assert isinstance((await stage.answer(id))[0], jobs.Resolved)
            assert most == {"a": 3, "b": 1}
            assert stage.runner.free == {"a": 3, "b": 1}
            if not plain:
                assert stage.seconds() == 10  # ten in b, one after the other

    virtual(main)


def test_the_larger_priority_goes_first_and_what_is_due_later_waits() -> None:
    """E4: priority, delayed start."""
    order: list[str] = []

    @activity
    async def noted(name: str) -> None:
        order.append(name)
        await pause(1)

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, noted, queues={"default": 1}) as stage:
            first = await stage.schedule(noted, "first")
            await stage.until(lambda: order)
            due_us = clock.now_us() + 60_000_000
            ids = [
                await stage.schedule(noted, name, **options)
                for name, options in {
                    "low": {"priority": -1},
                    "late": {"priority": 9, "due_us": due_us},
                    "plain": {},
                    "high": {"priority": 5},
                }.items()
            ]
            for id in [first, *ids]:
                await stage.answer(id)
            assert order == ["first", "high", "plain", "low", "late"]
            late = (await stage.answer(ids[1]))[1][0]
            assert late.started_us == due_us

    virtual(main)


def test_a_hundred_at_once_of_each_kind() -> None:
    """Every one is performed once, beside the others."""
    started = threading.Semaphore(0)
    everybody = threading.Event()

    @activity
    async def soft(n: int) -> int:
        await pause(100 - n)
        return n

    @activity
    def hard(n: int) -> int:
        started.release()
        assert everybody.wait(30)
        return -n

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, soft, hard, queues={"default": 100, "threads": 100}) as stage:
            ids = [await stage.schedule(soft, n) for n in range(100)]
            ids += [await stage.schedule(hard, n, queue="threads") for n in range(100)]
            for _ in range(100):
                await stage.really(lambda: started.acquire(blocking=False))
            everybody.set()
            values = [value_of((await stage.answer(id))[0]) for id in ids]
            assert values == [*range(100), *(-n for n in range(100))]
            assert {task.attempt for task in stage.claims} == {1}

    virtual(main)


def test_starting_and_ending_costs_the_same_however_many_run() -> None:
    """O(1) per task: ten thousand in one go."""
    gate = asyncio.Event()

    @activity
    async def one() -> None:
        await gate.wait()

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, one, queues={"default": 10_000}) as stage:
            ids = [await stage.schedule(one) for _ in range(10_000)]
            await stage.until(lambda: len(stage.runner.running) == 10_000)
            gate.set()
            for id in ids:
                await stage.answer(id)
            await stage.until(lambda: len(stage.accepted) == 10_000)
            assert await stage.store.list_tasks(stage.run.number) == []

    virtual(main)


def test_a_slot_is_reserved_only_where_it_is_free_and_nobody_waits_for_it() -> None:
    """A task in the store goes before one that a turn schedules now."""

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, price, queues={"default": 2}) as stage:
            await stage.until(lambda: not stage.runner.backlog)
            reserve = stage.runner.reserve
            assert [reserve("default", "price"), reserve("other", "price"), reserve("default", "unknown")] == [
                True,
                False,
                False,
            ]
            assert not reserve("default", "price"), "one that is unknown here was put off: it may be waiting"
            await stage.runner.claim()
            assert [reserve("default", "price") for _ in range(2)] == [True, False]

    virtual(main)


def test_a_store_that_cannot_be_reached_leaves_the_slots_free_and_the_work_to_be_claimed() -> None:
    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, price) as stage:
            await stage.until(lambda: not stage.runner.backlog)
            await stage.store.close()
            stage.runner.backlog.add("default")
            with pytest.raises(Exception, match="not open"):
                await stage.runner.claim()
            assert (stage.runner.free, stage.runner.backlog) == ({"default": 100}, {"default"})
            await stage.store.open()

    virtual(main)


# --- the end ------------------------------------------------------------------------------------


def test_a_polite_stop_lets_activities_finish_and_hands_over_what_does_not() -> None:
    """E3: what was handed over is free at once, with its heartbeat, and its failure is not counted."""

    @activity
    async def quick() -> str:
        await pause(0.2)
        return "done"

    @activity
    async def long() -> None:
        heartbeat("started")
        heartbeat("half-way")
        await pause(1_000)

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, quick, long) as stage:
            done, left = await stage.schedule(quick), await stage.schedule(long)
            await stage.until(lambda: len(stage.runner.running) == 2)
            before = stage.seconds()
            await stage.runner.stop()
            assert stage.seconds() - before <= 1
            assert value_of((await stage.answer(done))[0]) == "done"
            assert not stage.answers[left].done()
            await stage.store.close_lease(stage.lease.number)
            (task,) = await stage.store.list_tasks(stage.run.number)
            assert (task.owner, task.failures, task.details) == (None, 0, b'"half-way"')
            assert [one.outcome for one in task.attempts] == ["handed_over"]
            assert not stage.runner.reserve("default", "quick")

    virtual(main)


def test_a_lost_lease_stops_what_runs_and_says_nothing_about_it() -> None:
    """E3."""
    ends: list[str] = []

    @activity
    async def work() -> None:
        try:
            await pause(1_000)
        finally:
            ends.append("stopped")

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, work) as stage:
            id = await stage.schedule(work)
            await stage.until(lambda: stage.runner.running)
            await asyncio.sleep(0)
            stage.runner.lose_all()
            await stage.until(lambda: ends)
            assert not stage.answers[id].done()
            assert (stage.retries, stage.runner.free) == ([], {"default": 100})

    virtual(main)


def test_a_task_of_a_loop_that_shuts_down_did_not_fail() -> None:
    """Somebody cancels all tasks: the activity goes back uncounted, and is performed again."""
    calls: list[int] = []

    @activity
    async def work() -> str:
        calls.append(1)
        if len(calls) == 1:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        await pause(1)
        return "done"

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, work) as stage:
            job, attempts = await stage.answer(await stage.schedule(work))
            assert value_of(job) == "done"
            assert [one.outcome for one in attempts] == ["cancelled", "completed"]
            assert [report.counts for report in stage.retries] == [False]

    virtual(main)


# --- what a worker refuses ----------------------------------------------------------------------


@pytest.mark.parametrize("executor", ["thread", "process"])
def test_an_async_activity_cannot_be_given_another_executor(executor: Any) -> None:
    @activity(executor=executor)
    async def odd() -> None: ...

    odd.fn.__code__ = price.fn.__code__  # not a stub
    with pytest.raises(UsageError, match="activity `odd` is `async def`, which runs on the event loop"):
        Stage(VirtualClock(), odd)


def test_settings_say_which_queues_there_are() -> None:
    assert Stage(VirtualClock(), price).runner.free == Settings().queues
