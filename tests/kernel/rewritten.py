"""The corpus of seed 001: workflows, what their runs were told, and the code that replays them now.

The runs were recorded once, to tests/histories/names; tests/kernel/test_replay_names.py replays them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from perdure import (
    ActivityFailed,
    activity,
    child,
    clear_state,
    get_state,
    parallel,
    promise,
    race,
    scope,
    set_state,
    side_effect,
    sleep,
    workflow,
)
from perdure.model.jobs import AnyJob
from perdure.testing import Harness, fail, fire, resolve, resolve_promise


@activity
async def fetch(what: str) -> str: ...


@activity
async def store(what: str) -> str: ...


@workflow
async def invoice(number: int) -> str:
    return f"invoice {number}"


@workflow(name="bill")
async def invoice_by_another_name(number: int) -> str:
    return f"invoice {number}"


@workflow
async def reminder(number: int) -> str:
    return f"reminder {number}"


# --- one thing each ---------------------------------------------------------------------------


@workflow
async def simple_operation() -> int:
    return side_effect("measure", lambda: 41) + 1


@workflow
async def multiple_operations() -> list[int]:
    values: list[int] = [side_effect(f"measure-{n}", int, n) for n in range(3)]
    await sleep(1)
    return [*values, side_effect("last", lambda: 9)]


@workflow
async def state() -> int:
    set_state("count", 1)
    await sleep(1)
    set_state("count", get_state("count", int, 0) + 1)
    clear_state("draft")
    return get_state("count", int, 0)


@workflow
async def task() -> str:
    return await fetch("page")


@workflow
async def timer() -> str:
    await sleep("5m")
    return "rung"


@workflow
async def promised() -> str:
    return await promise("answer", str)


@workflow
async def one_child() -> str:
    return await invoice(7)


# --- side by side -----------------------------------------------------------------------------


@workflow
async def two_tasks() -> list[str]:
    return await parallel(fetch("a"), store("b"))


@workflow
async def task_and_timer() -> list[Any]:
    return await parallel(fetch("a"), sleep(60))


@workflow
async def three_tasks_one_fails() -> str:
    try:
        await parallel(fetch("a"), fetch("b"), fetch("c"))
    except ActivityFailed as error:
        return error.failure.message
    return "none failed"


@workflow
async def select_first_wins() -> tuple[int, str]:
    return await race(fetch("slow"), fetch("quick"))


@workflow
async def with_timeout() -> str:
    page = "too late"
    with suppress(TimeoutError):
        async with scope(timeout=30):
            page = await fetch("page")
    return page


async def _branch(number: int) -> str:
    value = await fetch(f"part {number}")
    await sleep(number + 1)
    return await store(value)


@workflow
async def mixed_parallel() -> list[Any]:
    return await parallel(_branch(0), _branch(1), invoice(1), lambda: promise("ok", bool))


# --- loops, and mixtures ----------------------------------------------------------------------


@workflow
async def task_loop() -> list[str]:
    return [await fetch(f"page {number}") for number in range(3)]


@workflow
async def child_loop() -> list[str]:
    return [await invoice(number) for number in range(3)]


@workflow
async def mixed_commands() -> str:
    day = side_effect("day", lambda: "Monday")
    set_state("day", day)
    value = await fetch(day)
    await sleep(10)
    approved = await promise("approved", bool)
    bill = await child(invoice, 3, id="bill-3")
    await store(bill)
    return f"{value} {approved} {bill}"


# --- the code as it is now, where it has changed ------------------------------------------------


@workflow
async def loop_shortened() -> list[str]:
    return [await fetch(f"page {number}") for number in range(2)]


@workflow
async def loop_extended() -> list[str]:
    return [await fetch(f"page {number}") for number in range(4)]


@workflow
async def other_task() -> str:
    return await store("page")


@workflow
async def tasks_swapped() -> list[str]:
    stored, fetched = store("b"), fetch("a")
    return [await fetched, await stored]


@workflow
async def timer_first() -> list[Any]:
    waited, fetched = sleep(60), fetch("a")
    return [await fetched, await waited]


@workflow
async def renamed_child() -> str:
    return await invoice_by_another_name(7)


@workflow
async def other_child() -> str:
    return await reminder(7)


@workflow
async def task_for_child() -> str:
    return await fetch("invoice 7")


@workflow
async def child_with_id() -> str:
    return await child(invoice, 7, id="bill-7")


@workflow
async def other_argument_and_duration() -> list[Any]:
    return await parallel(fetch.options(timeout=3)("z"), sleep(61))


@workflow
async def other_operation() -> int:
    return side_effect("weigh", lambda: 41) + 1


@workflow
async def other_promise() -> str:
    return await promise("reply", str)


@workflow
async def other_key() -> int:
    set_state("total", 1)
    await sleep(1)
    return 2


@workflow
async def clears_instead() -> int:
    clear_state("count")
    await sleep(1)
    return 2


# --- the cases --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A recorded run, the code that replays it, and the first strict difference: (turn, field), if there is one."""

    name: str
    recorded: Any
    turns: tuple[tuple[AnyJob, ...], ...]
    now: Any
    strict: tuple[int, str] | None = None
    names: tuple[int, str] | None = None

    def record(self) -> Harness[Any]:
        """Run it as it was recorded."""
        harness: Harness[Any] = Harness(self.recorded, match="names", run_id=self.name)
        harness.start()
        for jobs in self.turns:
            harness.activate(*jobs)
        return harness


LOOP = tuple((resolve(number, f"value {number}"),) for number in range(3))
SIDE_BY_SIDE = ((resolve(0, "a"),), (fire(1),))
MIXED = (
    (resolve_promise("ok", True), resolve(1, "second")),
    (resolve(0, "first"), resolve(2, "invoice 1")),
    (fire(4),),
    (resolve(6, "stored"),),
    (fire(5),),
    (resolve(7, "stored too"),),
)
MIXTURE = (
    (resolve(0, "value"),),
    (fire(1),),
    (resolve_promise("approved", True),),
    (resolve(3, "invoice 3"),),
    (resolve(4, "kept"),),
)


def same(name: str, code: Any, *turns: tuple[AnyJob, ...]) -> Case:
    """A run whose code has not changed."""
    return Case(name, code, turns, code)


UNCHANGED = [
    same("simple_operation", simple_operation),
    same("multiple_operations", multiple_operations, (fire(0),)),
    same("state", state, (fire(0),)),
    same("task", task, (resolve(0, "text"),)),
    same("timer", timer, (fire(0),)),
    same("promise", promised, (resolve_promise("answer", "yes"),)),
    same("child", one_child, (resolve(0, "invoice 7"),)),
    same("parallel_two_tasks", two_tasks, (resolve(1, "b"),), (resolve(0, "a"),)),
    same("parallel_task_and_timer", task_and_timer, *SIDE_BY_SIDE),
    same("parallel_three_tasks_one_fails", three_tasks_one_fails, (resolve(2, "c"),), (fail(1, ValueError("no b")),)),
    same("select_first_wins", select_first_wins, (resolve(1, "quick"),)),
    same("timeout_success", with_timeout, (resolve(1, "text"),)),
    same("timeout_expiry", with_timeout, (fire(0),)),
    same("parallel_mixed", mixed_parallel, *MIXED),
    same("determinism_task_loop", task_loop, *LOOP),
    same("determinism_child_loop", child_loop, *LOOP),
    same("determinism_mixed_commands", mixed_commands, *MIXTURE),
]
CHANGED = [
    Case("loop_shortened", task_loop, LOOP, loop_shortened, strict=(2, "kind")),
    Case("violation_task_type", task, ((resolve(0, "text"),),), other_task, (0, "name"), (0, "name")),
    Case("violation_task_order", two_tasks, ((resolve(0, "a"),),), tasks_swapped, (0, "name"), (0, "name")),
    Case("violation_child_name", one_child, ((resolve(0, "x"),),), renamed_child, (0, "name"), (0, "name")),
    Case("violation_child_kind", one_child, ((resolve(0, "x"),),), other_child, (0, "name"), (0, "name")),
    # Not in the seed's corpus: what `names` lets pass besides, and the other names that it looks at.
    Case("loop_extended", task_loop, LOOP, loop_extended, strict=(3, "kind")),
    Case("child_became_task", one_child, ((resolve(0, "x"),),), task_for_child, strict=(0, "kind")),
    Case("kinds_reordered", task_and_timer, SIDE_BY_SIDE, timer_first, strict=(0, "kind")),
    Case("child_id", one_child, ((resolve(0, "invoice 7"),),), child_with_id, strict=(0, "options.id")),
    Case("values_changed", task_and_timer, SIDE_BY_SIDE, other_argument_and_duration, strict=(0, "input[0]")),
    Case("violation_operation", simple_operation, (), other_operation, (0, "name"), (0, "name")),
    Case("violation_promise", promised, (), other_promise, (0, "name"), (0, "name")),
    Case("violation_state_key", state, ((fire(0),),), other_key, (0, "name"), (0, "name")),
    Case("violation_state_set_or_clear", state, ((fire(0),),), clears_instead, (0, "kind"), (0, "kind")),
]
