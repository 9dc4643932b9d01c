"""`perdure demo`: a worker is killed in the middle, and the audit sees nothing lost and nothing doubled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from perdure.cli.ledger import STEPS, Line, audit_of, interrupted, read
from tests.cli.stage import Shell, in_a_terminal

KILLED = 7


def story() -> list[Line]:
    """Two orders; the second one's charge is interrupted by the kill of 7, and repeated by 8."""
    lines: list[Line] = []
    for order in ("a", "b"):
        for step in STEPS:
            pid = KILLED if (order, step) in {("a", "accept"), ("b", "accept")} else 8
            lines += [Line(what, step, order, f"{order}-{step}", pid) for what in ("begin", "done")]
    return [*lines, Line("begin", "charge", "b", "b-charge", KILLED)]


def test_the_demo_plays_its_story_and_its_audit_passes(shell: Shell) -> None:
    """E3, E4: the runs of a worker that was killed go on, and what was interrupted is repeated with the same key."""
    audit = shell("demo", "--orders", "60", "--json").document
    assert audit["passed"] is True
    assert (audit["started"], audit["accepted"], audit["finished"], audit["lost"], audit["doubled"]) == (
        60,
        60,
        60,
        0,
        0,
    )
    assert 0 < audit["interrupted"] <= audit["repeated"]
    assert audit["repeated_with_another_key"] == 0


def test_on_a_terminal_the_demo_shows_its_bar_and_the_audit(tmp_path: Path) -> None:
    code, screen = in_a_terminal(["demo", "--orders", "30", "--keep"], 80, {"TMPDIR": str(tmp_path)})
    assert code == 0, screen
    for part in ("30 orders are accepted", "killed with kill -9", "takes over", "30/30", "each with the same key"):
        assert part in " ".join(screen.split())
    (folder,) = tmp_path.glob("perdure-demo-*")
    assert {line.order for line in read(folder / "activities.log")} == {f"order-{n:03}" for n in range(1, 31)}
    assert (folder / "demo.db").stat().st_size


def test_an_audit_counts_what_the_log_says() -> None:
    audit = audit_of(["a", "b"], story(), KILLED)
    assert (audit.accepted, audit.finished, audit.lost, audit.doubled) == (2, 2, 0, 0)
    assert (audit.interrupted, audit.repeated, audit.faults) == (1, 1, [])


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ([line for line in story() if (line.activity, line.order) != ("ship", "a")], "1 lost"),
        ([line for line in story() if line.order != "a"], "1 lost"),
        ([*story(), Line("begin", "ship", "a", "new", 8), Line("done", "ship", "a", "new", 8)], "1 doubled"),
        ([*story(), Line("begin", "ship", "a", "new", 8)], "1 activities repeated with another key"),
        ([line for line in story() if line.pid != KILLED or line.what == "done"], "interrupted no activity"),
        ([*story(), *[replace(line, order="z") for line in story()[:2]]], "1 orders that nobody started"),
        ([line for line in story() if (line.activity, line.order, line.pid) != ("charge", "b", 8)], "only 0 of 1"),
    ],
)
def test_an_audit_finds_every_fault(lines: list[Line], fault: str) -> None:
    assert fault in "; ".join(audit_of(["a", "b"], lines, KILLED).faults)


def test_what_a_process_has_begun_and_not_done_is_what_its_kill_interrupted() -> None:
    assert interrupted(story(), KILLED) == {("charge", "b")}


def test_a_line_that_a_kill_cut_off_does_not_count(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("begin charge a k 7\ndone charge a k")
    assert read(log) == [Line("begin", "charge", "a", "k", 7)]
