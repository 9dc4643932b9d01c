"""K2: units are named by structure, and never by timing (their order: test_unit_order)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import pytest

import perdure
from perdure import choose, each, parallel, race, receive, workflow
from perdure.policies import new
from perdure.testing import Harness, Turn, resolve, signal, update
from tests.kernel.telling import Start, act, asked

Making = Callable[[], Awaitable[Any]]


def named(turn: Turn) -> list[tuple[str, str]]:
    """What a turn schedules, as `(unit, name)`."""
    return [(command.unit, command.input[0]) for command in asked(turn)]


async def leaf(name: str) -> str:
    return await act(name)


class Leaf:
    """An awaitable that is neither a coroutine nor a future."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __await__(self) -> Generator[Any, None, str]:
        return leaf(self.name).__await__()


def started(body: Making, **options: Any) -> Turn:
    """The first turn of a run with this body."""

    async def run() -> None:
        await body()

    return Harness(workflow(name="bodies")(run), **options).start()


# --- the root, and branches -----------------------------------------------------------------------


def test_k2_the_root_is_a_slash_and_its_helper_coroutines_are_no_units() -> None:
    """K2."""

    async def inner() -> None:
        act("inner")
        await leaf("leaf")

    assert named(started(inner)) == [("/", "inner"), ("/", "leaf")]


BRANCHINGS: dict[str, Callable[..., Awaitable[Any]]] = {
    "parallel": parallel,
    "race": race,
    "each": lambda *branches: each(branches, lambda branch: branch),
}


@pytest.mark.parametrize("call", BRANCHINGS.values(), ids=BRANCHINGS)
def test_k2_the_branches_of_a_call_are_numbered_in_the_order_given(call: Any) -> None:
    """K2."""
    turn = started(lambda: call(leaf("a"), leaf("b"), leaf("c")))
    assert named(turn) == [("/p0", "a"), ("/p1", "b"), ("/p2", "c")]


@pytest.mark.parametrize(("seed", "number"), [(0, 1), (1, 0)])
def test_k2_the_branch_that_choose_takes_has_its_own_number(seed: int, number: int) -> None:
    """K2, P1."""

    async def body() -> None:
        await choose(lambda: leaf("0"), lambda: leaf("1"))

    seen = {named(started(body, policy=new("nondeterministic", seed=seed + attempt)))[0] for attempt in range(20)}
    assert (f"/p{number}", str(number)) in seen
    assert seen == {("/p0", "0"), ("/p1", "1")}


def test_k2_a_future_is_no_unit_and_the_branch_beside_it_keeps_its_number() -> None:
    """K2."""
    assert named(started(lambda: parallel(act("a"), leaf("b"), act("c"), leaf("d")))) == [
        ("/", "a"),
        ("/", "c"),
        ("/p1", "b"),
        ("/p3", "d"),
    ]


def test_k2_a_branch_of_a_branch_has_one_segment_more() -> None:
    """K2: `/p1/p0`."""
    turn = started(lambda: parallel(leaf("a"), lambda: parallel(leaf("b"), leaf("c"))))
    assert named(turn) == [("/p0", "a"), ("/p1/p0", "b"), ("/p1/p1", "c")]


# --- tasks ----------------------------------------------------------------------------------------


async def created() -> None:
    tasks = [asyncio.create_task(leaf("a")), asyncio.create_task(leaf("b"))]
    await asyncio.wait(tasks)


async def ensured() -> None:
    await asyncio.wait([asyncio.ensure_future(leaf("a")), asyncio.ensure_future(Leaf("b"))])


async def gathered() -> None:
    await asyncio.gather(leaf("a"), Leaf("b"))


async def grouped() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(leaf("a"))
        group.create_task(leaf("b"))


async def completed() -> None:
    for earliest in asyncio.as_completed([leaf("a"), leaf("b")]):
        await earliest


async def shielded() -> None:
    await asyncio.wait([asyncio.shield(leaf("a")), asyncio.shield(leaf("b"))])


MAKERS = {
    "create_task": created,
    "ensure_future": ensured,
    "gather": gathered,
    "TaskGroup": grouped,
    "as_completed": completed,
    "shield": shielded,
}


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_k2_every_task_that_a_unit_makes_is_a_unit_in_the_order_given(maker: Making) -> None:
    """K2."""
    assert named(started(maker)) == [("/t0", "a"), ("/t1", "b")]


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_k2_tasks_are_counted_by_the_unit_that_makes_them(maker: Making) -> None:
    """K2."""
    turn = started(lambda: parallel(maker(), maker()))
    assert named(turn) == [("/p0/t0", "a"), ("/p0/t1", "b"), ("/p1/t0", "a"), ("/p1/t1", "b")]
    assert named(started(lambda: asyncio.gather(maker()))) == [("/t0/t0", "a"), ("/t0/t1", "b")]


def test_k2_all_ways_to_make_a_task_share_one_count_that_goes_on() -> None:
    """K2: tasks have no incarnation."""

    async def body() -> None:
        await asyncio.gather(*(asyncio.ensure_future(maker()) for maker in MAKERS.values()))

    async def one_after_another() -> None:
        kept = [asyncio.create_task(leaf("0")), asyncio.ensure_future(leaf("1"))]
        both = asyncio.gather(leaf("2"), leaf("3"))
        alone = asyncio.shield(leaf("4"))
        asyncio.as_completed([leaf("5"), leaf("6")])
        async with asyncio.TaskGroup() as group:
            group.create_task(leaf("7"))
        await asyncio.wait([*kept, both, alone])

    assert {unit for unit, _ in named(started(body))} == {f"/t{n}/t{m}" for n in range(6) for m in range(2)}
    assert named(started(one_after_another)) == [(f"/t{n}", str(n)) for n in range(8)]


def test_k2_a_coroutine_that_is_given_twice_is_one_task() -> None:
    """K2, K15."""

    async def body() -> None:
        twice = leaf("a")
        await asyncio.gather(twice, leaf("b"), twice)

    assert named(started(body)) == [("/t0", "a"), ("/t1", "b")]


def test_k2_a_future_or_a_task_that_is_given_to_asyncio_makes_no_unit() -> None:
    """K2."""

    async def body() -> None:
        future = act("future")
        task = asyncio.create_task(leaf("0"))
        assert asyncio.ensure_future(future) is future
        given = [asyncio.shield(future), asyncio.gather(future, task), asyncio.shield(task)]
        asyncio.as_completed([future, task])
        await asyncio.wait([future, task, *given, asyncio.create_task(leaf("1"))])

    assert named(started(body)) == [("/", "future"), ("/t0", "0"), ("/t1", "1")]


@pytest.mark.parametrize("timeout", [None, 10, 0, -1])
def test_k2_wait_for_never_makes_a_unit(timeout: float | None) -> None:
    """K2, K15: what it is given runs in its caller's unit, and the next task is the first."""

    async def inner() -> None:
        act(str(asyncio.current_task() is not None))
        await asyncio.sleep(0)

    async def body() -> None:
        awaitables: list[Awaitable[object]] = [inner(), act("future")]
        for awaitable in awaitables:
            try:
                await asyncio.wait_for(awaitable, timeout)
            except TimeoutError:
                act("late")
        await leaf("end")

    async def whole() -> None:
        waiting = asyncio.create_task(body())
        await asyncio.wait([waiting, asyncio.create_task(leaf("next"))])

    h = Harness(workflow(name="waiting")(whole))
    h.start()
    for command in [command for command in asked(h.turns[0]) if command.input == ["future"]]:
        h.activate(resolve(command, ""))
    units = {unit for turn in h.turns for unit, name in named(turn) if name != "next"}
    assert units == {"/t0"}
    assert ("/t1", "next") in named(h.turns[0])
    assert any(name == "end" for turn in h.turns for _, name in named(turn))


# --- message handlers -----------------------------------------------------------------------------


@workflow
class Counting:
    async def run(self) -> None:
        await receive("end")

    @perdure.signal
    async def put(self, name: str) -> None:
        await leaf(name)

    @perdure.update
    async def ask(self, name: str) -> None:
        await leaf(name)

    @ask.validator
    def check(self, name: str) -> None:
        if not name:
            raise ValueError("empty")


def test_k2_class_handlers_are_counted_over_the_run_signals_and_updates_alike(run: Start) -> None:
    """K2."""
    h = run(Counting)
    assert named(h.start(signal("put", "a"), update("ask", "b"))) == [("/h0", "a"), ("/h1", "b")]
    assert named(h.activate(update("ask", "c"))) == [("/h2", "c")]
    turn = h.activate(signal("nobody"), update("nobody"), update("ask", ""), signal("put", "d"))
    assert named(turn) == [("/h3", "d")]


def test_k2_the_units_below_a_handler_begin_with_it(run: Start) -> None:
    """K2."""

    @workflow
    class Deep:
        async def run(self) -> None:
            await receive("end")

        @perdure.signal
        async def put(self) -> None:
            await asyncio.gather(leaf("task"), parallel(leaf("0"), leaf("1")))

    h = run(Deep)
    h.start(signal("put"))
    turn = h.activate(signal("put"))
    assert named(turn) == [("/h1/t0", "task"), ("/h1/t1/p0", "0"), ("/h1/t1/p1", "1")]


# --- incarnations ---------------------------------------------------------------------------------


def test_k2_the_units_of_a_units_second_branching_call_carry_incarnation_1(run: Start) -> None:
    """K2: `/p0#1/p0`; the calls of one unit share one count, those of another have their own."""

    @workflow(name="twice")
    async def twice() -> None:
        await parallel(leaf("a"))
        await parallel(lambda: parallel(leaf("b")), leaf("c"))
        await parallel(lambda: parallel(leaf("d")))

    h = run(twice)
    assert named(h.start()) == [("/p0", "a")]
    turn = h.activate(resolve(0, ""))
    assert named(turn) == [("/p1#1", "c"), ("/p0#1/p0", "b")]
    assert named(h.activate(*(resolve(command, "") for command in asked(turn)))) == [("/p0#2/p0", "d")]


def test_k2_all_branching_calls_of_a_unit_share_one_count(run: Start) -> None:
    """K2: one without branches is counted as well."""

    @workflow(name="mixed")
    async def mixed() -> None:
        await parallel(leaf("0"))
        await race(leaf("1"))
        await each(["2"], leaf)
        await choose(lambda: leaf("3"))
        await parallel()
        await each([], leaf)
        await parallel(leaf("6"))

    h = run(mixed)
    turns = [h.start()]
    while not h.done:
        turns.append(h.activate(resolve(asked(turns[-1])[0], "")))
    units = [unit for turn in turns for unit, _ in named(turn)]
    assert units == ["/p0", "/p0#1", "/p0#2", "/p0#3", "/p0#6"]


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_k2_tasks_do_not_count_as_branching_calls(maker: Making) -> None:
    """K2."""

    async def body() -> None:
        making = asyncio.ensure_future(maker())
        await parallel(leaf("x"), making)

    assert ("/p0", "x") in named(started(body))


def test_k2_a_unit_keeps_its_id_whatever_comes_first(run: Start) -> None:
    """K2: ids come from structure, never from timing."""

    @workflow(name="structured")
    async def structured() -> None:
        async def strand(name: str) -> None:
            await act(name)
            await asyncio.gather(leaf(name + "t"), parallel(leaf(name + "p")))

        await parallel(strand("a"), strand("b"), strand("c"))

    def ids(order: list[int]) -> set[tuple[str, str]]:
        h = run(structured)
        h.start()
        return {entry for number in order for entry in named(h.activate(resolve(number, "")))}

    first = ids([0, 1, 2])
    assert first == {
        (unit + end, name + what)
        for unit, name in (("/p0", "a"), ("/p1", "b"), ("/p2", "c"))
        for end, what in (("/t0", "t"), ("/t1/p0", "p"))
    }
    assert ids([2, 0, 1]) == ids([1, 2, 0]) == first
