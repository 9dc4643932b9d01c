"""The pure scheduler, where the seed's tables say nothing: what is refused, what is kept, what is new (L2, L6)."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure.errors import InvalidValue, NotFound, UsageError
from perdure.pipelines import scheduling
from perdure.pipelines.policy import PipelinePolicy
from perdure.pipelines.scheduling import Consumer, Producer, Start, State, Wait

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
POLL = Producer("poll", every="5m", next_run_at=NOW)
SHEET = Consumer("sheet", topics=("inbox",))


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (State((Producer("poll", every="5x"),)), "'poll'.*5x"),
        (State((Producer("poll", cron="61 * * * *"),)), "'poll'.*minute"),
        (State((Producer("poll", cron="0 9 * * *", timezone="Mars"),)), "'poll'.*Mars"),
        (State((Producer("poll", every="5m", cron="0 9 * * *"),)), "'poll'.*not by both"),
        (State((Producer("same", every="5m"),), (Consumer("same"),)), "two handlers"),
        (State(consumers=(Consumer("one", ("a",)), Consumer("two", ("b", "a")))), "'a' has two consumers"),
    ],
)
def test_a_bad_declaration_is_refused_at_deploy_and_not_before(state: State, said: str) -> None:
    """L2."""
    with pytest.raises(InvalidValue, match=said):
        scheduling.deploy(state, NOW)


def test_every_trigger_gives_a_new_state_and_leaves_the_old_one() -> None:
    state = State([POLL], [SHEET], {"inbox": NOW})  # type: ignore[arg-type]  # lists are taken as well
    kept = pickle.loads(pickle.dumps(state))
    assert kept == state
    assert hash(kept) == hash(state)
    later = scheduling.tick(scheduling.event(state, "other", NOW), NOW)
    assert later != state
    assert state == kept
    with pytest.raises(FrozenInstanceError):
        state.paused = True  # type: ignore[misc]
    with pytest.raises(TypeError):
        state.pending["more"] = NOW  # type: ignore[index]


def test_naive_moments_are_refused() -> None:
    naive = datetime(2026, 6, 1)
    calls: list[Any] = [scheduling.deploy, scheduling.recover, scheduling.tick, scheduling.decide, scheduling.run_now]
    for call in calls:
        with pytest.raises(InvalidValue, match="no time zone"):
            call(State(), naive)
    with pytest.raises(InvalidValue, match="'poll'"):
        Producer("poll", next_run_at=naive)
    with pytest.raises(InvalidValue, match="'inbox'"):
        State(pending={"inbox": naive})
    with pytest.raises(InvalidValue, match="datetime"):
        scheduling.tick(State(), 5)  # type: ignore[arg-type]


def test_an_unknown_handler_is_not_found() -> None:
    for call in (scheduling.start, scheduling.commit, scheduling.fail):
        with pytest.raises(NotFound, match="'gone'"):
            call(State((POLL,), (SHEET,)), "gone", NOW)


def test_an_unknown_status_is_refused() -> None:
    for status in ("committed", "active", "broken"):
        with pytest.raises(InvalidValue, match="paused:transient"):
            scheduling.fail(State((POLL,)), "poll", NOW, run="r", status=status)
    with pytest.raises(InvalidValue, match="first attempt is 1"):
        scheduling.fail(State((POLL,)), "poll", NOW, run="r", status="paused:transient", attempt=0)


def test_the_oldest_pending_event_of_a_topic_stays_the_oldest() -> None:
    state = scheduling.event(State(consumers=(SHEET,)), "inbox", NOW)
    state = scheduling.event(state, "inbox", NOW + MINUTE)
    assert state.pending == {"inbox": NOW}


def test_what_a_commit_finds_pending_for_the_first_time_wakes_its_consumer() -> None:
    """L6: no event waits for ever, also one that a producer's commit published."""
    state = scheduling.start(State((POLL,), (SHEET,)), "poll", NOW)
    state = scheduling.commit(state, "poll", NOW, pending={"inbox": NOW})
    assert scheduling.decide(state, NOW) == Start("sheet")


def test_what_a_commit_says_is_pending_no_more_is_forgotten() -> None:
    other = Consumer("other", ("more",))
    state = State(consumers=(SHEET, other), pending={"inbox": NOW, "more": NOW})
    state = scheduling.commit(scheduling.start(state, "sheet", NOW), "sheet", NOW, reserved=True, pending={})
    assert state.pending == {"more": NOW}
    state = scheduling.commit(scheduling.start(state, "sheet", NOW), "sheet", NOW, pending={"more": None})
    assert state.pending == {}


def test_an_interval_counts_from_the_end_of_a_run_and_a_cron_from_its_expression() -> None:
    """L2."""
    cron = Producer("nightly", cron="0 3 * * *", next_run_at=NOW)
    state = scheduling.commit(scheduling.start(State((POLL, cron)), "poll", NOW), "poll", NOW + 3 * MINUTE)
    state = scheduling.commit(scheduling.start(state, "nightly", NOW), "nightly", NOW + 3 * MINUTE)
    assert [one.next_run_at for one in state.producers] == [NOW + 8 * MINUTE, NOW + timedelta(hours=15)]


def test_a_cron_that_fires_during_its_own_run_runs_once_more() -> None:
    """L6: also where nobody called `tick` in between."""
    state = State((Producer("often", cron="*/5 * * * *", next_run_at=NOW),))
    during = scheduling.start(state, "often", NOW)
    for at_the_end in (scheduling.tick(during, NOW + 17 * MINUTE), during):
        ended = scheduling.commit(at_the_end, "often", NOW + 17 * MINUTE)
        assert scheduling.decide(ended, NOW + 17 * MINUTE) == Start("often")
        again = scheduling.commit(scheduling.start(ended, "often", NOW + 17 * MINUTE), "often", NOW + 18 * MINUTE)
        assert scheduling.decide(again, NOW + 18 * MINUTE) == Wait(NOW + 20 * MINUTE)


def test_a_producer_without_a_cadence_runs_when_somebody_asks() -> None:
    state = State((Producer("import"),))
    assert scheduling.decide(state, NOW) == Wait()
    state = scheduling.run_now(state, NOW)
    assert scheduling.decide(state, NOW) == Start("import")
    state = scheduling.commit(scheduling.start(state, "import", NOW), "import", NOW)
    assert scheduling.decide(state, NOW) == Wait()


def test_a_deploy_during_a_run_is_carried_out_after_it() -> None:
    """L2: every producer is due and every consumer dirty, the one that is running too."""
    state = scheduling.deploy(scheduling.start(State(consumers=(SHEET,)), "sheet", NOW), NOW)
    assert scheduling.decide(scheduling.commit(state, "sheet", NOW), NOW) == Start("sheet")
    state = scheduling.deploy(scheduling.start(State((POLL,)), "poll", NOW), NOW + MINUTE)
    state = scheduling.commit(state, "poll", NOW + 2 * MINUTE)
    assert scheduling.decide(state, NOW + 2 * MINUTE) == Start("poll")


def test_a_deploy_forgets_a_failed_run_whose_handler_is_gone() -> None:
    state = scheduling.fail(scheduling.start(State((POLL,), (SHEET,)), "sheet", NOW), "sheet", NOW, run="r1")
    new = State((POLL,), (), blocked=state.blocked)
    assert scheduling.decide(scheduling.deploy(new, NOW), NOW) == Start("poll")


def test_an_end_of_what_was_never_said_to_have_begun_counts_as_a_whole_run() -> None:
    state = scheduling.commit(State(consumers=(Consumer("sheet", ("inbox",), dirty=True),)), "sheet", NOW)
    assert scheduling.decide(state, NOW) == Wait()
    state = scheduling.fail(State((POLL,)), "poll", NOW, run="r1", status="paused:transient")
    assert scheduling.decide(state, NOW) == Wait(NOW + timedelta(seconds=10))
    with pytest.raises(UsageError, match="cannot have run"):
        scheduling.commit(State((POLL,), (SHEET,), blocked=state.blocked), "sheet", NOW)


def test_retry_pause_and_resume_are_idle_where_there_is_nothing_to_do() -> None:
    state = State((POLL,), (SHEET,))
    assert scheduling.retry(state, NOW) == state
    assert scheduling.resume(state) == state
    assert scheduling.pause(scheduling.pause(state)) == scheduling.pause(state)


def test_a_host_sets_the_limits() -> None:
    """L5, L8: host policy."""
    policy = PipelinePolicy(wake_min=1, wake_max=60, retry_first=2, retry_max=5, retries=3, burst=1)
    state = State((POLL,), (Consumer("sheet", ("inbox",), dirty=True),), policy=policy)
    state = scheduling.start(state, "sheet", NOW)
    woken = scheduling.commit(state, "sheet", NOW, reserved=True, wake_at=NOW + timedelta(hours=1))
    assert woken.consumers[0].wake_at == NOW + MINUTE
    assert scheduling.decide(woken, NOW) == Start("poll")
    waits: list[object] = []
    for attempt in (1, 2, 3, 4):
        state = scheduling.fail(state, "sheet", NOW, run="r", status="paused:transient", attempt=attempt)
        waits.append(scheduling.decide(state, NOW))
        state = scheduling.start(scheduling.retry(state, NOW), "sheet", NOW)
    assert waits == [*(Wait(NOW + timedelta(seconds=seconds)) for seconds in (2, 4, 5)), Wait()]


@pytest.mark.parametrize(
    "limits",
    [
        {"wake_min": -1},
        {"wake_min": 60, "wake_max": 30},
        {"wake_min": "30"},
        {"wake_max": float("inf")},
        {"retry_max": 5},
        {"retries": 1.5},
        {"retries": True},
        {"burst": 0},
    ],
)
def test_nonsense_as_a_limit_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match="PipelinePolicy"):
        PipelinePolicy(**limits)


def test_waiting_grows_to_its_limit() -> None:
    """L8: 10 s doubling to 10 min."""
    policy = PipelinePolicy()
    seconds = [policy.backoff(attempt).total_seconds() for attempt in range(1, 9)]
    assert seconds == [10, 20, 40, 80, 160, 320, 600, 600]
    assert policy.backoff(10_000).total_seconds() == 600
