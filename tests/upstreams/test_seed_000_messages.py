"""Seed 000, messages: what signals, updates, phases and queries do in the upstream's own tests."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import (
    Continue,
    Later,
    Reply,
    SchedulerViolation,
    Stop,
    now,
    parallel,
    pending,
    phase,
    publish,
    query,
    receive,
    sleep,
    update_state,
    workflow,
)
from perdure.testing import Harness, cancel, fire, resolve, signal, update
from perdure.testing import query as asks
from tests.kernel.telling import Start, act, answers, asked, told
from tests.upstreams.branching import two_steps

Words = list[str]


def append(words: Words, word: str) -> Continue[Words]:
    return Continue([*words, word])


def append_too(words: Words, word: str) -> Reply[Words]:
    return Reply(len(words), [*words, f"update {word}"])


def add_and_stop(words: Words, word: str) -> Stop[Words]:
    return Stop([*words, word], reply="bye")


def stop(words: Words) -> Stop[Words]:
    return Stop(words)


async def append_slowly(words: Words, word: str) -> Continue[Words]:
    await sleep(1)
    return Continue([*words, await act(word)])


async def append_both(words: Words) -> Continue[Words]:
    return Continue([*words, *await parallel(act("a"), act("b"))])


def branch_later(words: Words) -> Later[Words]:
    async def branching() -> list[str]:
        return await parallel(two_steps("c"), two_steps("d"))

    return Later(branching(), words)


def append_later(words: Words, word: str) -> Later[Words]:
    async def rest() -> str:
        answer = await act(word)
        update_state(lambda now: [*now, answer])
        publish(answer)
        return answer

    return Later(rest(), words)


def break_later(words: Words) -> Later[Words]:
    async def rest() -> None:
        await act("breaks")
        raise ValueError("broken")

    return Later(rest(), words)


SIGNALS: dict[str, Any] = {
    "append": append,
    "append_slowly": append_slowly,
    "append_both": append_both,
    "append_later": append_later,
    "stop": stop,
}
UPDATES: dict[str, Any] = {
    "append_too": append_too,
    "add_and_stop": add_and_stop,
    "append_slowly": append_slowly,
    "append_later": append_later,
    "branch_later": branch_later,
    "break_later": break_later,
}


@workflow
async def written(timeout: int | None = None) -> list[str]:
    return (await phase([], signals=SIGNALS, updates=UPDATES, timeout=timeout)).state


# --- order --------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("a", "b"), ("b", "a")])
def test_m5_messages_of_one_turn_are_dispatched_in_the_order_of_arrival(run: Start, words: tuple[str, str]) -> None:
    h = run(written)
    h.start()
    h.activate(*[signal("append", word) for word in words], signal("stop"))
    assert h.result == list(words)


def test_m5_signals_and_updates_of_one_turn_keep_their_order_among_each_other(run: Start) -> None:
    h = run(written)
    h.start()
    turn = h.activate(signal("append", "1"), update("append_too", "2", id="u"), signal("append", "3"))
    assert answers(turn) == [("u", "update_accepted", None), ("u", "update", 1)]
    h.activate(signal("stop"))
    assert h.result == ["1", "update 2", "3"]


def test_m5_a_handler_that_waits_holds_up_those_behind_it_and_may_sleep_and_call_activities(run: Start) -> None:
    h = run(written)
    h.start()
    assert told(h.activate(signal("append_slowly", "1"), signal("append", "2"))) == ["start_timer#0 [1] @/h0"]
    assert told(h.activate(fire(0))) == ['schedule_activity#1 act ["1"] @/h0']
    h.activate(resolve(1, "one"), signal("stop"))
    assert h.result == ["one", "2"]


def test_m1_signals_that_came_with_the_start_are_received_in_the_order_of_arrival(run: Start) -> None:
    @workflow
    async def both() -> list[str]:
        return [await receive("go", str), await receive("go", str)]

    h = run(both)
    assert told(h.start(signal("go", "first"), signal("go", "second"))) == ['complete [["first", "second"]]']


def test_m1_a_buffered_signal_is_taken_by_a_later_phase_and_one_of_another_name_stays(run: Start) -> None:
    @workflow
    async def phase_after_work() -> list[Any]:
        await act("work")
        end = await phase([], signals={"append": append, "stop": stop})
        return [end.state, pending("other"), await receive("other")]

    h = run(phase_after_work)
    h.start(signal("append", "early"), signal("other", "kept"))
    h.activate(resolve(0, ""))
    h.activate(signal("stop"))
    assert h.result == [["early"], 1, "kept"]


# --- updates --------------------------------------------------------------------------------------


def test_m2_an_update_is_rejected_before_a_phase_is_open_and_leaves_no_other_trace(run: Start) -> None:
    @workflow
    async def late_phase() -> list[str]:
        await act("gate")
        return (await phase([], updates={"add_and_stop": add_and_stop})).state

    h = run(late_phase)
    h.start()
    turn = h.activate(update("add_and_stop", "too early", id="u"))
    assert [answer[:2] for answer in answers(turn)] == [("u", "update_rejected")]
    assert [command.kind for command in turn.commands] == ["reject_update"]
    h.activate(resolve(0, ""))
    turn = h.activate(update("add_and_stop", "in time", id="v"))
    assert answers(turn) == [("v", "update_accepted", None), ("v", "update", "bye")]
    assert h.result == ["in time"]


def test_k6_an_update_that_comes_with_the_start_finds_the_phase_that_the_first_rounds_opened(run: Start) -> None:
    turn = run(written).start(update("append_too", "at once", id="u"))
    assert answers(turn) == [("u", "update_accepted", None), ("u", "update", 0)]


def test_k6_messages_wait_until_what_the_answers_of_their_turn_set_going_has_come_to_rest(run: Start) -> None:
    """K6: however many rounds that takes; the seed's single pass rejects this update."""

    @workflow
    async def opening_late() -> list[Any]:
        async def desk() -> list[str]:
            await act("gate")
            for _ in range(5):
                await asyncio.sleep(0)
            return (await phase([], updates=UPDATES)).state

        return await parallel(desk(), act("beside"))

    h = run(opening_late)
    turn = h.start()
    gate = next(command for command in turn.commands if command.input == ["gate"])
    turn = h.activate(update("append_too", "in time", id="u"), resolve(gate, ""))
    assert answers(turn) == [("u", "update_accepted", None), ("u", "update", 0)]


def test_k17_buffered_messages_that_a_phase_takes_queue_behind_the_units_of_their_round(run: Start) -> None:
    def shown(words: Words, word: str) -> Stop[Words]:
        publish(f"handler {word}")
        return Stop([*words, word])

    @workflow
    async def both_at_once() -> None:
        async def desk() -> None:
            await phase([], signals={"go": shown})

        async def beside() -> None:
            await asyncio.sleep(0)
            publish("unit")

        await act("gate")
        await parallel(desk(), beside())

    h = run(both_at_once)
    h.start(signal("go", "a"))
    assert told(h.activate(resolve(0, ""))) == [
        'publish ["unit"] @/p1',
        'publish ["handler a"] @/p0/h0',
        "complete [null]",
    ]


def test_m2_accepted_precedes_what_the_handler_asks_for_and_the_answer_follows(run: Start) -> None:
    h = run(written)
    h.start()
    turn = h.activate(update("append_later", "x", id="u"))
    assert told(turn) == ["accept_update append_later @/h0", 'schedule_activity#0 act ["x"] @/h0/a0']
    turn = h.activate(resolve(0, "X"))
    assert told(turn) == ['publish ["X"] @/h0/a0', 'complete_update append_later ["X"] @/h0']
    h.activate(signal("stop"))
    assert h.result == ["X"]


def test_m5_a_handler_may_branch_at_once_or_later(run: Start) -> None:
    """M5, K2: a synchronous handler and the rest of an asynchronous one may open a `parallel` each."""
    h = run(written)
    h.start()
    turn = h.activate(signal("append_both"))
    assert [command.unit for command in turn.commands] == ["/h0", "/h0"]
    turn = h.activate(resolve(1, "B"), resolve(0, "A"), update("branch_later", id="u"))
    assert [command.unit for command in asked(turn)] == ["/h1/a0/p0", "/h1/a0/p1"]
    h.activate(resolve(2, ""), resolve(3, ""))
    turn = h.activate(resolve(4, ""), resolve(5, ""), signal("stop"))
    assert answers(turn) == [("u", "update", ["c", "d"])]
    assert h.result == ["A", "B"]


# --- asynchronous handlers ------------------------------------------------------------------------


def test_m5_asynchronous_handlers_overlap_each_other_and_the_synchronous_ones(run: Start) -> None:
    h = run(written)
    h.start()
    turn = h.activate(signal("append_later", "a"), signal("append_later", "b"), signal("append", "at once"))
    assert [(command.input, command.unit) for command in turn.commands] == [(["a"], "/h0/a0"), (["b"], "/h1/a0")]
    h.activate(resolve(1, "B"))
    h.activate(resolve(0, "A"), signal("stop"))
    assert h.result == ["at once", "B", "A"]


def test_m5_a_stop_waits_for_the_asynchronous_handlers_and_takes_nothing_more(run: Start) -> None:
    h = run(written, 60)
    h.start()
    turn = h.activate(update("append_later", "a", id="u"), signal("stop"), signal("append", "too late"))
    assert told(turn)[-1] == 'schedule_activity#1 act ["a"] @/h0/a0'
    assert "cancel_timer#0" in told(turn)
    assert not h.done
    assert answers(h.activate(update("append_too", "b", id="v")))[0][1] == "update_rejected"
    assert answers(h.activate(resolve(1, "A"))) == [("u", "update", "A")]
    assert h.result == ["A"]


def test_m5_an_asynchronous_handler_that_raises_fails_its_update_and_the_phase_lives(run: Start) -> None:
    h = run(written)
    h.start()
    h.activate(update("break_later", id="u"))
    turn = h.activate(resolve(0, ""), signal("append", "still here"))
    assert told(turn) == ['fail_update break_later ["ValueError: broken"] @/h0']
    h.activate(signal("stop"))
    assert h.result == ["still here"]


def test_m5_a_phase_ends_by_its_timer_or_cancels_it(run: Start) -> None:
    timed, stopped = run(written, 60), run(written, 60)
    for h in (timed, stopped):
        assert told(h.start(signal("append", "a"))) == ["start_timer#0 [60]"]
    assert told(timed.activate(fire(0))) == ['complete [["a"]]']
    assert told(stopped.activate(signal("stop"))) == ["cancel_timer#0", 'complete [["a"]]']


def test_m6_the_work_of_an_asynchronous_handler_is_cancelled_before_the_run_ends(run: Start) -> None:
    h = run(written, 60)
    h.start()
    h.activate(update("append_later", "a", id="u"), update("append_slowly", "b", id="v"))
    turn = h.activate(cancel())
    work = ["cancel_timer#0", "cancel_activity#2 @/h0/a0", "cancel_timer#1 @/h1"]
    assert told(turn)[:3] == work
    assert sorted(answers(turn)) == [("u", "update", "CancelledError"), ("v", "update", "CancelledError")]
    assert told(turn)[-1] == "cancel"
    assert h.status == "cancelled"


def test_k14_an_update_state_function_that_calls_the_api_drops_the_turn_and_the_state_stays() -> None:
    """K14, M5: the upstream fails that update only; the contract fails the turn, so that no code swallows it."""

    def calls(words: Words) -> Later[Words]:
        async def rest() -> None:
            try:
                update_state(lambda state: [*state, str(now())])
            except SchedulerViolation:
                publish("swallowed")

        return Later(rest(), words)

    @workflow
    async def misused() -> list[str]:
        return (await phase([], signals={"stop": stop, "append": append}, updates={"calls": calls})).state

    h = Harness(misused)
    h.start()
    h.activate(signal("append", "kept"))
    with pytest.raises(SchedulerViolation, match="update_state"):
        h.activate(update("calls", id="u"))
    assert len(h.transcript.turns) == 2
    h.activate(signal("stop"))
    assert h.result == ["kept"]


# --- what the outside sees ------------------------------------------------------------------------


def test_m3_queries_are_answered_while_the_run_waits_and_after_it_has_ended(run: Start) -> None:
    """M3, M10: what a phase holds is shown only by what is published; each publication replaces the one before."""

    @workflow
    class Shop:
        def __init__(self) -> None:
            self.step = "before"

        async def run(self) -> str:
            publish({"step": 1, "words": 0})
            await act("work")
            self.step = "in the phase"
            end = await phase([], signals={"append": append, "stop": stop})
            publish({"step": 2})
            self.step = "after"
            return ",".join(end.state)

        @query
        def where(self, prefix: str) -> str:
            return f"{prefix}: {self.step}"

        @query
        def breaks(self) -> str:
            raise ValueError("no answer")

    h = run(Shop)
    assert told(h.start())[0] == 'publish [{"step": 1, "words": 0}]'
    assert h.activate(asks("where", "now")).answers[0].value == "now: before"
    h.activate(resolve(0, ""))
    turn = h.activate(asks("breaks", id="q"), asks("where", "then", id="r"))
    assert answers(turn) == [("q", "query", "ValueError"), ("r", "query", "then: in the phase")]
    assert h.activate(signal("append", "a")).commands == []
    assert told(h.activate(signal("stop"))) == ['publish [{"step": 2}]', 'complete ["a"]']
    assert h.activate(asks("where", "at the end")).answers[0].value == "at the end: after"


def test_m5_a_phase_in_a_branch_leaves_the_branch_beside_it_alone(run: Start) -> None:
    @workflow
    async def beside() -> list[Any]:
        async def desk() -> list[str]:
            return (await phase([], signals={"append": append, "stop": stop})).state

        return list(await asyncio.gather(two_steps("a"), desk()))

    h = run(beside)
    h.start()
    h.activate(signal("append", "x"), resolve(0, ""))
    h.activate(signal("stop"))
    h.activate(resolve(1, ""))
    assert h.result == ["a", ["x"]]
