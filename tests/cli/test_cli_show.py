"""`perdure show`: how a run stands, in a sentence, and what a person needs to know beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import HERE
from tests.cli.stage import Process, Shell, in_a_terminal, when

Served = tuple[Shell, Process]


def test_a_run_that_waits_for_a_signal_says_so_with_its_line_and_that_nothing_is_wrong(served: Served) -> None:
    shell, _ = served
    shell("start", "checkout", '{"id": "s", "cents": 1}', "--id", "sig")
    out = when(shell, "sig", r"waiting .* for signal `approve` at .*shop\.py:\d+; nothing is wrong$")
    assert 'receipt  "receipt s"' in out
    assert re.search(r'published +\{"stage":"charged"\}, version 1', out)
    assert "○  waits for signal `approve`" in out
    line = int(re.search(r"shop\.py:(\d+); nothing", out)[1])  # type: ignore[index]
    assert 'receive("approve"' in (HERE / "shop.py").read_text().splitlines()[line - 1]


def test_an_activity_that_is_tried_again_says_what_failed_and_when_the_next_try_is_due(served: Served) -> None:
    shell, _ = served
    shell("start", "checkout", '{"id": "jam", "cents": 1}', "--id", "jam")
    out = when(
        shell, "jam", r"activity `print_label` failed \(1 attempt\) and is tried again in \d+ min: OSError: paper"
    )
    assert re.search(r"print_label\s+1 .* w-1\s+failed: OSError: paper jam", out)
    assert re.search(r"attempt 2 is due in \d+ min, at .*\(key [0-9a-f-]{36}\)", out)


def test_an_activity_that_nobody_serves_is_what_is_wrong(served: Served) -> None:
    shell, _ = served
    shell("start", "inspected", '"i"', "--id", "insp")
    when(shell, "insp", r"activity `inspect` waits .*: nobody serves queue `nobody`$")


def test_a_blocked_run_shows_the_reason_and_the_next_try(served: Served) -> None:
    shell, _ = served
    shell("start", "checkout", '{"id": "x"}', "--id", "block")
    out = when(shell, "block", r"blocked for .* \(undecodable\), tried \w+.*, again .*; nothing is lost")
    assert "why it is blocked" in out
    assert "object missing required field cents" in out.lower()


def test_a_failed_run_shows_why_with_the_traceback_of_the_cause(served: Served) -> None:
    shell, _ = served
    shell("start", "checkout", '{"id": "o", "cents": -1}', "--id", "sad", "--wait", code=1)
    out = shell("show", "sad").out
    assert re.search(r"● failed .* ago, after .* turns: ActivityFailed: .*negative amount", out)
    assert 'raise ValueError("negative amount")' in out
    assert re.search(r"charge\s+2 .* failed: ValueError: negative amount", out)


def test_a_run_that_no_worker_has_taken_says_who_could(shell: Shell) -> None:
    said = shell("start", "checkout", '{"id": "a", "cents": 1}', "--id", "a").out
    assert "no worker serves queue `default`" in said
    assert "nobody serves queue `default`: `perdure worker MODULE` does" in shell("show", "a").out
    shell("start", "naps", "1", "--id", "late", "--delay", "2h")
    assert "starts in 119 min" in shell("show", "late").out


def test_an_attempt_is_told_in_words_also_in_the_timeline(shell: Shell) -> None:
    from datetime import UTC, datetime

    from perdure.cli.timeline import told_of_attempt
    from perdure.engine.descriptions import AttemptSeen

    at = datetime(2026, 1, 1, tzinfo=UTC)
    attempt = AttemptSeen(
        activity="charge",
        seq=0,
        key="k",
        attempt=2,
        worker="w",
        started=at,
        ended=at,
        outcome="worker_died",
        failure=None,
    )
    assert "attempt 2 of charge: worker died" in told_of_attempt(attempt)


def test_a_message_that_waits_for_a_worker_is_said(shell: Shell) -> None:
    shell("start", "naps", "1", "--id", "a")
    shell("signal", "a", "hurry")
    assert re.search(r"messages\s+1 accepted, and not taken yet", shell("show", "a").out)


@pytest.mark.parametrize("columns", [80, 120])
def test_on_a_terminal_no_line_is_longer_than_the_terminal(served: Served, columns: int, tmp_path: Path) -> None:
    shell, _ = served
    id = f"wide-{columns}"
    shell("start", "checkout", f'{{"id": "{"long " * 100}", "cents": 1}}', "--id", id)
    when(shell, id, "waiting")
    for command in (["show", id], ["history", id], ["doctor"], ["--help"], ["show", "--help"]):
        code, screen = in_a_terminal(command, columns, {"PERDURE_STORE": shell.store})
        assert code == 0, screen
        assert max(map(len, screen.splitlines())) <= columns, screen


def test_what_is_stored_cannot_steer_the_terminal(served: Served) -> None:
    shell, _ = served
    shell("start", "checkout", '{"id": "\\u001b[31mred", "cents": 1}', "--id", "esc")
    when(shell, "esc", "waiting")
    assert "\x1b[31m" not in shell("show", "esc").out + shell("history", "esc").out
