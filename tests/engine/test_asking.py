"""Activities with effect="ask" (E5, L7): never repeated while nobody knows whether they happened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from perdure import (
    Activity,
    ActivityFailed,
    AlreadyExists,
    ApplicationError,
    InvalidValue,
    NotFound,
    Retry,
    UsageError,
    activity,
    activity_info,
    complete_later,
    happened,
    not_applied,
    now,
    race,
    sleep,
    transient,
    workflow,
)
from perdure.model import jobs
from perdure.testing import VirtualClock
from tests.engine import process_samples as samples
from tests.engine.performing import Stage, uncertain, value_of, virtual

Opened = Callable[..., Any]
Does = list[Any]  # what a function does each time: an exception is raised, anything else returned


def paying(does: Does, says: Does | None = None, **options: Any) -> tuple[Activity[..., Any], list[str]]:
    """A payment that does this, and says that of itself when it is asked; with what was called."""
    called: list[str] = []

    async def pays(cents: int) -> Any:
        called.append(f"pay {cents} {activity_info().attempt}")
        return await _do(does.pop(0))

    given: Any = {"effect": "ask", "name": "pay", "retry": Retry(initial=1, jitter=0), **options}
    pay = Activity[..., Any](pays, given)

    if says is not None:

        @pay.reconcile
        async def became(cents: int) -> Any:
            called.append(f"ask {cents}")
            return await _do(says.pop(0))

    return pay, called


async def _do(what: Any) -> Any:
    if what == "hang":
        await asyncio.get_running_loop().create_future()
    if isinstance(what, BaseException):
        raise what
    return what


def buying(pay: Activity[..., Any]) -> Any:
    """A workflow that pays once, and says what came of it and how long it took."""

    @workflow
    async def buys() -> tuple[str, Any, float]:
        began = now()
        try:
            kind, came = "value", await pay(990)
        except ActivityFailed as failed:
            kind, came = failed.failure.type, failed.failure.message
        return kind, came, round((now() - began).total_seconds())

    return buys


async def bought(engine: Opened, pay: Activity[..., Any]) -> tuple[str, Any, float]:
    """What it came to, without anybody's help."""
    buys = buying(pay)
    async with engine(workflows=[buys], activities=[pay]) as e:
        kind, came, took = await e.run(buys)
        return kind, came, took


# --- what its author says of it ----------------------------------------------------------------------


async def test_one_that_works_is_not_asked(engine: Opened) -> None:
    pay, called = paying(["r-1"], [None])
    assert await bought(engine, pay) == ("value", "r-1", 0)
    assert called == ["pay 990 1"]


async def test_what_was_not_applied_fails_for_good(engine: Opened) -> None:
    """L7: its author's word that nothing happened, and shall not be tried again."""
    pay, called = paying([not_applied("no funds")], [None])
    assert await bought(engine, pay) == ("NotApplied", "no funds", 0)
    assert called == ["pay 990 1"]


async def test_what_is_transient_is_retried_by_the_policy(engine: Opened) -> None:
    pay, called = paying([transient("busy"), transient("busy"), "r-1"], [None])
    assert await bought(engine, pay) == ("value", "r-1", 3)
    assert called == ["pay 990 1", "pay 990 2", "pay 990 3"]


async def test_retries_of_what_is_transient_are_used_up(engine: Opened) -> None:
    pay, called = paying([transient("busy")] * 2, [None], retry=Retry(attempts=2, initial=1, jitter=0))
    assert await bought(engine, pay) == ("Transient", "busy", 1)
    assert len(called) == 2


class Transient(Exception):
    """Somebody's own, of the same name."""


@pytest.mark.parametrize(
    "error",
    [
        ValueError("?"),
        ApplicationError("?", retryable=True),
        Transient("?"),
        KeyboardInterrupt(),
        asyncio.CancelledError(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_any_other_exception_leaves_it_uncertain(engine: Opened, error: BaseException) -> None:
    """E5: it is asked what became of it, and never repeated."""
    pay, called = paying([error], ["r-7"])
    assert await bought(engine, pay) == ("value", "r-7", 0)
    assert called == ["pay 990 1", "ask 990"]


async def test_a_result_that_cannot_be_stored_leaves_it_uncertain(engine: Opened) -> None:
    pay, called = paying([object()], ["r-7"])
    assert await bought(engine, pay) == ("value", "r-7", 0)
    assert called == ["pay 990 1", "ask 990"]


async def test_a_time_limit_leaves_it_uncertain(engine: Opened) -> None:
    pay, called = paying(["hang"], ["r-7"], timeout=60)
    assert await bought(engine, pay) == ("value", "r-7", 60)
    assert called == ["pay 990 1", "ask 990"]


async def test_the_limit_on_all_of_it_leaves_it_uncertain_too(engine: Opened) -> None:
    """Nothing is known when schedule-to-close is over while it runs; the workflow is not told that it failed."""
    pay, called = paying(["hang"], [None, None, "r-7"], schedule_to_close=60)
    assert await bought(engine, pay) == ("value", "r-7", 90)
    assert called == ["pay 990 1", "ask 990", "ask 990", "ask 990"]


async def test_an_input_that_does_not_fit_was_never_called(engine: Opened) -> None:
    pay, called = paying(["r-1"], [None])

    @activity(name="pay")
    async def stub(cents: str) -> str: ...

    @workflow
    async def buys() -> str:
        try:
            return await stub("many")
        except ActivityFailed as failed:
            return failed.failure.type

    async with engine(workflows=[buys], activities=[pay]) as e:
        assert await e.run(buys) == "InvalidValue"
    assert called == []


@pytest.mark.parametrize(("how", "came"), [("refused", "no funds"), ("unanswered", "r-unanswered"), ("died", "r-died")])
def test_it_is_the_same_in_a_process_of_its_own(how: str, came: str) -> None:
    """Its author's word crosses processes; one that dies leaves it uncertain."""

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, samples.pays, processes=1) as stage:
            job = await stage.perform(samples.pays, how)
            assert (job.failure.message if isinstance(job, jobs.Failed) else value_of(job)) == came

    virtual(main)


# --- what it is asked --------------------------------------------------------------------------------


async def test_happened_is_a_value_where_there_is_none(engine: Opened) -> None:
    pay, _ = paying([ValueError()], [happened()])
    assert await bought(engine, pay) == ("value", None, 0)
    pay, _ = paying([ValueError()], [happened("r-2")])
    assert await bought(engine, pay) == ("value", "r-2", 0)


async def test_its_reconcile_may_say_that_it_did_not_happen(engine: Opened) -> None:
    """L7: `not_applied` is for the workflow, `transient` for the retry policy."""
    pay, called = paying([ValueError()], [not_applied("unknown to the bank")])
    assert await bought(engine, pay) == ("NotApplied", "unknown to the bank", 0)
    pay, called = paying([ValueError(), "r-1"], [transient("unknown to the bank")])
    assert await bought(engine, pay) == ("value", "r-1", 1)
    assert called == ["pay 990 1", "ask 990", "pay 990 2"]


async def test_it_is_asked_again_while_it_is_not_known(engine: Opened) -> None:
    """L7: 10 s, doubling; what its reconcile raises otherwise is no answer either."""
    pay, called = paying([ValueError()], [None, ValueError("the bank is down"), None, None, "r-1"])
    assert await bought(engine, pay) == ("value", "r-1", 10 + 20 + 40 + 80)
    assert called == ["pay 990 1", *["ask 990"] * 5]


async def test_the_limit_on_an_attempt_counts_for_its_reconcile(engine: Opened) -> None:
    pay, _ = paying([ValueError()], ["hang", "r-1"], timeout=7)
    assert await bought(engine, pay) == ("value", "r-1", 17)


async def test_a_plain_function_is_asked_as_well(engine: Opened) -> None:
    keys: list[str] = []

    @activity(effect="ask")
    def pay(cents: int) -> str:
        keys.append(activity_info().key)
        raise ValueError

    @pay.reconcile
    def became(cents: int) -> str | None:
        keys.append(activity_info().key)
        return f"r-{cents}"

    assert await bought(engine, pay) == ("value", "r-990", 0)
    assert len(set(keys)) == 1


# --- a person decides --------------------------------------------------------------------------------


@pytest.mark.parametrize("says", [None, [None] * 5], ids=["nothing to ask", "asked in vain"])
async def test_a_person_says_that_it_happened(engine: Opened, says: Does | None) -> None:
    """L7: after five times, or where there is nothing to ask, a person decides; for as long as that takes."""
    pay, called = paying([ValueError("?")], says)
    buys = buying(pay)
    async with engine(workflows=[buys], activities=[pay]) as e:
        handle = await e.start(buys, id="b")
        key = await uncertain(e, handle)
        since = now_of(await handle.describe())
        await asyncio.sleep(86_400)
        seen = await handle.describe()
        assert now_of(seen) == since
        assert seen.activities[0].due is None
        asked = 10 + 20 + 40 + 80 if says is not None else 0
        assert since - seen.started == pytest.approx(timedelta(seconds=asked), abs=timedelta(seconds=1))
        await handle.resolve_activity(key, "happened", "r-9")
        await handle.resolve_activity(key, "happened", "r-9")
        kind, came, _ = await handle.result()
        assert (kind, came) == ("value", "r-9")
        await handle.resolve_activity(key, "happened", "r-9")
        with pytest.raises(AlreadyExists):
            await handle.resolve_activity(key, "fail")
        assert called.count("pay 990 1") == len([each for each in called if each.startswith("pay")]) == 1


def now_of(seen: Any) -> Any:
    return seen.activities[0].since


async def test_a_person_says_that_it_did_not_happen_and_it_runs_again(engine: Opened) -> None:
    """With the same key."""
    pay, called = paying([ValueError("?"), "r-1"])
    buys = buying(pay)
    async with engine(workflows=[buys], activities=[pay]) as e:
        handle = await e.start(buys, id="b")
        key = await uncertain(e, handle)
        await handle.resolve_activity(key, "did_not_happen")
        kind, came, _ = await handle.result()
        assert (kind, came, called) == ("value", "r-1", ["pay 990 1", "pay 990 2"])
        attempts = (await handle.history())[-1].attempts
        assert [each.outcome for each in attempts] == ["uncertain", "did_not_happen", "completed"]
        assert {each.key for each in attempts} == {key}


async def test_a_person_has_it_fail(engine: Opened) -> None:
    pay, _ = paying([ValueError("?")])
    buys = buying(pay)
    async with engine(workflows=[buys], activities=[pay]) as e:
        handle = await e.start(buys, id="b")
        await handle.resolve_activity(await uncertain(e, handle), "fail", "the bank knows nothing of it")
        assert (await handle.result())[:2] == ("Failed", "the bank knows nothing of it")


async def test_a_person_may_be_faster_than_its_reconcile(engine: Opened) -> None:
    pay, called = paying([ValueError("?")], [None, "r-1"])
    buys = buying(pay)
    async with engine(workflows=[buys], activities=[pay]) as e:
        handle = await e.start(buys, id="b")
        await handle.resolve_activity(await uncertain(e, handle, "its reconcile"), "happened", "r-9")
        assert (await handle.result())[1] == "r-9"
        await asyncio.sleep(100)
        assert called == ["pay 990 1", "ask 990"]


async def test_a_word_on_what_nobody_asks_about_is_refused(engine: Opened) -> None:
    """Section 6: one clear error, and nothing written."""
    pay, _ = paying(["hang"])
    buys = buying(pay)

    @activity
    async def plain() -> None:
        complete_later()

    @workflow
    async def other() -> None:
        await plain()

    async with engine(workflows=[buys, other], activities=[pay, plain]) as e:
        handle = await e.start(buys, id="b")
        await asyncio.sleep(1)
        (running,) = (await handle.describe()).activities
        with pytest.raises(UsageError, match="running now"):
            await handle.resolve_activity(running.key, "happened")
        with pytest.raises(InvalidValue, match="one of happened"):
            await handle.resolve_activity(running.key, "maybe")
        with pytest.raises(InvalidValue, match="no value"):
            await handle.resolve_activity(running.key, "did_not_happen", 1)
        with pytest.raises(NotFound, match="no activity"):
            await handle.resolve_activity("nothing", "happened")
        second = await e.start(other, id="o")
        with pytest.raises(UsageError, match="no such word"):
            await second.resolve_activity(await uncertain(e, second, "the outside"), "happened")
        await handle.terminate()


async def test_an_uncertain_one_may_be_cancelled(engine: Opened) -> None:
    """What its workflow does not want is not asked about any more."""
    pay, called = paying([ValueError("?")], [None] * 5)

    @workflow
    async def impatient() -> int:
        index, _ = await race(pay(990), sleep(15))
        return index

    async with engine(workflows=[impatient], activities=[pay]) as e:
        assert await e.run(impatient) == 1
        await asyncio.sleep(1000)
    assert called == ["pay 990 1", "ask 990", "ask 990"]


async def test_one_that_was_given_out_is_uncertain_when_its_limit_is_over(engine: Opened) -> None:
    @activity(effect="ask", timeout=60)
    async def pay(cents: int) -> str:
        complete_later()

    @pay.reconcile
    async def became(cents: int) -> str:
        return f"r-{cents}"

    assert await bought(engine, pay) == ("value", "r-990", 60)


# --- definitions ------------------------------------------------------------------------------------


def test_what_cannot_be_asked_is_refused_where_it_is_written() -> None:
    @activity
    async def plain(cents: int) -> str:
        return ""

    @activity(effect="ask")
    async def pay(cents: int) -> str:
        return ""

    with pytest.raises(UsageError, match="never asked"):
        plain.reconcile(pay.fn)
    with pytest.raises(UsageError, match="same arguments"):
        pay.reconcile(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="one value"):
        pay.reconcile(7)  # type: ignore[arg-type]
    pay.reconcile(plain.fn)
    with pytest.raises(UsageError, match="already"):
        pay.reconcile(plain.fn)
