"""M6: what a cancellation interrupts, in which order, and how a cancelled run ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import perdure
from perdure import cancelled as is_cancelled
from perdure import parallel, promise, race, receive, scope, shielded, sleep, wait_until, workflow
from perdure.testing import cancel, cancelled, fail, fire, resolve, signal
from tests.kernel.telling import Start, abandons, act, asked, told, waits


@workflow
async def child_flow() -> str: ...


@workflow
async def everything() -> None:
    await parallel(
        act("a"),
        sleep(5),
        perdure.child(child_flow),
        promise("p"),
        receive("s"),
        wait_until(lambda: False),
        abandons("b"),
        asyncio.sleep(7),
        wait_until(lambda: False, timeout=9),
        receive("s", timeout=11),
    )


def test_m6_a_cancelled_run_cancels_what_is_pending_and_ends_cancelled(run: Start) -> None:
    h = run(everything)
    h.start()
    turn = h.activate(cancel("enough"))
    assert told(turn) == [
        "cancel_activity#0",
        "cancel_timer#1",
        "cancel_child#2",
        "cancel_timer#5",
        "cancel_timer#6 @/p7",
        "cancel_timer#7 @/p8",
        "cancel",
    ]
    assert (h.status, h.result, h.failure) == ("cancelled", None, None)


def test_m6_cancel_commands_leave_in_unit_order_with_numbers_compared_as_numbers(run: Start) -> None:
    async def branch(number: int) -> None:
        if number == 3:
            await parallel(act("3.0"), nested("3.1"), nested("3.2"))
        else:
            await act(str(number))

    async def nested(name: str) -> None:
        await act(name)

    @workflow
    async def wide() -> None:
        await parallel(*(branch(number) for number in range(12)))

    h = run(wide)
    names = {command.seq: command.input[0] for command in asked(h.start())}
    turn = h.activate(cancel())
    cancels = asked(turn, "cancel_activity")
    expected = ["0", "1", "2", "3.0", "3.1", "3.2", *(str(number) for number in range(4, 12))]
    assert [names[command.seq] for command in cancels] == expected
    assert [command.unit for command in cancels][-2:] == ["/p10", "/p11"]


def test_m6_root_branches_tasks_and_handlers_are_cancelled_in_that_order(run: Start) -> None:
    @workflow
    class All:
        async def run(self) -> None:
            task = asyncio.create_task(self.work("task"))
            mine = act("root")
            await parallel(self.work("p0"), self.work("p1"))
            await asyncio.gather(task, mine)

        async def work(self, name: str) -> None:
            await act(name)

        @perdure.signal
        async def go(self) -> None:
            await act("handler")

    h = run(All)
    first = h.start(signal("go"))
    names = {command.seq: command.input[0] for command in asked(first)}
    cancels = asked(h.activate(cancel()), "cancel_activity")
    assert [names[command.seq] for command in cancels] == ["root", "p0", "p1", "task", "handler"]
    assert h.status == "cancelled"


# --- the three ways to cancel an activity -------------------------------------------------------------


@workflow
async def works(how: str) -> str:
    kinds: dict[str, Any] = {"try": act, "wait": waits, "abandon": abandons}
    try:
        return await kinds[how]("x")
    except asyncio.CancelledError:
        async with shielded():
            await sleep(1)
        return "cancelled"
    except perdure.ActivityFailed:
        return "failed"


def test_m6_try_asks_the_activity_and_goes_on_at_once(run: Start) -> None:
    h = run(works, "try")
    work = h.start().commands[0]
    turn = h.activate(cancel())
    assert told(turn) == ["cancel_activity#0", "start_timer#1 [1]"]
    assert h.activate(resolve(work, "too late")).commands == []
    assert h.dropped == 1
    h.activate(cancelled(work))
    h.activate(fire(turn.commands[1]))
    assert (h.result, h.dropped) == ("cancelled", 2)


def test_m6_wait_asks_the_activity_and_waits_for_its_end(run: Start) -> None:
    h = run(works, "wait")
    work = h.start().commands[0]
    assert told(h.activate(cancel())) == ["cancel_activity#0"]
    assert h.activate(cancel()).commands == []
    turn = h.activate(cancelled(work))
    assert told(turn) == ["start_timer#1 [1]"]
    h.activate(fire(turn.commands[0]))
    assert h.result == "cancelled"


@pytest.mark.parametrize("answer", ["value", "failure"])
def test_m6_an_activity_that_is_waited_for_may_end_in_its_own_way_after_all(run: Start, answer: str) -> None:
    h = run(works, "wait")
    work = h.start().commands[0]
    h.activate(cancel())
    h.activate(resolve(work, "made it") if answer == "value" else fail(work, ValueError("no")))
    assert (h.result, h.dropped) == ("made it" if answer == "value" else "failed", 0)


def test_m6_abandon_asks_nothing_and_goes_on(run: Start) -> None:
    h = run(works, "abandon")
    work = h.start().commands[0]
    turn = h.activate(cancel())
    assert told(turn) == ["start_timer#1 [1]"]
    h.activate(resolve(work, "too late"), fire(turn.commands[0]))
    assert (h.result, h.dropped) == ("cancelled", 1)


def test_m6_a_call_may_choose_how_it_is_cancelled(run: Start) -> None:
    @workflow
    async def chooses() -> str:
        return await act.options(cancellation="wait")("x")

    h = run(chooses)
    work = h.start().commands[0]
    assert work.options == {"cancellation": "wait"}
    h.activate(cancel())
    assert not h.done
    h.activate(cancelled(work))
    assert h.status == "cancelled"


def test_m6_a_future_is_cancelled_by_hand_once(run: Start) -> None:
    @workflow
    async def by_hand() -> list[bool]:
        work, timer = act("x"), sleep(5)
        asked_for = [work.cancel(), work.cancel(), timer.cancel(), work.cancelled(), timer.cancelled()]
        await act("y")
        return asked_for

    h = run(by_hand)
    turn = h.start()
    assert told(turn)[2:4] == ["cancel_activity#0", "cancel_timer#1"]
    h.activate(resolve(turn.commands[0], "late"), fire(turn.commands[1]), resolve(turn.commands[4], ""))
    assert (h.result, h.dropped) == ([True, False, True, True, True], 2)


def test_m6_an_activity_that_ended_cancelled_though_nobody_asked_raises_in_the_workflow(run: Start) -> None:
    h = run(works, "try")
    work = h.start().commands[0]
    turn = h.activate(cancelled(work))
    h.activate(fire(turn.commands[0]))
    assert h.result == "cancelled"


# --- an answer and a cancellation in one turn -----------------------------------------------------------


@workflow
async def two_steps(kind: str) -> list[str]:
    seen: list[str] = []
    try:
        seen.append(await (waits if kind == "wait" else act)("one"))
        seen.append(f"cancelled={is_cancelled()}")
        seen.append(await act("two"))
    except asyncio.CancelledError:
        seen.append("raised")
    return seen


@pytest.mark.parametrize("kind", ["try", "wait"])
@pytest.mark.parametrize("first", ["answer", "cancel"])
def test_m6_an_answer_in_the_turn_of_the_cancellation_is_delivered_first_in_either_order(
    run: Start, first: str, kind: str
) -> None:
    h = run(two_steps, kind)
    work = h.start().commands[0]
    jobs = [resolve(work, "1"), cancel()]
    turn = h.activate(*(jobs if first == "answer" else reversed(jobs)))
    assert told(turn) == ['complete [["1", "cancelled=True", "raised"]]']
    assert h.dropped == 0


def test_m6_a_run_whose_last_answer_comes_with_the_cancellation_keeps_its_value(run: Start) -> None:
    @workflow
    async def last() -> str:
        return await act("x")

    h = run(last)
    work = h.start().commands[0]
    h.activate(cancel(), resolve(work, "done"))
    assert (h.status, h.result) == ("completed", "done")


def test_m6_a_timer_that_fires_in_the_turn_of_the_cancellation_counts(run: Start) -> None:
    @workflow
    async def sleeper() -> str:
        await sleep(5)
        return "slept"

    h = run(sleeper)
    timer = h.start().commands[0]
    h.activate(cancel(), fire(timer))
    assert h.result == "slept"


# --- how a cancelled run ends ----------------------------------------------------------------------------


@workflow
async def ends(how: str) -> str:
    try:
        await act("x")
    except asyncio.CancelledError:
        if how == "value":
            return "kept"
        if how == "error":
            raise ValueError("other") from None
        if how == "chained":
            raise perdure.ApplicationError("chained") from None
        raise
    return "never cancelled"


@pytest.mark.parametrize(
    ("how", "status"), [("value", "completed"), ("error", "failed"), ("chained", "failed"), ("again", "cancelled")]
)
def test_m6_a_cancelled_run_keeps_a_value_fails_with_another_error_and_is_else_cancelled(
    run: Start, how: str, status: str
) -> None:
    h = run(ends, how)
    h.start()
    turn = h.activate(cancel())
    assert (h.status, h.result) == (status, "kept" if how == "value" else None)
    assert turn.commands[-1].kind == {"completed": "complete", "failed": "fail", "cancelled": "cancel"}[status]


def test_m6_a_cancelled_error_of_its_own_making_is_no_cancelled_run(run: Start) -> None:
    @workflow
    async def pretends() -> None:
        raise asyncio.CancelledError

    h = run(pretends)
    h.start()
    assert h.failure is not None
    assert (h.status, h.failure.type) == ("failed", "CancelledError")


def test_m6_a_run_that_is_cancelled_with_its_start_runs_no_code(run: Start) -> None:
    h = run(ends, "value")
    assert told(h.start(cancel())) == ["cancel"]


def test_m6_a_second_cancellation_changes_nothing(run: Start) -> None:
    h = run(works, "try")
    h.start()
    turn = h.activate(cancel("one"), cancel("two"))
    assert told(turn) == ["cancel_activity#0", "start_timer#1 [1]"]
    assert h.activate(cancel("three")).commands == []
    h.activate(fire(turn.commands[1]))
    assert h.result == "cancelled"


def test_m6_a_run_that_ignores_its_cancellation_is_told_again_at_every_pause(run: Start) -> None:
    @workflow
    async def stubborn() -> list[int]:
        seen = [0, 0, 0, 0, 0]
        waits_for: list[Any] = [
            lambda: act("x"),
            lambda: sleep(1),
            lambda: asyncio.sleep(1),
            lambda: asyncio.get_running_loop().create_future(),
            lambda: asyncio.sleep(0),
        ]
        for number, make in enumerate(waits_for):
            for _ in range(2):
                try:
                    await make()
                except asyncio.CancelledError:
                    seen[number] += 1
        return seen

    h = run(stubborn)
    h.start()
    turn = h.activate(cancel())
    assert h.result == [2, 2, 2, 2, 2]
    scheduled = {command.seq for command in turn.commands if command.kind.startswith(("schedule", "start"))}
    assert scheduled == {command.seq for command in turn.commands if command.kind.startswith("cancel_")} - {0}


def test_m6_in_a_cancelled_scope_no_activity_child_promise_or_timer_is_asked_for(run: Start) -> None:
    @workflow
    async def late() -> list[bool]:
        async with scope() as region:
            region.cancel()
            futures: list[Any] = [act("x"), sleep(5), promise("p"), perdure.child(child_flow), receive("s", timeout=5)]
            return [future.cancelled() for future in futures]
        return []

    h = run(late)
    assert told(h.start()) == ["complete [[true, true, true, true, true]]"]


def test_m6_cancelled_says_whether_this_code_was_asked_to_cancel_even_under_a_shield(run: Start) -> None:
    @workflow
    async def looks() -> list[bool]:
        seen = [is_cancelled()]
        async with scope() as region:
            region.cancel()
            seen.append(is_cancelled())
            async with shielded():
                seen.append(is_cancelled())
                await sleep(1)
        return [*seen, is_cancelled()]

    h = run(looks)
    h.activate(fire(h.start().commands[0]))
    assert h.result == [False, True, True, False]


def test_m6_losing_a_race_cancels_the_loser(run: Start) -> None:
    @workflow
    async def racing() -> Any:
        async def slow() -> str:
            await sleep(100)
            return "slow"

        return await race(slow, act("fast"), receive("s"))

    h = run(racing)
    turn = h.start()
    assert told(h.activate(resolve(asked(turn)[0], "x"))) == ["cancel_timer#1 @/p0", 'complete [[1, "x"]]']
