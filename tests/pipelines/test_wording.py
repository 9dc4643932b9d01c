"""How a pipeline stands, in plain words (L11; seed 004, "Observable State")."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure.clock import micros
from perdure.errors import Failure
from perdure.pipelines import scheduling
from perdure.pipelines.policy import PipelinePolicy
from perdure.pipelines.records import blocked_of
from perdure.pipelines.scheduling import Consumer, Producer, State
from perdure.pipelines.wording import PendingWork, PipelineStatus, Seen, pending_of, schedule_of, short, status_of
from perdure.stores.pipeline_records import HandlerRun, LedgerEntry

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
STATE = State((Producer("poll", every="5m", next_run_at=NOW + 3 * MINUTE),), (Consumer("sheet", ("inbox",)),))


def run(status: Any, message: str = "", **more: Any) -> HandlerRun:
    given: dict[str, Any] = {
        "id": "r1",
        "number": 1,
        "pipeline": "mail",
        "handler": "sheet",
        "kind": "consumer",
        "key": "k",
        "created_us": micros(NOW),
        "updated_us": micros(NOW - 2 * MINUTE),
        "error": Failure("Oops", message) if message else None,
    }
    return HandlerRun(status=status, **given | more)


def seen(blocking: HandlerRun | None = None, **more: Any) -> PipelineStatus:
    state = STATE if blocking is None else replace(STATE, blocked=blocked_of(blocking))
    return status_of(Seen(replace(state, **more), blocking), NOW)


def test_an_idle_pipeline_says_when_it_looks_next() -> None:
    assert seen() == PipelineStatus("Idle", None, "checks every 5 minutes, next in 3 min", (), {})


def test_a_pipeline_is_running_while_a_handler_is_and_stopped_when_a_person_has_paused_it() -> None:
    assert seen(active="sheet").status == "Running"
    assert seen(paused=True).status == "Stopped"


SOON = micros(NOW + timedelta(seconds=20))


@pytest.mark.parametrize(
    ("blocking", "status", "issue"),
    [
        (
            run("paused:transient", "rate limit", retry_us=SOON),
            "Idle",
            "sheet failed 1 time: rate limit; tries again in 20 s",
        ),
        (
            run("paused:transient", "rate limit", attempt=6),
            "Needs attention",
            "sheet failed 6 times: rate limit; retry it when that is mended",
        ),
        (
            run("paused:approval", "reconnect Gmail"),
            "Needs attention",
            "sheet waits for you: reconnect Gmail; retry it when that is done",
        ),
        (
            run(
                "paused:reconciliation",
                ledger=LedgerEntry(key="k", what="append_row", started_us=1, next_us=SOON),
            ),
            "Idle",
            "it is not known whether append_row of sheet happened; tries again in 20 s",
        ),
        (
            run("paused:reconciliation", "reset", ledger=LedgerEntry(key="k", what="append_row", started_us=1)),
            "Needs attention",
            (
                "it is not known whether append_row of sheet happened: reset; "
                "look, and say happened, did_not_happen, skip or retry"
            ),
        ),
        (
            run("failed:logic", "first line\nsecond"),
            "Needs attention",
            "sheet has a mistake in its code: first line; mend it and start again, or retry it",
        ),
        (
            run("failed:internal"),
            "Needs attention",
            "sheet failed inside Perdure; please report it; then retry it",
        ),
        (run("crashed", retry_us=micros(NOW)), "Idle", "sheet was interrupted; tries again now"),
    ],
)
def test_a_pipeline_that_is_blocked_says_why_and_what_to_do(blocking: HandlerRun, status: str, issue: str) -> None:
    """L11: Idle during back-off too; Needs attention only if a person must act."""
    told = seen(blocking)
    assert (told.status, told.issue) == (status, issue)


def test_a_pause_does_not_hide_what_blocks() -> None:
    """L11: the two are separate."""
    told = seen(run("paused:approval", "reconnect Gmail"), paused=True)
    assert told.status == "Stopped"
    assert told.issue is not None
    assert "reconnect Gmail" in told.issue


@pytest.mark.parametrize(
    ("producer", "said"),
    [
        (Producer("p", every="1h"), "checks every hour"),
        (Producer("p", every=90, next_run_at=NOW), "checks every 90 seconds, next now"),
        (Producer("p", every=0.5), "checks every 0.5 seconds"),
        (Producer("p", every="1d", queued=True), "checks every day, next now"),
        (
            Producer("p", cron="5 9 * * *", next_run_at=NOW + timedelta(hours=21)),
            "runs daily at 09:05 (UTC), next in 21 h",
        ),
        (Producer("p", cron="*/5 * * * *", timezone="Europe/Madrid"), "runs by `*/5 * * * *` (Europe/Madrid)"),
        (Producer("p"), "runs when asked"),
    ],
)
def test_schedules_are_said_in_words(producer: Producer, said: str) -> None:
    assert schedule_of(State((producer,)), NOW) == said


def test_a_schedule_tells_of_wake_times_and_of_pipelines_that_only_wait_for_events() -> None:
    state = State(consumers=(Consumer("digest", ("inbox",), wake_at=NOW + timedelta(hours=2)), Consumer("other")))
    assert schedule_of(state, NOW) == "digest looks again in 2 h"
    assert schedule_of(State(consumers=(Consumer("other"),)), NOW) == "runs when events arrive"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-5, "0 s"), (0.2, "0 s"), (59, "1 min"), (56, "56 s"), (180, "3 min"), (7300, "2 h"), (200_000, "2 d")],
)
def test_times_are_short(seconds: float, said: str) -> None:
    assert short(timedelta(seconds=seconds)) == said


def test_recent_activity_is_the_newest_first_and_pending_work_has_its_age() -> None:
    took = b'{"reserve":{"inbox":["a","b","c"]},"data":null}'
    recent = (
        run("failed:logic", "oops"),
        run("committed", prepared=took),
        run("committed", prepared=took, mutation="skipped"),
        run("committed", prepared=b'{"reserve":{},"data":null}'),
        run("crashed"),
        run("paused:reconciliation", "reset by peer", mutation="uncertain"),
    )
    pending = pending_of({"inbox": {"pending": 3, "consumed": 9}, "rows": {"consumed": 1}}, {"inbox": NOW})
    told = status_of(Seen(STATE, None, recent, pending), NOW)
    assert told.activity == (
        "sheet came to no known end: reset by peer, 2 min ago",
        "sheet was interrupted, 2 min ago",
        "sheet skipped 3 events, 2 min ago",
        "sheet processed 3 events, 2 min ago",
        "sheet failed: oops, 2 min ago",
    )
    only = status_of(Seen(STATE, None, (run("committed"),), pending), NOW)
    assert only.activity == ("sheet finished, 2 min ago",)
    assert told.pending == {"inbox": PendingWork(3, NOW), "rows": PendingWork(0, None)}


def test_a_transient_failure_of_the_scheduler_is_told_without_its_run() -> None:
    state = scheduling.fail(STATE, "sheet", NOW, run="r1", status="paused:transient")
    told = status_of(Seen(state), NOW)
    assert (told.status, told.issue) == ("Idle", "sheet failed 1 time; tries again in 10 s")
    assert PipelinePolicy().retries == 5
