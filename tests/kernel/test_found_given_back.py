"""M1, M6: a signal that was served to a scope, and not read before the scope was cancelled, goes back to the head."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import parallel, pending, race, receive, scope, shielded, workflow
from perdure.testing import Harness, cancel, fire, resolve, signal
from tests.kernel.telling import EvictedHarness, act, replayed

KINDS = pytest.mark.parametrize("kind", [Harness, EvictedHarness], ids=["live", "evicted"])


async def reads_later() -> str:
    word = receive("word", str)
    await act("first")
    return await word


@KINDS
def test_m1_the_loser_of_a_race_gives_back_what_it_was_served_and_has_not_awaited_yet(kind: Any) -> None:
    @workflow
    async def racing() -> list[Any]:
        won = await race(reads_later(), act("gate"))
        return [*won, pending("word"), await receive("word", str), await receive("word", str)]

    with replayed(kind) as start:
        h = start(racing)
        h.start()
        h.activate(signal("word", "one"), signal("word", "two"))
        h.activate(resolve(1 if h.transcript.turns[0].commands[1].input == ["gate"] else 0, "open"))
        assert h.result == [1, "open", 2, "one", "two"]


@KINDS
def test_m1_a_scope_whose_time_ran_out_gives_back_what_nobody_in_it_has_read(kind: Any) -> None:
    @workflow
    async def hurrying() -> list[Any]:
        try:
            async with scope(timeout=5):
                await reads_later()
        except TimeoutError:
            return ["late", pending("word"), await receive("word", str)]
        return []

    with replayed(kind) as start:
        h = start(hurrying)
        h.start()
        h.activate(signal("word", "one"))
        h.activate(fire(0))
        assert h.result == ["late", 1, "one"]


def test_m1_given_back_by_a_cancelled_run_a_signal_is_there_for_its_clean_up() -> None:
    @workflow
    async def cleaning() -> str:
        try:
            return await reads_later()
        except asyncio.CancelledError:
            async with shielded():
                return f"cleaned up with {await receive('word', str)}"

    h = Harness(cleaning)
    h.start()
    h.activate(signal("word", "one"))
    h.activate(cancel("enough"))
    assert (h.result, h.replay().result) == ("cleaned up with one",) * 2


def test_m1_what_was_given_back_by_a_cancelled_scope_cannot_be_read_a_second_time() -> None:
    @workflow
    async def greedy() -> list[Any]:
        served: list[Any] = []
        async with scope() as region:
            served.append(receive("word", str))
            await act("first")
            region.cancel()
        again = await receive("word", str)
        try:
            return [again, await served[0]]
        except asyncio.CancelledError:
            return [again, "given back"]

    h = Harness(greedy)
    h.start(signal("word", "one"))
    h.activate(resolve(0, ""))
    assert (h.result, h.replay().result) == (["one", "given back"],) * 2


def test_k17_a_signal_that_a_paused_unit_is_about_to_read_is_delivered_before_the_cancellation() -> None:
    """M1: what is about to be read is not taken back."""

    @workflow
    async def cancelling() -> list[Any]:
        read: list[str] = []

        async def reader() -> None:
            read.append(await receive("word", str))
            await act("never")

        async with scope() as region:

            async def canceller() -> None:
                await receive("stop")
                region.cancel()

            await parallel(canceller, reader)
        return [*read, pending("word")]

    h = Harness(cancelling)
    h.start()
    h.activate(signal("stop"), signal("word", "one"))
    assert (h.result, h.replay().result) == (["one", 0],) * 2


def test_m1_what_was_read_before_the_scope_was_cancelled_stays_read() -> None:
    @workflow
    async def reading() -> list[Any]:
        served: list[Any] = []
        async with scope() as region:
            served.append(receive("word", str))
            await act("first")
            served.append(served[0].result())
            region.cancel()
        return [served[1], served[0].result(), pending("word")]

    h = Harness(reading)
    h.start(signal("word", "one"))
    h.activate(resolve(0, ""))
    assert (h.result, h.replay().result) == (["one", "one", 0],) * 2
