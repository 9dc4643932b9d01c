"""M4: promises are made by the workflow and settled once, from outside."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import AlreadyExists, NotFound, PromiseRejected, UsageError, parallel, promise, race, sleep, workflow
from perdure.testing import cancel, fire, reject_promise, resolve, resolve_promise
from tests.kernel.telling import Start, act, told


@workflow
async def approval(timeout: int | None) -> str:
    try:
        return f"approved: {await promise('ok', bool, timeout=timeout)}"
    except PromiseRejected as error:
        return f"rejected: {error.failure.message}"
    except TimeoutError:
        return "too late"


def test_m4_a_promise_is_resolved_from_outside_by_name(run: Start) -> None:
    h = run(approval, None)
    turn = h.start()
    assert told(turn) == ["create_promise#0 ok"]
    assert told(h.activate(resolve_promise("ok", True))) == ['complete ["approved: True"]']


def test_m4_a_promise_is_resolved_by_its_command_too(run: Start) -> None:
    h = run(approval, None)
    turn = h.start()
    h.activate(resolve(turn.commands[0], False))
    assert h.result == "approved: False"


def test_m4_a_promise_is_rejected_from_outside(run: Start) -> None:
    h = run(approval, None)
    h.start()
    h.activate(reject_promise("ok", "no money"))
    assert h.result == "rejected: no money"


def test_m4_a_rejection_that_nobody_catches_fails_the_run(run: Start) -> None:
    @workflow
    async def trusting() -> None:
        await promise("ok")

    h = run(trusting)
    h.start()
    h.activate(reject_promise("ok", "no money"))
    assert h.failure is not None
    assert (h.failure.type, "no money" in h.failure.message) == ("PromiseRejected", True)


def test_m4_a_promise_with_a_timeout_starts_its_timer_right_after_itself(run: Start) -> None:
    h = run(approval, 60)
    turn = h.start()
    assert told(turn) == ["create_promise#0 ok", "start_timer#1 [60]"]
    assert told(h.activate(fire(turn.commands[1]))) == ['complete ["too late"]']


@pytest.mark.parametrize("job", [resolve_promise("ok", True), reject_promise("ok", "no")])
def test_m4_a_promise_that_is_settled_in_time_cancels_its_timer(run: Start, job: Any) -> None:
    h = run(approval, 60)
    h.start()
    assert told(h.activate(job))[0] == "cancel_timer#1"


def test_m4_of_an_answer_and_a_timeout_in_one_turn_the_first_wins(run: Start) -> None:
    for order, result in ((0, "approved: True"), (1, "too late")):
        h = run(approval, 60)
        timer = h.start().commands[1]
        jobs = [resolve_promise("ok", True), fire(timer)]
        h.activate(*(reversed(jobs) if order else jobs))
        assert (h.result, h.dropped) == (result, 1)


@workflow
async def two() -> list[Any]:
    first, second = promise("a", int), promise("b", int)
    return [await first, await second]


def test_m4_several_promises_are_settled_in_any_order(run: Start) -> None:
    h = run(two)
    assert told(h.start()) == ["create_promise#0 a", "create_promise#1 b"]
    h.activate(resolve_promise("b", 2))
    h.activate(resolve_promise("a", 1))
    assert h.result == [1, 2]


def test_m4_the_same_resolution_again_changes_nothing(run: Start) -> None:
    h = run(two)
    h.start()
    h.activate(resolve_promise("a", 1))
    assert h.activate(resolve_promise("a", 1)).commands == []
    h.activate(resolve_promise("a", 1), resolve_promise("b", 2), resolve_promise("b", 2))
    assert h.result == [1, 2]


@pytest.mark.parametrize("other", [resolve_promise("a", 2), reject_promise("a", "no")])
def test_m4_another_resolution_is_an_error_and_changes_nothing(run: Start, other: Any) -> None:
    h = run(two)
    h.start()
    h.activate(resolve_promise("a", 1))
    with pytest.raises(AlreadyExists, match="`a`"):
        h.activate(other, resolve_promise("b", 9))
    h.activate(resolve_promise("b", 2))
    assert h.result == [1, 2]


def test_m4_another_resolution_in_the_same_turn_is_an_error_too(run: Start) -> None:
    h = run(two)
    h.start()
    with pytest.raises(AlreadyExists, match="`a`"):
        h.activate(resolve_promise("a", 1), resolve_promise("a", 2))
    with pytest.raises(AlreadyExists, match="`a`"):
        h.activate(resolve_promise("a", 1), reject_promise("a", "no"))
    h.activate(resolve_promise("a", 1), resolve_promise("b", 2))
    assert h.result == [1, 2]


def test_m4_the_same_rejection_again_changes_nothing_and_another_is_an_error(run: Start) -> None:
    @workflow
    async def tolerant() -> list[str]:
        outcomes = await parallel(promise("a"), promise("b"), join="settled")
        return [type(outcome.error).__name__ for outcome in outcomes]

    h = run(tolerant)
    h.start()
    h.activate(reject_promise("a", "no"))
    h.activate(reject_promise("a", "no"))
    for other in (reject_promise("a", "never"), resolve_promise("a", 1)):
        with pytest.raises(AlreadyExists):
            h.activate(other)
    h.activate(resolve_promise("b"))
    assert h.result == ["PromiseRejected", "NoneType"]


def test_m4_a_promise_that_nobody_made_is_not_found(run: Start) -> None:
    h = run(two)
    h.start()
    for job in (resolve_promise("c", 1), reject_promise("c")):
        with pytest.raises(NotFound, match="`c`"):
            h.activate(job)
    h.activate(resolve_promise("a", 1), resolve_promise("b", 2))
    assert h.done


def test_m4_a_promise_that_timed_out_or_was_cancelled_takes_no_resolution(run: Start) -> None:
    @workflow
    async def impatient() -> str:
        index, _ = await race(sleep(5), promise("a"))
        try:
            await promise("b", timeout=5)
        except TimeoutError:
            await sleep(1)
        return str(index)

    h = run(impatient)
    timer = h.start().commands[0]
    turn = h.activate(fire(timer))
    h.activate(fire(turn.commands[-1]))
    for name in ("a", "b"):
        with pytest.raises(AlreadyExists):
            h.activate(resolve_promise(name, 1))


def test_m4_a_name_may_be_used_again_once_its_promise_is_settled(run: Start) -> None:
    @workflow
    async def again() -> list[int]:
        return [await promise("a", int), await promise("a", int)]

    h = run(again)
    h.start()
    assert told(h.activate(resolve_promise("a", 1))) == ["create_promise#1 a"]
    h.activate(resolve_promise("a", 1))
    assert h.result == [1, 1]


def test_m4_a_name_that_is_open_may_not_be_used_again(run: Start) -> None:
    @workflow
    async def twice() -> str:
        first = promise("a")
        try:
            promise("a")
        except UsageError as error:
            return f"{await first}, {type(error).__name__}"
        return "no error"

    h = run(twice)
    assert told(h.start()) == ["create_promise#0 a"]
    h.activate(resolve_promise("a", "x"))
    assert h.result == "x, UsageError"


def test_m4_a_correlation_key_is_part_of_the_command(run: Start) -> None:
    @workflow
    async def keyed() -> Any:
        return await promise("paid", key="order-7")

    h = run(keyed)
    turn = h.start()
    assert [(command.name, command.options) for command in turn.commands] == [("paid", {"key": "order-7"})]
    h.activate(resolve_promise("paid", 1))
    assert h.result == 1


def test_m4_a_value_is_read_as_the_type_that_the_workflow_asked_for(run: Start) -> None:
    @workflow
    async def typed() -> list[str]:
        value = await promise("a", tuple[int, ...])
        return [type(value).__name__, str(value)]

    h = run(typed)
    h.start()
    h.activate(resolve_promise("a", [1, 2]))
    assert h.result == ["tuple", "(1, 2)"]


def test_m4_a_promise_that_nobody_awaits_is_settled_all_the_same(run: Start) -> None:
    @workflow
    async def lazy() -> list[Any]:
        made = promise("a", int)
        await act("first")
        return [made.done(), made.result()]

    h = run(lazy)
    turn = h.start()
    h.activate(resolve_promise("a", 5))
    h.activate(resolve(turn.commands[1], ""))
    assert h.result == [True, 5]


def test_m4_a_cancelled_run_gives_up_its_promise_and_cancels_the_timer_of_it(run: Start) -> None:
    h = run(approval, 60)
    h.start()
    assert told(h.activate(cancel())) == ["cancel_timer#1", "cancel"]
    assert h.status == "cancelled"
