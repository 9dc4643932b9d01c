"""Versions: a run stays on the one that it began with; patches take runs that are open along (M9)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from perdure import UsageError, activity, continue_as_new, deprecate_patch, patched, receive, workflow

Opened = Callable[..., Any]
NAMES = (f"memory://versions-{number}" for number in itertools.count())


@activity
async def note(text: str) -> str:
    return text


def version_of_flow(version: Any, *, goes_on: bool = False) -> Any:
    @workflow(name="flow", version=version)
    async def flow(left: int) -> str:
        await note(f"version {version}")
        await receive("go", bool)
        if goes_on and left:
            return continue_as_new(left - 1)
        return f"version {version}"

    return flow


async def test_a_run_stays_on_the_version_that_it_began_with(engine: Opened) -> None:
    """Rule M9."""
    url = next(NAMES)
    one, two, ten = version_of_flow(1), version_of_flow(2), version_of_flow(10)
    async with engine(url=url, workflows=[one], activities=[note]) as first:
        await first.start(one, 0, id="old")
        await asyncio.sleep(1)
    async with engine(url=url, workflows=[ten, one, two], activities=[note]) as second:
        await second.start("flow", 0, id="new")
        for name in ("old", "new"):
            await second.handle(name).signal("go", True)
        assert await second.handle("old").result() == "version 1"
        assert await second.handle("new").result() == "version 10", "the newest, numbers compared as numbers"
        assert (await second.start(two, 0, id="asked for")).id == "asked for"
        await second.handle("asked for").signal("go", True)
        assert await second.handle("asked for").result() == "version 2"


async def test_the_next_generation_begins_with_the_newest_version(engine: Opened) -> None:
    """Rules M8, M9."""
    url = next(NAMES)
    one, two = version_of_flow(1, goes_on=True), version_of_flow(2, goes_on=True)
    async with engine(url=url, workflows=[one], activities=[note]) as first:
        await first.start(one, 1, id="g")
        await asyncio.sleep(1)
    async with engine(url=url, workflows=[one, two], activities=[note]) as second:
        for _ in range(2):
            await second.handle("g").signal("go", True)
        assert await second.handle("g").result() == "version 2"


async def test_a_version_that_no_worker_knows_blocks_its_runs_until_one_does(engine: Opened) -> None:
    """Rules K14, M9."""
    url = next(NAMES)
    one, two = version_of_flow(1), version_of_flow(2)
    async with engine(url=url, workflows=[one], activities=[note]) as first:
        handle = await first.start(one, 0, id="old")
        await asyncio.sleep(1)
    async with engine(url=url, workflows=[two], activities=[note]) as second:
        await second.handle("old").signal("go", True)
        await asyncio.sleep(1)
        blocked = (await second.handle("old").describe()).blocked
        assert blocked is not None
        assert blocked.kind == "unknown_workflow"
        assert "version 1 of workflow `flow`" in blocked.reason
    async with engine(url=url, workflows=[two, one], activities=[note]) as third:
        assert await third.handle(handle.id).result(timeout=5) == "version 1"


async def test_code_without_versions_goes_on_with_any_run(engine: Opened) -> None:
    """Rule M9: whoever gives a workflow its first version, or takes it away, breaks nothing that replays."""
    url = next(NAMES)
    for before, after in ((None, "a"), ("b", None)):
        old, new = (_unversioned() if version is None else _versioned(version) for version in (before, after))
        name = f"from {before} to {after}"
        async with engine(url=url, workflows=[old]) as first:
            await first.start(old, id=name)
            await asyncio.sleep(1)
        async with engine(url=url, workflows=[new]) as second:
            await second.handle(name).signal("go", True)
            assert await second.handle(name).result(timeout=5) is True


def _unversioned() -> Any:
    @workflow(name="same")
    async def same() -> bool:
        return await receive("go", bool)

    return same


def _versioned(version: str) -> Any:
    @workflow(name="same", version=version)
    async def same() -> bool:
        return await receive("go", bool)

    return same


async def test_a_patch_takes_open_runs_along_and_can_be_retired(engine: Opened) -> None:
    """Rule M9: the old way for runs that passed before the deploy, the new way for others; then the patch goes."""
    url = next(NAMES)

    @workflow(name="patching")
    async def before() -> list[str]:
        said = [await note("old")]
        await receive("go", bool)
        return [*said, await note("end")]

    @workflow(name="patching")
    async def between() -> list[str]:
        said = [await note("new") if patched("p-1") else await note("old")]
        await receive("go", bool)
        return [*said, await note("end")]

    @workflow(name="patching")
    async def after() -> list[str]:
        deprecate_patch("p-1")
        said = [await note("new")]
        await receive("go", bool)
        return [*said, await note("end")]

    async with engine(url=url, workflows=[before], activities=[note]) as one:
        await one.start(before, id="early")
        await asyncio.sleep(1)
    async with engine(url=url, workflows=[between], activities=[note]) as two:
        await two.start(between, id="late")
        await two.handle("early").signal("go", True)
        assert await two.handle("early").result(timeout=5) == ["old", "end"]
        await asyncio.sleep(1)
    async with engine(url=url, workflows=[after], activities=[note]) as three:
        await three.handle("late").signal("go", True)
        assert await three.handle("late").result(timeout=5) == ["new", "end"]


def test_two_workflows_of_one_name_are_refused_unless_they_are_versions() -> None:
    """Rule E2."""
    from perdure import Engine

    with pytest.raises(UsageError, match="two workflows are called `flow`"):
        Engine("memory://", workflows=[version_of_flow(1), version_of_flow(1)])
    with pytest.raises(UsageError, match="two workflows are called `flow`"):
        Engine("memory://", workflows=[version_of_flow(1), version_of_flow("1")])
