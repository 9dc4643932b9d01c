"""Seed 000, the last requirement of its tests: calls out of turn are violations, and nothing is emitted (K14)."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

import pytest

import perdure
from perdure import SchedulerViolation, activity, parallel, publish, sleep, wait_until, workflow
from perdure.testing import Harness, resolve
from tests.kernel.telling import act, told

CALLS: dict[str, Callable[[], object]] = {
    "publish": lambda: publish("stolen"),
    "activity": lambda: act("stolen"),
    "sleep": lambda: sleep(1),
    "patched": lambda: perdure.patched("stolen"),
    "now": lambda: perdure.now(),
    "random": lambda: perdure.random(),
}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


def borrowing(call: Callable[[], object], *, swallowing: bool = False) -> Any:
    """A workflow whose second branch calls in the name of the first, after the gate of that branch."""
    lent: list[contextvars.Context] = []

    async def lender() -> None:
        lent.append(contextvars.copy_context())
        await act("lender's gate")

    async def borrower() -> None:
        await act("gate")
        try:
            lent[-1].run(call)
        except SchedulerViolation:
            if not swallowing:
                raise
        publish("went on")

    @workflow
    async def lending() -> None:
        await parallel(lender(), borrower())

    return lending


@every_call
@pytest.mark.parametrize("swallowing", [False, True])
def test_k14_a_call_in_the_name_of_a_unit_that_has_not_the_step_drops_the_turn(
    call: Callable[[], object], swallowing: bool
) -> None:
    h = Harness(borrowing(call, swallowing=swallowing))
    h.start()
    with pytest.raises(SchedulerViolation, match="/p0"):
        h.activate(resolve(1, ""))
    assert (h.status, len(h.transcript.turns)) == ("running", 1)
    assert h.activate(resolve(0, "")).commands == []


def test_k14_a_unit_that_has_the_step_again_may_use_the_context_that_it_kept() -> None:
    @workflow
    async def keeping() -> None:
        kept = contextvars.copy_context()
        await act("gate")
        kept.run(publish, "mine")

    h = Harness(keeping)
    h.start()
    assert told(h.activate(resolve(0, ""))) == ['publish ["mine"]', "complete [null]"]


@every_call
def test_k14_a_predicate_that_emits_drops_the_turn(call: Callable[[], object]) -> None:
    """K14, K17: it may look and not act; what only looks passes."""
    looks = call is CALLS["now"]

    @workflow
    async def waiting() -> None:
        def predicate() -> bool:
            call()
            return True

        await act("gate")
        await wait_until(predicate)

    h = Harness(waiting)
    h.start()
    if looks:
        assert told(h.activate(resolve(0, ""))) == ["complete [null]"]
    else:
        with pytest.raises(SchedulerViolation, match="predicate"):
            h.activate(resolve(0, ""))
        assert (h.status, len(h.transcript.turns)) == ("running", 1)


@pytest.mark.parametrize("name", [name for name in CALLS if name != "activity"])
def test_k14_between_turns_and_in_plain_code_a_call_is_refused_and_the_run_is_unharmed(name: str) -> None:
    h = Harness(borrowing(lambda: None))
    h.start()
    with pytest.raises(SchedulerViolation, match="outside a workflow"):
        CALLS[name]()
    assert told(h.activate(resolve(1, ""))) == ['publish ["went on"] @/p1']


def test_k14_an_activity_that_calls_the_api_gets_the_violation_itself() -> None:
    @activity
    async def lost() -> str:
        return str(perdure.uuid4())

    async def outside() -> str:
        return await lost()

    with pytest.raises(SchedulerViolation, match="outside a workflow"):
        asyncio.run(outside())


@pytest.mark.parametrize("name", [name for name in CALLS if name != "activity"])
def test_k14_another_thread_gets_the_violation_itself_and_the_turn_goes_on(name: str) -> None:
    """K14: the thread is one of the host's; it calls while the unit has the step, and in the context of that unit."""
    lent: list[contextvars.Context] = []
    caught: list[BaseException] = []
    asked, answered = threading.Event(), threading.Event()

    def intrude() -> None:
        asked.wait(10)
        try:
            lent[-1].run(CALLS[name])
        except BaseException as error:
            caught.append(error)
        answered.set()

    def let_it_intrude() -> bool:
        asked.set()
        return answered.wait(10)

    @workflow
    async def lending() -> None:
        lent.append(contextvars.copy_context())
        publish(perdure.side_effect("intrusion", let_it_intrude))

    thread = threading.Thread(target=intrude)
    thread.start()
    turn = Harness(lending).start()
    thread.join()
    assert told(turn) == ["record_side_effect intrusion [true]", "publish [true]", "complete [null]"]
    assert [type(error) for error in caught] == [SchedulerViolation]
