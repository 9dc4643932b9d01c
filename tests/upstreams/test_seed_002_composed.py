"""Seed 002's table of replay cases, groups 9 to 15: races and joins, numbers, replaying, children, failures, edges."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid5

import pytest

from perdure import (
    ActivityFailed,
    ApplicationError,
    Failure,
    InvalidValue,
    NondeterminismError,
    child,
    continue_as_new,
    info,
    parallel,
    publish,
    race,
    receive,
    set_state,
    sleep,
    workflow,
)
from perdure.testing import Harness, evict, fail, fire, resolve
from tests.kernel.telling import Start, told
from tests.upstreams.baseline import STARTED, asked, end, greet, history, job, replayed, timer


@workflow
async def errand(what: str) -> str: ...


# --- 9. races and joins ---------------------------------------------------------------------------


@workflow(name="now")
async def in_time() -> str:
    index, value = await race(greet("Ann"), sleep(60))
    return "timeout" if index else str(value)


@workflow(name="now")
async def both() -> list[str]:
    return await parallel(greet("Ann"), greet("Bob"))


RACING = ([STARTED], [asked("greet", 0, "Ann"), timer(1, 60)])
JOINING = ([STARTED], [asked("greet", 0, "Ann"), asked("greet", 1, "Bob")])


def test_m6_group_9_an_activity_that_wins_a_race_cancels_the_timer_live_and_on_record() -> None:
    h = replayed(in_time, history(RACING))
    assert told(h.activate(resolve(0, "hi"))) == ["cancel_timer#1", 'complete ["hi"]']
    h.replay()


def test_m6_group_9_a_timer_that_wins_a_race_cancels_the_activity_live_and_on_record() -> None:
    h = replayed(in_time, history(RACING))
    assert told(h.activate(fire(1))) == ["cancel_activity#0", 'complete ["timeout"]']
    h.replay()


@pytest.mark.parametrize(("first", "winner"), [("answer", "hi"), ("timer", "timeout")])
def test_k13_group_9_of_two_answers_in_one_turn_the_first_in_the_record_wins(first: str, winner: str) -> None:
    """K13: on record as live; the loser has ended, so that there is nothing to cancel."""
    jobs = [job("resolved", seq=0, value="hi"), job("fired", seq=1)]
    turn = (jobs if first == "answer" else jobs[::-1], [end("complete", winner)])
    assert replayed(in_time, history(RACING, turn)).result == winner


def test_k11_group_9_a_race_in_which_nobody_has_won_asks_for_nothing_more() -> None:
    h = replayed(in_time, history(RACING))
    assert (h.status, len(h.turns[-1].commands)) == ("running", 2)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_p6_group_9_a_join_gives_its_values_in_input_order_and_waits_for_all(order: tuple[int, int]) -> None:
    """P6: whichever comes first, and if one is on record and the other live."""
    values = ["a", "b"]
    here, there = order
    h = replayed(both, history(JOINING, ([job("resolved", seq=here, value=values[here])], [])))
    assert h.status == "running"
    h.activate(resolve(there, values[there]))
    assert h.result == values


def test_k4_group_9_a_fresh_join_asks_for_everything_in_its_first_turn(run: Start) -> None:
    @workflow
    async def three() -> list[str]:
        return await parallel(*[greet(str(number)) for number in range(3)])

    assert [command.seq for command in run(three).start().commands] == [0, 1, 2]


# --- 10. numbers -----------------------------------------------------------------------------------


def test_k7_group_10_one_counter_numbers_all_that_can_be_answered_and_goes_on_after_a_replay(run: Start) -> None:
    """K7: from 0, never reset; what nobody answers takes no number."""

    @workflow
    async def many() -> None:
        publish("begun")
        first = greet("Ann")
        set_state("step", 1)
        sleep(5)
        child(errand, "bread")
        await first
        await sleep(1)
        await greet("Bob")

    h = run(many)
    numbers = [[command.seq for command in h.start().commands]]
    numbers += [[command.seq for command in h.activate(answer).commands] for answer in (resolve(0, "hi"), fire(3))]
    assert numbers == [[None, 0, None, 1, 2], [3], [4]]
    assert h.replay().activate(resolve(4, "hi")).commands[-1].kind == "complete"


@pytest.mark.parametrize("seq", [1, 5])
def test_k7_group_10_a_record_with_a_gap_in_its_numbers_is_not_one_of_this_code(seq: int) -> None:
    """K7, K11: the upstream tolerates gaps of old histories; here a number is part of the command."""
    with pytest.raises(NondeterminismError) as raised:
        replayed(both, history(([STARTED], [asked("greet", seq, "Ann"), asked("greet", seq + 1, "Bob")])))
    assert raised.value.field == "seq"


# --- 11. replaying ---------------------------------------------------------------------------------


def test_k6_group_11_a_run_knows_that_it_replays_up_to_the_end_of_its_record_and_not_beyond() -> None:
    """K6: the metadata of a turn; live it is false, in a rebuilt turn true."""
    seen: list[tuple[str, bool]] = []

    @workflow(name="now")
    async def aware() -> None:
        seen.append(("began", info().replaying))
        await greet("Ann")
        seen.append(("went on", info().replaying))
        await greet("Bob")
        seen.append(("ended", info().replaying))

    h = Harness(aware)
    h.start()
    h.activate(resolve(0, "hi"))
    assert seen == [("began", False), ("went on", False)]
    h.activate(evict())
    seen.clear()
    h.activate(resolve(1, "hi"))
    assert seen == [("began", True), ("went on", True), ("ended", False)]
    seen.clear()
    h.replay()
    assert {replaying for _, replaying in seen} == {True}


def test_k6_group_11_what_is_done_only_when_not_replaying_is_done_once() -> None:
    """K6, K10: the guard that the seed recommends; it may not guard a command."""
    written: list[str] = []

    @workflow(name="now")
    async def careful() -> str:
        word = await greet("Ann")
        if not info().replaying:
            written.append(word)
        return await greet("Bob")

    h = Harness(careful)
    h.start()
    h.activate(resolve(0, "hi"), evict())
    h.replay()
    h.activate(resolve(1, "hi"))
    assert written == ["hi"]

    @workflow(name="now")
    async def careless() -> str:
        return await greet("Ann" if info().replaying else "Bob")

    live = Harness(careless)
    live.start()
    with pytest.raises(NondeterminismError):
        live.replay()


# --- 12. ids of children ---------------------------------------------------------------------------


@workflow(name="now")
async def sends(count: int) -> list[str]:
    started = [child(errand, "bread"), child(errand, "milk", id="milk-1"), child(errand, "salt")]
    if count:
        continue_as_new(count - 1)
    await parallel(*started)
    return [one.id for one in started]


def test_k8_group_12_a_child_without_an_id_gets_one_from_its_run_and_number_and_a_given_one_stays(run: Start) -> None:
    """K8: so that no record has to keep it, and a replay finds the same child."""
    h = run(sends, 0, run_id="00000000-0000-4000-8000-00000000000a")
    h.start()
    h.activate(*(resolve(seq, "ok") for seq in range(3)))
    derived = UUID("00000000-0000-4000-8000-00000000000a")
    assert h.result == [str(uuid5(derived, "0")), "milk-1", str(uuid5(derived, "2"))]


def test_k8_group_12_the_children_of_two_generations_have_different_ids() -> None:
    """K8, M8: the upstream puts the generation into the id; here it has a run id of its own."""
    h = Harness(sends, 1)
    h.start()
    following = h.next_generation()
    following.start()
    following.activate(*(resolve(seq, "ok") for seq in range(3)))
    alone = Harness(sends, 0)
    alone.start()
    alone.activate(*(resolve(seq, "ok") for seq in range(3)))
    assert following.result is not None
    assert alone.result is not None
    assert following.result[1] == alone.result[1] == "milk-1"
    assert set(following.result) & set(alone.result) == {"milk-1"}


# --- 13. failures of activities ----------------------------------------------------------------------


CLASSES: list[tuple[Any, list[Any]]] = [
    (ApplicationError("broke", type="Broken", retryable=True), ["Broken", "broke", True, None]),
    (ApplicationError("broke", type="Broken", retryable=False, details=[1]), ["Broken", "broke", False, [1]]),
    (Failure("Timeout", "broke"), ["Timeout", "broke", True, None]),
    (ValueError("broke"), ["ValueError", "broke", True, None]),
]


@pytest.mark.parametrize(("error", "said"), CLASSES, ids=["transient", "final", "timeout", "exception"])
def test_e4_group_13_a_failed_activity_raises_in_the_code_with_what_it_said(
    run: Start, error: Any, said: list[Any]
) -> None:
    """E4, K10: whatever class it is of; a timeout is a failure of type Timeout."""

    @workflow
    async def handles() -> list[Any]:
        try:
            await greet("Ann")
        except ActivityFailed as failed:
            return [failed.failure.type, failed.failure.message, failed.failure.retryable, failed.failure.details]
        return []

    h = run(handles)
    h.start()
    h.activate(fail(0, error))
    assert h.result == said


def test_k20_group_13_an_answer_that_is_no_such_value_drops_the_turn_and_never_fails_the_workflow() -> None:
    """K20, section 6: of the upstream's classes that abort the turn, what a kernel can see: the run can go on."""

    @workflow
    async def would_swallow() -> str:
        try:
            return await greet("Ann")
        except Exception:
            return "swallowed"

    h = Harness(would_swallow)
    h.start()
    with pytest.raises(InvalidValue, match="the result of activity `greet`: expected str, got int"):
        h.activate(resolve(0, 5))
    assert (h.status, len(h.transcript.turns)) == ("running", 1)
    h.activate(resolve(0, "hi"))
    assert h.result == "hi"


# --- 14. code that breaks ----------------------------------------------------------------------------


@pytest.mark.parametrize("error", [RuntimeError("oops"), AssertionError(42), ZeroDivisionError()])
def test_k12_group_14_an_exception_of_live_code_fails_the_workflow(run: Start, error: Exception) -> None:
    """K12: it is the workflow that failed, and no nondeterminism; the failure says which exception it was."""

    @workflow
    async def breaks() -> None:
        await greet("Ann")
        raise error

    h = run(breaks)
    h.start()
    h.activate(resolve(0, "hi"))
    assert h.failure is not None
    assert (h.failure.type, h.failure.message) == (type(error).__name__, str(error))


def test_k11_group_14_an_exception_where_the_record_shows_more_is_nondeterminism_with_its_line() -> None:
    """K11: an exception raised before the end of what is recorded."""

    @workflow(name="now")
    async def breaks() -> None:
        raise RuntimeError("oops")

    with pytest.raises(NondeterminismError, match="oops") as raised:
        replayed(breaks, history(([STARTED], [asked("greet", 0, "Ann")])))
    assert raised.value.now is not None
    assert raised.value.now.kind == "fail"
    assert raised.value.now.source is not None


# --- 15. edges ---------------------------------------------------------------------------------------


def test_k4_group_15_a_sleep_of_nothing_is_a_yield_and_no_timer(run: Start) -> None:
    """K4, api.md."""

    @workflow
    async def rests_not_at_all() -> str:
        await sleep(0)
        return "at once"

    assert told(run(rests_not_at_all).start()) == ['complete ["at once"]']


@pytest.mark.parametrize("answer", ["", "x" * 1_000_000, "🦜"], ids=["empty", "large", "unicode"])
def test_k20_group_15_an_answer_of_any_size_is_given_as_it_is(run: Start, answer: str) -> None:
    @workflow
    async def takes() -> str:
        return await greet("")

    h = run(takes)
    assert h.start().commands[0].input == [""]
    h.activate(resolve(0, answer))
    assert h.result == answer


def test_e10_group_15_the_code_is_called_once_for_a_live_run_and_once_more_for_each_rebuilding() -> None:
    """E10: the upstream calls it in every turn; a live copy goes on where it waits."""
    called: list[int] = []

    @workflow(name="now")
    async def counts() -> None:
        called.append(1)
        for number in range(5):
            await greet(str(number))
        await receive("end", str)

    h = Harness(counts)
    h.start()
    for number in range(5):
        h.activate(resolve(number, "hi"))
    assert len(called) == 1
    h.activate(evict())
    assert len(called) == 1
    h.activate()
    assert len(called) == 2
