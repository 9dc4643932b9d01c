"""What the tests of policies share: workflows of strands that interleave, and how they are played."""

from __future__ import annotations

from typing import Any

from perdure import (
    activity,
    choose,
    parallel,
    sleep,
    workflow,
)
from perdure.testing import Harness, Turn, resolve

SEEDS = range(12)


@activity
async def step(name: str, number: int) -> int: ...


async def strand(name: str) -> int:
    total = await step(name, 1)
    await sleep(0)
    return total + await step(name, 2)


@workflow
async def strands() -> list[int]:
    picked = await choose(lambda: strand("x"), lambda: strand("y"), lambda: strand("z"))
    return [picked, *await parallel(strand("a"), strand("b"), strand("c"))]


@workflow(name="strands")
async def one_strand_more() -> list[int]:
    picked = await choose(lambda: strand("x"), lambda: strand("y"), lambda: strand("z"))
    return [picked, *await parallel(strand("a"), strand("b"), strand("c"), strand("d"))]


@workflow(name="strands")
async def one_strand_fewer() -> list[int]:
    picked = await choose(lambda: strand("x"), lambda: strand("y"), lambda: strand("z"))
    return [picked, *await parallel(strand("a"), strand("b"))]


def answer_all(h: Harness[Any], turn: Turn) -> list[Turn]:
    """Answer every activity of a turn in the next one, until the run ends."""
    turns = [turn]
    while not h.done:
        asked = [command for command in turns[-1].commands if command.kind == "schedule_activity"]
        assert asked, "the run waits for something else"
        turns.append(h.activate(*(resolve(command, command.input[1]) for command in asked)))
    return turns


def played(workflow: Any, policy: Any = None) -> Harness[Any]:
    h = Harness(workflow, policy=policy)
    answer_all(h, h.start())
    return h


def decided(h: Harness[Any]) -> list[list[tuple[Any, ...]]]:
    """What each turn decided, command by command."""
    return [[(c.kind, c.seq, c.unit, c.name, c.input) for c in turn.commands] for turn in h.turns]
