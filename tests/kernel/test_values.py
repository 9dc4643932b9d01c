"""K20, and what of K10 and K16 is about values: one road for all of them, live as on replay."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from perdure import (
    InvalidValue,
    Retry,
    activity,
    each,
    get_state,
    now,
    receive,
    set_state,
    side_effect,
    sleep,
    workflow,
)
from perdure.define.workflow import definition_of
from perdure.kernel.executor import Executor, RunIdentity
from perdure.kernel.matching import Story, Strict
from perdure.model import jobs
from perdure.model.ids import run_uuid
from perdure.testing import Harness, resolve, signal
from tests.kernel.telling import Start, act, asked, told

# --- K20: values ---------------------------------------------------------------------------------------


def pair() -> Any:
    return (1, 2)


def test_k20_whatever_workflow_code_receives_is_a_list_from_the_start_where_replay_would_give_one(run: Start) -> None:
    @workflow
    async def receives(given: Any) -> list[str]:
        from_effect = side_effect("pair", pair)
        set_state("pair", (1, 2))
        from_state = get_state("pair")
        from_signal = await receive("pair")
        from_answer = await answered()
        return [type(one).__name__ for one in (given, from_effect, from_state, from_signal, from_answer)]

    h = run(receives, (1, 2))
    h.start()
    h.activate(signal("pair", (1, 2)))
    h.activate(resolve(asked(h.turns[-1])[0], (1, 2)))
    assert h.result == ["list"] * 5


@activity
async def answered() -> Any: ...


def test_k20_what_the_caller_changes_after_the_call_changes_nothing(run: Start) -> None:
    @workflow
    async def changes_later() -> int:
        items = [1]
        set_state("items", items)
        items.append(2)
        read: list[int] = get_state("items", list[int]) or []
        read.append(3)
        await act("x")
        return len(get_state("items", list[int]) or [])

    h = run(changes_later)
    turn = h.start()
    assert told(turn)[0] == "set_state items [[1]]"
    h.activate(resolve(turn.commands[1], ""))
    assert h.result == 1


def test_k20_durations_are_rounded_to_the_microsecond(run: Start) -> None:
    @workflow
    async def naps() -> None:
        async with asyncio.timeout(0.1 + 0.2):
            await asyncio.gather(
                sleep(0.1 + 0.2), asyncio.sleep(1.23456789), sleep(timedelta(minutes=1)), sleep("1.5s")
            )  # the coroutine is a task: its timer comes last

    h = run(naps)
    timers = asked(h.start(), "start_timer")
    assert [command.input for command in timers] == [[0.3], [0.3], [60], [1.5], [1.234568]]


def test_k20_now_never_goes_back_within_a_run() -> None:
    """K20: whatever the host's clock does. What the turn holds as its time is what the code has seen."""

    @workflow
    async def looks() -> list[datetime]:
        seen = [now()]
        await act("x")
        return [*seen, now()]

    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    definition = definition_of(looks)
    identity = RunIdentity(run_uuid("clock"), 0, definition.signature.bind((), {})[0])
    executor = Executor(definition.program, identity, matcher=Strict(Story("looks", "clock")))
    executor.activate(noon, [jobs.Started()])
    made = executor.activate(noon - timedelta(hours=1), [resolve(0, "")])
    assert made.record is not None
    assert made.record.now == noon
    assert made.record.commands[-1].input == [["2026-01-01T12:00:00Z", "2026-01-01T12:00:00Z"]]


# --- K10: what a call itself set -----------------------------------------------------------------------


def test_k10_what_the_decorator_sets_is_a_default_and_no_part_of_the_identity() -> None:
    @activity(name="pay")
    async def pay(cents: int) -> str: ...

    @activity(name="pay", timeout=9, retry=Retry(attempts=7), queue="slow", priority=3)
    async def pay_slowly(cents: int) -> str: ...

    def paying(call: Any) -> Any:
        @workflow(name="paying")
        async def paying() -> str:
            return await call(1)

        return paying

    h = Harness(paying(pay_slowly))
    (command,) = h.start().commands
    h.activate(resolve(command, "receipt"))
    assert command.options == {}
    assert Harness.replay_transcript(paying(pay), h.transcript).result == "receipt"


# --- K16: what has no order ------------------------------------------------------------------------------


@pytest.mark.parametrize("items", [{1, 2}, frozenset({1, 2})], ids=["set", "frozenset"])
def test_k16_a_set_is_refused_as_the_source_of_each_and_as_an_argument(run: Start, items: Iterable[int]) -> None:
    @workflow
    async def unordered() -> list[str]:
        refused: list[str] = []
        for attempt in (lambda: each(items, str), lambda: act(cast("Any", items))):
            try:
                attempt()
            except InvalidValue as error:
                refused.append(str(error))
        return refused

    h = run(unordered)
    assert [command.kind for command in h.start().commands] == ["complete"]
    assert len(h.result or ()) == 2
    assert all("set" in text for text in cast("list[str]", h.result))
