"""Activities that are methods: bound to an instance as any function is, and served for that instance (E4, E5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from perdure import Engine, InvalidValue, UsageError, activity, heartbeat, workflow
from perdure.testing import Harness

Opened = Callable[..., Any]


@dataclass
class Money:
    cents: int


@dataclass
class Bank:
    """What a program sets up before it serves."""

    rate: int
    paid: list[int] = field(default_factory=list[int])

    @activity
    async def charge(self, money: Money, *, tip: int = 0) -> Money:
        self.paid.append(money.cents)
        return Money(money.cents * self.rate + tip)

    @activity(name="refund", timeout=5)
    def give_back(self, money: Money) -> int:
        heartbeat()
        self.paid.remove(money.cents)
        return len(self.paid)

    @activity(effect="ask")
    async def order(self, id: str) -> str:
        raise ConnectionError(id)

    @order.reconcile
    async def ordered(self, id: str) -> str:
        return f"{id} of {self.rate}"


async def test_methods_are_activities_of_their_instance(engine: Opened) -> None:
    bank = Bank(3)

    @workflow
    async def shopping() -> list[Any]:
        charged = await bank.charge(Money(5), tip=1)
        assert isinstance(charged, Money)
        left = await bank.give_back.options(timeout=9)(Money(5))
        return [charged.cents, left, await bank.order("o-1")]

    async with engine(workflows=[shopping], activities=[bank.charge, bank.give_back, bank.order]) as e:
        assert await e.run(shopping) == [16, 0, "o-1 of 3"]
    assert Bank.charge.name == bank.charge.name == "charge"
    assert bank.give_back.name == "refund"


def test_a_method_runs_where_no_workflow_is_and_is_bound_as_functions_are() -> None:
    bank = Bank(2)
    assert asyncio.run(asyncio.wait_for(_awaited(bank), 5)) == Money(10)
    assert bank.paid == [5]
    assert asyncio.run(Bank.charge.fn(bank, Money(1))) == Money(2)


async def _awaited(bank: Bank) -> Money:
    return await bank.charge(Money(5))


def test_a_method_in_a_workflow_is_recorded_without_its_instance() -> None:
    """Rule K10."""
    bank = Bank(2)

    @workflow
    async def shopping() -> None:
        with pytest.raises(InvalidValue, match="`charge` lacks `money`"):
            cast("Any", bank.charge)()
        bank.charge(Money(5))

    h = Harness(shopping)
    (command, _) = h.start().commands
    assert (command.name, command.input) == ("charge", [{"cents": 5}])


def test_a_method_cannot_run_in_another_process() -> None:
    class Press:
        @activity(executor="process")
        def label(self) -> str:
            return "label"

    with pytest.raises(UsageError, match="another process cannot import it"):
        Engine("memory://", activities=[Press().label])
