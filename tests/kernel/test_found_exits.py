"""A workflow that raises fails its run, also with what is no `Exception` and a task of asyncio keeps all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

import pytest

from perdure import (
    Later,
    OperationFailed,
    SchedulerViolation,
    Stop,
    activity,
    each,
    parallel,
    phase,
    query,
    side_effect,
    signal,
    sleep,
    update,
    wait_until,
    workflow,
)
from perdure import testing as tell
from perdure.define.workflow import Workflow
from perdure.testing import Harness, evict, resolve


@activity
async def act(number: int) -> int: ...


@workflow
async def broken_off() -> None:
    """A group around a `yield`: to break off the iteration raises a group of `GeneratorExit` in it."""

    async def results() -> AsyncGenerator[int, None]:
        async with asyncio.TaskGroup() as tasks:
            for task in [tasks.create_task(parallel(act(number))) for number in range(2)]:
                yield (await task)[0]

    async with aclosing(results()) as numbers:
        async for _ in numbers:
            break


@workflow
async def raises_generator_exit() -> None:
    await act(1)
    raise GeneratorExit


@pytest.mark.parametrize(
    ("program", "error"), [(broken_off, "BaseExceptionGroup"), (raises_generator_exit, "GeneratorExit")]
)
def test_k17_a_group_that_a_broken_off_generator_raises_fails_the_run(program: Workflow[[], None], error: str) -> None:
    h = Harness(program)
    turn = h.start()
    h.activate(evict())
    h.activate(*[resolve(one, 5) for one in turn.commands])
    assert (h.status, h.failure and h.failure.type) == ("failed", error)
    assert h.replay().status == "failed"


# --- an exit() and other exceptions that are no `Exception` ------------------------------------------


class Odd(BaseException):
    """What some libraries raise so that nobody catches it."""


ODD_ONES: dict[str, BaseException] = {
    "SystemExit": SystemExit(3),
    "Odd": Odd("odd"),
    "GeneratorExit": GeneratorExit("odd"),
}
ODD = pytest.mark.parametrize("error", ODD_ONES.values(), ids=ODD_ONES)


def blow(error: BaseException) -> Any:
    raise error


@ODD
def test_k17_what_ends_the_run_is_never_the_end_of_the_process(error: BaseException) -> None:
    @workflow
    async def leaves() -> None:
        await act(1)
        blow(error)

    h = Harness(leaves)
    h.start()
    turn = h.activate(resolve(0, 1))
    assert ([one.kind for one in turn.commands], h.failure and h.failure.type) == (["fail"], type(error).__name__)
    assert h.replay().status == "failed"


@ODD
def test_p6_such_a_branch_fails_its_join_and_cancels_the_rest(error: BaseException) -> None:
    @workflow
    async def forks() -> str:
        async def leaves() -> None:
            await act(1)
            blow(error)

        async def stays() -> None:
            await act(2)

        try:
            await parallel(leaves(), stays())
        except BaseException as found:
            return type(found).__name__
        return "nothing"

    h = Harness(forks)
    h.start()
    turn = h.activate(resolve(0, 1))
    assert ([one.kind for one in turn.commands], h.result) == (["cancel_activity", "complete"], type(error).__name__)


@ODD
def test_p6_such_an_item_fails_each_at_once(error: BaseException) -> None:
    @workflow
    async def maps() -> list[int]:
        async def item(number: int) -> int:
            return await act(number) if number else blow(error)

        return await each([1, 0, 2], item)

    h = Harness(maps)
    turn = h.start()
    assert [one.kind for one in turn.commands] == ["schedule_activity"] * 2 + ["cancel_activity"] * 2 + ["fail"]
    assert h.failure
    assert h.failure.type == type(error).__name__


@ODD
def test_p6_such_a_source_fails_each_behind_its_items(error: BaseException) -> None:
    @workflow
    async def maps() -> list[int]:
        def plain() -> Iterator[int]:
            yield 1
            blow(error)

        async def slow() -> AsyncGenerator[int, None]:
            yield 2
            blow(error)

        got: list[int] = []
        for source in (plain(), slow()):
            try:
                async for number in each(source, act):
                    got += [number]
            except BaseException as found:
                got.append(0 if found is error else -1)
        return got

    h = Harness(maps)
    h.start()
    h.activate(resolve(0, 1))
    h.activate(resolve(1, 2))
    assert h.result == [1, 0, 2, 0]


@workflow
class Listens:
    """Its handlers raise what it is told at its start."""

    def __init__(self) -> None:
        self.kind = ""

    async def run(self, kind: str) -> int:
        self.kind = kind
        return await act(1)

    @signal
    def told(self) -> None:
        blow(ODD_ONES[self.kind])

    @update
    async def asked(self) -> int:
        return blow(ODD_ONES[self.kind])

    @update
    def checked(self) -> int:
        return 1

    @checked.validator
    def check(self) -> None:
        blow(ODD_ONES[self.kind])

    @query
    def look(self) -> int:
        return blow(ODD_ONES[self.kind])


@ODD
def test_m3_a_query_that_raises_such_a_thing_fails_only_itself(error: BaseException) -> None:
    h = Harness(Listens, type(error).__name__)
    turn = h.start(tell.query("look"))
    assert [one.error and one.error.type for one in turn.answers] == [type(error).__name__]
    h.activate(resolve(0, 5))
    assert h.result == 5


@ODD
def test_m2_an_update_that_raises_such_a_thing_is_answered_with_it(error: BaseException) -> None:
    h = Harness(Listens, type(error).__name__)
    h.start()
    turn = h.activate(tell.update("asked", id="a"), tell.update("checked", id="b"))
    found = [(one.id, one.kind, one.error and one.error.type) for one in turn.answers]
    name = type(error).__name__
    assert found == [("a", "update_accepted", None), ("a", "update", name), ("b", "update_rejected", name)]
    h.activate(resolve(0, 5))
    assert h.result == 5
    assert h.replay().result == 5


@ODD
def test_k17_a_signal_handler_that_raises_such_a_thing_fails_the_run(error: BaseException) -> None:
    h = Harness(Listens, type(error).__name__)
    h.start()
    h.activate(tell.signal("told"))
    assert h.failure
    assert h.failure.type == type(error).__name__


@ODD
def test_m5_a_phase_whose_handler_raises_such_a_thing_ends_with_it(error: BaseException) -> None:
    @workflow
    async def listens() -> list[str]:
        async def later() -> int:
            await sleep(1)
            return blow(error)

        def told(_state: int) -> Stop[int]:
            return blow(error)

        def asked(state: int) -> Later[int]:
            return Later(later(), state)

        found: list[str] = []
        for _ in range(2):
            try:
                await phase(0, signals={"told": told}, updates={"asked": asked})
            except BaseException as raised:
                found.append(type(raised).__name__)
        return found

    h = Harness(listens)
    h.start(tell.update("asked", id="a"))
    turn = h.activate(tell.fire(0))
    assert [one.error and one.error.type for one in turn.answers] == [type(error).__name__]
    h.activate(tell.signal("told"))
    h.activate(tell.signal("told"))
    assert h.result == [type(error).__name__] * 2


@ODD
def test_k17_a_condition_that_raises_such_a_thing_raises_it_at_the_await(error: BaseException) -> None:
    @workflow
    async def waits() -> str:
        broken: list[bool] = []
        condition = asyncio.ensure_future(wait_until(lambda: bool(broken) and blow(error)))
        await act(1)
        broken.append(True)
        try:
            await condition
        except BaseException as found:
            return type(found).__name__
        return "nothing"

    h = Harness(waits)
    h.start()
    h.activate(resolve(0, 1))
    assert h.result == type(error).__name__


@ODD
def test_m11_a_side_effect_that_raises_such_a_thing_is_recorded(error: BaseException) -> None:
    calls: list[int] = []

    @workflow
    async def has_effect() -> str:
        def effect() -> None:
            calls.append(1)
            blow(error)

        try:
            side_effect("effect", effect)
        except OperationFailed as failed:
            return failed.failure.type
        return "nothing"

    h = Harness(has_effect)
    turn = h.start()
    assert [one.kind for one in turn.commands] == ["record_side_effect", "complete"]
    assert (h.result, h.replay().result, calls) == (type(error).__name__, type(error).__name__, [1])


@ODD
def test_k15_a_callback_that_raises_such_a_thing_is_reported_and_all_else_goes_on(error: BaseException) -> None:
    @workflow
    async def calls() -> int:
        asyncio.get_running_loop().call_soon(blow, error)
        return await act(1)

    h = Harness(calls)
    h.start()
    assert [report for report in h.reports if type(error).__name__ in report]
    h.activate(resolve(0, 5))
    assert h.result == 5


@ODD
def test_k18_a_coroutine_that_raises_such_a_thing_while_it_is_closed_has_ended(error: BaseException) -> None:
    @workflow
    async def clings() -> None:
        async def results() -> AsyncGenerator[int, None]:
            try:
                yield await act(1)
                yield await act(2)
            finally:
                blow(error)

        try:
            async for _ in results():
                await act(3)
        finally:
            blow(error)

    h = Harness(clings)
    h.start()
    h.activate(resolve(0, 1))
    h.activate(evict())
    assert h.reports == []


@ODD
def test_p1_a_policy_that_raises_such_a_thing_fails_the_turn_and_not_the_run(error: BaseException) -> None:
    class Broken:
        def choose(self, enabled: Any) -> Any:
            blow(error)

    @workflow
    async def works() -> None: ...

    with pytest.raises(SchedulerViolation, match=f"{type(error).__name__} was raised where no unit"):
        Harness(works, policy=Broken()).start()


def test_k14_a_person_who_presses_control_c_is_heard() -> None:
    @workflow
    async def works() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Harness(works).start()
