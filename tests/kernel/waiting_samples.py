"""Samples for K19: a workflow for every primitive that pauses, and what its units wait for.

The line on which a unit waits says so: `# at / /p0` is where the root and its first branch wait. The samples of asyncio
are in waiting_samples_asyncio.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from perdure import (
    Continue,
    Later,
    Stop,
    child,
    choose,
    each,
    now,
    parallel,
    phase,
    promise,
    race,
    receive,
    receive_any,
    run_of,
    scope,
    shielded,
    sleep,
    sleep_until,
    wait_until,
    workflow,
)
from perdure.model.jobs import AnyJob
from perdure.testing import cancel, signal
from tests.kernel.telling import act

Body = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class Sample:
    """A workflow, what it is told after its start, and what each unit waits for then."""

    body: Body
    whats: dict[str, str]
    then: tuple[AnyJob, ...]

    def lines(self) -> dict[str, str]:
        """Unit -> the line of the workflow that is marked with it, as `file:line`."""
        lines, first = inspect.getsourcelines(self.body)
        file = inspect.getsourcefile(self.body)
        found = [(first + n, re.search("# at (.*)", line)) for n, line in enumerate(lines)]
        return {unit: f"{file}:{n}" for n, marked in found if marked for unit in marked[1].split()}


SAMPLES: list[Sample] = []


def waits_for(whats: dict[str, str], *then: AnyJob) -> Callable[[Body], Body]:
    """Make a sample of a function."""

    def note(body: Body) -> Body:
        SAMPLES.append(Sample(body, whats, then))
        return body

    return note


@workflow
async def packs(name: str) -> str: ...


# --- of perdure ---------------------------------------------------------------------------------


@waits_for({"/": "activity `act`"})
async def an_activity() -> None:
    await act("a")  # at /


@waits_for({"/": "activity `act`"})
async def an_activity_that_was_scheduled_before() -> None:
    first, second = act("a"), act("b")
    await first  # at /
    await second


@waits_for({"/": "activity `act`"})
async def an_activity_in_a_function_that_was_called() -> None:
    async def inner() -> None:
        await act("a")  # at /

    await inner()


@waits_for({"/": "timer 5.25 s"})
async def a_timer() -> None:
    await sleep(5.25)  # at /


@waits_for({"/": "timer 31536000 s"})
async def a_timer_until_a_moment() -> None:
    await sleep_until(now().replace(year=2027))  # at /


@waits_for({"/": "child `packs`"})
async def a_child() -> None:
    await packs("a")  # at /


@waits_for({"/": "child `packs`"})
async def a_child_with_an_id() -> None:
    await child(packs, "a", id="box-1")  # at /


@waits_for({"/": "promise `paid`"})
async def a_promise() -> None:
    await promise("paid", bool, timeout=9)  # at /


@waits_for({"/": "signal `go`"})
async def a_signal() -> None:
    await receive("go", int, timeout=9)  # at /


@waits_for({"/": "one of the signals `go`, `stop`"})
async def one_of_several_signals() -> None:
    await receive_any({"go": int, "stop": int}, timeout=9)  # at /


@waits_for({"/": "a condition"})
async def a_condition() -> None:
    await wait_until(lambda: False, timeout=9)  # at /


@waits_for({"/": "the delivery of signal `go`"})
async def a_signal_to_another_run() -> None:
    await run_of("another").signal("go")  # at /


@waits_for({"/": "the cancellation of run `another`"})
async def the_cancellation_of_another_run() -> None:
    await run_of("another").cancel()  # at /


@waits_for({"/": "activity `act`"})
async def in_a_scope_with_a_timeout() -> None:
    async with scope(timeout=9):
        await act("a")  # at /


@waits_for({"/": "activity `act`"}, cancel())
async def clean_up_that_is_shielded() -> None:
    try:
        await receive("never")
    finally:
        async with shielded():
            await act("tidy")  # at /


# --- branches -----------------------------------------------------------------------------------


@waits_for({"/": "parallel: activity `act`, /p1, timer 3 s, /p3", "/p1": "activity `act`", "/p3": "signal `go`"})
async def parallel_branches() -> None:
    async def branch() -> None:
        await act("b")  # at /p1

    await parallel(act("a"), branch(), sleep(3), lambda: receive("go"))  # at / /p3


@waits_for({"/": "parallel: /p1", "/p1": "signal `b`"}, signal("a"))
async def only_the_branches_that_are_open() -> None:
    async def branch(name: str) -> None:
        await receive(name)  # at /p1

    await parallel(branch("a"), branch("b"))  # at /


@waits_for({"/": "parallel: /p0", "/p0": "parallel: /p0/p0", "/p0/p0": "signal `go`"})
async def parallel_in_parallel() -> None:
    async def outer() -> None:
        await parallel(lambda: receive("go"))  # at /p0 /p0/p0

    await parallel(outer())  # at /


@waits_for({"/": "race: /p0, promise `paid`", "/p0": "signal `go`"})
async def a_race() -> None:
    async def branch() -> None:
        await receive("go")  # at /p0

    await race(branch(), promise("paid"))  # at /


@waits_for({"/": "race: /p0", "/p0": "activity `act`"}, signal("go"))
async def a_race_that_is_decided_and_has_a_loser_that_tidies_up() -> None:
    async def loser() -> None:
        try:
            await receive("never")
        finally:
            async with shielded():
                await act("tidy")  # at /p0

    await race(loser(), receive("go"))  # at /


@waits_for({"/": "choose: /p0", "/p0": "activity `act`"})
async def a_choice() -> None:
    async def branch() -> None:
        await act("a")  # at /p0

    await choose(branch(), branch())  # at /


@waits_for({"/": "choose: activity `act`"})
async def a_choice_of_futures() -> None:
    await choose(act("a"), receive("b"))  # at /


@waits_for({"/": "each: /p0", "/p0": "activity `act`", "/p1": "activity `act`"})
async def each_item_in_a_list() -> None:
    async def pack(item: int) -> None:
        await act(str(item))  # at /p0 /p1

    await each([1, 2, 3], pack, limit=2)  # at /


@waits_for({"/": "signal `next`", "/p1": "activity `act`"})
async def each_result_as_it_comes() -> None:
    async def pack(item: int) -> None:
        if item > 1:
            await act("a")  # at /p1

    async for _ in each([1, 2], pack):
        await receive("next")  # at /


@waits_for({"/": "activity `act`"})
async def the_source_of_each() -> None:
    async def source() -> AsyncIterator[str]:
        yield await act("a")  # at /

    await each(source(), act)


@waits_for({"/": "each: /p0", "/p0": "activity `act`"})
async def each_whose_source_waits_for_room() -> None:
    async def source() -> AsyncIterator[str]:
        for name in "abc":
            yield name

    await each(source(), lambda name: act(name), limit=1)  # at / /p0


@waits_for({"/": "activity `act`"})
async def an_asynchronous_generator() -> None:
    async def source() -> AsyncIterator[str]:
        yield await act("a")  # at /

    async for _ in source():
        pass


# --- messages -----------------------------------------------------------------------------------


@waits_for({"/": "phase: messages `go`, `ask`"})
async def a_phase() -> None:
    await phase(0, signals={"go": Continue}, updates={"ask": Continue}, timeout=9)  # at /


@waits_for(
    {"/": "phase: messages `go`", "/h0": "activity `act`", "/h1": "the handler before it"}, signal("go"), signal("go")
)
async def a_phase_whose_handlers_run_one_after_another() -> None:
    async def go(state: int) -> Continue[int]:
        await act("a")  # at /h0
        return Continue(state)

    await phase(0, signals={"go": go})  # at / /h1


@waits_for({"/": "phase: its handlers to end", "/h0/a0": "activity `act`"}, signal("go"), signal("stop"))
async def a_phase_whose_handlers_have_not_ended() -> None:
    async def rest() -> None:
        await act("a")  # at /h0/a0

    def go(state: int) -> Later[int]:
        return Later(rest(), state)

    await phase(0, signals={"go": go, "stop": Stop})  # at /
