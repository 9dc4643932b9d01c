"""K7, K8, K9: the numbers of commands, the ids that the outside sees, and what a unit draws."""

from __future__ import annotations

import uuid
from typing import Any, cast

import pytest

from perdure import NondeterminismError, child, parallel, promise, run_of, set_state, sleep, workflow
from perdure import random as draws
from perdure import uuid4 as draws_uuid
from perdure.model.ids import operation_id, run_uuid
from perdure.testing import Harness, evict, fire, resolve
from tests.kernel.telling import Start, act, told


@workflow
async def report() -> None: ...


# --- K7: one counter --------------------------------------------------------------------------------


def test_k7_one_counter_serves_all_that_can_be_answered_and_goes_on_from_turn_to_turn(run: Start) -> None:
    @workflow
    async def numbers() -> None:
        await act("x")
        set_state("key", 1)
        timer = sleep(60)
        promise("paid")
        run_of("other").signal("knock")
        run_of("other").cancel()
        started = child(report, id="r")
        timer.cancel()
        await started

    h = run(numbers)
    assert told(h.start()) == ['schedule_activity#0 act ["x"]']
    turn = h.activate(resolve(0, ""))
    assert [(command.kind, command.seq) for command in turn.commands] == [
        ("set_state", None),
        ("start_timer", 1),
        ("create_promise", 2),
        ("signal_external", 3),
        ("cancel_external", 4),
        ("start_child", 5),
        ("cancel_timer", 1),
    ]


def test_k7_numbers_follow_the_order_in_which_steps_were_granted(run: Start) -> None:
    @workflow
    async def branches() -> None:
        async def twice(name: str) -> None:
            await act(name)
            await act(name)

        await parallel(twice("0"), twice("1"))

    h = run(branches)
    assert told(h.start()) == ['schedule_activity#0 act ["0"] @/p0', 'schedule_activity#1 act ["1"] @/p1']
    turn = h.activate(resolve(1, ""), resolve(0, ""))
    assert told(turn) == ['schedule_activity#2 act ["0"] @/p0', 'schedule_activity#3 act ["1"] @/p1']


def test_k7_an_error_names_the_ordinal_per_kind_counted_over_the_run(run: Start) -> None:
    @workflow(name="counted")
    async def as_recorded() -> None:
        await act("1")
        await sleep(5)
        await act("2")

    @workflow(name="counted")
    async def as_it_is_now() -> None:
        await act("1")
        await sleep(5)
        await act("another")

    h = run(as_recorded)
    h.start()
    h.activate(resolve(0, ""))
    from_timer = h.turns[-1].commands[0]
    assert from_timer.kind == "start_timer"
    h.activate(fire(from_timer))
    with pytest.raises(NondeterminismError) as raised:
        Harness.replay_transcript(as_it_is_now, h.transcript)
    assert str(raised.value).count("activity #2 `act` (seq 2)") == 2, "on both sides, and not #1 of the turn"


# --- K8: what the outside sees --------------------------------------------------------------------------


def test_k8_the_id_of_an_operation_is_the_uuid5_of_its_run_and_its_number() -> None:
    first, second = run_uuid("first"), run_uuid("second")
    assert operation_id(first, 7) == str(uuid.uuid5(first, "7"))
    assert len({operation_id(run, seq) for run in (first, second) for seq in range(10)}) == 20


def test_k8_a_child_has_the_id_that_follows_from_its_number_also_after_an_eviction() -> None:
    @workflow
    async def parent() -> list[str]:
        await act("x")
        first, second = child(report), child(report)
        await sleep(0)
        set_state("ids", [first.id, second.id])
        await first
        return [first.id, second.id]

    said: set[str] = set()
    for run_id in ("first", "second"):
        h = Harness(parent, run_id=run_id)
        h.start()
        h.activate(resolve(0, ""))
        h.activate(evict())
        h.activate(resolve(1, None))
        assert h.result == [operation_id(run_uuid(run_id), seq) for seq in (1, 2)]
        said |= set(h.result or ())
    assert len(said) == 4


# --- K9: chance -----------------------------------------------------------------------------------------


@workflow
async def drawing(together: bool) -> list[list[str]]:
    async def drawn(times: int) -> list[str]:
        found: list[str] = []
        for _ in range(times):
            found += [str(draws().getrandbits(64)), str(draws_uuid())]
            if together:
                await sleep(0)
        return found

    first = await parallel(drawn(3), drawn(2))
    again = await parallel(drawn(3), drawn(2))
    return [*first, *again, await drawn(2)]


def result_of(h: Harness[Any]) -> list[list[str]]:
    """What its units drew, one after another."""
    assert h.status == "completed"
    return cast("list[list[str]]", h.result)


def test_k9_what_a_unit_draws_does_not_depend_on_how_the_others_were_interleaved(run: Start) -> None:
    in_turns, one_by_one = run(drawing, True), run(drawing, False)
    in_turns.start()
    one_by_one.start()
    assert result_of(in_turns) == result_of(one_by_one)


def test_k9_no_two_units_and_no_two_incarnations_draw_the_same(run: Start) -> None:
    h = run(drawing, True)
    h.start()
    drawn = [one for unit in result_of(h) for one in unit]
    assert len(set(drawn)) == len(drawn) == 24


def test_k9_another_seed_draws_others_and_the_same_seed_the_same() -> None:
    def result(seed: int) -> list[list[str]]:
        h = Harness(drawing, False, seed=seed)
        h.start()
        return result_of(h)

    assert result(7) == result(7)
    flat = [one for seed in (7, 8) for unit in result(seed) for one in unit]
    assert len(set(flat)) == 48


def test_k9_the_numbers_of_a_seed_are_the_same_for_ever() -> None:
    """K9, K1: a change here changes what open runs draw."""
    h = Harness(drawing, False, seed=7)
    h.start()
    assert result_of(h)[0][:2] == ["6408883909694915266", "de5dfb85-71ae-403c-8ec6-e7bdaf6b5b93"]
    assert result_of(h)[2][:2] == ["15109372456512057811", "e427105a-6183-4316-b5f2-0fdb1c1df22e"]
