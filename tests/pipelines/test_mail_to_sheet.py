"""examples/mail_to_sheet.py: a virtual month with crashes, and each message in the sheet exactly once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "mail_to_sheet.py"


@pytest.mark.parametrize("seed", [1, 2])
def test_a_month_with_crashes_loses_nothing_and_doubles_nothing(seed: int) -> None:
    """I13, L7, L9: half of the crashes fall between the sheet's append and its reply."""
    command = [sys.executable, str(EXAMPLE), "--every", "3h", "--crashes", "20", "--seed", str(seed)]
    memory = {"TMPDIR": "/dev/shm"} if Path("/dev/shm").is_dir() else {}  # flushing a month to a disk takes a while
    environment = {**os.environ, **memory}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done
    assert lines[0] == "30 days, 20 crashes, 10 of them between append and reply"
    assert lines[1].startswith("messages 240, rows ")
    assert lines[2] == "lost 0, doubled 0, in order: yes"
