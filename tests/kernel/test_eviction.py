"""K18, K19: what becomes of coroutines when their run ends or is evicted, and what is said of them before."""

from __future__ import annotations

import asyncio
from typing import Any

import perdure
from perdure import SchedulerViolation, parallel, publish, set_state, sleep, wait_until, workflow
from perdure.testing import Harness, evict, resolve, signal
from tests.kernel.telling import act

# --- K18 ---------------------------------------------------------------------------------------------


def test_k18_a_finally_that_calls_the_api_is_refused_every_time_and_leaves_no_trace() -> None:
    refused: list[str] = []

    @workflow
    async def stubborn() -> str:
        try:
            return await act("x")
        finally:
            for call in (lambda: act("clean-up"), lambda: sleep(1), lambda: set_state("key", 1), lambda: publish(1)):
                try:
                    call()
                except SchedulerViolation as error:
                    refused.append(str(error))

    h = Harness(stubborn)
    turn = h.start()
    before = h.transcript.to_json()
    assert h.activate(evict()).commands == []
    assert len(refused) == 4
    assert all("being closed" in text for text in refused)
    assert h.transcript.to_json() == before
    h.activate(resolve(turn.commands[0], "value"))
    assert (h.result, len(refused)) == ("value", 4)


def test_k18_what_a_coroutine_cancels_while_its_run_ends_does_not_stand_behind_the_last_command() -> None:
    seen: list[str] = []

    @workflow
    async def ends_first() -> str:
        async def aside() -> None:
            timer = sleep(60)
            try:
                await act("aside")
            finally:
                seen.append("closed")
                timer.cancel()

        task = asyncio.create_task(aside())
        value = await act("root")
        seen.append(task.get_name())
        return value

    h = Harness(ends_first)
    turn = h.start()
    assert [command.name for command in turn.commands] == ["act", None, "act"]
    turn = h.activate(resolve(0, "value"))
    assert seen == ["/t0", "closed"]
    assert turn.commands[-1].kind == "complete"
    assert h.replay().result == "value"


def test_k18_a_coroutine_that_pauses_in_its_clean_up_is_closed_all_the_same() -> None:
    seen: list[str] = []

    @workflow
    async def cleans_up() -> str:
        try:
            return await act("x")
        finally:
            for number in range(3):
                try:
                    await asyncio.sleep(0)
                finally:
                    seen.append(f"pause {number}")

    h = Harness(cleans_up)
    h.start()
    h.activate(evict())
    assert seen == ["pause 0"]
    assert h.reports == []


def test_k18_inner_units_are_closed_before_the_outer_ones() -> None:
    seen: list[str] = []

    @workflow
    async def nested() -> None:
        async def branch(name: str, *inner: Any) -> None:
            try:
                await parallel(act(name), *inner)
            finally:
                seen.append(name)

        await branch("/", branch("/p1", branch("/p1/p1")), branch("/p2"))

    h = Harness(nested)
    h.start()
    h.activate(evict())
    assert seen == ["/p2", "/p1/p1", "/p1", "/"]


# --- K19 ---------------------------------------------------------------------------------------------


def test_k19_units_are_listed_in_their_order_and_not_in_that_in_which_they_were_made() -> None:
    @workflow
    class Late:
        async def run(self) -> None:
            await act("first")
            task = asyncio.create_task(self.task())
            await parallel(act("root"), self.task())
            await task

        async def task(self) -> None:
            await wait_until(lambda: False)

        @perdure.signal
        async def knock(self) -> None:
            await act("handler")

    h = Harness(Late)
    h.start(signal("knock"))
    h.activate(resolve(0, ""))
    assert [one.unit for one in h.waiting()] == ["/", "/p1", "/t0", "/h0"]
