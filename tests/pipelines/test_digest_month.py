"""A month of a daily digest at nine in Madrid, across each clock change, on virtual time (seed 004, "Daily digest")."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from perdure.pipelines import scheduling
from perdure.pipelines.cadence import read_cron
from perdure.pipelines.scheduling import Consumer, Producer, State, Wait

MADRID = ZoneInfo("Europe/Madrid")
NINE = read_cron("0 9 * * *", "Europe/Madrid")
DAYS = 31


class Month:
    """A producer that finds one message every three hours, and a digest that sends what it has at nine."""

    def __init__(self, begin: datetime) -> None:
        self.now = begin
        self.end = begin + timedelta(days=DAYS)
        self.waiting: list[datetime] = []
        self.found = 0
        self.sent: list[tuple[datetime, int]] = []
        self.last_sent = begin
        self.runs = 0
        state = State((Producer("poll", every="3h"),), (Consumer("digest", ("inbox",)),))
        self.state = scheduling.deploy(state, begin)

    def live(self) -> None:
        while self.now < self.end:
            wanted = scheduling.decide(self.state, self.now)
            if isinstance(wanted, Wait):
                assert wanted.until is not None, "the digest has lost its time"
                assert wanted.until > self.now
                self.now = wanted.until
                continue
            self.runs += 1
            self.state = scheduling.start(self.state, wanted.handler, self.now)
            (self.poll if wanted.handler == "poll" else self.digest)()

    def poll(self) -> None:
        self.waiting.append(self.now)
        self.found += 1
        self.state = scheduling.commit(
            scheduling.event(self.state, "inbox", self.now), "poll", self.now, pending={"inbox": self.waiting[0]}
        )

    def digest(self) -> None:
        """At nine (or as soon after it as it is woken) it takes everything; before that it asks to be woken then."""
        due = NINE.after(self.last_sent)
        reserved = self.now >= due
        if reserved:
            self.sent.append((self.now, len(self.waiting)))
            self.waiting, self.last_sent = [], self.now
        pending = {"inbox": self.waiting[0] if self.waiting else None}
        wake_at = NINE.after(self.now)
        self.state = scheduling.commit(self.state, "digest", self.now, reserved, wake_at.isoformat(), pending)


@pytest.mark.parametrize("begin", [datetime(2026, 3, 15, 12, tzinfo=UTC), datetime(2026, 10, 10, 12, tzinfo=UTC)])
def test_a_daily_digest_is_sent_once_a_day_at_nine_across_a_clock_change(begin: datetime) -> None:
    """L2, L5, L6: also on the day of 25 hours, for which `wake_at` is clamped to 24."""
    month = Month(begin)
    month.live()
    local = [moment.astimezone(MADRID) for moment, _ in month.sent]
    assert [f"{one:%H:%M}" for one in local] == ["09:00"] * DAYS
    assert len({one.date() for one in local}) == DAYS
    assert len({one.utcoffset() for one in local}) == 2
    assert sum(count for _, count in month.sent) + len(month.waiting) == month.found
    # One look per message, two per digest, and one more where it was woken an hour early.
    assert month.runs <= 2 * month.found + 2 * DAYS + 3
