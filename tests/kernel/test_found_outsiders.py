"""K14: another thread, and whoever calls between the turns, cannot touch a run: it raises there, and only there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from perdure import SchedulerViolation, child, parallel, promise, publish, receive, scope, sleep, workflow
from perdure.testing import Harness, resolve, signal
from tests.kernel.telling import act, told, waits

LENT: dict[str, Any] = {}


def make_a_task() -> None:
    late: Coroutine[Any, Any, None] = LENT["late"]()
    LENT["loop"].create_task(late)


ATTACKS: dict[str, Callable[[], object]] = {
    "cancel an activity": lambda: LENT["activity"].cancel(),
    "cancel an activity that is waited for": lambda: LENT["waits"].cancel(),
    "cancel a timer": lambda: LENT["timer"].cancel(),
    "cancel a receiver": lambda: LENT["receiver"].cancel(),
    "cancel a promise": lambda: LENT["promise"].cancel(),
    "cancel a child": lambda: LENT["child"].cancel(),
    "signal a child": lambda: LENT["child"].signal("hello"),
    "cancel a task": lambda: LENT["task"].cancel(),
    "cancel a scope": lambda: LENT["scope"].cancel(),
    "cancel a plain future": lambda: LENT["future"].cancel(),
    "answer an activity": lambda: LENT["activity"].set_result("stolen"),
    "fail an activity that is waited for": lambda: LENT["waits"].set_exception(ValueError("stolen")),
    "answer a timer": lambda: LENT["timer"].set_result(None),
    "answer a receiver": lambda: LENT["receiver"].set_result("stolen"),
    "answer a plain future": lambda: LENT["future"].set_result("stolen"),
    "fail a plain future": lambda: LENT["future"].set_exception(ValueError("stolen")),
    "call the loop soon": lambda: LENT["loop"].call_soon(print),
    "call the loop later": lambda: LENT["loop"].call_later(1, print),
    "make a task": make_a_task,
    "make a task from a thread": lambda: LENT["loop"].call_soon_threadsafe(print),
}
every_attack = pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)


@workflow
async def idle() -> None: ...


def lending(meanwhile: Callable[[], object]) -> Any:
    """A workflow that lends everything it has, and then waits: for `meanwhile`, and at a gate."""

    @workflow
    async def lender() -> None:
        LENT["loop"] = asyncio.get_running_loop()
        LENT["activity"] = act("one")
        LENT["waits"] = waits("two")
        LENT["timer"] = sleep(60)
        LENT["receiver"] = receive("word", str)
        LENT["promise"] = promise("vow", int)
        LENT["child"] = child(idle)
        LENT["future"] = LENT["loop"].create_future()

        async def late() -> None:
            publish("late")

        LENT["late"] = late
        LENT["task"] = asyncio.create_task(parallel(act("three"), act("four")))
        async with scope() as region:
            LENT["scope"] = region
            await asyncio.sleep(0)
            meanwhile()
            await act("gate")

    return lender


@every_attack
def test_k14_between_the_turns_nothing_of_a_run_can_be_touched(attack: Callable[[], object]) -> None:
    h = Harness(lending(lambda: None))
    h.start()
    with pytest.raises(SchedulerViolation):
        attack()
    assert told(h.activate(signal("nothing"))) == []
    assert len(h.replay().waiting()) == len(h.waiting())


@every_attack
def test_k14_another_thread_is_refused_in_that_thread_and_the_turn_goes_on(attack: Callable[[], object]) -> None:
    lent, done = threading.Event(), threading.Event()
    caught: list[BaseException] = []

    def thief() -> None:
        lent.wait(10)
        try:
            attack()
        except BaseException as error:
            caught.append(error)
        done.set()

    thread = threading.Thread(target=thief)
    thread.start()

    def meanwhile() -> None:
        lent.set()
        done.wait(10)

    untouched = Harness(lending(lambda: None)).start().commands
    h = Harness(lending(meanwhile), turn_limit=None)
    turn = h.start()
    thread.join()
    assert [isinstance(error, SchedulerViolation) for error in caught] == [True]
    assert [(one.kind, one.seq, one.unit) for one in turn.commands] == [
        (one.kind, one.seq, one.unit) for one in untouched
    ]
    assert h.replay().status == "running"


def test_k14_an_answer_from_outside_does_not_wake_a_future_of_the_run() -> None:
    @workflow
    async def plainly() -> str:
        LENT["plain"] = asyncio.get_running_loop().create_future()
        return await LENT["plain"]

    h = Harness(plainly)
    h.start()
    with pytest.raises(SchedulerViolation, match="between its turns"):
        LENT["plain"].set_result("stolen")
    assert (told(h.activate(signal("nothing"))), h.done) == ([], False)


@every_attack
def test_k14_what_outsiders_could_not_touch_is_answered_later(attack: Callable[[], object]) -> None:
    h = Harness(lending(lambda: None))
    turn = h.start()
    with pytest.raises(SchedulerViolation):
        attack()
    open_activities = [one for one in turn.commands if one.kind == "schedule_activity"]
    assert len(open_activities) == 5
    h.activate(*[resolve(one, one.name) for one in open_activities])
    assert (h.dropped, h.status) == (0, "completed")
    assert [LENT["activity"].result(), LENT["waits"].result(), LENT["future"].done()] == ["act", "waits", False]


@pytest.mark.parametrize("settle", ["set_result", "set_exception"])
def test_k7_only_an_answer_settles_what_was_asked_of_the_outside(settle: str) -> None:
    """As with a task: workflow code that tries gets an error, and the answer is not lost."""

    @workflow
    async def impatient() -> list[str]:
        future, word = act("slow"), receive("word", str)
        for one in (future, word):
            with pytest.raises(RuntimeError, match=f"does not support {settle}"):
                getattr(one, settle)(ValueError("own"))
        return [await future, await word]

    h = Harness(impatient)
    turn = h.start()
    h.activate(resolve(turn.commands[0], "answered"), signal("word", "said"))
    assert h.result == ["answered", "said"]
    assert h.replay().result == ["answered", "said"]
