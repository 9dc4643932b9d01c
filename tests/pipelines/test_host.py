"""Pipelines that run: on an engine in memory, on virtual time (L1 to L6, L10, L11)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from perdure import activity, publish_to, receive, workflow
from perdure.errors import InvalidValue, NotFound, UsageError
from perdure.pipelines import Pipeline, PipelinePolicy, Prepared, transient
from tests.pipelines.mailing import Desk, Email, mail_to_sheet

DAY = 86_400


async def test_messages_go_from_producer_to_sheet_and_on(engine: Callable[..., Any]) -> None:
    """L2 to L4, L6."""
    desk = Desk()
    async with engine(pipelines=[mail_to_sheet(desk)]) as running:
        await asyncio.sleep(1)
        assert [subject for _, subject in desk.rows] == ["subject 0", "subject 1", "subject 2"]
        assert {one.status for one in await running.pipelines.events("mail", "rows")} == {"consumed"}
        desk.mails.append(Email("m3", "late"))
        await asyncio.sleep(301)
        assert desk.rows[-1][1] == "late"
        runs = await running.pipelines.runs("mail")
        assert {(run.status, run.stage) for run in runs} == {("committed", "committed")}
        status = await running.pipelines.status("mail")
        assert (status.status, status.issue, status.schedule) == ("Idle", None, "checks every 5 minutes, next in 5 min")
        events = await running.pipelines.events("mail", "rows")
        assert events[0].causes == ("inbox/m0",)


async def test_an_idle_pipeline_runs_nothing(engine: Callable[..., Any]) -> None:
    """L6: no busy loop, no tick."""
    desk = Desk()
    desk.mails = []
    async with engine(pipelines=[mail_to_sheet(desk)]) as running:
        await asyncio.sleep(DAY)
        runs = await running.pipelines.runs("mail")
        assert len([run for run in runs if run.handler == "poll"]) == 288
        assert len([run for run in runs if run.handler != "poll"]) == 2


async def test_pause_and_resume(engine: Callable[..., Any]) -> None:
    """L11: triggers accumulate."""
    desk = Desk()
    async with engine(pipelines=[mail_to_sheet(desk)]) as running:
        await asyncio.sleep(1)
        await running.pipelines.pause("mail")
        desk.mails.append(Email("m3", "late"))
        await asyncio.sleep(DAY)
        assert len(desk.rows) == 3
        assert (await running.pipelines.status("mail")).status == "Stopped"
        with pytest.raises(UsageError):
            await running.pipelines.run_now("mail")
        await running.pipelines.resume("mail")
        await asyncio.sleep(1)
        assert len(desk.rows) == 4
        desk.mails.append(Email("m4", "later"))
        await running.pipelines.run_now("mail")
        await asyncio.sleep(1)
        assert len(desk.rows) == 5


async def test_classes_made_inside_a_function_are_read_as_annotated(engine: Callable[..., Any]) -> None:
    """Payloads, states and results, although annotations are text here."""

    @dataclass
    class Line:
        text: str

    @dataclass
    class Page:
        lines: list[Line]

    seen: list[Any] = []
    press = Pipeline("press")
    pages = press.topic("pages", Page)

    @press.producer(every="1h", publishes=[pages])
    async def write(ctx: Any, state: Page | None) -> Page:
        seen.append(state)
        await ctx.publish(pages, Page([Line("a")]), message_id=f"m{len(seen)}")
        return Page([Line("written")])

    @press.consumer(pages)
    class Print:
        async def prepare(self, ctx: Any, state: Page | None) -> Prepared:
            events = await ctx.peek(pages)
            seen.append(state)
            seen.extend(one.payload for one in events)
            return Prepared(reserve={pages: [one.id for one in events]})

        async def mutate(self, ctx: Any, prepared: Prepared) -> Line:
            return await ctx.perform(lambda: Line("printed"))

        async def next(self, ctx: Any, prepared: Prepared, outcome: Any) -> Page:
            seen.append(outcome.result)
            return Page([])

    async with engine(pipelines=[press]) as running:
        await asyncio.sleep(2 * 3_600)
        assert {run.status for run in await running.pipelines.runs("press")} == {"committed"}
    assert Page([Line("written")]) in seen
    assert {type(one) for one in seen} == {type(None), Page, Line}
    assert all(type(line) is Line for one in seen if isinstance(one, Page) for line in one.lines)


async def test_a_topic_is_published_to_by_its_name(engine: Callable[..., Any]) -> None:
    """L1: for a client that has no declaration at hand."""
    desk = Desk()
    other = Pipeline("other")
    other.consumer(other.topic("rows", int))(Reserver)
    async with engine(pipelines=[mail_to_sheet(desk), other]) as running:
        await asyncio.sleep(1)
        assert await running.pipelines.publish("inbox", {"id": "x", "subject": "by name"}, message_id="x")
        assert not await running.pipelines.publish("inbox", Email("x", "again"), message_id="x")
        await asyncio.sleep(1)
        assert desk.rows[-1][1] in ("by name", "again")
        with pytest.raises(InvalidValue, match="mail, other have a topic 'rows' each"):
            await running.pipelines.publish("rows", 1)
        with pytest.raises(NotFound, match="there is no topic 'nowhere'"):
            await running.pipelines.publish("nowhere", 1)
        with pytest.raises(InvalidValue, match="or by its name"):
            await running.pipelines.publish(5, 1)


class Reserver:
    """A consumer that reserves nothing."""

    async def prepare(self, ctx: Any, state: Any) -> Prepared:
        return Prepared()


async def test_a_timeout_of_a_mutation_is_uncertain(engine: Callable[..., Any]) -> None:
    """L3: whatever the handler makes of it."""
    mail = Pipeline("mail")
    inbox = mail.topic("inbox", int)

    @mail.consumer(inbox, timeout="1m")
    class Slow:
        async def prepare(self, ctx: Any, state: Any) -> Prepared:
            return Prepared(reserve={inbox: [one.id for one in await ctx.peek(inbox)]})

        async def mutate(self, ctx: Any, prepared: Prepared) -> None:
            try:
                await ctx.perform(asyncio.sleep, 3600)
            except asyncio.CancelledError:
                raise transient("it surely did not happen") from None

    async with engine(pipelines=[mail]) as running:
        await running.pipelines.publish(inbox, 1)
        await asyncio.sleep(DAY)
        waiting = (await running.pipelines.runs("mail"))[-1]
        assert (waiting.status, waiting.mutation) == ("paused:reconciliation", "uncertain")
        with pytest.raises(UsageError):
            await running.pipelines.skip_event("mail", inbox, (await running.pipelines.events("mail", inbox))[0].id)


async def test_workflows_and_activities(engine: Callable[..., Any]) -> None:
    """Handlers call activities and start workflows; workflows publish."""
    mail = Pipeline("mail")
    inbox = mail.topic("inbox", str)
    done: list[str] = []

    @activity
    async def shout(text: str) -> str:
        return text.upper()

    @workflow
    async def audit(text: str) -> str:
        return text + "!"

    @workflow
    async def feeder() -> None:
        publish_to(inbox, await receive("text", str), message_id="m1")

    @mail.consumer(inbox)
    class Reader:
        async def prepare(self, ctx: Any, state: int | None) -> Prepared:
            events = await ctx.peek(inbox)
            return Prepared({inbox: [one.id for one in events]}, [await shout(one.payload) for one in events])

        async def mutate(self, ctx: Any, prepared: Prepared) -> str | None:
            return await ctx.perform(shout, prepared.data[0])

        async def next(self, ctx: Any, prepared: Prepared, outcome: Any) -> int:
            if outcome.status == "success":
                done.append(outcome.result)
                await ctx.start(audit, outcome.result, id=f"audit-{outcome.result}")
            return 1

    async with engine(pipelines=[mail], workflows=[audit, feeder], activities=[shout]) as running:
        handle = await running.start(feeder)
        await handle.signal("text", "hello")
        await asyncio.sleep(1)
        assert done == ["HELLO"]
        assert await running.handle("audit-HELLO").result() == "HELLO!"
        (event,) = await running.pipelines.events("mail", "inbox")
        assert (event.id, event.status) == ("m1", "consumed")


async def test_what_is_wrong_is_refused(engine: Callable[..., Any]) -> None:
    """L2, section 6."""
    mail = Pipeline("mail")
    inbox = mail.topic("inbox", int)
    with pytest.raises(InvalidValue, match=r"test_host\.py"):
        async with engine(pipelines=[mail]):
            pass
    async with engine() as running:
        with pytest.raises(NotFound):
            await running.pipelines.status("mail")
        with pytest.raises(NotFound):
            await running.pipelines.publish(inbox, 1)


async def test_policy_is_the_hosts(engine: Callable[..., Any]) -> None:
    desk = Desk()
    desk.trouble = [transient("busy")]
    async with engine(pipelines=[mail_to_sheet(desk)], pipeline_policy=PipelinePolicy(retry_first=1)) as running:
        await asyncio.sleep(2)
        assert len(desk.rows) == 3
        assert running
