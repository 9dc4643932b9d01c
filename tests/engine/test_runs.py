"""Runs from the outside: started, told, asked, ended, described; on virtual time (E1, E2, M1, M3, M6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perdure import (
    AlreadyExists,
    ApplicationError,
    Client,
    Engine,
    InvalidValue,
    NotFound,
    QueryFailed,
    RunCancelled,
    RunClosed,
    RunFailed,
    RunTerminated,
    RunTimedOut,
    StoreNotOpen,
    StoreUnavailable,
    UsageError,
    activity,
    continue_as_new,
    query,
    receive,
    set_state,
    shielded,
    signal,
    sleep,
    update,
    wait_until,
    workflow,
)

Opened = Callable[..., Any]


@dataclass
class Price:
    cents: int


@activity
async def double(number: int) -> int:
    return 2 * number


@activity
async def refuse(text: str) -> str:
    raise ApplicationError(text, type="Refused", details={"code": 7})


@workflow
async def doubled(number: int) -> int:
    return await double(number)


@workflow
async def refused(text: str) -> str:
    return await refuse(text)


@workflow
async def approval(who: str) -> str:
    answer = await receive("approve", str)
    return f"{who}: {answer}"


@workflow
async def collecting(count: int) -> list[int]:
    return [await receive("number", int) for _ in range(count)]


@workflow
class Cart:
    def __init__(self) -> None:
        self.items: list[str] = []
        self.closed = False

    async def run(self, customer: str) -> list[str]:
        await wait_until(lambda: self.closed)
        return self.items

    @signal
    def put(self, item: str) -> None:
        self.items.append(item)

    @signal
    def close(self) -> None:
        self.closed = True

    @update
    async def ponder(self) -> str:
        await sleep("10d")
        return "yes"

    @query
    def size(self) -> int:
        return len(self.items)

    @query
    def broken(self) -> int:
        raise ValueError("no")


async def test_a_run_gives_its_value(engine: Opened) -> None:
    async with engine(workflows=[doubled], activities=[double]) as e:
        assert await e.run(doubled, 21) == 42
        handle = await e.start(doubled, 4, id="d-4")
        assert handle.id == "d-4"
        assert await handle.result() == 8
        assert await e.handle("d-4").result() == 8
        assert await (await e.handle("d-4", handle.run_id)).result() == 8


async def test_a_client_that_starts_a_workflow_reads_its_result_as_its_type(engine: Opened, virtual_clock: Any) -> None:
    """Rule K20: what is typed at the call is that type at its end, also where the code does not run."""

    @workflow
    async def priced(cents: int) -> Price:
        await receive("go", str)
        return Price(cents)

    url = "memory://typed"
    client = Client(url, clock=virtual_clock, threads=False)
    async with engine(url=url, workflows=[priced]), client:
        handle = await client.start(priced, 5, id="p")
        same = await client.signal_with_start(priced, 5, id="p", signal="go", signal_args=["on"])
        assert await handle.result() == await same.result() == await client.run(priced, 5, id="p") == Price(5)
        assert await client.handle("p").result() == {"cents": 5}, "of an id alone the type is not known"


async def test_a_run_that_raises_fails_with_its_failure(engine: Opened) -> None:
    async with engine(workflows=[refused], activities=[refuse]) as e:
        handle = await e.start(refused, "never", id="r-1")
        with pytest.raises(RunFailed) as caught:
            await handle.result()
        failure = caught.value.failure
        assert failure.type == "ActivityFailed"
        assert failure.cause is not None
        assert (failure.cause.type, failure.cause.message, failure.cause.details) == ("Refused", "never", {"code": 7})
        assert (await handle.describe()).status == "failed"


async def test_a_handle_reads_the_run_that_it_was_given_for(engine: Opened) -> None:
    """Rules E2, M8: through its generations, but not on to another run of its workflow id."""

    @workflow
    async def noted(name: str, generation: int = 0) -> str:
        set_state("name", f"{name} {generation}")
        if generation < 2:
            continue_as_new(name, generation + 1)
        return await receive("word", str)

    async with engine(workflows=[noted]) as e:
        first = await e.start(noted, "ann", 2, id="n")
        await asyncio.sleep(1)
        second = await e.start(noted, "bob", id="n", id_policy="terminate")
        await asyncio.sleep(1)
        assert (await first.describe()).status == "terminated"
        assert await first.state() == {"name": "ann 2"}
        assert (await first.history())[0].turn == 0
        assert (await second.describe()).generation == 2
        assert await second.state() == {"name": "bob 2"} == await e.handle("n").state()
        await first.signal("word", "goes to the newest")
        assert await second.result() == "goes to the newest"
        with pytest.raises(RunTerminated):
            await first.result()


async def test_starting_an_id_that_exists_gives_that_run_or_refuses(engine: Opened) -> None:
    """Rule E2."""

    async with engine(workflows=[approval, doubled], activities=[double]) as e:
        first = await e.start(approval, "ann", id="a")
        again = await e.start(approval, "ann", id="a")
        assert again.run_id == first.run_id
        with pytest.raises(AlreadyExists, match="other input"):
            await e.start(approval, "bob", id="a")
        with pytest.raises(AlreadyExists):
            await e.start(doubled, 1, id="a")
        with pytest.raises(AlreadyExists):
            await e.start(approval, "ann", id="a", id_policy="reject")
        assert (await e.start(approval, "ann", id="a", id_policy="again")).run_id == first.run_id
        new = await e.start(approval, "bob", id="a", id_policy="terminate")
        assert new.run_id != first.run_id
        with pytest.raises(RunTerminated):
            await e.handle("a", first.run_id).result()
        await new.signal("approve", "yes")
        assert await new.result() == "bob: yes"
        assert (await e.start(approval, "bob", id="a")).run_id == new.run_id
        third = await e.start(approval, "bob", id="a", id_policy="again")
        assert third.run_id != new.run_id


async def test_signals_come_in_order_and_once_per_message_id(engine: Opened) -> None:
    """Rule M1."""

    async with engine(workflows=[collecting]) as e:
        handle = await e.start(collecting, 4, id="c")
        await handle.signal("number", 1, message_id="m-1")
        await handle.signal("number", 1, message_id="m-1")
        await handle.signal("number", 2)
        await handle.signal("number", 2)
        await asyncio.sleep(1)
        await handle.signal("number", 1, message_id="m-1")
        await handle.signal("number", 3)
        assert await handle.result() == [1, 2, 2, 3]
        with pytest.raises(RunClosed, match="c"):
            await handle.signal("number", 4)
        await handle.signal("number", 1, message_id="m-1")  # it was delivered: nothing is wrong


async def test_signal_with_start_has_the_signal_waiting(engine: Opened) -> None:
    """Rule M1."""

    async with engine(workflows=[approval]) as e:
        handle = await e.signal_with_start(approval, "ann", id="s", signal="approve", signal_args=["yes"])
        assert await handle.result() == "ann: yes"
        other = await e.signal_with_start(approval, "bob", id="s", signal="approve", signal_args=["no"])
        assert other.run_id != handle.run_id
        assert await other.result() == "bob: no"


async def test_queries_see_what_was_signalled_before_and_answer_after_the_end(engine: Opened) -> None:
    """Rule M3."""

    async with engine(workflows=[Cart]) as e:
        handle = await e.start(Cart, "ann", id="cart")
        for item in ("tea", "milk"):
            await handle.signal(Cart.put, item)
        assert await handle.query(Cart.size) == 2
        with pytest.raises(QueryFailed) as caught:
            await handle.query("broken")
        assert caught.value.failure.type == "ValueError"
        with pytest.raises(NotFound):
            await handle.query("nothing")
        await handle.signal("close")
        assert await handle.result() == ["tea", "milk"]
        assert await handle.query("size") == 2


async def test_queries_of_evicted_runs_are_answered(engine: Opened) -> None:
    """Rule M3."""

    async with engine(workflows=[Cart], cache=0) as e:
        handle = await e.start(Cart, "ann", id="cart")
        await handle.signal(Cart.put, "tea")
        await asyncio.sleep(1)
        assert await handle.query(Cart.size) == 1


async def test_a_run_that_is_cancelled_cleans_up(engine: Opened) -> None:
    """Rule M6."""

    cleaned: list[str] = []

    @activity
    async def clean(what: str) -> None:
        cleaned.append(what)

    @workflow
    async def tidy() -> None:
        try:
            await sleep("10d")
        finally:
            async with shielded():
                await clean("room")

    async with engine(workflows=[tidy], activities=[clean]) as e:
        handle = await e.start(tidy, id="t")
        await asyncio.sleep(60)
        await handle.cancel("enough")
        with pytest.raises(RunCancelled, match="and did: enough"):
            await handle.result()
        assert cleaned == ["room"]


async def test_a_run_that_is_terminated_ends_at_once(engine: Opened) -> None:
    async with engine(workflows=[approval]) as e:
        handle = await e.start(approval, "ann", id="t")
        await handle.terminate("wrong customer")
        with pytest.raises(RunTerminated, match="wrong customer"):
            await handle.result()
        with pytest.raises(RunClosed):
            await handle.terminate()


async def test_a_run_times_out(engine: Opened) -> None:
    async with engine(workflows=[approval]) as e:
        handle = await e.start(approval, "ann", id="t", timeout="1h")
        with pytest.raises(RunTimedOut):
            await handle.result(timeout="2h")


async def test_a_delayed_run_starts_then(engine: Opened) -> None:
    async with engine(workflows=[doubled], activities=[double]) as e:
        handle = await e.start(doubled, 1, id="late", delay="1h")
        with pytest.raises(TimeoutError):
            await handle.result(timeout="59m")
        assert await handle.result(timeout="2m") == 2


async def test_who_waits_is_told_when_the_engine_closes(engine: Opened) -> None:
    """Not that the run has ended: it goes on."""
    async with engine(workflows=[Cart]) as e:
        handle = await e.start(Cart, "ann", id="c")
        waits = [asyncio.create_task(handle.result()), asyncio.create_task(handle.result(timeout="1d"))]
        waits.append(asyncio.create_task(handle.update(Cart.ponder)))
        await asyncio.sleep(1)
    for wait in waits:
        with pytest.raises(StoreUnavailable, match="the run goes on"):
            await asyncio.wait_for(wait, 1)


async def test_a_description_says_what_a_run_waits_for(engine: Opened) -> None:
    async with engine(workflows=[approval]) as e:
        handle = await e.start(approval, "ann", id="d", memo={"by": "me"}, attributes={"region": "eu"})
        await asyncio.sleep(1)
        seen = await handle.describe()
        assert (seen.status, seen.type, seen.turns) == ("running", "approval", 1)
        assert seen.memo == {"by": "me"}
        assert seen.attributes == {"region": "eu"}
        (waiting,) = seen.waiting
        assert "approve" in waiting.what
        assert "test_runs.py" in waiting.source


async def test_the_history_has_the_jobs_and_commands_of_each_turn(engine: Opened) -> None:
    async with engine(workflows=[doubled], activities=[double]) as e:
        handle = await e.start(doubled, 4)
        await handle.result()
        turns = await handle.history()
        assert [[command.kind for command in turn.commands] for turn in turns] == [["schedule_activity"], ["complete"]]
        (attempt,) = turns[1].attempts
        assert (attempt.activity, attempt.attempt, attempt.outcome) == ("double", 1, "completed")


@pytest.mark.parametrize("url", ["memory://", "sqlite:///{}/shop.db"])
def test_what_is_not_open_is_a_wrong_call(url: str, tmp_path: Path) -> None:
    for one in (Engine(url.format(tmp_path), workflows=[doubled], activities=[double]), Client(url.format(tmp_path))):
        with pytest.raises(StoreNotOpen, match="within `async with`") as caught:
            asyncio.run(one.start(doubled, 4))
        assert isinstance(caught.value, UsageError)
        assert isinstance(caught.value, StoreUnavailable)


NONSENSE: list[tuple[Callable[[Any], Any], type[Exception]]] = [
    (lambda e: e.start(doubled), InvalidValue),
    (lambda e: e.start(doubled, 1, 2), InvalidValue),
    (lambda e: e.start(doubled, object()), InvalidValue),
    (lambda e: e.start(doubled, 1, id=""), InvalidValue),
    (lambda e: e.start(doubled, 1, id="x" * 513), InvalidValue),
    (lambda e: e.start(doubled, 1, id="a\nb"), InvalidValue),
    (lambda e: e.start(doubled, 1, id_policy="maybe"), InvalidValue),
    (lambda e: e.start(doubled, 1, delay="soon"), InvalidValue),
    (lambda e: e.start(doubled, 1, timeout=-1), InvalidValue),
    (lambda e: e.start(doubled, 1, priority="high"), InvalidValue),
    (lambda e: e.start(doubled, 1, queue=""), InvalidValue),
    (lambda e: e.start(doubled, 1, memo=[1]), InvalidValue),
    (lambda e: e.start(doubled, 1, colour="red"), UsageError),
    (lambda e: e.start(approval, "ann"), UsageError),
    (lambda e: e.start(double, 1), UsageError),
    (lambda e: e.handle("nobody").result(), NotFound),
    (lambda e: e.handle("nobody").signal("x"), NotFound),
    (lambda e: e.handle("nobody").describe(), NotFound),
    (lambda e: e.handle("nobody").cancel(), NotFound),
    (lambda e: e.handle("nobody").terminate(), NotFound),
]


@pytest.mark.parametrize(("call", "error"), NONSENSE)
async def test_nonsense_is_refused_and_nothing_is_written(engine: Opened, call: Any, error: type[Exception]) -> None:
    async with engine(workflows=[doubled], activities=[double]) as e:
        before = await e.store.counts()
        with pytest.raises(error):
            await call(e)
        assert await e.store.counts() == before
