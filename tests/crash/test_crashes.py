"""Real crashes: a process with at least 8 runs in flight is killed at random instants, 50 times (E8)."""

from __future__ import annotations

from pathlib import Path

from tests.crash.driver import campaign

KILLS = 50


def test_fifty_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    """Rules E1, E2, E3, E8; I1 to I4, I6 to I8, I14. `make crash N=1000` kills more often."""
    report = campaign(KILLS, 20_261_119, tmp_path)
    assert report.wrong == [], report
    assert report.kills == KILLS
    assert report.ended > 100, report
    assert report.instants["in an activity"] > 0, report
    assert report.instants["between an activity and its commit"] > 0, report
    assert report.repeated > 0, report
