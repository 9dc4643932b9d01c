"""Children and other runs, through the engine on virtual time (M7, E2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from perdure import (
    ActivityFailed,
    ChildFailed,
    ExternalFailed,
    Retry,
    RunCancelled,
    RunTerminated,
    activity,
    child,
    continue_as_new,
    parallel,
    race,
    receive,
    run_of,
    set_state,
    shielded,
    sleep,
    workflow,
)

Opened = Callable[..., Any]


@workflow
async def doubled(number: int) -> int:
    await sleep(1)
    return 2 * number


@workflow
async def failing(text: str) -> str:
    raise ValueError(text)


@workflow
async def approval(who: str) -> str:
    return f"{who}: {await receive('approve', str)}"


@workflow(queue="elsewhere")
async def served_elsewhere(number: int) -> int:
    return number


@workflow
async def sum_of_children(count: int) -> int:
    return sum(await parallel(*(doubled(number) for number in range(count))))


# --- children (M7) -------------------------------------------------------------------------------


async def test_children_run_and_their_values_arrive(engine: Opened) -> None:
    """Rule M7."""

    async with engine(workflows=[doubled, sum_of_children]) as e:
        assert await e.run(sum_of_children, 100) == 9900


async def test_a_childs_failure_arrives_with_its_cause(engine: Opened) -> None:
    """Rule M7."""

    @workflow
    async def parent() -> str:
        try:
            await failing("no")
        except ChildFailed as error:
            return str(error.failure)
        return "it did not fail"

    async with engine(workflows=[parent, failing]) as e:
        assert await e.run(parent) == "ValueError: no"


async def test_a_child_id_that_is_taken_is_a_failed_answer(engine: Opened) -> None:
    """Rule E2."""

    @workflow
    async def parent() -> str:
        try:
            await child(doubled, 1, id="taken")
        except ChildFailed as error:
            return error.failure.type
        return "nobody had it"

    async with engine(workflows=[parent, doubled, approval]) as e:
        await e.start(approval, "ann", id="taken")
        assert await e.run(parent) == "AlreadyExists"


async def test_a_child_is_signalled_and_cancelled(engine: Opened) -> None:
    """Rule M7."""

    @workflow
    async def parent() -> list[str]:
        told = child(approval, "ann", id="told")
        stopped = child(approval, "bob", id="stopped", parent_close="abandon")
        await told.signal("approve", "yes")
        stopped.cancel()
        values = [await told]
        try:
            await stopped
        except asyncio.CancelledError:
            values.append("cancelled")
        return values

    async with engine(workflows=[parent, approval]) as e:
        assert await e.run(parent) == ["ann: yes", "cancelled"]
        with pytest.raises(RunCancelled):
            await e.handle("stopped").result()


@pytest.mark.parametrize(
    ("policy", "ending"), [("terminate", RunTerminated), ("cancel", RunCancelled), ("abandon", None)]
)
async def test_the_end_of_a_parent_does_to_its_children_what_they_asked_for(
    engine: Opened, policy: Any, ending: Any
) -> None:
    """Rule M7."""

    @workflow
    async def parent() -> str:
        child(approval, "ann", id="kid", parent_close=policy)
        await sleep(5)
        return "done"

    async with engine(workflows=[parent, approval]) as e:
        assert await e.run(parent) == "done"
        kid = e.handle("kid")
        if ending is None:
            await kid.signal("approve", "yes")
            assert await kid.result() == "ann: yes"
        else:
            with pytest.raises(ending):
                await kid.result(timeout=10)


async def test_a_child_goes_to_the_queue_of_its_definition_also_where_its_parents_worker_does_not_know_it(
    engine: Opened,
) -> None:
    """Rules M7, K14: only what a worker serves has to be known to it."""

    @workflow
    async def parent() -> int:
        return await served_elsewhere(7)

    async with engine(workflows=[parent]) as e:
        handle = await e.start(parent)
        await asyncio.sleep(1)
        (kid,) = (await handle.describe()).children
        assert (kid.type, kid.queue, kid.status) == ("served_elsewhere", "elsewhere", "running")


async def test_an_abandoned_child_that_nobody_waits_for_outlives_the_cancellation_of_its_parent(
    engine: Opened,
) -> None:
    """Rules M6, M7: those that it waits for are asked to cancel."""

    @workflow
    async def parent() -> None:
        child(approval, "ann", id="left", parent_close="abandon")
        await child(approval, "bob", id="awaited", parent_close="abandon")

    async with engine(workflows=[parent, approval]) as e:
        handle = await e.start(parent)
        await asyncio.sleep(5)
        await handle.cancel()
        with pytest.raises(RunCancelled):
            await handle.result()
        await asyncio.sleep(5)
        assert (await e.handle("awaited").describe()).status == "cancelled"
        await e.handle("left").signal("approve", "yes")
        assert await e.handle("left").result() == "ann: yes"


@pytest.mark.parametrize(("policy", "status"), [("terminate", "terminated"), ("cancel", "cancelled")])
async def test_children_of_an_earlier_generation_end_with_the_last_one(
    engine: Opened, policy: Any, status: str
) -> None:
    """Rules M7, M8: they go on while their parent does, and are nobody's when it has ended."""

    @workflow
    async def parent(generation: int) -> str:
        if generation < 3:
            child(approval, "ann", id=f"kid-{generation}", parent_close=policy)
            await sleep(1)
            continue_as_new(generation + 1)
        return await receive("end", str)

    async with engine(workflows=[parent, approval]) as e:
        handle = await e.start(parent, 0)
        await asyncio.sleep(10)
        assert await e.count("type = 'approval' and status = 'running'") == 3
        await handle.signal("end", "done")
        assert await handle.result() == "done"
        await asyncio.sleep(1)
        assert await e.count(f"type = 'approval' and status = '{status}'") == 3


async def test_a_child_of_another_team_is_started_by_its_name(engine: Opened) -> None:
    """Rules M7, K14: where its queue is served here its name has to be known, elsewhere it need not."""

    @workflow
    async def parent(queue: str | None) -> int:
        return await (child("doubled", 4, queue=queue) if queue else child("doubled", 4))

    url = "memory://teams"
    async with engine(workflows=[parent], url=url) as e:
        here = await e.start(parent, None)
        there = await e.start(parent, "theirs")
        await asyncio.sleep(5)
        blocked = (await here.describe()).blocked
        assert blocked is not None
        assert "doubled" in blocked.reason
        async with engine(workflows=[doubled], queues=["theirs"], url=url):
            assert await there.result() == 8


@activity
async def tidied(what: str) -> str:
    return what


@workflow
async def tidy(name: str) -> None:
    try:
        await sleep("10d")
    finally:
        async with shielded():
            await sleep(60)
            set_state("tidied", await tidied(name))


@workflow
async def tidy_parent(name: str) -> None:
    try:
        await parallel(child(tidy, name, id=f"{name}-0"), child(tidy_leaf, name, id=f"{name}-1"))
    finally:
        async with shielded():
            await sleep(1)


@workflow
async def tidy_leaf(name: str) -> None:
    await child(tidy, name, id=f"{name}-2")


async def test_cancelling_a_tree_lets_all_of_it_clean_up(engine: Opened) -> None:
    """Rules M6, M7: also what takes longer than the clean-up of its parent."""
    async with engine(workflows=[tidy_parent, tidy_leaf, tidy], activities=[tidied]) as e:
        handle = await e.start(tidy_parent, "tree")
        await asyncio.sleep(5)
        await handle.cancel()
        with pytest.raises(RunCancelled):
            await handle.result()
        await asyncio.sleep(100)
        for name in ("tree-0", "tree-2"):
            assert await e.handle(name).state() == {"tidied": "tree"}
        assert [(await e.handle(f"tree-{i}").describe()).status for i in range(3)] == ["cancelled"] * 3


async def test_a_child_that_loses_a_race_cleans_up_though_its_parent_has_ended(engine: Opened) -> None:
    """Rules M6, M7."""

    @workflow
    async def quickest() -> int:
        won, _ = await race(child(tidy, "loser", id="loser"), sleep(5))
        child(tidy, "left", id="left")
        return won

    async with engine(workflows=[quickest, tidy], activities=[tidied]) as e:
        assert await e.run(quickest) == 1
        await asyncio.sleep(100)
        assert [(await e.handle(id).describe()).status for id in ("loser", "left")] == ["cancelled", "terminated"]
        assert await e.handle("loser").state() == {"tidied": "loser"}


async def test_terminating_a_tree_ends_all_of_it(engine: Opened) -> None:
    """Rule M7."""

    @workflow
    async def tree(depth: int) -> None:
        if depth:
            await parallel(tree(depth - 1), tree(depth - 1))
        else:
            await sleep("10d")

    async with engine(workflows=[tree]) as e:
        handle = await e.start(tree, 4)
        await asyncio.sleep(10)
        await handle.terminate("enough")
        await asyncio.sleep(10)
        runs = [run async for run in e.list("status = 'running'")]
        assert not runs


async def test_an_activity_that_fails_in_a_child_is_the_cause_of_its_failure(engine: Opened) -> None:
    @activity
    async def refuse() -> None:
        raise KeyError("gone")

    @workflow
    async def kid() -> None:
        await refuse.options(retry=Retry(attempts=1))()

    @workflow
    async def parent() -> list[str]:
        try:
            await child(kid)
        except ChildFailed as error:
            cause = error.failure.cause
            return [error.failure.type, cause.type if cause else ""]
        return []

    async with engine(workflows=[parent, kid], activities=[refuse]) as e:
        assert await e.run(parent) == [ActivityFailed.__name__, "KeyError"]


# --- other runs ----------------------------------------------------------------------------------


async def test_another_run_is_signalled_and_an_unknown_one_is_a_failed_answer(engine: Opened) -> None:
    """Rule E2."""

    @workflow
    async def sender() -> str:
        await run_of("listener").signal("approve", "yes")
        try:
            await run_of("nobody").signal("approve", "yes")
        except ExternalFailed as error:
            return error.failure.type
        return "somebody"

    async with engine(workflows=[sender, approval]) as e:
        listener = await e.start(approval, "ann", id="listener")
        assert await e.run(sender) == "NotFound"
        assert await listener.result() == "ann: yes"


async def test_another_run_is_cancelled(engine: Opened) -> None:
    @workflow
    async def stopper() -> None:
        await run_of("listener").cancel("enough")

    async with engine(workflows=[stopper, approval]) as e:
        listener = await e.start(approval, "ann", id="listener")
        await e.run(stopper)
        with pytest.raises(RunCancelled):
            await listener.result()
