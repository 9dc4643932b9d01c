"""M1: signals are never refused and never lost, and each goes to the one that it is for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import perdure
from perdure import RunClosed, parallel, pending, receive, receive_any, wait_until, workflow
from perdure.testing import Harness, cancel, fire, resolve, signal
from tests.kernel.telling import Start, act, told


@workflow
async def three() -> list[Any]:
    await act("first")
    return [await receive("a"), await receive("a"), await receive("b")]


def test_m1_a_signal_that_nobody_waits_for_is_buffered_per_name_in_order(run: Start) -> None:
    h = run(three)
    (first,) = h.start().commands
    h.activate(signal("a", 1))
    h.activate(signal("b", 2), signal("a", 3))
    h.activate(resolve(first, ""))
    assert h.result == [1, 3, 2]


def test_m1_signals_that_come_with_the_start_are_buffered(run: Start) -> None:
    h = run(three)
    turn = h.start(signal("a", 1), signal("a", 2), signal("b", 3))
    assert told(h.activate(resolve(turn.commands[0], ""))) == ["complete [[1, 2, 3]]"]


def test_m1_a_signal_that_nobody_ever_takes_changes_nothing(run: Start) -> None:
    h = run(three)
    h.start(signal("other", 1))
    turn = h.activate(signal("other", 2))
    assert (turn.commands, h.done) == ([], False)


def test_m1_the_oldest_waiter_of_a_name_is_served_first(run: Start) -> None:
    @workflow
    async def waiting() -> list[Any]:
        async def named(name: str) -> str:
            return f"{name}={await receive('a')}"

        late = receive("a")  # the root called first, though it awaits last
        both = await parallel(named("p0"), named("p1"))
        return [*both, await late]

    h = run(waiting)
    h.start()
    h.activate(signal("a", 1))
    h.activate(signal("a", 2), signal("a", 3))
    assert h.result == ["p0=2", "p1=3", 1]


@workflow
class Shop:
    def __init__(self) -> None:
        self.seen: list[str] = []

    async def run(self) -> list[str]:
        mine = receive("note", str)
        await receive("open")
        end = await perdure.phase(self.seen, signals={"note": self.note_in_phase, "close": self.close})
        await wait_until(lambda: "class:last" in self.seen)
        self.seen += [f"pending:{pending('note')}", f"receiver:{mine.done()}", f"timed_out:{end.timed_out}"]
        return self.seen

    def note_in_phase(self, state: list[str], text: str) -> Any:
        return perdure.Continue([*state, f"phase:{text}"])

    def close(self, state: list[str]) -> Any:
        self.seen = state
        return perdure.Stop(state)

    @perdure.signal
    def note(self, text: str) -> None:
        self.seen.append(f"class:{text}")


def test_m1_the_open_phase_comes_before_the_class_handler_and_that_before_a_waiter(run: Start) -> None:
    h = run(Shop)
    h.start(signal("note", "early"))
    h.activate(signal("open"))
    h.activate(signal("note", "during"), signal("close"))
    h.activate(signal("note", "last"))
    expected = ["class:early", "phase:during", "class:last", "pending:0", "receiver:False", "timed_out:False"]
    assert h.result == expected


def test_m1_a_waiter_comes_before_the_buffer(run: Start) -> None:
    @workflow
    async def counting() -> list[int]:
        seen = [pending("a")]
        await receive("a")
        seen.append(pending("a"))
        await act("go on")
        seen.append(pending("a"))
        return seen

    h = run(counting)
    turn = h.start()
    turn = h.activate(signal("a", 1), signal("a", 2), signal("a", 3))
    h.activate(resolve(turn.commands[0], ""))
    assert h.result == [0, 2, 2]


def test_m1_pending_counts_one_name_and_takes_nothing(run: Start) -> None:
    @workflow
    async def looking() -> list[int]:
        await act("first")
        return [pending("a"), pending("a"), pending("b"), pending("never")]

    h = run(looking)
    turn = h.start(signal("a"), signal("b"), signal("a"))
    h.activate(resolve(turn.commands[0], ""))
    assert h.result == [2, 2, 1, 0]


# --- receive and receive_any --------------------------------------------------------------------


def test_m1_a_signal_is_read_as_its_type_and_several_arguments_as_a_list(run: Start) -> None:
    @workflow
    async def reading() -> list[Any]:
        nothing = await receive("a")
        pair: Any = await receive("a", tuple[int, str])
        return [nothing, isinstance(pair, tuple), *pair]

    h = run(reading)
    h.start(signal("a"), signal("a", 1, "x"))
    assert h.result == [None, True, 1, "x"]


def test_m1_receive_any_takes_the_earliest_arrival_of_several_that_are_buffered(run: Start) -> None:
    @workflow
    async def choosing() -> list[Any]:
        await act("first")
        names = {"a": int, "b": str}
        return [await receive_any(names), await receive_any(names), await receive_any(names)]

    h = run(choosing)
    turn = h.start(signal("b", "one"))
    h.activate(signal("a", 2), signal("b", "three"))
    h.activate(resolve(turn.commands[0], ""))
    assert h.result == [["b", "one"], ["a", 2], ["b", "three"]]


def test_m1_receive_any_that_waits_takes_whichever_comes_and_stands_in_the_queue_of_each_name(run: Start) -> None:
    @workflow
    async def choosing() -> list[Any]:
        either = receive_any({"a": int, "b": int})
        only = receive("b", int)
        return [await either, await only]

    h = run(choosing)
    h.start()
    h.activate(signal("b", 1), signal("b", 2))
    assert h.result == [["b", 1], 2]


@workflow
async def patient(kind: str) -> Any:
    if kind == "any":
        try:
            return await receive_any({"a": int}, timeout=5)
        except TimeoutError:
            return "timeout"
    if kind == "none":
        return await receive("a", int, timeout=5, default=None)
    if kind == "default":
        return await receive("a", int, timeout=5, default=7)
    try:
        return await receive("a", int, timeout=5)
    except TimeoutError:
        return "timeout"


@pytest.mark.parametrize(("kind", "value"), [("any", "timeout"), ("raise", "timeout"), ("default", 7), ("none", None)])
def test_m1_a_receive_that_runs_out_of_time_raises_or_gives_its_default_even_none(
    run: Start, kind: str, value: Any
) -> None:
    h = run(patient, kind)
    turn = h.start()
    assert told(turn) == ["start_timer#0 [5]"]
    turn = h.activate(fire(turn.commands[0]))
    assert (h.done, h.status, h.result) == (True, "completed", value)
    assert [command.kind for command in turn.commands] == ["complete"]


@pytest.mark.parametrize("kind", ["raise", "default", "none"])
def test_m1_a_signal_in_time_cancels_the_timer(run: Start, kind: str) -> None:
    h = run(patient, kind)
    h.start()
    assert told(h.activate(signal("a", 3))) == ["cancel_timer#0", "complete [3]"]


def test_m1_a_buffered_signal_starts_no_timer(run: Start) -> None:
    @workflow
    async def quick() -> Any:
        await act("first")
        return await receive("a", int, timeout=5)

    h = run(quick)
    turn = h.start(signal("a", 3))
    assert told(h.activate(resolve(turn.commands[0], ""))) == ["complete [3]"]


def test_m1_the_timer_in_the_turn_of_the_signal_goes_first_and_the_signal_stays_buffered(run: Start) -> None:
    @workflow
    async def twice() -> list[Any]:
        return [await receive("a", int, timeout=5, default=0), await receive("a", int)]

    h = run(twice)
    turn = h.start()
    h.activate(signal("a", 9), fire(turn.commands[0]))
    assert h.result == [0, 9]


# --- delivery -----------------------------------------------------------------------------------


def test_m1_a_message_id_that_came_before_is_dropped_and_counted(run: Start) -> None:
    h = run(three)
    turn = h.start(signal("a", 1, message_id="m-1"), signal("a", 2, message_id="m-1"))
    h.activate(signal("b", 9, message_id="m-1"))
    h.activate(signal("a", 3, message_id="m-2"), signal("a", 4), signal("b", 5))
    assert h.dropped == 2
    h.activate(resolve(turn.commands[0], ""))
    assert h.result == [1, 3, 5]


def test_m1_signals_without_a_message_id_are_all_different(run: Start) -> None:
    h = run(three)
    turn = h.start(signal("a", 1), signal("a", 1), signal("b", 1))
    h.activate(resolve(turn.commands[0], ""))
    assert (h.result, h.dropped) == ([1, 1, 1], 0)


def test_m1_a_signal_to_a_finished_run_is_refused_naming_the_id(run: Start) -> None:
    h = run(patient, "raise")
    h.start(signal("a", 1))
    with pytest.raises(RunClosed, match="00000000-0000-4000-8000-000000000000"):
        h.activate(signal("a", 2))
    assert len(h.transcript.turns) == 1


def test_m1_a_signal_in_the_turn_of_a_cancellation_is_buffered_for_the_clean_up(run: Start) -> None:
    @workflow
    async def cleaning() -> Any:
        try:
            return await receive("a")
        except asyncio.CancelledError:
            async with perdure.shielded():
                return f"cleaned with {await receive('a')}"

    h = run(cleaning)
    h.start()
    h.activate(signal("a", 1), cancel())
    assert h.result == "cleaned with 1"


def test_m1_a_signal_that_cannot_be_read_fails_the_turn_whether_it_was_buffered_or_not() -> None:
    @workflow
    async def strict() -> int:
        await act("first")
        try:
            return await receive("a", int)
        except Exception:
            return -1

    for early in (True, False):
        h = Harness(strict)
        (first,) = h.start().commands
        jobs = [resolve(first, ""), signal("a", "no number")]
        if early:
            h.activate(jobs.pop())
        with pytest.raises(perdure.InvalidValue, match="signal `a`"):
            h.activate(*jobs)
        assert not h.done
