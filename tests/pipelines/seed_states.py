"""The pipelines that seed 004 is told of: a producer, a consumer, and their states."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from perdure.pipelines.scheduling import Consumer, Producer, State, commit, start

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
POLL = Producer("poll", every="5m", next_run_at=NOW + 5 * MINUTE)
SHEET = Consumer("sheet", topics=("inbox",))


def idle(*handlers: Producer | Consumer) -> State:
    """A pipeline in which nothing is due."""
    producers = tuple(one for one in handlers if isinstance(one, Producer))
    return State(producers, tuple(one for one in handlers if isinstance(one, Consumer)))


def ran(state: State, handler: str, now: datetime = NOW, reserved: bool = False, wake_at: object = None) -> State:
    """The state after a run that began and was committed at this moment."""
    return commit(start(state, handler, now), handler, now, reserved, wake_at)
