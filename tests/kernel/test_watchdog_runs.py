"""The watchdog around turns of runs (K14, K18), and under debuggers.

Real time is measured, so the limits are real and small; turns spin, nothing sleeps.
"""

from __future__ import annotations

import bdb
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from perdure import parallel, query, receive, watchdog, workflow
from perdure import testing as tell
from perdure.errors import TurnTimeout
from perdure.testing import Harness, evict, signal
from perdure.watchdog import Watchdog

LIMIT = 0.03
LONG = 20.0  # what a test that hangs would take


def spin(seconds: float = LONG) -> None:
    """Python code that runs so long, unless it is interrupted."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def spin_until(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + LONG
    while not reached() and time.monotonic() < end:
        pass
    assert reached()


# --- debuggers ------------------------------------------------------------------------------------


class SampleDebugger(bdb.Bdb):
    """Follows every frame, stops nowhere."""

    def trace_dispatch(self, frame: Any, event: str, arg: Any) -> Any:
        return self.trace_dispatch


class QuickDebugger(bdb.Bdb):
    """Follows no frame, because it has no breakpoint in any."""

    def trace_dispatch(self, frame: Any, event: str, arg: Any) -> Any:
        return None


def coverage_like(_frame: Any, _event: str, _arg: Any) -> Any:
    return None


@pytest.fixture
def keeps_trace() -> Iterator[None]:
    trace = sys.gettrace()
    yield
    sys.settrace(trace)


@pytest.mark.usefixtures("keeps_trace")
@pytest.mark.parametrize("kind", [SampleDebugger, QuickDebugger])
def test_it_is_off_under_a_debugger(kind: type[bdb.Bdb]) -> None:
    """K14: a person may look at a turn for as long as they like."""
    debugger = kind()

    def turn() -> str:
        spin(LIMIT * 4)
        return "not stopped"

    sys.settrace(debugger.trace_dispatch)
    found = Watchdog(LIMIT).run(turn)
    sys.settrace(None)
    assert found == "not stopped"


@pytest.mark.usefixtures("keeps_trace")
def test_it_is_off_once_a_debugger_was_attached_within_the_turn() -> None:
    """K14: `breakpoint()` in a workflow does not kill the turn."""
    debugger = SampleDebugger()

    def turn() -> str:
        sys._getframe().f_trace = debugger.trace_dispatch  # pyright: ignore[reportPrivateUsage]
        sys.settrace(debugger.trace_dispatch)
        spin(LIMIT * 4)
        return "not stopped"

    found = Watchdog(LIMIT).run(turn)
    sys.settrace(None)
    assert found == "not stopped"


@pytest.mark.usefixtures("keeps_trace")
def test_a_trace_function_that_is_no_debugger_leaves_it_on() -> None:
    """K14: coverage tools trace as well, and are told apart by their module."""
    sys.settrace(coverage_like)
    with pytest.raises(TurnTimeout):
        Watchdog(LIMIT).run(spin)
    assert watchdog.is_debugger(SampleDebugger().trace_dispatch)
    assert not watchdog.is_debugger(coverage_like)


# --- in a run -------------------------------------------------------------------------------------


@workflow
async def spins_on_demand() -> list[bool]:
    """Spins for ever in each of its branches if the first signal says so."""

    async def branch() -> bool:
        while await receive("spin", bool):
            while True:
                pass
        return False

    return await parallel(branch(), branch())


def test_a_run_whose_turn_was_stopped_goes_on_from_its_record() -> None:
    """K14: the turn is dropped, the run is not failed by it."""
    run = Harness(spins_on_demand, turn_limit=LIMIT)
    run.start()
    with pytest.raises(TurnTimeout, match="turn 1 of `spins_on_demand` did not give control back"):
        run.activate(signal("spin", True), signal("spin", True))
    assert not run.done
    run.activate(signal("spin", False), signal("spin", False))
    assert run.result == [False, False]


def test_a_turn_in_which_many_branches_spin_is_stopped_at_once() -> None:
    """K14: the interrupt ends the turn, not the one branch that it meets."""
    looks: list[int] = []

    @workflow
    async def many() -> None:
        async def branch(number: int) -> None:
            looks.append(number)
            while True:
                pass

        await parallel(*(branch(number) for number in range(50)))

    with pytest.raises(TurnTimeout):
        Harness(many, turn_limit=LIMIT).start()
    assert looks == [0]


class Evicting(Watchdog):
    """Every turn may abandon what is interrupted, as that of an eviction may."""

    def run(self, turn: Callable[[], Any], name: object = "the turn", *, abandons: bool = True) -> Any:
        return super().run(turn, name, abandons=abandons)


def test_an_eviction_stops_a_coroutine_that_goes_on_regardless(monkeypatch: pytest.MonkeyPatch) -> None:
    """K18: at the turn's limit it is abandoned; it emits nothing, and the others are closed."""
    closed: list[str] = []

    @workflow
    async def clings() -> None:
        async def one(name: str) -> None:
            try:
                await receive(name, str)
            finally:
                closed.append(name)
                while name == "b":
                    pass

        await parallel(one("a"), one("b"), one("c"))

    monkeypatch.setattr("perdure.testing.harness.Watchdog", Evicting)
    run = Harness(clings, turn_limit=LIMIT)
    run.start()
    run.activate(evict())
    assert sorted(closed) == ["a", "b", "c"]
    assert [report for report in run.reports if "/p1" in report and "abandoned" in report]


@workflow
class Asked:
    """A query of it never ends."""

    closed = 0

    def __init__(self) -> None:
        self.seen = 0

    async def run(self) -> int:
        try:
            while self.seen < 3:
                self.seen += await receive("add", int)
        except GeneratorExit:
            Asked.closed += 1
            raise
        return self.seen

    @query
    def sees(self) -> int:
        return self.seen

    @query
    def hangs(self) -> int:
        self.seen += 100
        while True:
            pass


def test_m3_a_query_that_never_ends_fails_only_itself() -> None:
    """K14, M3: it is stopped; the turn that it came with, the other queries and the run know nothing of it."""
    run = Harness(Asked, turn_limit=LIMIT)
    run.start()
    turn = run.activate(signal("add", 1), tell.query("sees"), tell.query("hangs"), tell.query("sees"))
    assert [(one.value, one.error and one.error.type) for one in turn.answers] == [
        (1, None),
        (None, "TurnTimeout"),
        (1, None),
    ]
    assert turn.answers[1].error is not None
    assert "test_watchdog_runs.py" in turn.answers[1].error.message
    assert turn.number == 1
    Asked.closed = 0
    only = run.activate(tell.query("hangs"), tell.query("sees"), evict())
    assert [one.error and one.error.type for one in only.answers] == ["TurnTimeout", None]
    assert Asked.closed == 3  # two copies in which the query hung, and the one that answered the other
    run.activate(signal("add", 2))
    assert run.result == 3
    assert [record.turn for record in run.transcript.turns] == [0, 1, 2]
    assert run.replay().result == 3
    after = run.activate(tell.query("hangs"), tell.query("sees"))
    assert [(one.value, bool(one.error)) for one in after.answers] == [(None, True), (3, False)]


def test_k14_a_turn_that_never_ends_is_dropped_whatever_is_asked_with_it() -> None:
    run = Harness(spins_on_demand, turn_limit=LIMIT)
    run.start()
    with pytest.raises(TurnTimeout, match="turn 1 of"):
        run.activate(signal("spin", True), tell.query("none"))
    run.activate(signal("spin", False), signal("spin", False))
    assert run.result == [False, False]
