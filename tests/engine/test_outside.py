"""Completion from outside (E4): an activity that leaves its answer to whoever has its token."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import (
    ActivityFailed,
    AlreadyExists,
    Client,
    Engine,
    Failure,
    InvalidValue,
    NotFound,
    Retry,
    RunClosed,
    RunFailed,
    UsageError,
    activity,
    activity_info,
    complete_later,
    heartbeat,
    last_heartbeat,
    now,
    race,
    receive,
    sleep,
    transient,
    workflow,
)
from tests.engine.performing import pause

Opened = Callable[..., Any]
TOKENS: list[str] = []
NOBODY = "7b1c4a43-6f4f-4c55-8a2a-3f6c0a5a3d11"


@pytest.fixture(autouse=True)
def no_tokens() -> None:
    TOKENS.clear()


@activity
async def approval(order: str) -> str:
    TOKENS.append(activity_info().token)
    complete_later()


@activity
def approval_in_thread(order: str) -> str:
    TOKENS.append(activity_info().token)
    try:
        return complete_later()
    except Exception:
        return "taken for a failure"


@workflow
async def approved(order: str) -> str:
    return f"{order} {await approval(order)}"


@workflow
async def approved_in_thread(order: str) -> str:
    return f"{order} {await approval_in_thread(order)}"


async def given_out(_: Any, count: int = 1) -> str:
    """The token of the activity that was given out last, of so many in all."""
    while len(TOKENS) < count:
        await pause(0.01)
    await pause(0.01)
    return TOKENS[-1]


@pytest.mark.parametrize("flow", [approved, approved_in_thread], ids=["async", "def"])
async def test_the_outside_completes_an_activity_by_its_token(engine: Opened, flow: Any) -> None:
    """E4: the attempt is over, the activity stays open, for days, and its value comes from outside."""
    async with engine(workflows=[flow], activities=[approval, approval_in_thread]) as e:
        handle = await e.start(flow, "o-1", id="r")
        token = await given_out(e)
        await asyncio.sleep(30 * 86_400)
        (seen,) = (await handle.describe()).activities
        assert (seen.waits_for, seen.worker, seen.due) == ("the outside", None, None)
        await e.complete_activity(token, "yes")
        assert await handle.result() == "o-1 yes"
        turn = (await handle.history())[-1]
        assert [(each.attempt, each.outcome) for each in turn.attempts] == [(1, "later"), (1, "completed")]


async def test_the_outside_may_be_faster_than_the_activity(engine: Opened) -> None:
    """The token is known before the attempt is over: what the outside says then counts."""
    done: list[str] = []

    @activity
    async def slow(order: str) -> str:
        TOKENS.append(activity_info().token)
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            done.append("asked to stop")
            raise
        complete_later()

    @workflow
    async def flow(order: str) -> str:
        said = await slow(order)
        await sleep(1000)
        return said

    async with engine(workflows=[flow], activities=[slow]) as e:
        handle = await e.start(flow, "o-1", id="r")
        await e.complete_activity(await given_out(e), "yes")
        assert await handle.result() == "yes"
        assert done in ([], ["asked to stop"])
        assert (await handle.describe()).leases == []


async def test_the_outside_fails_an_activity_for_good(engine: Opened) -> None:
    """`fail_activity`: an exception, a Failure or text; the outside's word is not retried."""
    async with engine(workflows=[approved], activities=[approval]) as e:
        for number, error in enumerate((ValueError("no"), Failure("Declined", "no"), "no")):
            handle = await e.start(approved, "o-1", id=f"r-{number}")
            await e.fail_activity(await given_out(e, number + 1), error)
            with pytest.raises(RunFailed, match="no") as failed:
                await handle.result()
            cause = failed.value.failure.cause
            assert cause is not None
            assert cause.type == ("ValueError", "Declined", "ApplicationError")[number]
        assert len(TOKENS) == 3


async def test_what_the_outside_calls_transient_is_tried_again(engine: Opened) -> None:
    """`transient(…)` is what the retry policy is for."""
    async with engine(workflows=[approved], activities=[approval]) as e:
        handle = await e.start(approved, "o-1", id="r")
        await e.fail_activity(await given_out(e), transient("the bank is closed"))
        token = await given_out(e, 2)
        assert [token, token] == TOKENS
        await e.complete_activity(token, "yes")
        assert await handle.result() == "o-1 yes"


# --- said twice, or wrongly -------------------------------------------------------------------------


async def test_the_same_again_is_nothing_and_anything_else_an_error(engine: Opened) -> None:
    """E2: a redelivered completion is dropped; another one is refused, while the run goes on and after it."""

    @workflow
    async def flow() -> str:
        said = await approval("o-1")
        await receive("end")
        return said

    async with engine(workflows=[flow], activities=[approval]) as e:
        handle = await e.start(flow, id="r")
        token = await given_out(e)
        await e.complete_activity(token, "yes")
        for _ in range(2):
            await e.complete_activity(token, "yes")
            with pytest.raises(AlreadyExists, match="another result"):
                await e.complete_activity(token, "no")
            with pytest.raises(AlreadyExists, match="another result"):
                await e.fail_activity(token, "no")
            await handle.signal("end")
        assert await handle.result() == "yes"
        assert sum(len(turn.jobs) for turn in await handle.history()) == 4


async def test_a_failure_may_be_said_again(engine: Opened) -> None:
    async with engine(workflows=[approved], activities=[approval]) as e:
        handle = await e.start(approved, "o-1", id="r")
        token = await given_out(e)
        await e.fail_activity(token, ValueError("no"))
        await e.fail_activity(token, ValueError("no"))
        with pytest.raises(RunFailed):
            await handle.result()
        await e.fail_activity(token, ValueError("no"))
        with pytest.raises(AlreadyExists, match="ValueError: no"):
            await e.complete_activity(token, "yes")


@pytest.mark.parametrize("token", ["", "abc", None, 7, "a.b.c", f"{NOBODY}"])
async def test_what_is_no_token_is_refused(engine: Opened, token: Any) -> None:
    """Section 6: one clear error, at the call."""
    async with engine(workflows=[approved], activities=[approval]) as e:
        with pytest.raises(InvalidValue):
            await e.complete_activity(token, 1)


async def test_a_token_that_nothing_has_is_not_found(engine: Opened) -> None:
    async with engine(workflows=[approved], activities=[approval]) as e:
        with pytest.raises(NotFound, match="no run"):
            await e.complete_activity(f"{NOBODY}.{NOBODY}", 1)
        handle = await e.start(approved, "o-1", id="r")
        await given_out(e)
        with pytest.raises(NotFound, match="no activity"):
            await e.complete_activity(f"{handle.run_id}.{NOBODY}", 1)
        with pytest.raises(InvalidValue):
            await e.complete_activity(TOKENS[0], {1, 2}.__iter__())
        with pytest.raises(InvalidValue):
            await e.fail_activity(TOKENS[0], 7)


async def test_what_a_run_that_has_ended_waited_for_is_closed(engine: Opened) -> None:
    async with engine(workflows=[approved], activities=[approval]) as e:
        handle = await e.start(approved, "o-1", id="r")
        token = await given_out(e)
        await handle.terminate()
        with pytest.raises(RunClosed, match="has ended"):
            await e.complete_activity(token, "yes")


def test_complete_later_is_for_activities() -> None:
    with pytest.raises(UsageError, match="outside an activity"):
        complete_later()


# --- limits and cancellation ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "limit", "seconds"),
    [
        ({"timeout": 60}, "start_to_close", 60),
        ({"heartbeat": 50, "timeout": 60}, "heartbeat", 50),
        ({"schedule_to_close": 40, "timeout": 60}, "schedule_to_close", 40),
    ],
)
async def test_its_time_limits_go_on(engine: Opened, options: Any, limit: str, seconds: float) -> None:
    """E4: the limits end it although nobody runs it; the failure is a Timeout."""
    wait = activity(name="wait", retry=Retry(attempts=1), **options)(approval.fn)

    @workflow
    async def flow() -> tuple[str, Any, float]:
        began = now()
        try:
            await wait("o-1")
        except ActivityFailed as failed:
            return failed.failure.type, failed.failure.details["limit"], (now() - began).total_seconds()
        return "", "", 0

    async with engine(workflows=[flow], activities=[wait]) as e:
        kind, which, took = await e.run(flow, id="r")
        assert (kind, which) == ("Timeout", limit)
        assert took == pytest.approx(seconds, abs=0.1)
        with pytest.raises(AlreadyExists, match="Timeout"):
            await e.complete_activity(TOKENS[0], "late")


async def test_after_a_limit_it_is_tried_again_with_the_same_token(engine: Opened) -> None:
    """Start-to-close counts for each attempt; its number is that of the goes at the function."""
    goes: list[tuple[int, Any]] = []

    @activity(timeout=60, retry=Retry(initial=1, jitter=0))
    async def wait() -> str:
        goes.append((activity_info().attempt, last_heartbeat()))
        heartbeat(f"go {len(goes)}")
        TOKENS.append(activity_info().token)
        complete_later()

    @workflow
    async def flow() -> str:
        return await wait()

    async with engine(workflows=[flow], activities=[wait]) as e:
        handle = await e.start(flow, id="r")
        token = await given_out(e, 2)
        assert goes == [(1, None), (2, "go 1")]
        assert set(TOKENS) == {token}
        await e.complete_activity(token, "yes")
        assert await handle.result() == "yes"


@pytest.mark.parametrize("how", ["try", "wait"])
async def test_cancelling_ends_it_at_once(engine: Opened, how: Any) -> None:
    """Nobody has to be asked, for nobody runs it."""

    @workflow
    async def flow() -> float:
        began = now()
        await race(approval.options(cancellation=how)("o-1"), sleep(5))
        return (now() - began).total_seconds()

    async with engine(workflows=[flow], activities=[approval]) as e:
        handle = await e.start(flow, id="r")
        token = await given_out(e)
        assert await handle.result() == pytest.approx(5, abs=0.1)
        with pytest.raises((NotFound, RunClosed)):
            await e.complete_activity(token, "late")


@pytest.mark.parametrize("how", ["cancelled", "completed from outside"])
async def test_a_run_does_not_stay_with_its_worker_for_an_activity_that_it_does_not_want(
    engine: Opened, how: str
) -> None:
    """E3: parked runs hold no lease, also while what was cancelled, or answered by somebody else, still runs here."""

    @activity
    async def stubborn() -> None:
        TOKENS.append(activity_info().token)
        for _ in range(2):
            with contextlib.suppress(asyncio.CancelledError):
                await pause(1000)

    @workflow
    async def flow() -> None:
        await race(stubborn(), sleep(5))
        await receive("end")

    async with engine(workflows=[flow], activities=[stubborn]) as e:
        handle = await e.start(flow, id="r")
        token = await given_out(e)
        if how == "completed from outside":
            await e.complete_activity(token)
        await asyncio.sleep(6)
        assert (await handle.describe()).leases == []
        await handle.signal("end")
        await handle.result()


def test_a_worker_that_goes_takes_nothing_with_it(tmp_path: Path) -> None:
    """The activity is open in the store, and another process may complete it, and another one go on."""
    url = f"sqlite:///{tmp_path / 'a.db'}"

    async def main() -> None:
        async with Engine(url, workflows=[approved], activities=[approval]) as e:
            await e.start(approved, "o-1", id="r")
            token = await given_out(e)
            while not (await e.handle("r").describe()).activities[0].waits_for:
                await pause(0.01)
        async with Client(url) as other:
            await other.complete_activity(token, "yes")
        async with Engine(url, workflows=[approved], activities=[approval]) as e:
            assert await e.handle("r").result(timeout=20) == "o-1 yes"

    asyncio.run(main())
    assert len(TOKENS) == 1
