"""The test file that docs/stores.md shows, run by pytest as a reader would run it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from perdure.testing.conformance import CASES

PAGE = (Path(__file__).parents[2] / "docs/stores.md").read_text("utf-8")
SHOWN = next(block.split("```")[0] for block in PAGE.split("```python\n")[1:] if "def test_my_store" in block)


def run_shown(folder: Path, *more: str) -> str:
    (folder / "test_my_store.py").write_text(SHOWN)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), *more]
    done = subprocess.run([*command, "test_my_store.py"], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_the_shown_test_file_runs_every_case(tmp_path: Path) -> None:
    assert f"{len(CASES)} passed" in run_shown(tmp_path)


def test_each_case_can_be_asked_for_by_its_name(tmp_path: Path) -> None:
    assert "1 passed" in run_shown(tmp_path, "-k", "a_run_has_one_owner")


def test_the_page_says_about_how_many_cases_there_are() -> None:
    assert "some four hundred" in PAGE
    assert 350 <= len(CASES) <= 450
