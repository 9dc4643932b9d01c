"""When a producer runs next: intervals, cron, clock changes, and what is refused (L2, E7)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.errors import InvalidValue
from perdure.pipelines.cadence import read_cadence, read_cron, read_every

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
MADRID = ZoneInfo("Europe/Madrid")


def local_times(cron: str, timezone: str, after: datetime, count: int) -> list[str]:
    """The next times as its zone shows them."""
    cadence = read_cron(cron, timezone)
    shown: list[str] = []
    for _ in range(count):
        after = cadence.after(after)
        shown.append(after.astimezone(ZoneInfo(timezone)).strftime("%d %H:%M%z"))
    return shown


@pytest.mark.parametrize(
    ("every", "seconds"),
    [("30s", 30), ("5m", 300), ("2h", 7200), ("1d", 86_400), ("1h30m", 5400), (45, 45), (timedelta(minutes=1), 60)],
)
def test_an_interval_counts_from_the_moment_that_is_given_the_end_of_the_last_run(
    every: str | int | timedelta, seconds: int
) -> None:
    """L2; seed 004, "Schedule Types"."""
    assert read_every(every).after(NOON) == NOON + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "every", ["", "5", "m", "5x", "1w", "0m", "-5m", "250ms", "5 m", "five", 0, -1, True, [], 1e9**9]
)
def test_a_bad_interval_is_refused_and_the_message_says_what_to_write(every: object) -> None:
    """L2: never a silent fallback."""
    with pytest.raises(InvalidValue, match=r"^every"):
        read_every(every)


@pytest.mark.parametrize(
    "cron",
    [
        "",
        "x",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "*/0 * * * *",
        "5-1 * * * *",
        "* * * * 1#2/3",
        "0 0 31 2 *",
        "0 0 30 2 *",
        "* * */20 * 1L",
        "@daily",
        "1,,2 * * * *",
    ],
)
def test_a_bad_or_impossible_cron_expression_is_refused(cron: str) -> None:
    """L2: upstream fell back to one minute in silence."""
    with pytest.raises(InvalidValue, match="cron"):
        read_cron(cron)


@pytest.mark.parametrize("timezone", ["", "Madrid", "Europe/Nowhere", "../etc/passwd", "/etc/passwd"])
def test_an_unknown_time_zone_is_refused(timezone: str) -> None:
    with pytest.raises(InvalidValue, match="timezone"):
        read_cron("0 9 * * *", timezone)


def test_a_producer_has_one_cadence() -> None:
    with pytest.raises(InvalidValue, match="needs"):
        read_cadence(None, None)
    with pytest.raises(InvalidValue, match="not by both"):
        read_cadence("5m", "0 9 * * *")
    with pytest.raises(InvalidValue, match="cron is text, not int"):
        read_cron(5)
    with pytest.raises(InvalidValue, match="timezone is a name"):
        read_cron("0 9 * * *", MADRID)


def test_cron_gives_the_first_time_after_a_moment_and_never_that_moment() -> None:
    nine = datetime(2026, 6, 1, 9, tzinfo=UTC)
    cadence = read_cron("0 9 * * *")
    assert cadence.after(nine) == nine + timedelta(days=1)
    assert cadence.after(nine - timedelta(microseconds=1)) == nine
    assert cadence.after(nine + timedelta(microseconds=1)) == nine + timedelta(days=1)
    assert read_cron("*/5 * * * *").after(NOON) == NOON + timedelta(minutes=5)
    assert read_cron("0 9 * * *", "Europe/Madrid").after(nine) == datetime(2026, 6, 2, 7, tzinfo=UTC)


def test_a_fixed_hour_that_the_clock_skips_comes_at_the_first_instant_after_the_gap() -> None:
    """E7, in Europe where 02:00 becomes 03:00 on 29 March 2026."""
    start = datetime(2026, 3, 28, 0, tzinfo=UTC)
    assert local_times("30 2 * * *", "Europe/Madrid", start, 3) == ["28 02:30+0100", "29 03:00+0200", "30 02:30+0200"]
    assert local_times("0,30 2 * * *", "Europe/Madrid", start, 4)[2:] == ["29 03:00+0200", "30 02:00+0200"]
    assert local_times("*/20 2 * * *", "Europe/Madrid", start, 5)[3:] == ["29 03:00+0200", "30 02:00+0200"]


def test_a_fixed_hour_that_comes_twice_counts_once_the_first_time() -> None:
    """E7, in Europe where 03:00 becomes 02:00 on 25 October 2026."""
    start = datetime(2026, 10, 24, 0, tzinfo=UTC)
    assert local_times("30 2 * * *", "Europe/Madrid", start, 3) == ["24 02:30+0200", "25 02:30+0200", "26 02:30+0100"]
    between = datetime(2026, 10, 25, 1, 15, tzinfo=UTC)  # 02:15 for the second time
    assert local_times("30 2 * * *", "Europe/Madrid", between, 1) == ["26 02:30+0100"]


def test_a_day_that_a_zone_skips_has_its_run_at_the_first_instant_of_the_next() -> None:
    """Samoa had no 30 December 2011."""
    start = datetime(2011, 12, 29, 9, tzinfo=UTC)  # 23:00 on the 28th
    shown = local_times("0 9 * * *", "Pacific/Apia", start, 3)
    assert shown == ["29 09:00-1000", "31 00:00+1400", "31 09:00+1400"]


def test_every_hour_goes_on_in_real_time_through_a_clock_change() -> None:
    back = local_times("30 * * * *", "Europe/Madrid", datetime(2026, 10, 24, 23, 45, tzinfo=UTC), 3)
    assert back == ["25 02:30+0200", "25 02:30+0100", "25 03:30+0100"]
    forth = local_times("30 * * * *", "Europe/Madrid", datetime(2026, 3, 29, 0, 45, tzinfo=UTC), 2)
    assert forth == ["29 03:30+0200", "29 04:30+0200"]
    half_an_hour = local_times("*/30 * * * *", "Australia/Lord_Howe", datetime(2026, 4, 4, 14, 15, tzinfo=UTC), 4)
    assert half_an_hour == ["05 01:30+1100", "05 01:30+1030", "05 02:00+1030", "05 02:30+1030"]


zones = st.sampled_from(
    ["UTC", "Europe/Madrid", "America/New_York", "Australia/Lord_Howe", "America/Havana", "Africa/Casablanca"]
)
moments = st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC))


@settings(max_examples=150, deadline=None)
@given(zones, moments, st.integers(0, 23), st.integers(0, 59))
def test_a_fixed_hour_comes_exactly_once_per_local_day(zone: str, moment: datetime, hour: int, minute: int) -> None:
    """L2, E7."""
    cadence = read_cron(f"{minute} {hour} * * *", zone)
    days = [moment.astimezone(ZoneInfo(zone)).date()]
    for _ in range(10):
        moment = cadence.after(moment)
        days.append(moment.astimezone(ZoneInfo(zone)).date())
    assert days[0] <= days[1] <= days[0] + timedelta(days=1)
    assert [later - earlier for earlier, later in pairwise(days[1:])] == [timedelta(days=1)] * 9


@settings(max_examples=150, deadline=None)
@given(zones, moments, st.sampled_from(["*/15 * * * *", "7 * * * *", "*/15 3 * * *", "0 0 * * MON", "30 2 29 3 *"]))
def test_nothing_lies_between_a_moment_and_the_next_time(zone: str, moment: datetime, cron: str) -> None:
    cadence = read_cron(cron, zone)
    found = cadence.after(moment)
    assert found > moment
    assert cadence.after(moment + (found - moment) / 2) == found
    assert cadence.after(found - timedelta(microseconds=1)) == found
