"""M6: scopes that nest, time out, are cancelled from elsewhere, and shields against them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import perdure
from perdure import parallel, race, receive, scope, shielded, sleep, wait_until, workflow
from perdure.testing import cancel, cancelled, fail, fire, resolve, signal
from tests.kernel.telling import Start, act, asked, told, waits


def test_m6_a_scope_that_is_cancelled_ends_there_and_the_run_goes_on(run: Start) -> None:
    @workflow
    async def regional() -> list[Any]:
        async def canceller() -> None:
            await receive("stop")
            region.cancel("asked")

        region = scope()
        task = asyncio.create_task(canceller())
        seen: list[Any] = []
        async with region:
            seen.append(await act("one"))
            seen.append(await act("two"))
        await task
        return [*seen, region.cancelled, region.timed_out, await act("after")]

    h = run(regional)
    turn = h.start()
    h.activate(resolve(turn.commands[0], "1"))
    turn = h.activate(signal("stop"))
    assert told(turn) == ["cancel_activity#1", 'schedule_activity#2 act ["after"]']
    h.activate(resolve(turn.commands[1], "done"))
    assert h.result == ["1", True, False, "done"]


def test_m6_a_scope_that_nobody_cancels_is_not_there(run: Start) -> None:
    @workflow
    async def quiet() -> list[Any]:
        async with scope(timeout=60) as region:
            value = await act("x")
            return [value, region.cancelled, region.timed_out]
        return []

    h = run(quiet)
    turn = h.start()
    assert told(turn) == ["start_timer#0 [60]", 'schedule_activity#1 act ["x"]']
    turn = h.activate(resolve(turn.commands[1], "v"))
    assert told(turn) == ["cancel_timer#0", 'complete [["v", false, false]]']


def test_m6_a_scope_whose_time_runs_out_cancels_what_is_in_it_and_raises_timeout(run: Start) -> None:
    @workflow
    async def limited() -> list[Any]:
        region = scope(timeout=60)
        try:
            async with region:
                await parallel(act("x"), sleep(100))
        except TimeoutError:
            return ["timeout", region.cancelled, region.timed_out]
        return []

    h = run(limited)
    timer = h.start().commands[0]
    turn = h.activate(fire(timer))
    assert told(turn)[:2] == ["cancel_activity#1", "cancel_timer#2"]
    assert h.result == ["timeout", True, True]


@pytest.mark.parametrize("first", ["answer", "timer"])
def test_m6_an_answer_in_the_turn_of_the_timeout_is_delivered_first(run: Start, first: str) -> None:
    @workflow
    async def limited() -> list[Any]:
        seen: list[Any] = []
        try:
            async with scope(timeout=60):
                seen.append(await act("x"))
                seen.append(await act("y"))
        except TimeoutError:
            seen.append("timeout")
        return seen

    h = run(limited)
    timer, work = h.start().commands
    jobs = [resolve(work, "v"), fire(timer)]
    h.activate(*(jobs if first == "answer" else reversed(jobs)))
    assert h.result == ["v", "timeout"]


def test_m6_scopes_nest_and_the_outer_cancels_the_inner_but_not_the_other_way_round(run: Start) -> None:
    @workflow
    async def nested(which: str) -> list[str]:
        seen: list[str] = []

        async def canceller() -> None:
            await receive("stop")
            (outer if which == "outer" else inner).cancel()

        outer, inner = scope(), scope()
        canceller_task = asyncio.create_task(canceller())
        async with outer:
            async with inner:
                await act("inner")
                seen.append("unreachable")
            seen.append("after inner")
            await act("outer")
            seen.append("end of outer")
        await canceller_task
        return seen

    for which, kinds, result in (
        ("outer", ["cancel_activity", "complete"], []),
        ("inner", ["cancel_activity", "schedule_activity"], ["after inner", "end of outer"]),
    ):
        h = run(nested, which)
        h.start()
        turn = h.activate(signal("stop"))
        assert [command.kind for command in turn.commands] == kinds
        if which == "inner":
            h.activate(resolve(turn.commands[1], ""))
        assert h.result == result


@pytest.mark.parametrize("by", ["handler", "branch", "itself", "before"])
def test_m6_a_scope_is_cancelled_from_anywhere_in_the_run(run: Start, by: str) -> None:
    @workflow
    class Anywhere:
        def __init__(self) -> None:
            self.region = scope() if False else None
            self.seen = ""

        async def run(self, by: str) -> str:
            self.region = scope()
            if by == "before":
                self.region.cancel()
            await parallel(self.work(by), self.other(by))
            return self.seen

        async def work(self, by: str) -> None:
            assert self.region is not None
            async with self.region:
                if by == "itself":
                    self.region.cancel()
                await act("x")
                self.seen += "went on"
            self.seen += "left"

        async def other(self, by: str) -> None:
            await act("trigger")
            if by == "branch" and self.region:
                self.region.cancel()

        @perdure.signal
        def stop(self) -> None:
            if self.region:
                self.region.cancel()

    h = run(Anywhere, by)
    turn = h.start()
    work = {command.input[0]: command for command in asked(turn)}
    if by == "handler":
        turn = h.activate(signal("stop"))
        assert told(turn) == ["cancel_activity#0 @/p0"]
    turn = h.activate(resolve(work["trigger"], ""))
    assert h.result == "left"
    assert ("x" in work) == (by in ("handler", "branch"))


def test_m6_a_scope_can_be_entered_once_only(run: Start) -> None:
    @workflow
    async def again() -> str:
        region = scope()
        async with region:
            pass
        try:
            async with region:
                pass
        except RuntimeError as error:
            return str(error)
        return "twice"

    h = run(again)
    h.start()
    assert h.result == "a scope can be entered once only"


# --- a cancelled scope stays cancelled -------------------------------------------------------------------


def test_m6_every_later_unshielded_pause_of_a_cancelled_scope_raises_and_a_shielded_one_does_not(run: Start) -> None:
    @workflow
    async def cleaning() -> list[str]:
        seen: list[str] = []
        async with scope(timeout=None) as region:
            region.cancel()
            for number in range(3):
                try:
                    await asyncio.sleep(0)
                except asyncio.CancelledError:
                    seen.append(f"raised {number}")
                async with shielded():
                    seen.append(await act(f"clean {number}"))
        return [*seen, await act("after")]

    h = run(cleaning)
    turn = h.start()
    for _ in range(4):
        turn = h.activate(resolve(turn.commands[0], turn.commands[0].input[0]))
    expected = [text for number in range(3) for text in (f"raised {number}", f"clean {number}")]
    assert h.result == [*expected, "after"]


def test_m6_a_shield_inside_a_cancelled_scope_lets_units_in_it_work_too(run: Start) -> None:
    @workflow
    async def cleaning() -> list[str]:
        async def undo(name: str) -> str:
            return await act(name) + await act(name + "'")

        try:
            await act("work")
        finally:
            async with shielded():
                first = await parallel(undo("a"), undo("b"))
                second = await asyncio.gather(undo("c"), undo("d"))
                await sleep(1)
                async with asyncio.TaskGroup() as group:
                    group.create_task(undo("e"))
        return [*first, *second]

    h = run(cleaning)
    h.start()
    turn = h.activate(cancel())
    assert [command.input[0] for command in asked(turn)] == ["a", "b"]
    for _ in range(8):
        waiting = [*asked(turn), *asked(turn, "start_timer")]
        if not waiting:
            break
        answers = [fire(one) if one.kind == "start_timer" else resolve(one, one.input[0]) for one in waiting]
        turn = h.activate(*answers)
    assert h.status == "cancelled"
    names = [command.input[0] for turn in h.turns for command in asked(turn)]
    assert names == ["work", "a", "b", "a'", "b'", "c", "d", "c'", "d'", "e", "e'"]


def test_m6_a_scope_inside_a_shield_may_be_cancelled(run: Start) -> None:
    @workflow
    async def inside() -> str:
        try:
            await act("work")
        except asyncio.CancelledError:
            async with shielded():
                try:
                    async with scope(timeout=5):
                        await act("clean")
                except TimeoutError:
                    return "clean-up took too long"
        return "done"

    h = run(inside)
    h.start()
    turn = h.activate(cancel())
    assert told(turn) == ["cancel_activity#0", "start_timer#1 [5]", 'schedule_activity#2 act ["clean"]']
    assert told(h.activate(fire(turn.commands[1])))[0] == "cancel_activity#2"
    assert h.result == "clean-up took too long"


def test_m6_the_cancellation_that_came_during_a_shield_is_raised_at_the_first_pause_after_it(run: Start) -> None:
    @workflow
    async def careful() -> list[str]:
        seen: list[str] = []
        async with shielded():
            seen.append(await act("one"))
            seen.append(await act("two"))
        try:
            await act("three")
        except asyncio.CancelledError:
            seen.append("raised")
        return seen

    h = run(careful)
    turn = h.start()
    assert h.activate(cancel()).commands == []
    turn = h.activate(resolve(turn.commands[0], "1"))
    assert told(h.activate(resolve(turn.commands[0], "2"))) == ['complete [["1", "2", "raised"]]']


def test_m6_a_wait_activity_in_a_scope_holds_the_scope_open_until_it_has_ended(run: Start) -> None:
    @workflow
    async def holding() -> str:
        async with scope(timeout=5):
            await waits("x")
        return "unreachable"

    h = run(holding)
    timer, work = h.start().commands
    assert told(h.activate(fire(timer))) == ["cancel_activity#1"]
    h.activate(cancelled(work))
    assert h.failure is not None
    assert h.failure.type == "TimeoutError"


# --- races and branches ---------------------------------------------------------------------------------


def test_m6_a_loser_may_clean_up_behind_a_shield_and_the_race_waits_for_it(run: Start) -> None:
    @workflow
    async def racing() -> Any:
        async def loser() -> None:
            try:
                await sleep(100)
            finally:
                async with shielded():
                    await act("undo")

        winner = await race(act("fast"), loser)
        return [*winner, await act("after")]

    h = run(racing)
    fast = asked(h.start())[0]
    turn = h.activate(resolve(fast, "x"))
    assert told(turn) == ["cancel_timer#1 @/p1", 'schedule_activity#2 act ["undo"] @/p1']
    turn = h.activate(resolve(turn.commands[1], ""))
    h.activate(resolve(turn.commands[0], "y"))
    assert h.result == [0, "x", "y"]


def test_m6_a_failing_branch_cancels_the_rest_in_order_and_its_error_is_raised(run: Start) -> None:
    @workflow
    async def failing() -> str:
        async def work(name: str) -> str:
            return await act(name)

        try:
            await parallel(work("a"), act("b"), work("c"), parallel(work("d"), work("e")))
        except perdure.ActivityFailed as error:
            return error.failure.message
        return "none failed"

    h = run(failing)
    names = {command.input[0]: command for command in asked(h.start())}
    turn = h.activate(fail(names["c"], ValueError("boom")))
    cancels = [command.seq for command in asked(turn, "cancel_activity")]
    assert cancels == [names[name].seq for name in "abde"]
    assert h.result == "boom"


def test_m6_a_branch_that_has_not_begun_is_cancelled_without_running(run: Start) -> None:
    @workflow
    async def never() -> list[Any]:
        ran: list[str] = []

        async def late() -> None:
            ran.append("late")
            await act("late")

        winner = await race(sleep(0), late)
        task = asyncio.create_task(late())
        task.cancel()
        outcomes = await asyncio.gather(task, return_exceptions=True)
        return [winner[0], type(outcomes[0]).__name__, ran]

    h = run(never)
    h.start()
    assert h.result == [0, "CancelledError", []]


def test_m6_a_condition_in_a_cancelled_scope_is_not_looked_at_any_more(run: Start) -> None:
    @workflow
    async def conditional() -> list[Any]:
        looked: list[int] = []

        def look() -> bool:
            looked.append(1)
            return False

        async def waiter() -> None:
            await wait_until(look, timeout=50)

        await race(sleep(5), waiter)
        before = len(looked)
        await act("x")
        return [before > 0, len(looked) - before]

    h = run(conditional)
    turn = h.start()
    turn = h.activate(fire(turn.commands[0]))
    assert [command.kind for command in turn.commands] == ["cancel_timer", "schedule_activity"]
    h.activate(resolve(turn.commands[1], ""))
    assert h.result == [True, 0]
