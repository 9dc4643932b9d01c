"""A worker that tests kill: long chains of generations, trees of children; `python -m tests.crash.worker FILE`."""

from __future__ import annotations

import asyncio
import sys

import perdure
from perdure import activity, continue_as_new, info, parallel, receive, set_state, sleep, workflow

STEPS = 6  # of a leaf: so that no tree is done before it can be killed


@activity
async def step(number: int) -> int:
    return number


@workflow
async def rolling(heard: list[int], wanted: int) -> list[int]:
    """One signal a generation."""
    heard = [*heard, await receive("number", int)]
    set_state("generation", info().generation)
    if len(heard) < wanted:
        return continue_as_new(heard, wanted)
    return heard


@workflow
async def tree(width: list[int]) -> int:
    """As many children as the first number says, each a tree of the rest; leaves wait until they are cancelled."""
    if width:
        return sum(await parallel(*(tree(width[1:]) for _ in range(width[0]))))
    for number in range(STEPS):
        await step(number)
    await sleep("30d")
    return 1


@workflow
async def finite_tree(width: list[int]) -> int:
    """The same, whose leaves end."""
    if width:
        return sum(await parallel(*(finite_tree(width[1:]) for _ in range(width[0]))))
    for number in range(STEPS):
        await step(number)
    return 1


WORKFLOWS = [rolling, tree, finite_tree]


async def main(path: str) -> None:
    await perdure.Worker(f"sqlite:///{path}", workflows=WORKFLOWS, activities=[step]).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
