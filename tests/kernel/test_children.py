"""M7: children and other runs, as commands: started, awaited, signalled, cancelled."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid5

import pytest

import perdure
from perdure import (
    ChildFailed,
    ExternalFailed,
    Failure,
    InvalidValue,
    child,
    parallel,
    race,
    run_of,
    scope,
    sleep,
    workflow,
)
from perdure.testing import cancel, cancelled, fail, fire, resolve
from tests.kernel.telling import Start, asked, told

RUN_ID = "00000000-0000-4000-8000-000000000000"


@workflow
async def greet(name: str, loud: bool = False) -> str: ...


@workflow(name="till")
class Till:
    async def run(self, start: int) -> tuple[int, str]: ...

    @perdure.signal
    def pay(self, cents: int, note: str = "") -> None: ...


def test_m7_a_child_is_started_when_it_is_called_and_its_value_is_awaited(run: Start) -> None:
    @workflow
    async def parent() -> list[Any]:
        first, second = greet("a"), child(Till, 3)
        return [await first, await second]

    h = run(parent)
    turn = h.start()
    assert told(turn) == ['start_child#0 greet ["a"]', "start_child#1 till [3]"]
    h.activate(resolve(turn.commands[1], (5, "x")))
    h.activate(resolve(turn.commands[0], "hello"))
    assert h.result == ["hello", [5, "x"]]


def test_m7_a_child_is_started_by_the_name_of_its_workflow(run: Start) -> None:
    """For code that is not at hand: what it takes and gives is not known here."""

    @workflow
    async def parent() -> Any:
        with pytest.raises(InvalidValue, match="the name of a workflow is empty"):
            child("")
        return await child("till", 3, {"a": 1}, id="t", parent_close="cancel")

    h = run(parent)
    turn = h.start()
    assert told(turn) == ['start_child#0 till [3, {"a": 1}]']
    assert turn.commands[0].options == {"id": "t", "parent_close": "cancel"}
    h.activate(resolve(turn.commands[0], (5, "x")))
    assert h.result == [5, "x"]
    h.replay()


def test_m7_calling_a_workflow_is_short_for_child(run: Start) -> None:
    @workflow
    async def parent() -> list[str]:
        return list(await parallel(greet("a", loud=True), child(greet, "a", True)))

    h = run(parent)
    turn = h.start()
    assert told(turn) == ['start_child#0 greet ["a", true]', 'start_child#1 greet ["a", true]']
    h.activate(*(resolve(command, "") for command in turn.commands))
    assert h.done


def test_m7_an_id_is_derived_from_the_run_and_the_seq_or_given(run: Start) -> None:
    @workflow
    async def parent() -> list[str]:
        await sleep(1)
        children = [child(greet, "a"), child(greet, "b", id="order-7"), greet("c")]
        await parallel(*children)
        return [one.id for one in children]

    h = run(parent)
    turn = h.activate(fire(h.start().commands[0]))
    assert [command.options for command in turn.commands] == [{}, {"id": "order-7"}, {}]
    h.activate(*(resolve(command, "") for command in turn.commands))
    derived = [str(uuid5(UUID(RUN_ID), str(seq))) for seq in (1, 3)]
    assert h.result == [derived[0], "order-7", derived[1]]


@pytest.mark.parametrize("policy", ["terminate", "cancel", "abandon"])
def test_m7_options_are_recorded_as_the_call_set_them(run: Start, policy: Any) -> None:
    @workflow
    async def parent(policy: Any) -> None:
        await child(greet, "a", parent_close=policy, queue="fast", timeout="5m")

    h = run(parent, policy)
    (command,) = h.start().commands
    assert command.options == {"parent_close": policy, "queue": "fast", "timeout": 300}


@pytest.mark.parametrize(
    "options", [{"parent_close": "ignore"}, {"id": ""}, {"id": "x" * 513}, {"queue": "a\nb"}, {"timeout": "soon"}]
)
def test_m7_wrong_options_are_refused_at_the_call(run: Start, options: Any) -> None:
    @workflow
    async def parent() -> str:
        try:
            child(greet, "a", **options)
        except perdure.InvalidValue:
            return "refused"
        return "taken"

    h = run(parent)
    assert told(h.start()) == ['complete ["refused"]']


def test_m7_wrong_arguments_are_refused_at_the_call(run: Start) -> None:
    @workflow
    async def parent() -> list[str]:
        seen: list[str] = []
        wrong: Any = greet
        for args in ((), (1, 2, 3), ({1},)):
            try:
                wrong(*args)
            except perdure.InvalidValue as error:
                seen.append(type(error).__name__)
        return seen

    h = run(parent)
    h.start()
    assert h.result == ["InvalidValue"] * 3


def test_m7_a_childs_failure_arrives_as_child_failed_with_its_cause(run: Start) -> None:
    @workflow
    async def parent() -> list[Any]:
        try:
            await greet("a")
        except ChildFailed as error:
            cause = error.failure.cause
            return [error.failure.type, error.failure.message, cause.type if cause else None, "greet" in str(error)]
        return []

    h = run(parent)
    turn = h.start()
    failure = Failure("ActivityFailed", "it failed", cause=Failure("PaymentRefused", "no"))
    h.activate(fail(turn.commands[0], failure))
    assert h.result == ["ActivityFailed", "it failed", "PaymentRefused", True]


def test_m7_a_childs_failure_that_nobody_catches_fails_the_parent_with_the_chain(run: Start) -> None:
    @workflow
    async def parent() -> str:
        return await greet("a")

    h = run(parent)
    h.activate(fail(h.start().commands[0], Failure("Refused", "no", cause=Failure("Deeper", "why"))))
    failure = h.failure
    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.cause is not None
    assert [failure.type, failure.cause.type, failure.cause.cause.type] == ["ChildFailed", "Refused", "Deeper"]


def test_m7_a_child_is_signalled_by_method_or_by_name(run: Start) -> None:
    @workflow
    async def parent() -> None:
        till = child(Till, 0, id="till-1")
        await till.signal(Till.pay, 500, note="x")
        await till.signal("pay", 7)
        await till

    h = run(parent)
    turn = h.start()
    (sent,) = asked(turn, "signal_external")
    assert (sent.name, sent.seq, sent.input, sent.options) == ("pay", 1, [500, "x"], {"id": "till-1"})
    turn = h.activate(resolve(sent))
    assert told(turn) == ["signal_external#2 pay [7]"]
    h.activate(resolve(turn.commands[0]), resolve(0, (1, "")))
    assert h.status == "completed"


def test_m7_a_signal_that_is_sent_wrong_is_refused_at_the_call(run: Start) -> None:
    @workflow
    async def parent() -> list[str]:
        till = child(Till, 0)
        wrong: Any = till.signal
        seen: list[str] = []
        calls: list[Any] = [
            ((Till.pay,), {}),
            ((Till.pay, "x", 1, 2), {}),
            ((3,), {}),
            (("",), {}),
            (("pay",), {"a": 1}),
        ]
        for args, more in calls:
            try:
                wrong(*args, **more)
            except perdure.InvalidValue:
                seen.append("refused")
        return seen

    h = run(parent)
    turn = h.start()
    assert [command.kind for command in turn.commands] == ["start_child", "complete"]
    assert h.result == ["refused"] * 5


def test_m7_another_run_is_signalled_and_cancelled_by_its_id(run: Start) -> None:
    @workflow
    async def parent() -> str:
        other = run_of("order-9")
        await other.signal(Till.pay, 1)
        await other.signal("note", "a", "b")
        try:
            await other.cancel("enough")
        except ExternalFailed as error:
            return error.failure.type
        return "cancelled"

    h = run(parent)
    turn = h.start()
    shown: list[Any] = []
    for _ in range(2):
        (command,) = turn.commands
        shown.append((command.kind, command.name, command.input, command.options))
        turn = h.activate(resolve(command))
    (command,) = turn.commands
    assert shown == [
        ("signal_external", "pay", [1], {"id": "order-9"}),
        ("signal_external", "note", ["a", "b"], {"id": "order-9"}),
    ]
    assert (command.kind, command.options) == ("cancel_external", {"id": "order-9", "reason": "enough"})
    h.activate(fail(command, Failure("NotFound", "no such run")))
    assert h.result == "NotFound"


def test_m7_a_signal_need_not_be_awaited_and_the_id_is_checked(run: Start) -> None:
    @workflow
    async def parent() -> str:
        run_of("a").signal("x")
        try:
            run_of("")
        except perdure.InvalidValue:
            return "refused"
        return "taken"

    h = run(parent)
    assert told(h.start()) == ["signal_external#0 x", 'complete ["refused"]']


def test_m7_cancel_asks_the_child_and_its_end_comes_too_late(run: Start) -> None:
    @workflow
    async def parent() -> str:
        one = greet("a")
        one.cancel()
        try:
            return await one
        except asyncio.CancelledError:
            await sleep(1)
            return "cancelled"

    h = run(parent)
    turn = h.start()
    assert told(turn) == ['start_child#0 greet ["a"]', "cancel_child#0", "start_timer#1 [1]"]
    h.activate(cancelled(turn.commands[0]), fire(turn.commands[2]))
    assert (h.result, h.dropped) == ("cancelled", 1)


def test_m7_a_child_that_was_cancelled_from_outside_raises_in_its_parent(run: Start) -> None:
    @workflow
    async def parent() -> str:
        try:
            return await greet("a")
        except asyncio.CancelledError:
            return "it was cancelled"

    h = run(parent)
    h.activate(cancelled(h.start().commands[0]))
    assert h.result == "it was cancelled"


def test_m7_children_are_cancelled_with_the_scope_the_race_or_the_run_that_they_are_in(run: Start) -> None:
    @workflow
    async def parent() -> None:
        async with scope(timeout=5):
            await race(greet("a"), greet("b"))
            await greet("c")

    h = run(parent)
    timer, first, second = h.start().commands
    turn = h.activate(resolve(second, "b"))
    assert told(turn) == [f"cancel_child#{first.seq}", 'start_child#3 greet ["c"]']
    turn = h.activate(fire(timer))
    assert told(turn)[0] == "cancel_child#3"

    h = run(parent)
    h.start()
    assert [line.split("#")[0] for line in told(h.activate(cancel()))] == [
        "cancel_timer",
        "cancel_child",
        "cancel_child",
        "cancel",
    ]


def test_m7_a_run_that_ends_leaves_its_open_children_to_their_parent_close_policy(run: Start) -> None:
    @workflow
    async def parent() -> str:
        child(greet, "a", parent_close="abandon")
        child(greet, "b")
        await sleep(1)
        return "done"

    h = run(parent)
    turn = h.start()
    assert told(h.activate(fire(turn.commands[2]))) == ['complete ["done"]']
