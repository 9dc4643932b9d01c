"""M5: phases that are cancelled, whose handlers fail, that meet a second one, or whose state another unit replaces."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import perdure
from perdure import (
    Continue,
    Later,
    Stop,
    UsageError,
    parallel,
    pending,
    phase,
    race,
    receive,
    scope,
    shielded,
    sleep,
    update_state,
    wait_until,
    workflow,
)
from perdure.testing import Harness, cancel, fire, resolve, signal, update
from tests.kernel.telling import Start, act, answers, asked, told

State = list[str]


def note(state: State, text: str = "") -> Continue[State]:
    return Continue([*state, text])


def stop(state: State) -> Stop[State]:
    return Stop(state)


async def slowly(state: State, name: str) -> Continue[State]:
    return Continue([*state, await act(name)])


def later(state: State, name: str) -> Later[State]:
    async def rest() -> str:
        return await act(name)

    return Later(rest(), [*state, name])


def breaks(state: State) -> Continue[State]:
    raise ValueError("broken")


async def breaks_slowly(state: State) -> Continue[State]:
    await act("x")
    raise ValueError("broken")


def breaks_later(state: State) -> Later[State]:
    async def rest() -> str:
        await act("x")
        raise ValueError("broken")

    return Later(rest(), state)


def returns_nothing(state: State) -> None: ...


HANDLERS: dict[str, Any] = {
    "note": note,
    "stop": stop,
    "slowly": slowly,
    "later": later,
    "breaks": breaks,
    "breaks_slowly": breaks_slowly,
    "breaks_later": breaks_later,
    "returns_nothing": returns_nothing,
}


@workflow
async def office() -> list[Any]:
    try:
        end = await phase([], signals=HANDLERS, updates=HANDLERS, timeout=60)
    except ValueError as error:
        return ["failed", str(error), pending("note")]
    except UsageError:
        return ["misused"]
    except asyncio.CancelledError:
        async with shielded():
            return ["cancelled", pending("note"), await receive("note")]
    return [end.state, end.timed_out]


# --- handlers that fail -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["breaks", "breaks_slowly", "breaks_later"])
def test_m5_an_update_whose_handler_raises_fails_and_the_phase_lives(run: Start, name: str) -> None:
    h = run(office)
    h.start()
    turn = h.activate(update(name, id="u"))
    if schedules := asked(turn):
        turn = h.activate(resolve(schedules[0], ""))
    assert answers(turn)[-1] == ("u", "update", "ValueError")
    h.activate(signal("note", "a"), signal("stop"))
    assert h.result == [["a"], False]


@pytest.mark.parametrize("name", ["breaks", "breaks_slowly", "breaks_later"])
def test_m5_a_signal_whose_handler_raises_fails_the_phase_and_loses_no_other(run: Start, name: str) -> None:
    h = run(office)
    h.start()
    turn = h.activate(signal(name), signal("note", "behind"))
    if schedules := asked(turn):
        turn = h.activate(resolve(schedules[0], ""))
    assert "cancel_timer#0" in told(turn)
    assert h.result == ["failed", "broken", 0 if name == "breaks_later" else 1]


def test_m5_a_handler_must_return_a_verdict(run: Start) -> None:
    h = run(office)
    h.start()
    turn = h.activate(update("returns_nothing", id="u"))
    assert answers(turn)[-1] == ("u", "update", "UsageError")
    h.activate(signal("returns_nothing"))
    assert h.result == ["misused"]


def test_m5_an_update_that_cannot_be_read_is_rejected_by_the_phase_too(run: Start) -> None:
    h = run(office)
    h.start()
    turn = h.activate(update("slowly", 3, id="a"), update("slowly", id="b"), update("note", "x", id="c"))
    assert [(one, error) for one, _, error in answers(turn)[:2]] == [("a", "InvalidValue"), ("b", "InvalidValue")]
    assert turn.commands[-1].unit == "/h0"


# --- cancelled ----------------------------------------------------------------------------------------


def test_m5_a_cancelled_phase_cancels_its_handlers_fails_updates_and_keeps_signals(run: Start) -> None:
    h = run(office)
    h.start()
    turn = h.activate(update("later", "a", id="a"), update("slowly", "b", id="b"), update("note", "c", id="c"))
    assert len(asked(turn)) == 2
    h.activate(signal("note", "one"))
    turn = h.activate(signal("note", "two"), cancel())
    kinds = [command.kind for command in turn.commands]
    assert kinds[:4] == ["cancel_timer", "fail_update", "cancel_activity", "cancel_activity"]
    assert sorted(answers(turn)) == [
        ("a", "update", "CancelledError"),
        ("b", "update", "CancelledError"),
        ("c", "update", "Rejected"),
    ]
    assert h.result == ["cancelled", 1, "one"]


def test_m5_a_phase_that_lost_its_race_closes(run: Start) -> None:
    @workflow
    async def limited() -> list[Any]:
        index, _ = await race(sleep(5), phase([], signals={"note": note, "slowly": slowly}))
        end = await phase([], signals={"note": note, "stop": stop})
        return [index, end.state]

    h = run(limited)
    timer = h.start().commands[0]
    turn = h.activate(signal("slowly", "x"), signal("note", "kept"))
    turn = h.activate(fire(timer))
    assert [command.kind for command in turn.commands] == ["cancel_activity"]
    h.activate(signal("stop"))
    assert h.result == [0, ["kept"]]


def test_m5_a_handler_may_clean_up_when_its_phase_is_cancelled(run: Start) -> None:
    async def careful(state: int) -> Continue[int]:
        try:
            await act("work")
        finally:
            async with shielded():
                await act("clean up")
        return Continue(state)

    @workflow
    async def limited() -> str:
        async with scope(timeout=5):
            await phase(0, signals={"work": careful})
        return "unreachable"

    h = run(limited)
    timer = h.start().commands[0]
    h.activate(signal("work"))
    turn = h.activate(fire(timer))
    assert told(turn) == ["cancel_activity#1 @/h0", 'schedule_activity#2 act ["clean up"] @/h0']
    h.activate(resolve(turn.commands[1], ""))
    assert h.failure is not None
    assert h.failure.type == "TimeoutError"


# --- one at a time ------------------------------------------------------------------------------------


def test_m5_a_second_phase_at_the_same_time_is_a_usage_error(run: Start) -> None:
    @workflow
    async def doubled() -> list[Any]:
        one = phase([], signals={"note": note, "stop": stop})
        other = phase([], signals={"note": note, "stop": stop})
        outcomes = await parallel(one, other, join="settled")
        return [type(outcome.error).__name__ for outcome in outcomes]

    h = run(doubled)
    h.start()
    h.activate(signal("note", "a"), signal("stop"))
    assert h.result == ["NoneType", "UsageError"]


def test_m5_a_handler_cannot_open_a_phase_and_the_first_goes_on(run: Start) -> None:
    async def opens(state: State) -> Continue[State]:
        try:
            await phase(0)
        except UsageError as error:
            return Continue([*state, type(error).__name__])
        return Continue([*state, "opened"])

    @workflow
    async def nested() -> Any:
        return (await phase([], signals={"open": opens, "stop": stop})).state

    h = run(nested)
    h.start()
    h.activate(signal("open"), signal("stop"))
    assert h.result == ["UsageError"]


def test_m5_phases_may_follow_each_other_and_run_in_a_branch(run: Start) -> None:
    @workflow
    async def branched() -> list[Any]:
        async def desk() -> list[State]:
            return [(await phase([], signals={"note": note, "stop": stop})).state for _ in range(2)]

        return await parallel(act("beside"), desk())

    h = run(branched)
    (beside,) = h.start().commands
    h.activate(signal("note", "a"), signal("stop"))
    h.activate(signal("note", "b"), signal("stop"))
    h.activate(resolve(beside, "x"))
    assert h.result == ["x", [["a"], ["b"]]]


def test_m5_the_units_of_handlers_hang_below_the_unit_of_the_phase(run: Start) -> None:
    @workflow
    async def branched() -> list[Any]:
        async def desk() -> State:
            return (await phase(["x"], signals={"slowly": slowly, "stop": stop})).state

        return await parallel(act("beside"), desk())

    h = run(branched)
    h.start()
    assert [command.unit for command in h.activate(signal("slowly", "a")).commands] == ["/p1/h0"]


def test_m5_handlers_of_a_class_and_of_a_phase_never_share_a_unit(run: Start) -> None:
    @workflow
    class Both:
        async def run(self) -> State:
            first = await phase([], signals={"slowly": slowly, "stop": stop})
            return (await phase(first.state, signals={"slowly": slowly, "stop": stop})).state

        @perdure.signal
        async def mine(self) -> None:
            await act("mine")

    h = run(Both)
    h.start()
    turn = h.activate(signal("mine"), signal("slowly", "a"))
    assert [command.unit for command in turn.commands] == ["/h0", "/h0#1"]
    h.activate(resolve(turn.commands[1], "A"), signal("stop"))
    turn = h.activate(signal("mine"), signal("slowly", "b"))
    assert [command.unit for command in turn.commands] == ["/h1", "/h0#2"]
    h.activate(resolve(turn.commands[1], "B"), signal("stop"))
    assert h.result == ["A", "B"]


# --- update_state -------------------------------------------------------------------------------------


def test_m5_update_state_replaces_the_state_at_once(run: Start) -> None:
    def deferred(state: State, name: str) -> Later[State]:
        async def rest() -> str:
            receipt = await act(name)
            return ",".join(update_state(lambda now: [*now, receipt]))

        return Later(rest(), [*state, name])

    @workflow
    async def office() -> Any:
        return (await phase([], signals={"stop": stop, "note": note}, updates={"later": deferred})).state

    h = run(office)
    h.start()
    turn = h.activate(update("later", "a", id="u"), signal("note", "b"))
    turn = h.activate(resolve(asked(turn)[0], "A"))
    assert answers(turn) == [("u", "update", "a,b,A")]
    h.activate(signal("stop"))
    assert h.result == ["a", "b", "A"]


def test_m5_update_state_needs_an_open_phase(run: Start) -> None:
    @workflow
    async def closed() -> str:
        await phase(0, signals={"stop": stop})
        try:
            update_state(lambda state: state)
        except UsageError as error:
            return type(error).__name__
        return "changed"

    h = run(closed)
    h.start(signal("stop"))
    assert h.result == "UsageError"


def test_m5_an_update_state_function_that_calls_the_api_is_a_violation() -> None:
    def calls(state: int) -> Stop[int]:
        return Stop(update_state(lambda now: perdure.now().year))

    @workflow
    async def office() -> Any:
        return (await phase(0, signals={"call": calls})).state

    h = Harness(office)
    h.start()
    with pytest.raises(perdure.SchedulerViolation, match="update_state"):
        h.activate(signal("call"))
    assert not h.done


def test_m5_update_state_from_a_sibling_while_a_phase_is_open(run: Start) -> None:
    @workflow
    async def beside() -> Any:
        async def sibling() -> None:
            await act("x")
            update_state(lambda state: [*state, "from beside"])

        _, end = await parallel(sibling(), phase(["a"], signals={"stop": stop}))
        return end.state if end else None

    h = run(beside)
    turn = h.start()
    h.activate(resolve(turn.commands[0], ""))
    h.activate(signal("stop"))
    assert h.result == ["a", "from beside"]


def test_m5_a_condition_outside_sees_what_handlers_did(run: Start) -> None:
    @workflow
    async def watched() -> Any:
        seen: list[str] = []

        def see(state: int, text: str) -> Continue[int]:
            seen.append(text)
            return Continue(state + 1)

        async def watcher() -> list[str]:
            await wait_until(lambda: len(seen) == 2)
            return list(seen)

        return await race(watcher(), phase(0, signals={"see": see}))

    h = run(watched)
    h.start()
    h.activate(signal("see", "a"))
    h.activate(signal("see", "b"))
    assert h.result == [0, ["a", "b"]]
