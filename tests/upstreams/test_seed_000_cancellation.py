"""Seed 000, cancellation: what the upstream's own tests ask of timers, activities, branches and clean-up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import cancelled as is_cancelled
from perdure import child, parallel, scope, shielded, sleep, workflow
from perdure.testing import cancel, cancelled, fire, resolve
from tests.kernel.telling import Start, abandons, act, told, waits


@workflow
async def sleeper() -> None:
    await sleep(60)


def test_m6_a_sleeping_run_cancels_its_timer_and_then_itself(run: Start) -> None:
    h = run(sleeper)
    h.start()
    assert told(h.activate(cancel())) == ["cancel_timer#0", "cancel"]
    assert h.status == "cancelled"


def test_m6_a_run_that_is_cancelled_before_it_began_asks_for_nothing(run: Start) -> None:
    h = run(sleeper)
    assert told(h.start(cancel())) == ["cancel"]


def test_m6_a_timer_that_was_cancelled_may_still_fire_and_nobody_hears_it(run: Start) -> None:
    @workflow
    async def outliving() -> bool:
        async with scope() as region:
            timer = sleep(60)
            region.cancel()
            await timer
        return bool(await act("after"))

    h = run(outliving)
    assert told(h.start()) == ["start_timer#0 [60]", "cancel_timer#0", 'schedule_activity#1 act ["after"]']
    assert h.activate(fire(0)).commands == []
    assert h.dropped == 1
    h.activate(resolve(1, "x"))
    assert h.result is True


def test_m6_clean_up_behind_a_shield_runs_to_its_end_before_the_run_is_cancelled(run: Start) -> None:
    @workflow
    async def tidy() -> None:
        try:
            await act("work")
        finally:
            async with shielded():
                await act("clean up")
                await sleep(1)

    h = run(tidy)
    h.start()
    assert told(h.activate(cancel())) == ["cancel_activity#0", 'schedule_activity#1 act ["clean up"]']
    assert told(h.activate(resolve(1, ""))) == ["start_timer#2 [1]"]
    assert told(h.activate(fire(2))) == ["cancel"]


@pytest.mark.parametrize("pause", ["sleep", "activity", "child", "branches"])
def test_m6_what_is_asked_for_after_the_cancellation_fails_at_once_and_emits_nothing(run: Start, pause: str) -> None:
    pauses: dict[str, Any] = {
        "sleep": lambda: sleep(5),
        "activity": lambda: act("second"),
        "child": lambda: child(sleeper),
        "branches": lambda: parallel(act("a"), act("b")),
    }

    @workflow
    async def insisting(pause: str) -> str:
        try:
            await sleep(60)
        except asyncio.CancelledError:
            try:
                await pauses[pause]()
            except asyncio.CancelledError:
                return "refused twice"
        return "slept"

    h = run(insisting, pause)
    h.start()
    assert told(h.activate(cancel())) == ["cancel_timer#0", 'complete ["refused twice"]']
    assert h.status == "completed"


def test_m6_timers_of_branches_are_cancelled_in_branch_order_whatever_they_were_started_in(run: Start) -> None:
    async def branch(gate: str) -> None:
        await act(gate)
        await sleep(60)

    @workflow
    async def wide() -> None:
        await parallel(branch("a"), branch("b"), branch("c"))

    h = run(wide)
    h.start()
    for seq in (2, 0, 1):
        h.activate(resolve(seq, ""))
    turn = h.activate(cancel())
    assert told(turn) == ["cancel_timer#4 @/p0", "cancel_timer#5 @/p1", "cancel_timer#3 @/p2", "cancel"]


@workflow
async def by_contract(kind: str) -> str:
    called = {"try": act, "wait": waits, "abandon": abandons}[kind]("work")
    try:
        return await called
    except asyncio.CancelledError:
        return f"cancelled={is_cancelled()}"


def test_m6_an_activity_that_is_only_asked_lets_its_run_go_on_at_once_and_its_answer_is_dropped(run: Start) -> None:
    @workflow
    async def asking_only() -> None:
        try:
            await act("work")
        finally:
            async with shielded():
                await act("clean up")

    h = run(asking_only)
    h.start()
    assert told(h.activate(cancel())) == ["cancel_activity#0", 'schedule_activity#1 act ["clean up"]']
    assert h.activate(resolve(0, "too late")).commands == []
    assert h.dropped == 1
    h.activate(resolve(1, ""))
    assert h.status == "cancelled"


@pytest.mark.parametrize("end", ["cancelled", "finished"])
def test_m6_an_activity_that_is_waited_for_keeps_its_run_until_it_has_ended(run: Start, end: str) -> None:
    h = run(by_contract, "wait")
    h.start()
    assert told(h.activate(cancel())) == ["cancel_activity#0"]
    assert not h.done
    h.activate(cancelled(0) if end == "cancelled" else resolve(0, "finished"))
    assert h.result == ("cancelled=True" if end == "cancelled" else "finished")


def test_m6_an_activity_that_is_abandoned_is_asked_nothing(run: Start) -> None:
    h = run(by_contract, "abandon")
    h.start()
    assert told(h.activate(cancel())) == ['complete ["cancelled=True"]']


def test_m6_a_run_may_hear_of_its_cancellation_and_finish_all_the_same(run: Start) -> None:
    h = run(by_contract, "try")
    h.start()
    assert told(h.activate(cancel("why not"))) == ["cancel_activity#0", 'complete ["cancelled=True"]']
    assert (h.status, h.result) == ("completed", "cancelled=True")


def test_m6_branches_that_clean_up_are_all_waited_for_and_each_cleans_up_once(run: Start) -> None:
    async def branch(name: str) -> str:
        try:
            return await act(name)
        finally:
            async with shielded():
                await act(f"undo {name}")

    @workflow
    async def undoing() -> None:
        await parallel(branch("a"), branch("b"))

    h = run(undoing)
    h.start()
    assert told(h.activate(cancel())) == [
        "cancel_activity#0 @/p0",
        "cancel_activity#1 @/p1",
        'schedule_activity#2 act ["undo a"] @/p0',
        'schedule_activity#3 act ["undo b"] @/p1',
    ]
    assert h.activate(resolve(3, "")).commands == []
    assert told(h.activate(resolve(2, ""))) == ["cancel"]
