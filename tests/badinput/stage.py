"""The stage on which bad input is tried: definitions, runs that wait, and the words that the files of the corpus use.

What a case calls is text, as somebody would type it; `Stage.outcome` evaluates it, and `Stage.footprint` is all that
can be seen to have been written.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec

import perdure
from perdure import activity, promise, query, set_state, signal, update, wait_until, workflow
from perdure.app import Client, Engine, Worker
from perdure.engine.settings import Settings
from perdure.testing.engines import SETTINGS
from perdure.testing.virtual import VirtualLoop, running_clock
from tests.badinput.corpus import Case

RUNS_MAX = 50
MESSAGE_LENGTH_MAX = 700
OTHER_ID = "00000000-0000-4000-8000-000000000000"


@dataclass
class Order:
    id: str
    cents: int


class Touchy:
    """Nothing that can be stored, and it says so with an error of its own."""

    @property
    def __dict__(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise RuntimeError("hands off")


@dataclass
class OddList(list[int]):
    """A list and a dataclass at once."""

    def __init__(self, given: list[int]) -> None:
        super().__init__(given)


# --- what the engine knows -----------------------------------------------------------------------


@activity
async def double(number: int) -> int:
    return 2 * number


@activity
async def anything_of(what: Any) -> Any:
    return what


@activity
async def waits_for_outside(of: str) -> int:
    TOKENS[of] = perdure.activity_info().token
    perdure.complete_later()


@workflow
async def nap(seconds: float) -> str:
    await perdure.sleep(seconds)
    return "rested"


@workflow
async def anything(what: Any) -> Any:
    return what


@workflow
async def shipment(order: Order) -> int:
    return order.cents


class Broken:
    """Queries that cannot be answered."""

    @query
    def broken(self) -> int:
        raise RuntimeError("no")

    @query
    def unstorable(self) -> Any:
        return {1, 2}

    @query
    def writes(self) -> None:
        set_state("step", 1)


@workflow
class Cart(Broken):
    def __init__(self) -> None:
        self.items: list[str] = []
        self.closed = False

    async def run(self, customer: str) -> int:
        await wait_until(lambda: self.closed)
        return len(self.items)

    @signal
    def close(self) -> None:
        self.closed = True

    @signal
    def rename(self, to: str) -> None:
        self.items.append(to)

    @signal
    def note(self, what: Any) -> None:
        self.items.append(str(what))

    @update
    async def add(self, item: str) -> int:
        self.items.append(item)
        return len(self.items)

    @add.validator
    def check(self, item: str) -> None:
        if not item:
            raise ValueError("empty item")

    @update
    async def keep(self, what: Any) -> None:
        self.items.append(str(what))

    @query
    def size(self) -> int:
        return len(self.items)

    @query
    def longer_than(self, count: int) -> bool:
        return len(self.items) > count

    @query
    def echo(self, what: Any) -> Any:
        return what


@workflow
async def waiting(key: str) -> None:
    await promise("sent", int)
    promise("paid", int, key=key)
    await waits_for_outside(key)


TOKENS: dict[str, str] = {}
WORKFLOWS = [nap, anything, shipment, Cart, waiting]
ACTIVITIES = [double, anything_of, waits_for_outside]


# --- what it does not know, or nobody should write ------------------------------------------------


async def steps() -> None:
    """A workflow that nobody has decorated."""


def work() -> None:
    """An activity that nobody has decorated."""


def generator() -> Iterator[int]:
    yield 1


class NoRun:
    """A class without `run`."""


@activity
async def stub(number: int) -> int: ...


unlisted = workflow(name="unlisted")(steps)
other_nap = workflow(name="nap")(steps)
other_double = activity(name="double")(work)


async def opened_twice() -> None:
    client = Client("memory://")
    async with client:
        pass
    await client.open()


def nested(levels: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(levels):
        made = [made]
    return made


def cycle() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


def half_made() -> Order:
    return Order.__new__(Order)


WORDS: dict[str, Any] = {
    **{name: getattr(perdure, name) for name in perdure.__all__},
    **{each.__name__: each for each in (Client, Engine, Worker, Settings, Order, Touchy, OddList, Cart, NoRun)},
    **{each.__name__: each for each in (Decimal, Path, date, datetime, time, timedelta, timezone)},
    **{each.__name__: each for each in (steps, work, generator, nested, cycle, half_made, opened_twice)},
    "Lock": Lock,
    "Raw": msgspec.Raw,
    "inf": math.inf,
    "nan": math.nan,
    "math": math,
    "perdure": perdure,
    "double": double,
    "anything_of": anything_of,
    "nap": nap,
    "anything": anything,
    "shipment": shipment,
    "cart": Cart,
    "stub": stub,
    "unlisted": unlisted,
    "other_nap": other_nap,
    "other_double": other_double,
    "not_a_workflow": steps,
}


class Stage:
    """An engine on virtual time, with the runs `cart`, `waiting` and `ended`."""

    def __init__(self, url: str, written: Callable[[], object] = lambda: None) -> None:
        self._url = url
        self._written = written  # changes whenever anything is written
        self._runner = asyncio.Runner(loop_factory=VirtualLoop)
        self.run = self._runner.run
        self.engine: Engine = self.run(self._open())
        self._words = {**WORDS, **self.run(self._begin())}

    def close(self) -> None:
        """End it, after a look at whether it still works."""
        self.run(self._see_it_works())
        self.run(self.engine.close())
        self._runner.close()

    def outcome(self, call: str, given: Mapping[str, Any]) -> Exception | None:
        """What comes of this call: the error, or None if there was none."""
        return outcome(self.run, call, {**self._words, **given})

    def footprint(self) -> Any:
        """All that is stored, as far as it can be seen."""
        return self.run(self._footprint())

    async def _open(self) -> Engine:
        clock = running_clock()
        assert clock is not None
        engine = Engine(
            self._url,
            workflows=WORKFLOWS,
            activities=ACTIVITIES,
            threads=False,
            clock=clock,
            settings=SETTINGS,
        )
        await engine.open()
        return engine

    async def _begin(self) -> dict[str, Any]:
        engine = self.engine
        await engine.start(Cart, "ann", id="cart")
        held = await engine.start(waiting, "invoice-1", id="waiting")
        await engine.run(nap, 1, id="ended")
        await held.resolve("sent", 1)
        while "invoice-1" not in TOKENS:
            await engine.run(nap, 1)
        await engine.run(nap, 60)
        token = TOKENS.pop("invoice-1")
        (task,) = (await held.describe()).attempts
        key = task.key
        run_id = held.run_id or ""
        return {
            "e": engine,
            "TOKEN": token,
            "KEY": key,
            "FORGED": token.replace(key, OTHER_ID),
            "OF_NO_RUN": token.replace(run_id, OTHER_ID),
        }

    async def _footprint(self) -> Any:
        store = self.engine.store
        runs = await store.get_runs(range(1, RUNS_MAX))
        seen = [msgspec.to_builtins(run) for run in runs]
        return await store.counts(), seen, [await store.list_tasks(run.number) for run in runs], self._written()

    async def _see_it_works(self) -> None:
        engine = self.engine
        assert await engine.run(nap, 1) == "rested"
        assert await engine.handle("cart").update(Cart.add, "tea") == 1
        await engine.handle("cart").signal(Cart.close)
        assert await engine.handle("cart").result() == 1
        await engine.complete_activity(self._words["TOKEN"], 5)
        assert await engine.handle("waiting").result() is None
        assert await engine.store.verify() == []


def outcome(run: Callable[[Coroutine[Any, Any, None]], None], call: str, words: dict[str, Any]) -> Exception | None:
    """What comes of a call: the error, or None if there was none."""

    async def attempt() -> None:
        answer: Any = eval(call, words)
        if inspect.isawaitable(answer):
            async with asyncio.timeout(3600):
                await answer

    try:
        run(attempt())
    except Exception as error:
        return error
    return None


def given_to(case: Case) -> dict[str, Any]:
    """What stands for BAD in a case, made anew."""
    return {} if case.bad is None else {"BAD": eval(case.bad, dict(WORDS))}


def fault_of(error: Exception | None, wanted: str, case: Case) -> str | None:
    """What is wrong with what came of a case; None if nothing is."""
    kind = TimeoutError if wanted == "TimeoutError" else getattr(perdure, wanted)
    said = f"{case.name}: {type(error).__name__}: {error}"
    if type(error) is not kind:
        return f"{said} — it should have been {wanted}"
    return next((f"{said} — {fault}" for fault in faults_of(str(error), case.says)), None)


def faults_of(message: str, says: tuple[str, ...]) -> Iterator[str]:
    """What is wrong with a message: it does not say these, or it is no sentence that can be shown."""
    for wanted in says:
        if wanted not in message:
            yield f"it should say {wanted!r}"
    if not message.isprintable():
        yield "it is not one line that can be shown"
    if len(message) > MESSAGE_LENGTH_MAX:
        yield f"it has {len(message)} characters"
    if "Traceback" in message:
        yield "it holds a traceback"
