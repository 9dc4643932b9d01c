"""The programs in examples/, run as a reader would: by themselves, in a folder of their own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_pages import ROOT

EXAMPLES = ROOT / "examples"
SECONDS = 120

# What each program prints, as a pattern for each line.
PRINTED = {
    "checkout.py": [
        "scheduled: print_label, charge",
        "waits for: signal `approve`",
        "approved; then: cancel_timer, start_timer",
        "result: r-7 L-1",
        "turns replayed: 4",
    ],
    "crawl.py": [
        r"(seen: \d+ of 100\n)*seen: 100 of 100",  # who watches may miss a value, but never the last
        f"bytes: {sum(range(100, 200)) - 113}",
        "children: 100 failed: 1",
    ],
    "trip.py": [
        r"booked flight \(attempt 1\)",
        r"booked hotel \(attempt 2\)",
        r"went: \['flight', 'hotel'\]",
        r"booked flight \(attempt 1\)",
        r"booked hotel \(attempt 2\)",
        "released hotel",
        "released flight",
        "did not go: SoldOut: no car is left",
        "attempts: book 1 completed, book 1 failed, book 2 completed, book 1 failed(, release 1 completed){2}",
    ],
    "webhook.py": [
        "first call:  200 OK",
        "the same:    200 OK",
        "another:     409 Conflict",
        "no such one: 404 Not Found",
        "result:      o-1: 990 of 990 cents from 4711, parcel-o-1",
    ],
}
TESTED_ELSEWHERE = {"mail_to_sheet.py", "pipeline_patterns.py"}


def test_every_example_is_run() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} - TESTED_ELSEWHERE == set(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_should_and_once_more_when_it_is_run_again(name: str, tmp_path: Path) -> None:
    """The second time it finds its runs in the store, ended; what it asks of them is what it was."""
    command = [sys.executable, "-I", str(EXAMPLES / name)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch("\n".join(PRINTED[name]) + "\n", done.stdout), done.stdout
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout.splitlines()[-1] == done.stdout.splitlines()[-1]
