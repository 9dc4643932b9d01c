"""Files for the tests of the SQLite store: opened, filled, and looked at from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import apsw

from perdure.clock import Clock, SystemClock
from perdure.stores.pipeline_records import (
    NewEvent,
    NewHandler,
    NewPipeline,
    Preparation,
    RunBeginning,
    RunCommit,
    Times,
)
from perdure.stores.records import Closing, NewPromise, NewTask, Run, Settlement, UpdateAnswer
from perdure.stores.sqlite import SqliteStore
from perdure.testing.conformance.making import JOB, a_child, a_commit, a_start, a_task

T = TypeVar("T")

LATE_US = 2**52
NAMED = b'{"region": "eu", "tags": ["a", 1.5], "paid": true}'


def with_store(
    path: Path, work: Callable[[SqliteStore], Awaitable[T]], *, clock: Clock | None = None, **options: Any
) -> T:
    """Open a store, do this, and close it."""

    async def run() -> T:
        store = SqliteStore(path, clock or SystemClock(), **options)
        await store.open()
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())


async def begin(store: SqliteStore, workflow_id: str, owner: int | None = None, **facts: Any) -> Run:
    """Start a run, and own it if a lease is given."""
    return (await store.start_run(a_start(workflow_id, claim=owner, **facts))).run


async def commit(store: SqliteStore, run: Run, owner: int, **content: Any) -> Run:
    """Commit the next turn of a run, which must be possible; the run as it stands then."""
    (answer,) = await store.commit_turns([a_commit(run, owner, **content)])
    if isinstance(answer, Exception):
        raise answer
    (found,) = await store.get_runs([run.number])
    return found


async def fill(store: SqliteStore, width: int = 4) -> int:
    """Something in every table: runs that wait, run and have ended, with turns, messages, tasks, a lease, questions.

    Of each workflow id there are two generations at the end.
    """
    lease = await store.open_lease("w-1", {"default": 10}, 60.0)
    for number in range(width):
        for generation in ("first", "second"):
            facts: dict[str, Any] = {"attributes": NAMED, "deadline_us": LATE_US + number}
            run = await begin(store, f"o-{number}", lease.number, run=generation, id_policy="again", **facts)
            named = f"{number} {generation}"
            new: tuple[NewTask, ...] = (
                a_task(f"{named} claimed", 0, claimed=True),
                a_task(f"{named} free", 1, queue="slow", options=b'{"retry": 3}'),
            )
            promised = (NewPromise(seq=2, name="paid", key=f"invoice {named}"), NewPromise(seq=3, name="sent"))
            child = a_child(run, f"c-{named}", 4, close="abandon")
            run = await commit(
                store, run, lease.number, new_tasks=new, waiting=b"[1]", promises=promised, children=(child,)
            )
            await store.request_update(run.facts.workflow_id, None, JOB, f"u-{generation}")
            await store.request_update(run.facts.workflow_id, None, JOB, "u-open")
            await store.settle_promise(run.facts.workflow_id, None, "sent", Settlement(value=b"1"))
            await store.accept_message(run.facts.workflow_id, None, JOB, message_id=f"m-{named}")
            await store.accept_message(run.facts.workflow_id, None, JOB)
            answered = (UpdateAnswer(f"u-{generation}", b"7"),)
            at_hand = a_task(f"{named} at hand", 5, claimed=True)
            run = await commit(store, run, lease.number, consumed=1, answers=answered, new_tasks=(at_hand,))
            if generation == "first":
                await end(store, run)
        await store.ask(f"o-{number}", None, "total", b"[]")
    await store.answer(1, b"7")
    await _fill_pipelines(store, lease.number, width)
    return lease.number


async def _fill_pipelines(store: SqliteStore, owner: int, width: int) -> None:
    """A pipeline with runs that have ended, one that is under way, and events of every status."""
    handlers = (NewHandler(name="poll", kind="producer"), NewHandler(name="sheet", kind="consumer", topics=("inbox",)))
    await store.deploy_pipeline(NewPipeline(name="mail", digest="1", topics=("inbox", "rows"), handlers=handlers))
    await store.claim_pipeline(owner, "mail")
    ids = [f"m-{number}" for number in range(4 * width)]
    events = [NewEvent(topic="inbox", message_id=id, payload=b"7", causes=("a/b",)) for id in ids]
    await store.publish_events("mail", events)
    await store.skip_event("mail", "inbox", ids.pop(0))
    for number in range(width):
        run = f"r-{number}"
        await store.begin_run(owner, "mail", RunBeginning(run=run, handler="sheet", key=f"k-{number}"))
        reserve = {"inbox": (ids.pop(0), ids.pop(0))}
        await store.save_prepared(owner, "mail", Preparation(run=run, prepared=b"{}", reserve=reserve, wake_us=5))
        await store.begin_mutation(owner, "mail", run, "append")
        if number < width - 1:
            await store.end_mutation(owner, "mail", run, "success", b"7")
            row = NewEvent(topic="rows", message_id=run, payload=b"[]")
            await store.commit_run(owner, "mail", RunCommit(run=run, state=b"1", times=Times(wake_us=9), events=(row,)))


async def end(store: SqliteStore, run: Run) -> None:
    """End a run from outside."""
    await store.close_run(run.facts.workflow_id, run.facts.run_id, Closing("completed", b"1"))


def look(path: Path, statement: str, *values: Any) -> list[Any]:
    """Read or change the file by another connection, while no store has it open."""
    connection = apsw.Connection(str(path))
    try:
        cursor: Any = connection.cursor()
        return list(cursor.execute(statement, values))
    finally:
        connection.close()
