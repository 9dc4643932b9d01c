"""Retry policies carried out: which failures are tried again, and exactly when (E4)."""

from __future__ import annotations

import pytest

from perdure import ApplicationError, Retry, activity
from perdure.engine.retrying import (
    PUT_OFF,
    RetryRule,
    backoff,
    jittered,
    rule_of,
    seconds_after_deaths,
    seconds_to_wait,
    timed_out,
)
from perdure.errors import Failure
from perdure.model import jobs
from perdure.testing.clock import VirtualClock
from tests.engine.performing import Stage, pause, until, value_of, virtual

BROKEN = Failure("ConnectionError", "no route")


def waits(rule: RetryRule, draw: float = 0.5) -> list[float | None]:
    return [seconds_to_wait(rule, failures, BROKEN, ("ConnectionError", "OSError"), draw) for failures in range(1, 6)]


def test_by_default_three_attempts_in_all_after_one_and_two_seconds() -> None:
    """E4: initial 1 s, factor 2, 3 attempts."""
    assert waits(rule_of({})) == [1, 2, None, None, None]


def test_waits_grow_by_the_factor_up_to_the_cap() -> None:
    assert waits(RetryRule(attempts=None, initial=2, factor=3, maximum=30)) == [2, 6, 18, 30, 30]
    assert rule_of({}).maximum == 60


def test_a_factor_that_overflows_stays_at_the_cap() -> None:
    assert backoff(1, 10, 60, 5_000) == 60


@pytest.mark.parametrize(("draw", "wait"), [(0, 0.9), (0.5, 1), (1, 1.1)])
def test_jitter_is_ten_percent_up_or_down(draw: float, wait: float) -> None:
    """E4."""
    assert waits(rule_of({}), draw)[0] == pytest.approx(wait)
    assert jittered(40, 0.25, draw) == pytest.approx(40 * (0.75 + draw / 2))


def test_a_policy_is_read_as_it_was_written() -> None:
    policy = Retry(attempts=7, initial="3s", factor=1.5, maximum="1m", jitter=0, non_retryable=(KeyError, "Refused"))
    rule = rule_of({"retry": policy.as_option()})
    assert rule == RetryRule(7, 3, 1.5, 60, 0, ("KeyError", "Refused"))


@pytest.mark.parametrize("named", ["ConnectionError", "OSError"])
def test_a_type_that_is_not_retryable_is_final_and_so_are_its_subclasses(named: str) -> None:
    assert waits(RetryRule(non_retryable=(named,)))[0] is None


def test_a_failure_that_says_so_itself_is_final() -> None:
    final = Failure("Refused", retryable=False)
    assert seconds_to_wait(RetryRule(), 1, final, (), 0.5) is None


@pytest.mark.parametrize(
    ("limit", "option", "retryable"),
    [
        ("start_to_close", "timeout", True),
        ("heartbeat", "heartbeat", True),
        ("schedule_to_close", "schedule_to_close", False),
        ("schedule_to_start", "schedule_to_start", False),
    ],
)
def test_a_time_out_says_which_limit_it_was(limit: str, option: str, retryable: bool) -> None:
    """E4: `failure.type` is "Timeout"."""
    failure = timed_out(limit, {option: 2.5})
    assert (failure.type, failure.retryable) == ("Timeout", retryable)
    assert failure.message == f"the {limit.replace('_', '-')} limit of 2.5 s (`{option}`) was over"
    assert failure.details == {"limit": limit, "seconds": 2.5}


DIED = "worker_died"


@pytest.mark.parametrize(
    ("outcomes", "wait"),
    [
        ([], None),
        ([DIED] * 4, None),
        ([DIED] * 5, 1),
        ([DIED] * 5 + [PUT_OFF], None),
        ([DIED] * 5 + [PUT_OFF, DIED], 2),
        ([DIED] * 5 + [PUT_OFF, DIED] * 9, 60),
        ([DIED] * 4 + ["failed", DIED], None),
        ([DIED] * 4 + ["handed_over"], None),
    ],
)
def test_an_activity_whose_workers_all_die_slows_down(outcomes: list[str], wait: float | None) -> None:
    assert seconds_after_deaths(outcomes) == wait


# --- carried out --------------------------------------------------------------------------------

attempts: list[float] = []


@pytest.fixture(autouse=True)
def _none_yet() -> None:
    attempts.clear()


@activity
async def flaky(fails: int) -> str:
    await pause(10)
    attempts.append(0)
    if len(attempts) <= fails:
        raise ConnectionError(f"no route ({len(attempts)})")
    return "through"


def test_a_failed_attempt_is_repeated_after_its_wait_and_each_is_recorded() -> None:
    """E4: attempts with their errors, for people."""

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, flaky, draws=[0.0, 1.0]) as stage:
            job, done = await stage.answer(await stage.schedule(flaky, 2))
            assert value_of(job) == "through"
            zero = done[0].started_us
            times = [((one.started_us - zero) / 1e6, (one.ended_us - zero) / 1e6) for one in done]
            assert times == [(0, 10), (10.9, 20.9), (23.1, 33.1)]
            assert [(one.attempt, one.outcome, one.worker) for one in done] == [
                (1, "failed", "w-1"),
                (2, "failed", "w-1"),
                (3, "completed", "w-1"),
            ]
            assert [str(one.failure) for one in done[:2]] == [
                "ConnectionError: no route (1)",
                "ConnectionError: no route (2)",
            ]

    virtual(main)


def test_when_the_attempts_are_used_up_the_last_failure_is_the_answer() -> None:
    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, flaky) as stage:
            failure = await stage.failure(flaky, 99, retry=Retry(attempts=4, initial=5, jitter=0))
            assert str(failure) == "ConnectionError: no route (4)"
            assert "raise ConnectionError" in (failure.traceback or "")
            assert stage.seconds() == 4 * 10 + 5 + 10 + 20

    virtual(main)


def test_attempts_without_limit_go_on() -> None:
    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, flaky) as stage:
            job = await stage.perform(flaky, 40, retry=Retry(attempts=None, maximum=1))
            assert value_of(job) == "through"
            assert len(attempts) == 41

    virtual(main)


def test_no_attempt_is_made_that_would_begin_after_schedule_to_close() -> None:
    """E4: the limit on the whole counts the waits."""

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, flaky) as stage:
            retry = Retry(attempts=None, initial=30, jitter=0)
            failure = await stage.failure(flaky, 99, retry=retry, schedule_to_close=60)
            assert (failure.type, len(attempts), stage.seconds()) == ("ConnectionError", 2, 50)

    virtual(main)


@activity
def refuses(how: str) -> None:
    attempts.append(0)
    if how == "by type":
        raise KeyError("o-1")
    raise ApplicationError("no funds", type="CardRefused", details={"left": 3}, retryable=how != "by itself")


@pytest.mark.parametrize(
    ("how", "policy", "type_"),
    [
        ("by type", Retry(non_retryable=(LookupError,)), "KeyError"),
        ("by itself", Retry(), "CardRefused"),
        ("by name", Retry(non_retryable=("CardRefused",)), "CardRefused"),
    ],
)
def test_what_is_not_retryable_is_tried_once(how: str, policy: Retry, type_: str) -> None:
    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, refuses) as stage:
            failure = await stage.failure(refuses, how, retry=policy)
            assert (failure.type, len(attempts)) == (type_, 1)
            if type_ == "CardRefused":
                assert (failure.message, failure.details) == ("no funds", {"left": 3})

    virtual(main)


def test_what_a_store_wrote_of_the_attempts_is_what_the_answer_carries() -> None:
    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, flaky) as stage:
            id = await stage.schedule(flaky, 1)
            await until(lambda: stage.retries)
            await until(lambda: stage.accepted)
            (task,) = await stage.store.list_tasks(stage.run.number)
            assert (task.attempt, task.failures, len(task.attempts)) == (1, 1, 1)
            assert task.due_us == task.attempts[0].ended_us + 1_000_000
            job, done = await stage.answer(id)
            assert isinstance(job, jobs.Resolved)
            assert done[:1] == task.attempts

    virtual(main)


def test_a_worker_s_death_is_not_counted_as_a_failure_and_after_five_of_them_there_is_a_pause() -> None:
    """E4: what takes every worker down with it must not do so as fast as they can be started."""

    @activity
    async def busy() -> None:
        await pause(1_000)

    async def main(clock: VirtualClock) -> None:
        async with Stage(clock, busy, flaky, queues={"default": 1}) as stage:
            first = await stage.schedule(busy)
            await until(lambda: stage.runner.running)
            id = await stage.schedule(flaky, 0, retry=Retry(attempts=1))
            for _ in range(5):
                dying = await stage.store.open_lease("dying", {}, 1)
                assert len(await stage.store.claim_tasks(dying.number, "default", ["flaky"], 9)) == 1
                await pause(2)
                await stage.store.end_dead_leases()
            stage.runner.cancel(first)
            stopped = stage.seconds()
            job, done = await stage.answer(id)
            assert value_of(job) == "through"
            assert [one.outcome for one in done] == ["worker_died"] * 5 + ["put_off", "completed"]
            assert stage.seconds() == pytest.approx(stopped + 1 + 10)
            assert stage.runner.free == {"default": 1}

    virtual(main)
