"""M1: a receiver that was served and then lost its race, or was cancelled unread, gives the signal back."""

from __future__ import annotations

import asyncio
from typing import Any

from perdure import pending, race, receive, scope, sleep, workflow
from perdure.testing import fire, resolve, signal
from tests.kernel.telling import Start, act, asked


def test_m1_a_receive_that_lost_its_race_in_the_turn_of_its_signal_gives_it_back_to_the_head(run: Start) -> None:
    @workflow
    async def racing() -> list[Any]:
        index, value = await race(receive("a"), receive("b"))
        return [index, value, await receive("b"), await receive("b")]

    h = run(racing)
    h.start()
    h.activate(signal("a", 1), signal("b", 2), signal("b", 3))
    assert h.result == [0, 1, 2, 3]


def test_m1_of_two_receives_in_a_race_the_signal_that_came_first_wins(run: Start) -> None:
    @workflow
    async def racing() -> list[Any]:
        index, value = await race(receive("a"), receive("b"))
        return [index, value, pending("a"), pending("b")]

    h = run(racing)
    h.start()
    h.activate(signal("b", 2), signal("a", 1))
    assert h.result == [1, 2, 1, 0]


def test_m1_several_receives_of_one_name_that_lose_give_back_in_the_order_of_arrival(run: Start) -> None:
    @workflow
    async def racing() -> list[Any]:
        index, value = await race(act("x"), receive("a"), receive("a"), receive("a"))
        return [index, value, await receive("a"), await receive("a"), await receive("a"), await receive("a")]

    h = run(racing)
    turn = h.start()
    h.activate(resolve(turn.commands[0], "won"), signal("a", 1), signal("a", 2), signal("a", 3), signal("a", 4))
    assert h.result == [0, "won", 1, 2, 3, 4]


def test_m1_served_and_cancelled_unread_it_goes_back_ahead_of_what_came_later(run: Start) -> None:
    @workflow
    async def dropping() -> list[Any]:
        first, second = receive("a"), receive("a")
        await act("wait")
        first.cancel()
        second.cancel()
        return [pending("a"), await receive("a"), await receive("a"), await receive("a")]

    h = run(dropping)
    turn = h.start()
    h.activate(signal("a", 1), signal("a", 2), signal("a", 3))
    h.activate(resolve(turn.commands[0], ""))
    assert h.result == [3, 1, 2, 3]


def test_m1_given_back_a_signal_goes_to_one_that_waits_already(run: Start) -> None:
    @workflow
    async def dropping() -> list[Any]:
        first, second = receive("a"), receive("a")
        await act("wait")
        first.cancel()
        return [pending("a"), await second]

    h = run(dropping)
    turn = h.start()
    h.activate(signal("a", 1))
    h.activate(resolve(turn.commands[0], ""))
    assert h.result == [0, 1]


def test_m1_what_was_read_does_not_come_back(run: Start) -> None:
    @workflow
    async def reading() -> list[Any]:
        first = receive("a")
        seen = [await first]
        first.cancel()
        second = receive("a")
        await act("wait")
        seen.append(second.result())
        second.cancel()
        return [*seen, pending("a")]

    h = run(reading)
    h.start()
    turn = h.activate(signal("a", 1), signal("a", 2))
    h.activate(resolve(asked(turn)[0], ""))
    assert h.result == [1, 2, 0]


def test_m1_a_receive_that_was_cancelled_waiting_takes_no_signal(run: Start) -> None:
    @workflow
    async def giving_up() -> list[Any]:
        waiting: list[asyncio.Future[Any]] = []
        async with scope() as region:
            waiting.append(receive("a"))
            region.cancel()
        await sleep(1)
        return [waiting[0].cancelled(), pending("a"), await receive("a")]

    h = run(giving_up)
    turn = h.start(signal("a", 1))
    h.activate(fire(turn.commands[0]))
    assert h.result == [True, 1, 1]


def test_m1_wait_for_around_a_receive_gives_up_and_loses_nothing(run: Start) -> None:
    @workflow
    async def limited() -> list[Any]:
        try:
            await asyncio.wait_for(receive("a"), 5)
        except TimeoutError:
            return ["timeout", await receive("a")]
        return ["in time"]

    h = run(limited)
    turn = h.start()
    h.activate(fire(turn.commands[0]), signal("a", 4))
    assert h.result == ["timeout", 4]
