"""The seed's flows on an engine: retries, stages that are not kept to, priority, lifecycle (L3, L4, L6 to L8)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from perdure.pipelines import Pipeline, Prepared, transient

DAY = 86_400


class Story:
    """A consumer whose stages do what a test wants."""

    def __init__(self, **stages: Any) -> None:
        self.mutations: list[Any] = []
        self.given: list[Any] = []
        self.repairs: list[Any] = []
        self.pipeline = Pipeline("mail", on_logic_error=self.repair)
        self.inbox = self.pipeline.topic("inbox", int)
        self.out = self.pipeline.topic("out", int)
        self.repaired: Any = None
        self.pipeline.consumer(self.inbox, publishes=[self.out], name="Work")(self.handler(**stages))

        @self.pipeline.consumer(self.out)
        class Sink:
            async def prepare(self, ctx: Any, state: Any) -> Prepared:
                return Prepared()

    async def repair(self, run: Any) -> Any:
        self.repairs.append(run)
        return self.repaired

    def handler(self, *, prepare: Any = None, mutate: Any = None, next: Any = None) -> type:
        """A class for the consumer; what is not given does what is usual."""
        story = self

        async def usual_prepare(ctx: Any, state: Any) -> Prepared:
            events = await ctx.peek(story.inbox)
            return Prepared({story.inbox: [one.id for one in events]}, [one.payload for one in events])

        async def usual_mutate(ctx: Any, prepared: Prepared) -> int:
            return await ctx.perform(story.perform, prepared.data)

        async def usual_next(ctx: Any, prepared: Prepared, outcome: Any) -> None:
            story.given.append((prepared.data, outcome.status, outcome.result))

        class Work:
            async def prepare(self, ctx: Any, state: Any) -> Prepared:
                return await (prepare or usual_prepare)(ctx, state)

            async def mutate(self, ctx: Any, prepared: Prepared) -> Any:
                return await (mutate or usual_mutate)(ctx, prepared)

            async def next(self, ctx: Any, prepared: Prepared, outcome: Any) -> Any:
                return await (next or usual_next)(ctx, prepared, outcome)

        return Work

    async def perform(self, data: Any) -> int:
        self.mutations.append(data)
        return sum(data)

    async def runs(self, engine: Any) -> list[Any]:
        """Of the consumer, without those that had nothing to do."""
        found = [run for run in await engine.pipelines.runs("mail") if run.handler == "Work"]
        return [run for run in found if run.status != "committed" or run.mutation != "none"]


async def test_flow_transient_failure_in_prepare(engine: Callable[..., Any]) -> None:
    """Run A: preparing, paused:transient; a wait; run B starts over and is committed."""
    failures = [transient("rate limit")]

    async def prepare(ctx: Any, state: Any) -> Prepared:
        events = await ctx.peek(story.inbox)
        if events and failures:
            raise failures.pop()
        return Prepared({story.inbox: [one.id for one in events]}, [one.payload for one in events])

    story = Story(prepare=prepare)
    async with engine(pipelines=[story.pipeline]) as running:
        await running.pipelines.publish(story.inbox, 1)
        await asyncio.sleep(60)
        first, second = await story.runs(running)
        assert (first.stage, first.status, first.retry_of) == ("preparing", "paused:transient", None)
        assert (second.stage, second.status, second.retry_of) == ("committed", "committed", first.id)
        assert (second.created_at - first.created_at).total_seconds() == 10


async def test_flow_failure_after_the_mutation_goes_on_at_emitting(engine: Callable[..., Any]) -> None:
    """Run A: mutated, then next throws; run B copies the results, and does not mutate again."""

    async def broken(ctx: Any, prepared: Prepared, outcome: Any) -> None:
        if outcome.status == "success":
            raise KeyError("a mistake")

    story = Story(next=broken)
    story.repaired = story.handler()
    async with engine(pipelines=[story.pipeline]) as running:
        await running.pipelines.publish_many(story.inbox, {"a": 1, "b": 2})
        await asyncio.sleep(1)
        first, second = [run for run in await story.runs(running) if run.mutation == "success"]
        assert (first.stage, first.status, first.error.type) == ("emitting", "failed:logic", "KeyError")
        assert (second.stage, second.status, second.retry_of) == ("committed", "committed", first.id)
        assert story.mutations == [[1, 2]]
        assert story.given[0] == ([1, 2], "success", 3)
        assert {one.status for one in await running.pipelines.events("mail", "inbox")} == {"consumed"}
        assert {one.attempt for one in await running.pipelines.events("mail", "inbox")} == {1}


@pytest.mark.parametrize(
    ("stage", "stages", "says"),
    [
        ("preparing", {"prepare": "perform"}, "perform is not for `prepare`"),
        ("preparing", {"prepare": "publish"}, "publish is not for `prepare`"),
        ("prepared", {"mutate": "publish"}, "publish is not for `mutate`"),
        ("prepared", {"mutate": "peek"}, "peek is not for `mutate`"),
        ("mutated", {"mutate": "twice"}, "performs one mutation"),
        ("emitting", {"next": "perform"}, "perform is not for `next`"),
        ("emitting", {"next": "peek"}, "peek is not for `next`"),
    ],
)
async def test_what_a_stage_does_not_allow_is_a_logic_error(
    engine: Callable[..., Any], stage: str, stages: dict[str, str], says: str
) -> None:
    """L3: also where the handler swallows the error."""

    async def does(what: str, ctx: Any) -> None:
        try:
            match what:
                case "perform":
                    await ctx.perform(story.perform, [])
                case "publish":
                    await ctx.publish(story.out, 1)
                case "peek":
                    await ctx.peek(story.inbox)
                case _:
                    await ctx.perform(story.perform, [1])
                    await ctx.perform(story.perform, [2])
        except Exception:
            pass

    async def prepare(ctx: Any, state: Any) -> Prepared:
        events = await ctx.peek(story.inbox)
        if events:
            await does(stages["prepare"], ctx)
        return Prepared({story.inbox: [one.id for one in events]})

    async def mutate(ctx: Any, prepared: Prepared) -> None:
        await does(stages["mutate"], ctx)

    async def next(ctx: Any, prepared: Prepared, outcome: Any) -> None:
        if outcome.status != "none":
            await does(stages["next"], ctx)

    ways = {"prepare": prepare, "mutate": mutate, "next": next}
    story = Story(**{name: ways[name] for name in stages})
    async with engine(pipelines=[story.pipeline]) as running:
        await running.pipelines.publish(story.inbox, 1)
        await asyncio.sleep(1)
        (failed,) = [run for run in await running.pipelines.runs("mail") if run.status != "committed"]
        assert (failed.status, failed.stage) == ("failed:logic", stage)
        assert says in failed.error.message
        assert [run.id for run in story.repairs] == [failed.id]


async def test_reserving_what_is_not_pending_is_a_logic_error_and_what_was_skipped_meanwhile_is_dropped(
    engine: Callable[..., Any],
) -> None:
    """L4."""
    invented: list[str] = []
    reserved: list[list[str]] = []

    async def next(ctx: Any, prepared: Prepared, outcome: Any) -> None:
        reserved.extend(list(ids) for ids in prepared.reserve.values())

    async def prepare(ctx: Any, state: Any) -> Prepared:
        events = await ctx.peek(story.inbox)
        if len(events) == 2:
            await running.pipelines.skip_event("mail", "inbox", "a")
        return Prepared({story.inbox: [*(one.id for one in events), *invented]}, [one.payload for one in events])

    story = Story(prepare=prepare, next=next)
    async with engine(pipelines=[story.pipeline]) as running:
        await running.pipelines.pause("mail")
        await running.pipelines.publish_many(story.inbox, {"a": 1, "b": 2})
        await running.pipelines.resume("mail")
        await asyncio.sleep(1)
        statuses = {one.id: one.status for one in await running.pipelines.events("mail", "inbox")}
        assert statuses == {"a": "skipped", "b": "consumed"}
        assert reserved == [["b"]]
        invented.append("nowhere")
        await running.pipelines.publish(story.inbox, 3, message_id="c")
        await asyncio.sleep(1)
        (failed,) = [run for run in await running.pipelines.runs("mail") if run.status == "failed:logic"]
        assert "nowhere" in failed.error.message
        assert (await running.pipelines.events("mail", "inbox"))[-1].status == "pending"


async def test_what_prepare_asked_for_stands_in_the_record_of_its_run(engine: Callable[..., Any]) -> None:
    """L5: clamped, and from prepare on, whatever becomes of the run."""

    async def prepare(ctx: Any, state: Any) -> Prepared:
        return Prepared(wake_at=ctx.now)

    async def next(ctx: Any, prepared: Prepared, outcome: Any) -> None:
        raise ValueError("oops")

    async with engine(pipelines=[Story(prepare=prepare, next=next).pipeline]) as running:
        await asyncio.sleep(1)
        (failed,) = [run for run in await running.pipelines.runs("mail") if run.handler == "Work"]
        assert (failed.status, failed.wake_at - failed.created_at) == ("failed:logic", timedelta(seconds=30))


async def test_any_failure_stops_the_whole_pipeline_and_triggers_accumulate(engine: Callable[..., Any]) -> None:
    """L8: the producer does not go on ingesting while a consumer is broken; one run makes up for all it missed."""
    mail = Pipeline("mail")
    inbox = mail.topic("inbox", int)
    runs: list[str] = []
    broken = [True]

    @mail.producer(every="5m", publishes=[inbox])
    async def poll(ctx: Any, state: int | None) -> int:
        runs.append("poll")
        await ctx.publish(inbox, 1, message_id=str(len(runs)))
        return 1

    @mail.consumer(inbox)
    class Read:
        async def prepare(self, ctx: Any, state: Any) -> Prepared:
            events = await ctx.peek(inbox)
            if events and broken:
                raise ValueError("broken")
            runs.append(f"read {len(events)}")
            return Prepared({inbox: [one.id for one in events]})

    async with engine(pipelines=[mail]) as running:
        await asyncio.sleep(DAY)
        assert runs == ["read 0", "poll"]
        broken.clear()
        (failed,) = [run for run in await running.pipelines.runs("mail") if run.status == "failed:logic"]
        await running.pipelines.resolve(failed.id, "retry")
        await asyncio.sleep(1)
        assert runs[2:] == ["read 1", "read 0", "poll", "read 1", "read 0"]


async def test_a_producer_that_fails_publishes_nothing(engine: Callable[..., Any]) -> None:
    """L4: state, events and times are one commit."""
    mail = Pipeline("mail")
    inbox = mail.topic("inbox", int)
    tries: list[Any] = []

    @mail.producer(every="5m", publishes=[inbox])
    async def poll(ctx: Any, state: int | None) -> int:
        tries.append(state)
        await ctx.publish(inbox, len(tries), message_id="m")
        if len(tries) < 3:
            raise transient("no network")
        return 7

    @mail.consumer(inbox)
    class Read:
        async def prepare(self, ctx: Any, state: Any) -> Prepared:
            return Prepared()

    async with engine(pipelines=[mail]) as running:
        await asyncio.sleep(25)
        assert await running.pipelines.events("mail", "inbox") == []
        await asyncio.sleep(10)
        (event,) = await running.pipelines.events("mail", "inbox")
        assert event.payload == 3
        await asyncio.sleep(300)
        assert tries == [None, None, None, 7]


async def test_states_are_typed_and_kept_by_handlers(engine: Callable[..., Any]) -> None:
    """L3: a run that reserved nothing keeps its state when *next* returns None."""
    mail = Pipeline("mail")
    inbox = mail.topic("inbox", int)
    states: list[Any] = []

    @mail.consumer(inbox)
    class Sum:
        async def prepare(self, ctx: Any, state: tuple[int, int] | None) -> Prepared:
            states.append(state)
            events = await ctx.peek(inbox, limit=1)
            data = ((state or (0, 0))[0] + 1, sum(one.payload for one in events))
            return Prepared({inbox: [one.id for one in events]}, data)

        async def next(self, ctx: Any, prepared: Prepared, outcome: Any) -> tuple[int, int] | None:
            assert type(prepared.data) is tuple
            return prepared.read(tuple[int, int]) if prepared.reserve else None

    async with engine(pipelines=[mail]) as running:
        for number in (5, 6):
            await running.pipelines.publish(inbox, number)
            await asyncio.sleep(1)
        await asyncio.sleep(1)
        assert states[-1] == (2, 6)
        assert {type(state) for state in states[1:] if state is not None} == {tuple}
