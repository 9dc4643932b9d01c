"""Seed 000, replay: code that changed, records that do not fit, answers that nobody asked for, patches, randomness."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure import NondeterminismError, activity, deprecate_patch, parallel, patched, random, sleep, uuid4, workflow
from perdure.model.jobs import Patched
from perdure.testing import Harness, Transcript, fire, resolve
from tests.kernel.telling import Start, act, tell, told
from tests.upstreams.branching import two_branches, two_steps


@activity
async def count(name: str) -> int: ...


async def counted(name: str) -> int:
    return await count(name)


async def timed() -> None:
    await sleep(1)


async def one_step(name: str) -> str:
    return await act(f"{name}1")


def recorded_run() -> Harness[list[str]]:
    h = Harness(two_branches)
    h.start()
    h.activate(resolve(1, ""), resolve(0, ""))
    h.activate(resolve(2, ""), resolve(3, ""))
    return h


# --- the code has changed -----------------------------------------------------------------------


@workflow
async def one_missing() -> list[str]:
    return await parallel(two_steps("a"))


@workflow
async def one_more() -> list[str]:
    return await parallel(two_steps("a"), two_steps("b"), two_steps("c"))


@workflow
async def the_other_way() -> list[str]:
    return await parallel(two_steps("b"), two_steps("a"))


@workflow
async def with_another_input() -> list[str]:
    return await parallel(two_steps("a"), two_steps("x"))


@workflow
async def with_another_activity() -> list[Any]:
    return await parallel(two_steps("a"), counted("b1"))


@workflow
async def with_a_timer() -> list[Any]:
    return await parallel(two_steps("a"), timed())


@workflow
async def returning_early() -> list[str]:
    await parallel(one_step("a"), one_step("b"))
    return []


@workflow
async def raising_early() -> list[str]:
    await parallel(one_step("a"), one_step("b"))
    raise ValueError("too early")


@workflow
async def with_another_value() -> list[str]:
    return list(reversed(await parallel(two_steps("a"), two_steps("b"))))


@workflow
async def going_on() -> list[str]:
    value = await parallel(two_steps("a"), two_steps("b"))
    await act("more")
    return value


A1 = 'schedule_activity#0 act ["a1"] @/p0'
B1 = 'schedule_activity#1 act ["b1"] @/p1'
A2 = 'schedule_activity#2 act ["a2"] @/p0'
THE_END = 'complete [["a", "b"]]'

# The code now, the turn in which it differs, and what stands in the record and what comes now.
CHANGES: dict[str, tuple[Any, int, str | None, str | None]] = {
    "missing": (one_missing, 0, B1, None),
    "extra": (one_more, 0, None, 'schedule_activity#2 act ["c1"] @/p2'),
    "reordered": (the_other_way, 0, A1, 'schedule_activity#0 act ["b1"] @/p0'),
    "another input": (with_another_input, 0, B1, 'schedule_activity#1 act ["x1"] @/p1'),
    "another activity": (with_another_activity, 0, B1, 'schedule_activity#1 count ["b1"] @/p1'),
    "another kind": (with_a_timer, 0, B1, "start_timer#1 [1] @/p1"),
    "an early return": (returning_early, 1, A2, "complete [[]]"),
    "an early error": (raising_early, 1, A2, 'fail ["ValueError: too early"]'),
    "another value": (with_another_value, 2, THE_END, 'complete [["b", "a"]]'),
    "a later end": (going_on, 2, THE_END, 'schedule_activity#4 act ["more"]'),
}


@pytest.mark.parametrize("change", CHANGES)
def test_k11_changed_code_does_not_replay_and_the_error_holds_both_sides(change: str) -> None:
    """K11, K12."""
    code, turn, recorded, now = CHANGES[change]
    with pytest.raises(NondeterminismError) as raised:
        Harness.replay_transcript(code, recorded_run().transcript)
    error = raised.value
    shown = [None if one is None else tell(one) for one in (error.recorded, error.now)]
    assert (error.turn, shown) == (turn, [recorded, now])


def test_k11_unchanged_code_meets_every_recorded_command_once_and_records_the_same_bytes() -> None:
    h = recorded_run()
    again = Harness.replay_transcript(two_branches, h.transcript)
    assert [told(turn) for turn in again.turns] == [told(turn) for turn in h.turns]
    assert again.transcript.to_json() == h.transcript.to_json()
    assert again.result == ["a", "b"]


def test_k12_nondeterminism_is_no_failed_run_and_the_right_code_goes_on_from_the_record() -> None:
    h = Harness(two_branches)
    h.start()
    with pytest.raises(NondeterminismError):
        Harness.replay_transcript(the_other_way, h.transcript)
    mended = Harness.replay_transcript(two_branches, h.transcript)
    assert (mended.status, mended.failure) == ("running", None)
    assert told(mended.activate(resolve(0, ""))) == [A2]


# --- the record does not fit ----------------------------------------------------------------------


def test_k11_an_answer_to_a_number_that_was_never_given_tears_the_units_down_and_nothing_of_the_turn_counts() -> None:
    """K11, K12: the answer that stood before it in the turn does not count either."""
    torn_down: list[str] = []

    async def branch(name: str) -> None:
        try:
            await act(name)
        finally:
            torn_down.append(name)

    @workflow
    async def careful() -> None:
        await parallel(branch("a"), branch("b"))

    h = Harness(careful)
    h.start()
    with pytest.raises(NondeterminismError):
        h.activate(resolve(0, ""), resolve(99))
    assert sorted(torn_down) == ["a", "b"]
    assert len(h.transcript.turns) == 1
    torn_down.clear()
    assert h.activate(resolve(0, "")).commands == []
    assert torn_down == ["a"]
    h.replay()


def test_k11_a_record_in_which_the_branches_changed_places_does_not_replay() -> None:
    h = Harness(two_branches)
    h.start()
    record = json.loads(h.transcript.to_json())
    one, other = record["turns"][0]["commands"]
    for field in ("unit", "input"):
        one[field], other[field] = other[field], one[field]
    with pytest.raises(NondeterminismError) as raised:
        Harness.replay_transcript(two_branches, Transcript.from_json(json.dumps(record)))
    assert (raised.value.turn, raised.value.field) == (0, "unit")


def test_k7_numbers_go_on_over_the_turns_and_over_all_kinds_that_can_be_answered(run: Start) -> None:
    @workflow
    async def counted_through() -> None:
        first, second = act("a"), sleep(1)
        await first
        await second
        await count("b")

    h = run(counted_through)
    assert [command.seq for command in h.start().commands] == [0, 1]
    h.activate(fire(1))
    assert [command.seq for command in h.activate(resolve(0, "")).commands] == [2]


# --- patches ------------------------------------------------------------------------------------


@workflow
async def guarded() -> str:
    path = "new" if patched("use-new") else "old"
    return await act(path)


@workflow
async def before_the_patch() -> str:
    return await act("old")


@workflow
async def without_condition() -> str:
    deprecate_patch("use-new")
    return await act("new")


@workflow
async def long_after() -> str:
    return await act("new")


def test_m9_a_patch_is_true_in_a_live_run_and_marked_once_before_what_depends_on_it(run: Start) -> None:
    @workflow
    async def twice() -> list[bool]:
        first = patched("use-new")
        await act("new")
        return [first, patched("use-new")]

    h = run(twice)
    assert told(h.start()) == ["set_patch use-new", 'schedule_activity#0 act ["new"]']
    assert told(h.activate(resolve(0, ""))) == ["complete [[true, true]]"]


def test_m9_a_patch_is_false_in_a_run_that_began_before_it() -> None:
    old = Harness(before_the_patch)
    old.start()
    h = Harness.replay_transcript(guarded, old.transcript)
    assert told(h.turns[0]) == ['schedule_activity#0 act ["old"]']
    h.activate(resolve(0, "as ever"))
    assert h.result == "as ever"


def test_m9_a_patch_that_the_turn_is_told_of_is_true_and_its_mark_is_emitted_all_the_same(run: Start) -> None:
    h = run(guarded)
    assert told(h.start(Patched("use-new"))) == ["set_patch use-new", 'schedule_activity#0 act ["new"]']


def test_m9_a_deprecated_patch_is_marked_live_matches_a_full_mark_and_is_silent_where_there_is_none(run: Start) -> None:
    h = run(without_condition)
    (mark, _) = h.start().commands
    assert (mark.kind, mark.name, mark.options) == ("set_patch", "use-new", {"deprecated": True})
    full, none = Harness(guarded), Harness(long_after)
    full.start()
    none.start()
    assert told(Harness.replay_transcript(without_condition, full.transcript).turns[0])[0] == "set_patch use-new"
    assert told(Harness.replay_transcript(without_condition, none.transcript).turns[0]) == told(none.turns[0])


# --- random numbers -----------------------------------------------------------------------------


@workflow
async def drawing() -> list[Any]:
    one, identity, two = random().random(), uuid4(), random().random()
    await act(f"{one} {identity} {two}")
    return [one, str(identity), two]


def test_k9_random_numbers_and_uuids_are_equal_on_every_replay(run: Start) -> None:
    """K9: they go into an activity's input, so that another draw on a replay would be nondeterminism."""
    h, again, seeded = run(drawing), Harness(drawing), Harness(drawing, seed=1)
    first = told(h.start())
    assert told(again.start()) == first
    assert told(seeded.start()) != first
    h.activate(resolve(0, ""))
    one, identity, two = list[Any](h.result or [])
    assert 0 <= one < 1
    assert 0 <= two < 1
    assert one != two
    assert (identity[14], identity[19] in "89ab") == ("4", True)


def test_k9_what_a_unit_draws_does_not_depend_on_who_else_draws_and_no_two_draw_the_same(run: Start) -> None:
    async def draw(gate: str) -> list[Any]:
        await act(gate)
        return [random().random(), str(uuid4())]

    @workflow
    async def two_draw() -> list[list[Any]]:
        return await parallel(draw("a"), draw("b"))

    drawn: list[Any] = []
    for jobs in ([(0, 1)], [(1, 0)], [(0,), (1,)], [(1,), (0,)]):
        h = run(two_draw)
        h.start()
        for seqs in jobs:
            h.activate(*(resolve(seq, "") for seq in seqs))
        drawn.append(h.result)
    assert drawn[1:] == drawn[:-1]
    (one, identity), (other, another) = drawn[0]
    assert one != other
    assert identity != another
