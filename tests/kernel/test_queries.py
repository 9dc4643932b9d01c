"""M3: queries read and never write, and what goes wrong in one fails only itself."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

import perdure
from perdure import get_state, info, now, pending, publish, receive, set_state, side_effect, wait_until, workflow
from perdure.testing import Harness, cancel, evict, query, resolve, signal, update
from tests.kernel.telling import Start, act, answers, told


@workflow
class Asked:
    def __init__(self) -> None:
        self.notes: list[str] = ["made"]

    async def run(self, ends: str) -> str:
        set_state("began", 1)
        self.notes.append(await receive("note", str))
        if ends == "fails":
            raise ValueError("as asked")
        return "done"

    @perdure.query
    def seen(self, sep: str = ",") -> str:
        return sep.join(self.notes)

    @perdure.query
    def reads(self) -> list[Any]:
        return [now().year, info().workflow, get_state("began", int), pending("other"), perdure.cancelled()]

    @perdure.query
    def misbehaves(self, how: str) -> Any:
        return MISBEHAVIOURS[how]()

    @perdure.query
    def swallows(self, how: str) -> str:
        try:
            MISBEHAVIOURS[how]()
        except Exception as error:
            return type(error).__name__
        return "nothing was refused"

    @perdure.update
    def add(self, note: str) -> int:
        self.notes.append(note)
        return len(self.notes)


MISBEHAVIOURS: dict[str, Any] = {
    "publish": lambda: publish("x"),
    "state": lambda: set_state("k", 1),
    "activity": lambda: act("x"),
    "receive": lambda: receive("a"),
    "promise": lambda: perdure.promise("p"),
    "sleep": lambda: perdure.sleep(1),
    "random": lambda: perdure.random().random(),
    "uuid4": lambda: perdure.uuid4(),
    "patched": lambda: perdure.patched("p"),
    "side_effect": lambda: side_effect("s", int),
    "continue_as_new": lambda: perdure.continue_as_new("x"),
    "child": lambda: perdure.child(perdure_child),
    "signal": lambda: perdure.run_of("other").signal("x"),
    "scope": lambda: perdure.scope(),
    "call_later": lambda: asyncio.get_running_loop().call_later(1, print),
}


@workflow
async def perdure_child() -> None: ...


def test_m3_a_query_turn_advances_nothing_and_is_not_recorded(run: Start) -> None:
    h = run(Asked, "well")
    h.start()
    turn = h.activate(query("seen", id="q-1"), query("seen", "+", id="q-2"))
    assert turn.commands == []
    assert answers(turn) == [("q-1", "query", "made"), ("q-2", "query", "made")]
    assert len(h.transcript.turns) == 1


def test_m3_a_query_is_answered_after_the_messages_of_its_turn(run: Start) -> None:
    h = run(Asked, "well")
    h.start()
    turn = h.activate(query("seen", id="q"), update("add", "x"))
    assert answers(turn)[-1] == ("q", "query", "made,x")


def test_m3_a_query_may_read_what_the_run_knows(run: Start) -> None:
    h = run(Asked, "well")
    h.start(signal("other"), signal("other"))
    assert answers(h.activate(query("reads"))) == [("query-1", "query", [2026, "Asked", 1, 2, False])]


@pytest.mark.parametrize("ends", ["well", "fails"])
def test_m3_queries_answer_after_the_run_has_ended(run: Start, ends: str) -> None:
    h = run(Asked, ends)
    h.start()
    h.activate(signal("note", "n"))
    assert h.done
    assert answers(h.activate(query("seen", id="q"))) == [("q", "query", "made,n")]


def test_m3_queries_answer_after_a_cancellation_and_after_an_eviction(run: Start) -> None:
    h = run(Asked, "well")
    h.start()
    h.activate(evict())
    assert answers(h.activate(query("seen", id="q"))) == [("q", "query", "made")]
    h.activate(cancel())
    h.activate(evict())
    assert (h.status, answers(h.activate(query("seen", id="q")))) == ("cancelled", [("q", "query", "made")])


def test_m3_a_query_with_an_eviction_is_answered_first(run: Start) -> None:
    h = run(Asked, "well")
    h.start()
    assert answers(h.activate(evict(), query("seen", id="q"))) == [("q", "query", "made")]


@pytest.mark.parametrize("how", sorted(MISBEHAVIOURS))
def test_m3_a_query_that_emits_fails_only_itself(run: Start, how: str) -> None:
    h = run(Asked, "well")
    h.start()
    turn = h.activate(query("misbehaves", how, id="bad"), query("seen", id="good"))
    assert answers(turn) == [("bad", "query", "SchedulerViolation"), ("good", "query", "made")]
    turn = h.activate(query("swallows", how, id="bad"))
    assert (turn.commands, answers(turn)) == ([], [("bad", "query", "SchedulerViolation")])
    assert told(h.activate(signal("note", "n"))) == ['complete ["done"]']


def test_m3_a_query_that_makes_a_task_fails_only_itself(run: Start) -> None:
    @workflow
    class Tasks:
        async def run(self) -> str:
            return await receive("end", str)

        @perdure.query
        def task(self) -> None:
            self.kept = asyncio.ensure_future(self.body())

        async def body(self) -> None: ...

    h = run(Tasks)
    h.start()
    assert answers(h.activate(query("task", id="q"))) == [("q", "query", "SchedulerViolation")]
    h.activate(signal("end", "well"))
    assert h.result == "well"


def test_m3_what_goes_wrong_in_a_query_fails_only_itself(run: Start) -> None:
    @workflow
    class Wrong:
        async def run(self) -> str:
            await wait_until(lambda: pending("end") > 0)
            return "well"

        @perdure.query
        def raises(self) -> None:
            raise KeyError("k")

        @perdure.query
        def unusable(self) -> Any:
            return {1, 2}

        @perdure.query
        def needs(self, number: int) -> int:
            return number

    h = run(Wrong)
    h.start()
    asked = [query("raises", id="a"), query("unusable", id="b"), query("needs", "x", id="c"), query("no", id="d")]
    kinds = [(one[0], one[2]) for one in answers(h.activate(*asked, query("needs", 3, id="e")))]
    assert kinds == [("a", "KeyError"), ("b", "InvalidValue"), ("c", "InvalidValue"), ("d", "NotFound"), ("e", 3)]
    h.activate(signal("end"))
    assert h.result == "well"


def test_m3_an_unknown_query_is_told_which_there_are(run: Start) -> None:
    h = run(Asked, "well")
    h.start()
    (answer,) = h.activate(query("sen")).answers
    assert answer.error is not None
    assert "misbehaves, reads, seen, swallows" in answer.error.message


def test_m3_a_query_that_raises_in_a_turn_with_jobs_leaves_the_turn_alone() -> None:
    @workflow
    class Timed:
        async def run(self) -> str:
            return await act("x")

        @perdure.query
        def clock(self) -> float:
            return time.time()

        @perdure.query
        def raises(self) -> float:
            raise ValueError

    h = Harness(Timed)
    turn = h.start(query("raises"), query("clock"))
    assert told(turn) == ['schedule_activity#0 act ["x"]']
    h.activate(resolve(turn.commands[0], "y"), query("raises"))
    assert h.result == "y"
