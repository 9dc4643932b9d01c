"""Sample workflows for asyncio's primitives (K15): tasks and what waits for them.

`asyncio_samples_tasks`, `asyncio_samples_time` and `asyncio_samples_locks` hold the others, `asyncio_drives` runs them.
Each gives back the order in which its strands moved. Histories were recorded from them: a sample is never changed,
others are added.
"""

# ruff: noqa: PERF401 (a comprehension would show no order)

from __future__ import annotations

import asyncio
from typing import Any

from perdure import activity, shielded, workflow


@activity
async def act(name: str) -> str: ...


async def note(seen: list[str], name: str) -> str:
    """One activity, and its mark when it is answered or has ended otherwise."""
    try:
        value = await act(name)
    except BaseException as error:
        seen.append(f"{name} {type(error).__name__}")
        raise
    seen.append(value)
    return value


async def chain(seen: list[str], name: str) -> str:
    return await note(seen, f"{name}1") + await note(seen, f"{name}2")


@workflow
async def create_task_awaited_backwards() -> list[str]:
    seen: list[str] = []
    tasks = [asyncio.create_task(chain(seen, name)) for name in "abc"]
    for task in reversed(tasks):
        seen.append(f"got {await task}")
    return seen


@workflow
async def create_task_within_a_task() -> list[str]:
    seen: list[str] = []

    async def parent(name: str) -> None:
        child = asyncio.create_task(chain(seen, f"{name}c"))
        await note(seen, name)
        await asyncio.create_task(chain(seen, f"{name}d"))
        await child

    await asyncio.gather(parent("x"), parent("y"))
    return seen


@workflow
async def gather_mixed() -> list[str]:
    seen: list[str] = []
    task = asyncio.create_task(chain(seen, "t"))
    values = await asyncio.gather(chain(seen, "a"), act("future"), task, task, chain(seen, "b"))
    return [*seen, *values]


@workflow
async def gather_with_exceptions() -> list[str]:
    seen: list[str] = []
    found = await asyncio.gather(note(seen, "a"), note(seen, "bad"), note(seen, "c"), return_exceptions=True)
    return [*seen, *(one if isinstance(one, str) else type(one).__name__ for one in found)]


@workflow
async def gather_nested() -> list[str]:
    seen: list[str] = []
    await asyncio.gather(asyncio.gather(chain(seen, "a"), chain(seen, "b")), chain(seen, "c"))
    return seen


@workflow
async def gather_that_fails() -> list[str]:
    seen: list[str] = []
    try:
        await asyncio.gather(chain(seen, "a"), note(seen, "bad"), chain(seen, "c"))
    except Exception as error:
        seen.append(type(error).__name__)
    await act("after")
    return seen


@workflow
async def gather_cancelled() -> list[str]:
    seen: list[str] = []
    group = asyncio.gather(chain(seen, "a"), chain(seen, "b"), return_exceptions=True)
    await act("first")
    group.cancel()
    try:
        await group
    except asyncio.CancelledError:
        seen.append("cancelled")
    return seen


@workflow
async def wait_for_the_first() -> list[str]:
    seen: list[str] = []
    tasks = {asyncio.create_task(chain(seen, name), name=name) for name in "abcdefgh"}
    while tasks:
        done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        seen += [f"done {task.get_name()}" for task in done]
        seen += [f"open {task.get_name()}" for task in tasks]
        await act("next")
    return seen


@workflow
async def wait_for_an_exception() -> list[str]:
    seen: list[str] = []
    tasks = [asyncio.create_task(note(seen, name), name=name) for name in ("a", "b", "bad", "c")]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    seen += [f"done {task.get_name()} {task.exception() is None}" for task in done]
    seen += [f"open {task.get_name()}" for task in pending]
    for task in pending:
        task.cancel()
    return seen


@workflow
async def wait_for_all_within_a_time() -> list[str]:
    seen: list[str] = []
    tasks = [asyncio.create_task(chain(seen, name), name=name) for name in "abcde"]
    done, pending = await asyncio.wait(tasks, timeout=10)
    seen += [f"done {task.get_name()}" for task in done]
    seen += [f"open {task.get_name()}" for task in pending]
    for task in pending:
        task.cancel()
    await asyncio.wait(tasks)
    return seen


@workflow
async def wait_for_gathers_and_futures() -> list[str]:
    seen: list[str] = []
    groups = {asyncio.gather(chain(seen, name), act(f"{name}f")): name for name in "abcd"}
    done, pending = await asyncio.wait(groups, return_when=asyncio.FIRST_COMPLETED)
    seen += [f"done {groups[one]}" for one in done] + [f"open {groups[one]}" for one in pending]
    await asyncio.wait({*groups, asyncio.gather(act("late"))})
    return [*seen, *(groups[one] for one in set(groups))]


@workflow
async def as_completed_of_coroutines() -> list[str]:
    seen: list[str] = []
    for earliest in asyncio.as_completed([chain(seen, name) for name in "abcdefgh"]):
        seen.append(f"got {await earliest}")
    return seen


@workflow
async def as_completed_of_tasks_in_a_set() -> list[str]:
    seen: list[str] = []
    tasks = {asyncio.create_task(chain(seen, name)) for name in "abcde"}
    for earliest in asyncio.as_completed(tasks):
        seen.append(f"got {await earliest}")
        await act("next")
    return seen


@workflow
async def as_completed_of_futures_and_a_duplicate() -> list[str]:
    seen: list[str] = []
    twice = act("twice")
    coroutine = chain(seen, "c")
    for earliest in asyncio.as_completed([act("a"), twice, coroutine, twice, coroutine, act("b")]):
        seen.append(f"got {await earliest}")
    return seen


@workflow
async def as_completed_of_what_is_done() -> list[str]:
    seen: list[str] = []
    futures = [act(name) for name in "abcdef"]
    await asyncio.wait(futures)
    for earliest in asyncio.as_completed([*futures, chain(seen, "x")]):
        seen.append(f"got {await earliest}")
    return seen


@workflow
async def as_completed_within_a_time() -> list[str]:
    seen: list[str] = []
    try:
        for earliest in asyncio.as_completed([chain(seen, name) for name in "abc"], timeout=10):
            seen.append(f"got {await earliest}")
    except TimeoutError:
        seen.append("too late")
    return [*seen, await act("end")]


@workflow
async def as_completed_begins_at_its_call() -> list[str]:
    seen: list[str] = []
    earliest = asyncio.as_completed([chain(seen, name) for name in "ab"], timeout=10)
    task = asyncio.create_task(chain(seen, "later"))
    await act("between")
    seen += [await one for one in earliest]
    return [*seen, await task]


@workflow
async def task_group() -> list[str]:
    seen: list[str] = []
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(chain(seen, name)) for name in "abc"]
        seen.append(await act("body"))
    return [*seen, *(task.result() for task in tasks)]


@workflow
async def task_group_that_fails() -> list[str]:
    seen: list[str] = []

    async def tidy(name: str) -> None:
        try:
            await chain(seen, name)
        except asyncio.CancelledError:
            async with shielded():
                seen.append(await act(f"undo {name}"))
            raise

    try:
        async with asyncio.TaskGroup() as group:
            for name in "abcdefghijkl":
                group.create_task(tidy(name))
            group.create_task(note(seen, "bad"))
    except* Exception as errors:
        seen += [type(error).__name__ for error in errors.exceptions]
    return [*seen, await act("after")]


@workflow
async def task_group_within_a_group() -> list[str]:
    seen: list[str] = []

    async def inner(group: asyncio.TaskGroup, name: str) -> None:
        async with asyncio.TaskGroup() as own:
            own.create_task(chain(seen, f"{name}x"))
            group.create_task(chain(seen, f"{name}y"))
            own.create_task(chain(seen, f"{name}z"))

    async with asyncio.TaskGroup() as group:
        group.create_task(inner(group, "a"))
        group.create_task(inner(group, "b"))
    return seen


@workflow
async def task_groups_that_fail_together() -> list[str]:
    seen: list[str] = []
    try:
        async with asyncio.TaskGroup() as outer:
            outer.create_task(note(seen, "bad outer"))
            try:
                async with asyncio.TaskGroup() as inner:
                    inner.create_task(note(seen, "bad inner"))
                    await note(seen, "body")
            except* Exception:
                seen.append("inner failed")
            await note(seen, "between")
    except* Exception:
        seen.append("outer failed")
    return [*seen, await act("after")]


SAMPLES: tuple[Any, ...] = (
    create_task_awaited_backwards,
    create_task_within_a_task,
    gather_mixed,
    gather_with_exceptions,
    gather_nested,
    gather_that_fails,
    gather_cancelled,
    wait_for_the_first,
    wait_for_an_exception,
    wait_for_all_within_a_time,
    wait_for_gathers_and_futures,
    as_completed_of_coroutines,
    as_completed_of_tasks_in_a_set,
    as_completed_of_futures_and_a_duplicate,
    as_completed_of_what_is_done,
    as_completed_within_a_time,
    as_completed_begins_at_its_call,
    task_group,
    task_group_that_fails,
    task_group_within_a_group,
    task_groups_that_fail_together,
)
