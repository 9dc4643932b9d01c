"""Who runs a pipeline: one worker at a time, fenced by its lease; the next one takes over (L9, E3)."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from perdure import Client, Engine
from perdure.pipelines import Pipeline, Prepared
from perdure.stores.memory import MemoryStore
from perdure.testing import VirtualClock, run_virtual
from tests.pipelines.mailing import Desk, Email, mail_to_sheet


class Two:
    """Two engines on one store."""

    def __init__(self, clock: VirtualClock, name: str) -> None:
        self.clock = clock
        self.name = name
        self.number = 0

    def engine(self, *pipelines: Pipeline) -> Engine:
        self.number += 1
        return Engine(
            MemoryStore(self.clock, self.name),
            pipelines=pipelines,
            clock=self.clock,
            threads=False,
            rng=random.Random(self.number),
            lease="30d",
        )

    def client(self) -> Client:
        self.number += 1
        return Client(
            MemoryStore(self.clock, self.name), clock=self.clock, threads=False, rng=random.Random(self.number)
        )


async def test_one_worker_runs_it_and_another_takes_over_when_it_stops(virtual_clock: VirtualClock) -> None:
    """L9: a declaration that is opened while another worker has it changes nothing; after a take-over it counts."""
    two = Two(virtual_clock, "owners-stop")
    ours, theirs = Desk(), Desk()
    first, second = two.engine(mail_to_sheet(ours)), two.engine(mail_to_sheet(theirs, reconciles=False))
    await first.open()
    await asyncio.sleep(1)
    digest = (await first.store.view_pipeline("mail")).pipeline.digest
    await second.open()
    await asyncio.sleep(600)
    assert (len(ours.rows), theirs.rows) == (3, [])
    assert (await first.store.view_pipeline("mail")).pipeline.digest == digest
    await first.close()
    theirs.mails.append(Email("m3", "late"))
    await asyncio.sleep(1)
    assert (len(ours.rows), [subject for _, subject in theirs.rows]) == (3, ["late"])
    assert (await second.store.view_pipeline("mail")).pipeline.digest != digest
    await second.close()


async def test_a_worker_whose_lease_was_lost_writes_nothing_more_and_begins_anew(virtual_clock: VirtualClock) -> None:
    """E3, L9: what it was doing is recovered by whoever has the pipeline then."""
    two = Two(virtual_clock, "owners-lost")
    slow = asyncio.Event()
    calls: list[str] = []
    mail = Pipeline("mail")
    inbox = mail.topic("inbox", int)

    @mail.consumer(inbox)
    class Slow:
        async def prepare(self, ctx: Any, state: Any) -> Prepared:
            return Prepared({inbox: [one.id for one in await ctx.peek(inbox)]})

        async def mutate(self, ctx: Any, prepared: Prepared) -> str:
            return await ctx.perform(self.act, ctx.key)

        async def act(self, key: str) -> str:
            calls.append(key)
            if len(calls) == 1:
                await slow.wait()
            return key

        async def reconcile(self, ctx: Any, prepared: Prepared) -> str:
            return "looked up"

    engine = two.engine(mail)
    await engine.open()
    await engine.pipelines.publish(inbox, 1)
    await asyncio.sleep(1)
    store = MemoryStore(virtual_clock, "owners-lost")
    await store.open()
    (lease,) = await store.list_leases()
    await store.close_lease(lease.number)
    slow.set()
    await asyncio.sleep(10)
    runs = await engine.pipelines.runs("mail")
    assert [(run.status, run.mutation) for run in runs if run.handler == "Slow"][-3:-1] == [
        ("crashed", "uncertain"),
        ("committed", "success"),
    ]
    assert len(calls) == 1
    assert (await engine.pipelines.events("mail", inbox))[0].status == "consumed"
    await engine.close()
    await store.close()


async def test_others_publish_pause_and_settle(virtual_clock: VirtualClock) -> None:
    """A client in another process, as far as the worker can tell."""
    two = Two(virtual_clock, "owners-client")
    desk = Desk()
    desk.mails = []
    desk.trouble = ["after"]
    mail = mail_to_sheet(desk, reconciles=False)
    async with two.engine(mail) as engine, two.client() as client:
        await asyncio.sleep(1)
        assert await client.pipelines.publish(mail.topics[0], Email("x", "from afar"), message_id="x")
        assert not await client.pipelines.publish(mail.topics[0], Email("x", "again"), message_id="x")
        await asyncio.sleep(1)
        waiting = (await client.pipelines.runs("mail"))[-1]
        assert waiting.status == "paused:reconciliation"
        await client.pipelines.resolve(waiting.id, "happened", 1)
        await asyncio.sleep(1)
        assert (await engine.pipelines.events("mail", mail.topics[0]))[0].status == "consumed"
        await client.pipelines.pause("mail")
        await client.pipelines.publish(mail.topics[0], Email("y", "later"), message_id="y")
        await asyncio.sleep(1_000)
        assert len(desk.rows) == 1
        assert (await engine.pipelines.status("mail")).status == "Stopped"
        await client.pipelines.resume("mail")
        await asyncio.sleep(1)
        assert [subject for _, subject in desk.rows] == ["again", "later"]  # the payload was replaced in time
        before = len(await engine.pipelines.runs("mail"))
        await client.pipelines.run_now("mail")
        await asyncio.sleep(1)
        assert [run.handler for run in (await engine.pipelines.runs("mail"))[before:]] == ["poll"]


async def test_an_event_that_comes_while_others_wait_in_its_topic_is_looked_at(virtual_clock: VirtualClock) -> None:
    """L6: also where another process has published it, and its consumer has left those before it."""
    two = Two(virtual_clock, "owners-batch")
    batch = Pipeline("batch")
    inbox = batch.topic("inbox", int)
    done: list[list[int]] = []

    @batch.consumer(inbox)
    class Three:
        async def prepare(self, ctx: Any, state: Any) -> Prepared:
            events = await ctx.peek(inbox)
            if len(events) < 3:
                return Prepared()
            done.append([one.payload for one in events])
            return Prepared({inbox: [one.id for one in events]})

    async with two.engine(batch) as engine, two.client() as client:
        await asyncio.sleep(1)
        for number in range(3):
            await client.pipelines.publish(inbox, number)
            await asyncio.sleep(100)
        assert done == [[0, 1, 2]]
        assert len(await engine.pipelines.runs("batch")) <= 6


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_stop_in_the_middle_of_a_mutation_leaves_it_to_the_next_worker(moment: str) -> None:
    """L9: a polite stop waits a little; what has not ended then is uncertain, not failed."""
    clock = VirtualClock()
    desk = Desk()

    async def story() -> None:
        two = Two(clock, f"owners-drain-{moment}")
        release = asyncio.Event()
        real = desk.append

        async def hangs(key: str, subject: str) -> int:
            if moment == "after":
                await real(key, subject)
            await release.wait()
            raise AssertionError

        desk.append = hangs
        first = two.engine(mail_to_sheet(desk))
        await first.open()
        await asyncio.sleep(1)
        await first.close()
        desk.append = real
        async with two.engine(mail_to_sheet(desk)) as second:
            await asyncio.sleep(10)
            assert [subject for _, subject in desk.rows] == ["subject 0", "subject 1", "subject 2"]
            statuses = [run.status for run in await second.pipelines.runs("mail") if run.handler == "Sheet"]
            assert statuses.count("crashed") == 1

    run_virtual(story(), clock=clock)


async def test_a_new_version_without_the_handler_gives_its_interrupted_run_up(virtual_clock: VirtualClock) -> None:
    """L2, L9: its events are there for whoever consumes the topic now, and nothing waits for ever."""
    two = Two(virtual_clock, "owners-gone")
    seen: list[int] = []

    def version(name: str, *, hangs: bool) -> Pipeline:
        mail = Pipeline("mail")
        inbox = mail.topic("inbox", int)

        class Read:
            async def prepare(self, ctx: Any, state: Any) -> Prepared:
                events = await ctx.peek(inbox)
                if events and hangs:
                    await asyncio.Event().wait()
                seen.extend(one.payload for one in events)
                return Prepared({inbox: [one.id for one in events]})

        mail.consumer(inbox, name=name)(Read)
        return mail

    old = version("Old", hangs=True)
    async with two.engine(old) as first:
        await first.pipelines.publish(old.topics[0], 7)
        await asyncio.sleep(1)
    async with two.engine(version("New", hangs=False)) as second:
        await asyncio.sleep(1)
        assert seen == [7]
        assert (await second.pipelines.runs("mail"))[0].status in ("committed", "crashed")
        assert (await second.pipelines.status("mail")).status == "Idle"
