"""Transactional and ask activities under SIGKILL: exactly once, and never repeated without an answer (E5)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

KILLS = 100


def test_a_hundred_kills_book_and_pay_exactly_once(tmp_path: Path) -> None:
    """Rules E5, E8; `python -m tests.crash.effects FOLDER 1000` kills more often."""
    command = [sys.executable, "-m", "tests.crash.effects", str(tmp_path), str(KILLS), "20261119"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]
    report = json.loads(ended.stdout)
    assert report["wrong"] == [], report
    assert report["kills"] == KILLS
    assert report["in_flight"] > KILLS // 5, report
    assert min(report["repeated"], report["asked"], report["runs"]) > 10, report
