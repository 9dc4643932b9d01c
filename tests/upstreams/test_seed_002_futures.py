"""Seed 002 itself: durable futures, and what its text says of them.

Its tokens and schedule ids are one number here (K7); where a limitation of it is lifted, the docstring says so.
"""

from __future__ import annotations

from typing import Any

import pytest

from perdure import (
    NondeterminismError,
    now,
    parallel,
    race,
    receive,
    side_effect,
    sleep,
    uuid4,
    workflow,
)
from perdure.policies import new
from perdure.testing import Harness, evict, fire, resolve, signal
from tests.kernel.telling import Start, told
from tests.upstreams.baseline import greet

# --- tokens: a number per call, and a value for it ---------------------------------------------------


def test_k7_a_value_reaches_the_future_of_its_number_whatever_came_first(run: Start) -> None:
    """K7: results are kept by number, so that they need not come in the order of the calls."""

    @workflow
    async def three() -> list[str]:
        futures = [greet("a"), greet("b"), greet("c")]
        return [await future for future in futures]

    h = run(three)
    h.start()
    for seq in (2, 0, 1):
        h.activate(resolve(seq, f"for {seq}"))
    assert h.result == ["for 0", "for 1", "for 2"]


def test_k5_commands_stand_in_the_order_of_calls_and_not_of_awaits(run: Start) -> None:
    """K5, K7: schedule order matters."""

    @workflow
    async def crosswise() -> str:
        first, second = greet("called first"), greet("called second")
        return await second + await first

    assert [command.input for command in run(crosswise).start().commands] == [["called first"], ["called second"]]


def test_k5_awaiting_what_is_there_already_does_not_pause(run: Start) -> None:
    """K5: the same code, whether the value is there or has to be waited for."""

    @workflow
    async def slow_and_quick() -> list[str]:
        quick, slow = greet("quick"), greet("slow")
        value = await slow
        assert quick.done()
        assert quick.result() == "q"
        last = greet("asked in the same step")
        return [value, await quick, await last]

    h = run(slow_and_quick)
    h.start()
    assert told(h.activate(resolve(0, "q"))) == []
    assert told(h.activate(resolve(1, "s"))) == ['schedule_activity#2 greet ["asked in the same step"]']
    h.activate(resolve(2, "l"))
    assert h.result == ["s", "q", "l"]


def test_k5_a_future_may_be_awaited_by_several_and_more_than_once(run: Start) -> None:
    @workflow
    async def shared() -> list[Any]:
        future = greet("Ann")

        async def one() -> str:
            return await future

        return [*await parallel(one(), one()), await future]

    h = run(shared)
    h.start()
    h.activate(resolve(0, "hi"))
    assert h.result == ["hi", "hi", "hi"]


# --- when code runs ----------------------------------------------------------------------------------


def test_k4_code_is_given_a_step_only_when_something_may_have_changed_for_it() -> None:
    """K4: the seed polls only then; here what is granted is on record, and for late or stray answers it is nothing."""

    @workflow
    async def waits() -> str:
        first, _ = await race(greet("quick"), greet("slow"))
        await receive("go", str)
        return str(first)

    h = Harness(waits, policy=new("deterministic", log=True))
    assert h.start().choices
    assert h.activate(resolve(0, "hi")).choices
    assert h.activate(resolve(1, "late"), signal("stray", 1)).choices == []
    assert h.activate(signal("go", "on")).choices
    h.replay()


def test_k11_local_variables_are_there_again_after_a_rebuild_since_the_code_ran_again() -> None:
    """K11, K18: nothing of the memory is kept."""

    @workflow
    async def gathers() -> dict[str, list[str]]:
        seen: dict[str, list[str]] = {}
        for name in ("Ann", "Bob", "Ann"):
            seen.setdefault(name, []).append(await greet(name))
        return seen

    h = Harness(gathers)
    h.start()
    for seq in range(3):
        h.activate(evict())
        h.activate(resolve(seq, str(seq)))
    assert h.result == {"Ann": ["0", "2"], "Bob": ["1"]}


def test_k9_time_identity_and_side_effects_are_the_same_when_the_code_runs_again() -> None:
    """K9, M11: the seed's system calls, which its project found to give fresh values on replay."""
    effects: list[int] = []

    @workflow
    async def calls() -> list[Any]:
        values = [now().isoformat(), str(uuid4()), side_effect("count", lambda: effects.append(1) or len(effects))]
        await sleep(3600)
        return [*values, now().isoformat(), str(uuid4())]

    h = Harness(calls)
    h.start()
    h.activate(evict())
    h.activate(fire(0))
    assert h.replay().result == h.result
    assert effects == [1]
    assert h.result is not None
    assert h.result[1] != h.result[4]
    assert h.result[0] < h.result[3]


# --- external events ---------------------------------------------------------------------------------


def test_m1_the_nth_wait_of_a_name_gets_the_nth_arrival_early_ones_included(run: Start) -> None:
    """M1: the seed does not support events that come before they are waited for."""

    @workflow
    async def collects() -> list[str]:
        first = await receive("part", str)
        pair = await parallel(receive("part", str), receive("part", str))
        return [first, *pair]

    h = run(collects)
    h.start(signal("part", "1"), signal("part", "2"))
    assert not h.done
    h.activate(signal("part", "3"), signal("part", "4"))
    assert h.result == ["1", "2", "3"]


def test_m1_a_wait_that_was_given_up_takes_no_arrival_from_the_next(run: Start) -> None:
    """M1: the upstream skips cancelled subscriptions in its count."""

    @workflow
    async def patient() -> str:
        try:
            return await receive("part", str, timeout=10)
        except TimeoutError:
            return "later " + await receive("part", str)

    h = run(patient)
    h.start()
    h.activate(fire(0))
    h.activate(signal("part", "1"))
    assert h.result == "later 1"


def test_k11_one_wait_more_in_the_code_is_found_when_the_arrivals_go_elsewhere() -> None:
    """K11, M1: the seed warns that this can bind arrivals to other waits."""

    @workflow(name="parts")
    async def one_part() -> None:
        await greet(await receive("part", str))

    @workflow(name="parts")
    async def skips_one() -> None:
        await receive("part", str)
        await greet(await receive("part", str))

    h = Harness(one_part)
    h.start(signal("part", "1"), signal("part", "2"))
    with pytest.raises(NondeterminismError) as raised:
        Harness.replay_transcript(skips_one, h.transcript)
    assert raised.value.field == "input[0]"


@pytest.mark.parametrize("event_first", [True, False])
def test_k13_an_event_and_a_timer_in_one_turn_are_settled_alike_on_replay_and_the_event_is_not_lost(
    run: Start, event_first: bool
) -> None:
    """K6, K13, M1: answers are applied before messages, in whatever order the turn was told of them."""

    @workflow
    async def waits() -> list[Any]:
        index, _ = await race(receive("go", str), sleep(10))
        return [index, await receive("go", str)]

    h = run(waits)
    h.start()
    jobs: list[Any] = [signal("go", "now"), fire(0)]
    h.activate(*(jobs if event_first else jobs[::-1]))
    assert h.result == [1, "now"]
