"""Pipelines that fail: retries, reconciling, a person's word, mending; on an engine on virtual time (L7, L8)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from perdure.errors import UsageError
from perdure.pipelines import Pipeline, Prepared, happened, needs_approval, not_applied, transient
from tests.pipelines.mailing import Desk, mail_to_sheet

DAY = 86_400


@pytest.mark.parametrize("trouble", ["after", ConnectionError("was it sent?")])
async def test_an_unknown_outcome_is_reconciled_at_once(engine: Callable[..., Any], trouble: Any) -> None:
    """L7."""
    desk = Desk()
    desk.trouble = [trouble]
    async with engine(pipelines=[mail_to_sheet(desk)]) as running:
        await asyncio.sleep(1)
        assert [subject for _, subject in desk.rows] == ["subject 0", "subject 1", "subject 2"]
        assert {one.status for one in await running.pipelines.events("mail", "inbox")} == {"consumed"}
        first = [run for run in await running.pipelines.runs("mail") if run.handler == "Sheet" and run.error]
        assert [(run.status, run.mutation) for run in first] == (
            [] if trouble == "after" else [("paused:reconciliation", "failure")]
        )
        assert len(set(desk.keys)) == (3 if trouble == "after" else 4), "a new key once the outcome is failure"


async def test_without_reconcile_a_person_is_asked(engine: Callable[..., Any]) -> None:
    """L7, L11."""
    desk = Desk()
    desk.trouble = ["after"]
    async with engine(pipelines=[mail_to_sheet(desk, reconciles=False)]) as running:
        await asyncio.sleep(DAY)
        waiting = (await running.pipelines.runs("mail"))[-1]
        assert (waiting.status, waiting.stage, waiting.mutation) == ("paused:reconciliation", "mutating", "uncertain")
        status = await running.pipelines.status("mail")
        assert status.status == "Needs attention"
        assert "append" in (status.issue or "")
        assert len(desk.rows) == 1
        with pytest.raises(UsageError):
            await running.pipelines.run_now("mail")
        await running.pipelines.resolve(waiting.id, "happened", result=1)
        await asyncio.sleep(1)
        assert [subject for _, subject in desk.rows] == ["subject 0", "subject 1", "subject 2"]
        after = next(run for run in await running.pipelines.runs("mail") if run.retry_of == waiting.id)
        assert (after.status, after.mutation) == ("committed", "success")


@pytest.mark.parametrize(
    ("answer", "rows", "events", "keys"),
    [("did_not_happen", 4, "consumed", 4), ("skip", 3, "skipped", 3), ("retry", 4, "consumed", 3)],
)
async def test_each_word_of_a_person(
    engine: Callable[..., Any], answer: str, rows: int, events: str, keys: int
) -> None:
    """L7: did not happen starts over under a new key, skip goes on without, retry performs it under its key."""
    desk = Desk()
    desk.trouble = ["after"]
    async with engine(pipelines=[mail_to_sheet(desk, reconciles=False)]) as running:
        await asyncio.sleep(1)
        waiting = (await running.pipelines.runs("mail"))[-1]
        await running.pipelines.resolve(waiting.id, answer)
        await asyncio.sleep(1)
        assert len(desk.rows) == rows
        assert (await running.pipelines.events("mail", "inbox"))[0].status == events
        assert len(set(desk.keys)) == keys
        assert ("skipped" in desk.told) == (answer == "skip")
        with pytest.raises(UsageError):
            await running.pipelines.resolve(waiting.id, answer)


async def test_reconcile_is_asked_with_its_budget(engine: Callable[..., Any]) -> None:
    """L7: at once, then after 10 s, doubling; five times; then a person."""
    asked: list[float] = []
    loop = asyncio.get_running_loop()
    mail = Pipeline("mail")
    inbox = mail.topic("inbox", int)

    @mail.consumer(inbox)
    class Sheet:
        async def prepare(self, ctx: Any, state: Any) -> Prepared:
            return Prepared(reserve={inbox: [one.id for one in await ctx.peek(inbox)]})

        async def mutate(self, ctx: Any, prepared: Prepared) -> None:
            await ctx.perform(fails)

        async def reconcile(self, ctx: Any, prepared: Prepared) -> Any:
            asked.append(loop.time())
            return happened("row 7") if len(asked) == 6 else None

    async def fails() -> None:
        raise RuntimeError("what now?")

    async with engine(pipelines=[mail]) as running:
        await running.pipelines.publish(inbox, 1)
        await asyncio.sleep(DAY)
        assert [round(at - asked[0]) for at in asked] == [0, 10, 30, 70, 150]
        waiting = (await running.pipelines.runs("mail"))[-1]
        assert waiting.status == "paused:reconciliation"
        assert (await running.pipelines.status("mail")).status == "Needs attention"
        await running.pipelines.resolve(waiting.id, "retry")
        await asyncio.sleep(1)
        assert (await running.pipelines.runs("mail"))[-1].status == "committed"


async def test_transient_failures_back_off_and_then_ask_a_person(engine: Callable[..., Any]) -> None:
    """L8: 10 s doubling, five retries."""
    desk = Desk()
    desk.trouble = [transient("busy")] * 7
    async with engine(pipelines=[mail_to_sheet(desk)]) as running:
        await asyncio.sleep(15)
        status = await running.pipelines.status("mail")
        assert (status.status, "tries again in" in (status.issue or "")) == ("Idle", True)
        await asyncio.sleep(DAY)
        failed = [run for run in await running.pipelines.runs("mail") if run.status == "paused:transient"]
        waits = [after.created_at - one.created_at for one, after in pairwise(failed)]
        assert [wait.total_seconds() for wait in waits] == [10, 20, 40, 80, 160]
        assert (await running.pipelines.status("mail")).status == "Needs attention"
        assert desk.rows == []
        await running.pipelines.resolve(failed[-1].id, "retry")
        await asyncio.sleep(60)
        assert len(desk.rows) == 3


async def test_approval_keeps_what_was_prepared(engine: Callable[..., Any]) -> None:
    """L7."""
    desk = Desk()
    desk.trouble = [needs_approval("log in again")]
    async with engine(pipelines=[mail_to_sheet(desk)]) as running:
        await asyncio.sleep(DAY)
        waiting = (await running.pipelines.runs("mail"))[-1]
        assert (waiting.status, waiting.stage, waiting.mutation) == ("paused:approval", "mutating", "failure")
        assert (await running.pipelines.events("mail", "inbox"))[0].status == "reserved"
        await running.pipelines.resolve(waiting.id, "retry")
        await asyncio.sleep(1)
        assert len(desk.rows) == 3
        assert (await running.pipelines.events("mail", "inbox"))[0].attempt == 1


@pytest.mark.parametrize("count", [0, 1])
async def test_approval_in_next_goes_on_there(engine: Callable[..., Any], count: int) -> None:
    """L3, L7: not from *mutate*, which had performed nothing; and a run that reserved nothing keeps its state."""
    pipeline, troubles, called = Pipeline("mail"), [needs_approval("log in again")], list[str]()
    inbox = pipeline.topic("inbox", int)

    @pipeline.consumer(inbox)
    class Work:
        async def prepare(self, ctx: Any, state: Any) -> Prepared:
            called.append(f"prepare {state}")
            return Prepared({inbox: [one.id for one in (await ctx.peek(inbox))[:count]]})

        async def mutate(self, ctx: Any, prepared: Prepared) -> None:
            called.append("mutate")

        async def next(self, ctx: Any, prepared: Prepared, outcome: Any) -> int | None:
            called.append(f"next {outcome.status}")
            if called == ["prepare None", "next none"]:
                return 7
            if troubles:
                raise troubles.pop()
            return None

    async with engine(pipelines=[pipeline]) as running:
        await asyncio.sleep(1)
        await running.pipelines.publish(inbox, 1, message_id="a")
        await asyncio.sleep(1)
        waiting = (await running.pipelines.runs("mail"))[-1]
        assert (waiting.status, waiting.stage, waiting.mutation) == ("paused:approval", "emitting", "none")
        called.clear()
        called.append("resolved")
        await running.pipelines.resolve(waiting.id, "retry")
        await asyncio.sleep(1)
        await running.pipelines.publish(inbox, 2, message_id="b")
        await asyncio.sleep(1)
        assert called[1] == "next none"
        assert called[2] == ("prepare None" if count else "prepare 7")


async def test_a_mistake_stops_the_pipeline_until_it_is_mended(engine: Callable[..., Any]) -> None:
    """L2, L8: a deploy tries it once with the new code."""
    desk = Desk()
    desk.trouble = [not_applied("refused")]
    async with engine(pipelines=[mail_to_sheet(desk)]) as running:
        await asyncio.sleep(DAY)
        failed = (await running.pipelines.runs("mail"))[-1]
        assert (failed.status, failed.mutation, failed.stage) == ("failed:logic", "failure", "mutating")
        assert not await running.pipelines.deploy(mail_to_sheet(desk))
        await asyncio.sleep(1)
        assert desk.rows == []
        assert await running.pipelines.deploy(mail_to_sheet(desk, reconciles=False))
        await asyncio.sleep(1)
        assert len(desk.rows) == 3


async def test_on_logic_error_mends_a_handler(engine: Callable[..., Any]) -> None:
    """L8: three times."""
    seen: list[Any] = []
    done: list[str] = []
    mail = Pipeline("mail", on_logic_error=lambda run: repair(run))
    inbox = mail.topic("inbox", str)

    @mail.consumer(inbox)
    class Broken:
        async def prepare(self, ctx: Any, state: Any) -> Prepared:
            raise ValueError("a mistake")

    class Mended:
        async def prepare(self, ctx: Any, state: Any) -> Prepared:
            events = await ctx.peek(inbox)
            done.extend(one.payload for one in events)
            return Prepared(reserve={inbox: [one.id for one in events]})

    async def repair(run: Any) -> Any:
        seen.append((run.handler, run.status, run.stage, run.error.type))
        return Broken if len(seen) < 3 else Mended

    async with engine(pipelines=[mail]) as running:
        await running.pipelines.publish(inbox, "x", message_id="x")
        await asyncio.sleep(1)
        assert seen == [("Broken", "failed:logic", "preparing", "ValueError")] * 3
        assert done == ["x"]
        runs = await running.pipelines.runs("mail")
        assert [run.retry_of for run in runs[1:4]] == [run.id for run in runs[:3]]
