"""Seed 001: to call is to schedule, one await gives the value, ids follow from the run, and a turn is one batch."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import ActivityFailed, child, get_state, parallel, pending, race, receive, set_state, sleep, workflow
from perdure.model.ids import operation_id
from perdure.testing import Harness, evict, fail, fire, resolve, signal
from tests.kernel.telling import Start, act, told

RUN_ID = UUID("00000000-0000-4000-8000-000000000000")


@workflow
async def greet(name: str) -> str: ...


# --- to call is to schedule -----------------------------------------------------------------------


def test_k5_a_call_schedules_at_once_and_one_await_gives_the_value(run: Start) -> None:
    @workflow
    async def calling() -> list[Any]:
        called = act("a")
        seen: list[Any] = [asyncio.isfuture(called), called.done()]
        set_state("scheduled", True)
        value = await called
        return [*seen, value, await called, called.result()]

    h = run(calling)
    assert told(h.start()) == ['schedule_activity#0 act ["a"]', "set_state scheduled [true]"]
    h.activate(resolve(0, "A"))
    assert h.result == [True, False, "A", "A", "A"]


def test_k7_the_order_of_the_calls_is_the_order_of_the_commands_whatever_is_awaited_first(run: Start) -> None:
    @workflow
    async def backwards() -> list[str]:
        calls = [act(name) for name in "abc"]
        return [await call for call in reversed(calls)]

    h = run(backwards)
    turn = h.start()
    assert [(command.seq, command.input) for command in turn.commands] == [(0, ["a"]), (1, ["b"]), (2, ["c"])]
    h.activate(*(resolve(command, command.input[0].upper()) for command in turn.commands))
    assert h.result == ["C", "B", "A"]


@pytest.mark.parametrize("ending", ["returns", "fails", "pauses"])
def test_k6_what_was_called_leaves_with_the_turn_however_the_turn_ends(run: Start, ending: str) -> None:
    """K6, K17: the seed submits its queue when a workflow suspends, completes, or fails."""

    @workflow
    async def batching(ending: str) -> str:
        act("never awaited")
        sleep(5)
        set_state("key", 1)
        if ending == "fails":
            raise ValueError("no")
        return await act("last") if ending == "pauses" else "done"

    queued = ['schedule_activity#0 act ["never awaited"]', "start_timer#1 [5]", "set_state key [1]"]
    last = {
        "returns": 'complete ["done"]',
        "fails": 'fail ["ValueError: no"]',
        "pauses": 'schedule_activity#2 act ["last"]',
    }
    shown = told(run(batching, ending).start())
    assert [*shown[:3], shown[-1]] == [*queued, last[ending]]


# --- side by side ---------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3, 10])
@pytest.mark.parametrize("how", ["gather", "parallel", "one after another"])
def test_k15_any_number_of_calls_is_joined_in_input_order(run: Start, how: str, count: int) -> None:
    """K15, P6: fan out, fan in, with the answers in any order and over several turns."""

    @workflow
    async def joining(how: str, count: int) -> list[str]:
        calls = [act(str(number)) for number in range(count)]
        if how == "one after another":
            return [await call for call in calls]
        return list(await (asyncio.gather(*calls) if how == "gather" else parallel(*calls)))

    h = run(joining, how, count)
    assert [command.seq for command in h.start().commands] == list(range(count))
    answers = [resolve(number, f"value {number}") for number in reversed(range(count))]
    if answers[1:]:
        h.activate(*answers[: count // 2])
    h.activate(*answers[count // 2 :] if answers[1:] else answers)
    assert h.result == [f"value {number}" for number in range(count)]


def test_k7_a_second_wave_is_numbered_after_the_first(run: Start) -> None:
    @workflow
    async def waves() -> list[str]:
        first = await asyncio.gather(act("a"), act("b"))
        second, timer = asyncio.gather(*(act(one) for one in first)), sleep(1)
        await timer
        return await second

    h = run(waves)
    h.start()
    turn = h.activate(resolve(1, "B"), resolve(0, "A"))
    assert told(turn) == [
        'schedule_activity#2 act ["A"]',
        'schedule_activity#3 act ["B"]',
        "start_timer#4 [1]",
    ]
    h.activate(resolve(2, "x"), fire(4), resolve(3, "y"))
    assert h.result == ["x", "y"]


def test_k11_a_failure_among_calls_is_raised_where_it_is_awaited_and_the_others_keep_their_values(run: Start) -> None:
    @workflow
    async def one_fails() -> list[str]:
        seen: list[str] = []
        for call in [act(name) for name in "abc"]:
            try:
                seen.append(await call)
            except ActivityFailed as error:
                seen.append(error.failure.message)
        return seen

    h = run(one_fails)
    h.start()
    h.activate(resolve(2, "C"), fail(1, ValueError("no b")), resolve(0, "A"))
    assert h.result == ["A", "no b", "C"]


def test_m6_a_call_is_cancelled_through_its_future_and_its_siblings_go_on(run: Start) -> None:
    @workflow
    async def cancelling() -> list[Any]:
        doomed, timer, kept = act("doomed"), sleep(60), act("kept")
        doomed.cancel()
        timer.cancel()
        return [doomed.cancelled(), timer.cancelled(), await kept]

    h = run(cancelling)
    assert told(h.start())[3:] == ["cancel_activity#0", "cancel_timer#1"]
    h.activate(resolve(2, "x"))
    assert h.result == [True, True, "x"]


# --- ids --------------------------------------------------------------------------------------------


def test_k8_the_id_of_an_operation_is_derived_from_the_run_and_its_number() -> None:
    assert operation_id(RUN_ID, 3) == str(uuid5(RUN_ID, "3"))
    assert len({operation_id(RUN_ID, seq) for seq in range(100)}) == 100
    assert operation_id(UUID(int=1), 3) != operation_id(RUN_ID, 3)


@pytest.mark.parametrize("evicted", [False, True])
def test_k8_ids_go_on_where_they_were_although_everything_before_was_replayed(evicted: bool) -> None:
    """K8, K7: upstream, a replay that did not count gave the second child the first one's id, and hung its parent."""

    @workflow
    async def spawning() -> list[str]:
        ids: list[str] = []
        for name in "abc":
            one = child(greet, name)
            ids.append(one.id)
            await one
            await act(name)
        return ids

    h = Harness(spawning)
    turn = h.start()
    for _ in range(6):
        if evicted:
            h.activate(evict())
        turn = h.activate(resolve(turn.commands[0], ""))
    assert h.result == [str(uuid5(RUN_ID, str(seq))) for seq in (0, 2, 4)]
    other = Harness(spawning, run_id="another")
    other.start()
    assert other.transcript.run_id != h.transcript.run_id


# --- what comes later is not known before -----------------------------------------------------------


def test_k13_a_race_has_the_same_winner_although_the_record_holds_the_losers_answer_too(run: Start) -> None:
    """K13: upstream, a replay looks answers up in the whole history, and may let the other one win."""

    @workflow
    async def racing() -> list[Any]:
        index, value = await race(act("slow"), act("quick"))
        return [index, value, await act("after")]

    h = run(racing)
    h.start()
    assert told(h.activate(resolve(1, "quick"))) == ["cancel_activity#0", 'schedule_activity#2 act ["after"]']
    h.activate(resolve(0, "slow after all"))
    h.activate(resolve(2, "x"))
    assert (h.result, h.replay().result) == ([1, "quick", "x"], [1, "quick", "x"])


def test_k13_how_many_signals_wait_is_what_had_come_by_then(run: Start) -> None:
    """K13, M1: upstream, asking sees signals that came only after the turn that is replayed."""

    @workflow
    async def chatting() -> list[int]:
        seen = [pending("chat")]
        await act("think")
        seen.append(pending("chat"))
        while pending("chat"):
            await receive("chat", str)
        await act("think again")
        return [*seen, pending("chat")]

    h = run(chatting)
    h.start()
    h.activate(signal("chat", "a"), signal("chat", "b"))
    h.activate(resolve(0, ""))
    h.activate(signal("chat", "c"), resolve(1, ""))
    assert h.result == [0, 2, 0]


def test_m10_state_is_read_as_it_was_written_by_then(run: Start) -> None:
    @workflow
    async def counting() -> list[int]:
        seen: list[int] = []
        for _ in range(3):
            seen.append(get_state("count", int, 0))
            set_state("count", seen[-1] + 1)
            await act("step")
        return seen

    h = run(counting)
    h.start()
    for seq in range(3):
        h.activate(resolve(seq, ""))
    assert h.result == [0, 1, 2]


# --- the same input, the same commands ----------------------------------------------------------------

plans = st.lists(st.tuples(st.sampled_from(["activity", "timer", "child"]), st.integers(1, 3)), max_size=5)


@workflow
async def planned(plan: list[tuple[str, int]]) -> int:
    for kind, number in plan:
        if kind == "activity":
            await asyncio.gather(*(act(f"{number}") for _ in range(number)))
        elif kind == "timer":
            await sleep(number)
        else:
            await child(greet, str(number))
    return len(plan)


def driven(plan: list[tuple[str, int]]) -> Harness[int]:
    h = Harness(planned, plan)
    turn = h.start()
    while not h.done:
        turn = h.activate(*(fire(c) if c.kind == "start_timer" else resolve(c, "") for c in turn.commands))
    return h


@given(plan=plans, other=plans)
def test_k1_the_same_input_gives_the_same_commands_and_another_input_others(
    plan: list[tuple[str, int]], other: list[tuple[str, int]]
) -> None:
    h = driven(plan)
    assert driven(plan).transcript.to_json() == h.transcript.to_json()
    assert h.replay().result == len(plan)
    shown = [[told(turn) for turn in driven(one).turns] for one in (plan, other)]
    assert (shown[0] == shown[1]) == (plan == other)
