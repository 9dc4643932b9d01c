"""K19: at any time a run says, for every unit, what it waits for, since which turn, and on which source line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from perdure import activity, parallel, query, receive, workflow
from perdure import signal as takes_signal
from perdure import update as takes_update
from perdure.model.turns import Waiting
from perdure.testing import Harness, evict, fire, resolve, signal, update
from tests.kernel.telling import Start, act, asked
from tests.kernel.waiting_samples import Sample
from tests.kernel.waiting_samples_asyncio import SAMPLES


def lines(waits: list[Waiting]) -> list[tuple[str, str, int]]:
    return [(wait.unit, wait.what, wait.since_turn) for wait in waits]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.body.__name__)
def test_k19_every_primitive_that_pauses_is_named_with_its_turn_and_its_line(run: Start, sample: Sample) -> None:
    """K19: one entry for each paused unit, in unit order."""
    h = run(workflow(sample.body))
    h.start()
    if sample.then:
        h.activate(*sample.then)
    waits = h.waiting()
    assert {wait.unit: wait.what for wait in waits} == sample.whats
    assert {wait.unit: wait.source for wait in waits} == sample.lines()
    assert [wait.unit for wait in waits] == list(sample.whats)
    assert h.replay().waiting() == waits


def test_k19_a_unit_waits_since_the_turn_in_which_it_paused_and_not_since_the_command(run: Start) -> None:
    """K19."""

    @workflow
    async def run_it() -> None:
        first = act("a")
        await asyncio.sleep(1)
        await parallel(first, receive("go"))

    h = run(run_it)
    turn = h.start()
    assert lines(h.waiting()) == [("/", "timer (asyncio.sleep)", 0)]
    h.activate(fire(turn.commands[1]))
    assert lines(h.waiting()) == [("/", "parallel: activity `act`, signal `go`", 1)]
    h.activate(signal("another"))
    h.activate(resolve(turn.commands[0], "A"))
    assert lines(h.waiting()) == [("/", "parallel: signal `go`", 1)]
    h.activate(signal("go"))
    assert (h.done, h.waiting()) == (True, [])


def test_k19_nothing_is_waited_for_before_the_start(run: Start) -> None:
    """K19."""

    @workflow
    async def run_it() -> None:
        await receive("go")

    h = run(run_it)
    assert h.waiting() == []
    h.start()


def test_k19_asking_leaves_no_trace_and_works_on_an_evicted_run() -> None:
    """K19, K18: whoever asks, however often, the run goes on as it would have."""

    @workflow
    async def run_it() -> str:
        return await act("a")

    h = Harness(run_it)
    turn = h.start()
    h.activate(evict())
    before = h.transcript.to_json()
    assert h.waiting() == h.waiting() == h.replay().waiting()
    assert h.transcript.to_json() == before
    h.activate(resolve(turn.commands[0], "A"))
    assert h.result == "A"


@workflow
class Desk:
    async def run(self) -> None:
        await receive("close")

    @takes_signal
    async def note(self, text: str) -> None:
        await act(text)

    @takes_update
    async def ask(self, text: str) -> str:
        return await act(text)

    @query
    def size(self) -> int:
        return 0


def test_k19_handlers_of_a_class_wait_as_units_of_their_own(run: Start) -> None:
    """K19, K2."""
    h = run(Desk)
    h.start()
    turn = h.activate(signal("note", "a"), update("ask", "b"))
    assert lines(h.waiting()) == [
        ("/", "signal `close`", 0),
        ("/h0", "activity `act`", 1),
        ("/h1", "activity `act`", 1),
    ]
    assert [wait.source.rpartition(":")[0] for wait in h.waiting()] == [__file__] * 3
    h.activate(resolve(asked(turn)[0], "A"))
    assert [wait.unit for wait in h.waiting()] == ["/", "/h1"]
    h.activate(resolve(asked(turn)[1], "B"), signal("close"))


def test_k19_more_than_nine_branches_stand_in_the_order_of_their_numbers(run: Start) -> None:
    """K19, K3: p10 after p9."""

    @workflow
    async def run_it() -> None:
        async def branch() -> None:
            await act("a")

        await parallel(*[branch() for _ in range(12)])

    h = run(run_it)
    h.start()
    assert [wait.unit for wait in h.waiting()] == ["/", *[f"/p{number}" for number in range(12)]]


def test_k19_the_line_is_the_innermost_one_of_workflow_code(run: Start) -> None:
    """K19: below a context manager and a generator that the workflow wrote."""

    @workflow
    async def run_it() -> None:
        @asynccontextmanager
        async def opened() -> AsyncGenerator[None]:
            await act("open")  # in here
            yield

        async with opened():
            pass

    h = run(run_it)
    h.start()
    (wait,) = h.waiting()
    file, _, line = wait.source.rpartition(":")
    with open(file) as source:
        assert "# in here" in source.readlines()[int(line) - 1]


def test_k19_an_activity_that_was_asked_to_cancel_is_waited_for_until_its_end_is_known(run: Start) -> None:
    """K19, M6."""

    @activity(cancellation="wait")
    async def slow() -> None: ...

    @workflow
    async def run_it() -> None:
        running = slow()
        running.cancel()
        await running

    h = run(run_it)
    h.start()
    assert lines(h.waiting()) == [("/", "activity `slow`", 0)]
