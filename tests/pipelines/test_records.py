"""From rows to a scheduler's state and back, and to what people see (L2, L5, L9)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from perdure.clock import moment_of
from perdure.errors import Failure
from perdure.pipelines import Pipeline, PipelinePolicy, Prepared, scheduling
from perdure.pipelines.records import (
    SeenEvent,
    SeenRun,
    deployment_of,
    seen_event,
    seen_run,
    state_of,
    taken_over,
    times_of,
)
from perdure.pipelines.scheduling import Consumer, Producer, Start
from perdure.stores.memory import MemoryStore
from perdure.stores.pipeline_records import Decision, NewEvent, RunBeginning, RunCommit, RunFailure, Times
from perdure.testing.clock import VirtualClock

POLICY = PipelinePolicy()


async def poll(ctx: Any, state: None) -> None: ...


class Sheet:
    async def prepare(self, ctx: Any, state: None) -> Prepared: ...


def declared() -> Pipeline:
    mail = Pipeline("mail")
    inbox = mail.topic("inbox", int)
    mail.producer(every="5m", publishes=[inbox])(poll)
    mail.producer(cron="0 9 * * *", timezone="Europe/Madrid", name="daily")(poll)
    mail.consumer(inbox)(Sheet)
    return mail


async def opened() -> tuple[MemoryStore, int, Pipeline]:
    store, mail = MemoryStore(VirtualClock()), declared()
    await store.open()
    owner = (await store.open_lease("w", {}, 10)).number
    await store.deploy_pipeline(deployment_of(mail))
    await store.claim_pipeline(owner, "mail")
    return store, owner, mail


def test_a_deployment_says_what_the_store_keeps() -> None:
    new = deployment_of(declared())
    assert (new.name, new.topics) == ("mail", ("inbox",))
    assert [(one.name, one.kind, one.topics) for one in new.handlers] == [
        ("poll", "producer", ()),
        ("daily", "producer", ()),
        ("Sheet", "consumer", ("inbox",)),
    ]
    assert b'"every":300' in new.handlers[0].words
    assert b'"timezone":"Europe/Madrid"' in new.handlers[1].words
    assert new == deployment_of(declared())


def test_a_worker_that_takes_over_carries_out_a_deploy_that_nobody_has_acted_upon() -> None:
    """L2, L9."""

    async def story() -> None:
        store, _, mail = await opened()
        view = await store.view_pipeline("mail")
        now = moment_of(store._clock.now_us())  # pyright: ignore[reportPrivateUsage]
        state = taken_over(mail, view, POLICY, now)
        assert [one.next_run_at for one in state.producers] == [now, now]
        assert [one.is_due(now) for one in state.handlers] == [True, True, True]
        assert not state_of(mail, view, POLICY).producers[0].queued

    asyncio.run(story())


def test_a_state_goes_through_the_store_unharmed() -> None:
    """L5, L8: next times, wake times, pending events, the pause and the run that blocks outlive the worker."""

    async def story() -> None:
        store, owner, mail = await opened()
        now_us = store._clock.now_us()  # pyright: ignore[reportPrivateUsage]
        await store.publish_events("mail", [NewEvent(topic="inbox", message_id="a", payload=b"1")])
        await store.begin_run(owner, "mail", RunBeginning(run="r1", handler="Sheet", key="k"))
        active = state_of(mail, await store.view_pipeline("mail"), POLICY)
        assert (active.active, active.active_run, active.blocked) == ("Sheet", "r1", None)
        recovered = scheduling.recover(active, moment_of(now_us))
        assert scheduling.decide(recovered, moment_of(now_us)) == Start("Sheet", retry_of="r1")
        await store.commit_run(owner, "mail", RunCommit(run="r1", times=Times(wake_us=now_us + 5)))
        await store.begin_run(owner, "mail", RunBeginning(run="r2", handler="poll", key="k"))
        error = Failure("Transient", "later")
        failure = RunFailure(
            run="r2", status="paused:transient", stage="preparing", mutation="none", error=error, retry_us=now_us + 9
        )
        await store.fail_run(owner, "mail", failure)
        await store.pause_pipeline("mail", True)
        state = state_of(mail, await store.view_pipeline("mail"), POLICY)
        assert state.consumers[0].wake_at == moment_of(now_us + 5)
        assert state.pending == {"inbox": moment_of(now_us)}
        assert state.paused
        assert state.blocked is not None
        assert (state.blocked.run, state.blocked.status) == ("r2", "paused:transient")
        assert state.blocked.retry_at == moment_of(now_us + 9)
        seen = seen_run(await store.get_handler_run("r2"))
        now = moment_of(now_us)
        assert seen == SeenRun("r2", "poll", None, "preparing", "paused:transient", "none", error, now, now)
        await store.settle_run(Decision(run="r2"))
        resumed = scheduling.resume(state_of(mail, await store.view_pipeline("mail"), POLICY))
        assert scheduling.decide(resumed, moment_of(now_us)) == Start("poll", retry_of="r2")

    asyncio.run(story())


def test_times_are_those_that_outlive_a_worker() -> None:
    at = moment_of(7_000_000)
    assert times_of(Producer("p", next_run_at=at, queued=True)) == Times(next_run_us=7_000_000, queued=True)
    assert times_of(Consumer("c", wake_at=at, dirty=True)) == Times(wake_us=7_000_000)
    assert times_of(replace(Consumer("c"), dirty=True)) == Times()


def test_an_event_is_seen_with_its_payload_as_plain_values() -> None:
    async def story() -> None:
        store, _, _ = await opened()
        event = NewEvent(topic="inbox", message_id="a", payload=b'{"x": [1]}', causes=("mail/7",))
        await store.publish_events("mail", [event])
        (stored,) = await store.list_events("mail", "inbox", 10)
        published_at = moment_of(stored.published_us)
        assert seen_event(stored) == SeenEvent("a", {"x": [1]}, "pending", 1, published_at, ("mail/7",))

    asyncio.run(story())
