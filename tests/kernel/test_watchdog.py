"""The watchdog (K14): a turn over its limit is stopped at its line, and nothing comes out after it.

Real time is what is measured here, so the limits are real and small; turns spin, nothing sleeps.
"""

from __future__ import annotations

import math
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from perdure import watchdog
from perdure.errors import TurnTimeout, UsageError
from perdure.kernel.callsite import is_workflow_code
from perdure.watchdog import TurnInterrupt, Watchdog

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


def line_of(function: Callable[..., object], offset: int) -> int:
    return function.__code__.co_firstlineno + offset


# --- what is stopped, and what it says ----------------------------------------------------------


def endless_total() -> int:
    total = 0
    while True:
        total += 1


def test_a_turn_over_its_limit_is_stopped_and_the_message_holds_its_stack() -> None:
    """K14: the stack of the line that holds the turn."""

    def checkout() -> int:
        return endless_total()

    with pytest.raises(TurnTimeout) as caught:
        Watchdog(LIMIT).run(checkout, "turn 3 of run order-1")
    text = str(caught.value)
    first, *stack = text.splitlines()
    assert first.startswith(f"turn 3 of run order-1 did not give control back within 0.03 s; it stands at {__file__}:")
    assert first.endswith(" in endless_total:")
    assert stack[0].startswith(f"  {__file__}:{line_of(endless_total, 2)} in endless_total: while True:") or stack[
        0
    ].startswith(f"  {__file__}:{line_of(endless_total, 3)} in endless_total: total += 1")
    assert stack[1].startswith(f"  {__file__}:{line_of(checkout, 1)} in test_a_turn_over_its_limit")
    assert stack[1].endswith("checkout: return endless_total()")
    assert "Watchdog(LIMIT).run" not in text  # what called the turn is no part of it
    assert "an activity" in stack[-1]


def test_only_the_frames_of_workflow_code_are_shown() -> None:
    """K14: a turn that spends its time in a library is shown at its own line."""

    def workflow() -> None:
        shlex.split("a" * 9_000_000)  # makes nothing for the garbage collector, whose callbacks swallow an interrupt

    with pytest.raises(TurnTimeout) as caught:
        Watchdog(LIMIT, is_workflow_code=is_workflow_code).run(workflow)
    assert f"it stands at {__file__}:{line_of(workflow, 1)} in" in str(caught.value)
    assert "shlex.py" not in str(caught.value)


def test_what_is_no_workflow_code_is_given_twice_the_limit() -> None:
    """K14: the kernel is not interrupted while it tidies up after a turn; one that hangs is."""

    def nothing_is(_file: str) -> bool:
        return False

    guard = Watchdog(LIMIT * 2, is_workflow_code=nothing_is)
    assert guard.run(lambda: spin(LIMIT * 3)) is None
    with pytest.raises(TurnTimeout):
        guard.run(spin)


def test_a_turn_within_its_limit_keeps_its_value_and_its_errors() -> None:
    """K14: the watchdog changes nothing about a turn that gives control back."""

    def fails() -> None:
        raise KeyError("its own")

    assert Watchdog(LONG).run(lambda: 42) == 42
    with pytest.raises(KeyError, match="its own"):
        Watchdog(LONG).run(fails)


@pytest.mark.parametrize("limit", [None, 0, 0.0])
def test_no_limit_is_no_limit(limit: float | None) -> None:
    """K14: None or 0 turns it off; a limit of another watchdog is none of its business."""
    with pytest.raises(TurnTimeout):
        Watchdog(LIMIT).run(spin)
    assert Watchdog(limit).run(lambda: spin(LIMIT * 3)) is None


@pytest.mark.parametrize("limit", [-1, math.nan, math.inf])
def test_a_limit_that_is_none_is_refused(limit: float) -> None:
    with pytest.raises(UsageError, match="number of seconds"):
        Watchdog(limit)


def test_a_turn_is_timed_by_itself_and_not_by_what_ran_before() -> None:
    """K14: the limit is per turn: many short ones may take longer together."""
    guard = Watchdog(LIMIT * 3)
    for _ in range(10):
        guard.run(lambda: spin(LIMIT))


# --- code that swallows -------------------------------------------------------------------------


def test_except_exception_does_not_swallow_the_interrupt() -> None:
    """K14: stopped also where workflow code catches every Exception."""

    def stubborn() -> None:
        while True:
            try:
                spin()
            except Exception:
                continue

    with pytest.raises(TurnTimeout):
        Watchdog(LIMIT).run(stubborn)


def test_what_swallows_everything_is_interrupted_again_until_it_ends() -> None:
    """K14: an interrupt that is caught comes again; the turn fails even if it returns a value in the end."""
    caught: list[BaseException] = []

    def stubborn() -> str:
        while len(caught) < 5:
            try:
                spin()
            except BaseException as error:
                caught.append(error)
        return "a value after all"

    with pytest.raises(TurnTimeout):
        Watchdog(LIMIT).run(stubborn)
    assert [type(error) for error in caught] == [TurnInterrupt] * 5


def test_an_error_that_the_interrupt_was_turned_into_is_the_cause() -> None:
    """K14: nothing is lost of what the code made of the interrupt."""

    def translates() -> None:
        try:
            spin()
        except BaseException:
            raise ValueError("made of it") from None

    with pytest.raises(TurnTimeout) as caught:
        Watchdog(LIMIT).run(translates)
    assert str(caught.value.__cause__) == "made of it"


def test_ctrl_c_during_a_turn_over_its_limit_is_still_ctrl_c() -> None:
    """K14: the interrupt is told from a KeyboardInterrupt of the user's."""

    def pressed() -> None:
        try:
            spin()
        except TurnInterrupt:
            raise KeyboardInterrupt from None

    with pytest.raises(KeyboardInterrupt) as caught:
        Watchdog(LIMIT).run(pressed)
    assert type(caught.value) is KeyboardInterrupt


def test_an_eviction_that_abandons_what_was_interrupted_keeps_its_value() -> None:
    """K18: it has met the interrupt and gone on; one that has not met it times out like any turn."""

    def abandons_one() -> str:
        with pytest.raises(TurnInterrupt):
            spin()
        return "the others were closed"

    guard = Watchdog(LIMIT)
    assert guard.run(abandons_one, abandons=True) == "the others were closed"
    with pytest.raises(TurnTimeout):
        guard.run(spin, abandons=True)


# --- nothing comes out after a turn ---------------------------------------------------------------


@pytest.fixture
def switches_often() -> Iterator[None]:
    """Threads take turns every 50 µs, not every 5 ms: more ways for them to interleave."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.00005)
    yield
    sys.setswitchinterval(interval)


def around_the_limit(limit: float, turns: int) -> tuple[int, int, int]:
    """How many of so many turns were stopped, how many returned, how many interrupts came out."""
    guard = Watchdog(limit)
    stopped = returned = leaked = 0
    for number in range(turns):
        try:
            seconds = limit * (0.8 + (number % 29) / 12)
            try:
                guard.run(lambda seconds=seconds: spin(seconds))
                returned += 1
            except TurnTimeout:
                stopped += 1
            spin(limit / 20)
        except TurnInterrupt:
            leaked += 1
    return stopped, returned, leaked


@pytest.mark.usefixtures("switches_often")
def test_no_interrupt_comes_out_of_a_turn_that_ends_just_when_it_is_due() -> None:
    """K14: whatever the moment, it is TurnTimeout from `run`, or nothing."""
    stopped, returned, leaked = around_the_limit(0.002, 400)
    assert leaked == 0
    assert min(stopped, returned) > 40


def test_a_turn_that_ends_while_its_interrupt_is_being_sent_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """K14: the watchdog has decided, and the turn ends before the interrupt is there."""
    sends: Callable[[int, type[BaseException]], int] = vars(watchdog)["_raise_in_thread"]
    sending = threading.Event()

    def sends_late(thread: int, error: type[BaseException]) -> int:
        sending.set()
        spin(LIMIT)
        return sends(thread, error)

    monkeypatch.setattr(watchdog, "_raise_in_thread", sends_late)
    with pytest.raises(TurnTimeout):
        Watchdog(LIMIT).run(lambda: spin_until(sending.is_set))
    spin(LIMIT * 3)


@pytest.mark.usefixtures("switches_often")
def test_threads_with_turns_at_their_limits_do_not_disturb_each_other() -> None:
    """K14: one slot per thread: each is stopped for itself, and nothing comes out anywhere."""
    found: list[tuple[int, int, int]] = []
    threads = [threading.Thread(target=lambda: found.append(around_the_limit(0.004, 40))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [leaked for _, _, leaked in found] == [0, 0, 0, 0]
    assert all(stopped > 0 for stopped, _, _ in found)


def test_a_thread_without_a_turn_is_left_alone() -> None:
    """K14: only the thread that runs the turn is interrupted."""
    ends = threading.Event()
    counted: list[str] = []

    def bystander() -> None:
        while not ends.is_set():
            spin(0.001)
        counted.append("unharmed")

    thread = threading.Thread(target=bystander)
    thread.start()
    with pytest.raises(TurnTimeout):
        Watchdog(LIMIT).run(spin)
    ends.set()
    thread.join()
    assert counted == ["unharmed"]


def test_a_turn_inside_a_turn_is_stopped_without_the_outer_one() -> None:
    """K14: nested turns have limits of their own."""

    def outer() -> str:
        with pytest.raises(TurnTimeout, match="the inner one"):
            Watchdog(LIMIT).run(spin, "the inner one")
        return "went on"

    assert Watchdog(LONG).run(outer) == "went on"


def test_an_outer_turn_is_stopped_while_it_is_in_an_inner_one() -> None:
    """K14: the inner turn lets the interrupt of the outer one pass."""

    def outer() -> None:
        Watchdog(LONG).run(spin, "the inner one")

    with pytest.raises(TurnTimeout, match="the outer one"):
        Watchdog(LIMIT).run(outer, "the outer one")
    assert Watchdog(LIMIT).run(lambda: "and the next one runs") == "and the next one runs"


def watching_threads() -> int:
    return sum(thread.name == "perdure-watchdog" for thread in threading.enumerate())


def test_one_thread_watches_for_all_limits() -> None:
    """K14: a watchdog costs no thread of its own, and a turn starts none."""
    for limit in (LIMIT, LIMIT / 2, LIMIT * 2):
        with pytest.raises(TurnTimeout, match=f"within {limit:g} s"):
            Watchdog(limit).run(spin)
    assert watching_threads() == 1


def test_the_watching_thread_sleeps_while_there_are_no_turns_and_wakes_for_the_next() -> None:
    """K14: an idle process pays nothing, and the next turn is stopped all the same."""
    watch: Any = vars(watchdog)["_watch"]
    for _ in range(2):
        with pytest.raises(TurnTimeout):
            Watchdog(LIMIT).run(spin)
        spin_until(lambda: watch.pace == math.inf)
    assert watch.turns == {}


# --- what cannot be interrupted -------------------------------------------------------------------


def test_a_turn_that_is_stuck_in_c_is_reported_once_and_stopped_when_it_comes_back() -> None:
    """K14: a call stuck in C is only reported."""
    lock = threading.Lock()
    lock.acquire()
    reports: list[str] = []

    def report(text: str) -> None:
        reports.append(text)
        spin(LIMIT)  # a second report would have its chance
        lock.release()

    def stuck() -> None:
        lock.acquire(timeout=LONG)

    with pytest.raises(TurnTimeout):
        Watchdog(LIMIT, on_stuck=report).run(stuck)
    assert len(reports) == 1
    assert "cannot be interrupted" in reports[0]
    assert f"it stands at {__file__}:{line_of(stuck, 1)} in" in reports[0]


def test_a_turn_that_is_not_stuck_is_not_reported() -> None:
    """K14: one that swallows its interrupts gets them; it is no call into C."""
    reports: list[str] = []
    caught: list[int] = []

    def stubborn() -> None:
        while len(caught) < 20:
            try:
                spin()
            except BaseException:
                caught.append(1)

    with pytest.raises(TurnTimeout):
        Watchdog(LIMIT, on_stuck=reports.append).run(stubborn)
    assert reports == []


def test_where_no_thread_can_be_started_turns_run_without_a_limit_and_it_is_said_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """K14: off, with a word about it."""

    def cannot(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(watchdog, "_watch", type(vars(watchdog)["_watch"])())
    monkeypatch.setattr(threading.Thread, "start", cannot)
    with pytest.warns(RuntimeWarning, match="no time limit here"):
        assert Watchdog(LIMIT).run(lambda: 1) == 1
    Watchdog(LIMIT / 2).run(lambda: spin(LIMIT * 2))  # filterwarnings turns a second word into an error
