"""What the tests of joins share: branches that are activities, and a run that joins them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure import (
    activity,
    parallel,
    workflow,
)
from perdure.testing import Harness, Turn, evict


@activity
async def act(number: int) -> int: ...


async def branch(number: int) -> int:
    return await act(number)


def joining(count: int, join: Any, make: Callable[[int], Any] = branch) -> Harness[Any]:
    """A run that joins `count` branches, started."""

    @workflow(name="joining")
    async def joins() -> Any:
        run: Any = parallel
        return await run(*(make(number) for number in range(count)), join=join)

    h = Harness(joins)
    h.start()
    return h


def brief(turn: Turn) -> list[tuple[str, int | None]]:
    return [(command.kind, command.seq) for command in turn.commands]


def check_replay(h: Harness[Any]) -> None:
    """It replays strictly, and from its text, evicted at the end."""
    recorded = [turn.commands for turn in h.turns]
    assert [turn.commands for turn in h.replay().turns] == recorded
    h.activate(evict())
    assert [waiting.what for waiting in h.waiting()] == [waiting.what for waiting in h.replay().waiting()]
