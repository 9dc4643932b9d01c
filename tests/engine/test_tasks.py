"""Activities on a worker: what they come to, their slots, their order, and what they cannot do to it (E4)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from perdure import ApplicationError, UsageError, activity
from perdure.engine.settings import Settings
from perdure.testing.clock import VirtualClock
from tests.engine.performing import Stage, inline_places, value_of, virtual


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
