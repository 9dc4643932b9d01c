"""What the host is busy with is none of the run's: an exception that it handles is no cause of what the code raises."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from perdure import Failure, activity, query, side_effect, update, workflow
from perdure import testing as tell
from perdure.define.workflow import Workflow
from perdure.testing import Harness, resolve


@activity
async def act(number: int) -> int: ...


@workflow
async def fails() -> None:
    await act(1)
    raise ValueError("of its own")


@workflow
async def fails_twice() -> None:
    await act(1)
    try:
        raise KeyError("the first")
    except KeyError as error:
        raise ValueError("of its own") from error


@workflow
async def fails_in_a_group() -> None:
    async def one() -> None:
        await act(1)
        raise ValueError("of its own")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(one())


@workflow
async def fails_in_an_effect() -> None:
    await act(1)

    def effect() -> None:
        raise ValueError("of its own")

    side_effect("effect", effect)


@workflow
class Answers:
    async def run(self) -> None:
        await act(1)
        await act(2)

    @update
    async def change(self) -> None:
        raise ValueError("of its own")

    @query
    def look(self) -> None:
        raise ValueError("of its own")


def plainly(act: Callable[[], Any]) -> Any:
    return act()


def while_handling(act: Callable[[], Any]) -> Any:
    """As a host does that tries again in an `except`."""
    try:
        raise OSError("of the host")
    except OSError:
        return act()


def told(failure: Failure | None) -> list[str]:
    """All that a failure says: each cause, and the text of the traceback."""
    found: list[str] = []
    while failure is not None:
        found += [failure.type, failure.message, failure.traceback or ""]
        failure = failure.cause
    return found


@pytest.mark.parametrize(
    ("program", "kinds"),
    [
        (fails, ["ValueError"]),
        (fails_twice, ["ValueError", "KeyError"]),
        (fails_in_a_group, ["BaseExceptionGroup"]),
        (fails_in_an_effect, ["OperationFailed", "ValueError"]),
    ],
)
def test_k1_a_failure_does_not_know_what_the_host_was_handling(program: Workflow[[], None], kinds: list[str]) -> None:
    stories: list[list[str]] = []
    for around in (plainly, while_handling):
        h = Harness(program)
        around(h.start)
        around(lambda h=h: h.activate(resolve(0, 1)))
        stories.append(told(h.failure))
    assert stories[0][::3][: len(kinds)] == [
        kind if kind != "BaseExceptionGroup" else "ExceptionGroup" for kind in kinds
    ]
    assert stories[0] == stories[1]
    assert "of the host" not in "".join(stories[1])


def test_m2_m3_answers_do_not_know_it_either() -> None:
    stories: list[list[list[str]]] = []
    for around in (plainly, while_handling):
        h = Harness(Answers)
        around(h.start)
        turn = around(lambda h=h: h.activate(tell.update("change", id="u"), tell.query("look", id="q")))
        stories.append([told(answer.error) for answer in turn.answers])
    assert [len(story) for story in stories[0]] == [0, 3, 3]
    assert stories[0] == stories[1]
