"""What docs/testing.md shows of pytest and of transcripts, done as a reader would."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_pages import BLOCK, ROOT

PAGE = (ROOT / "docs/testing.md").read_text("utf-8")
BLOCKS = [block[1] for block in BLOCK.finditer(PAGE)]
SHOWN = next(block for block in BLOCKS if "def test_payment(" in block)


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The page's first part: a workflow, and a harness that has run it to its end."""
    module = types.ModuleType("page_testing_part")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in BLOCKS[:2]:
        exec(block, module.__dict__)
    return module


def run_tests(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run a test file of somebody's project: nothing but the installed package brings the fixtures."""
    (folder / "test_pay.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), "test_pay.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_tests_on_the_page_pass_where_they_stand(page: Any, tmp_path: Path) -> None:
    kept = tmp_path / "tests/histories/pay.json"
    kept.parent.mkdir(parents=True)
    kept.write_text(page.h.transcript.to_json())
    done = run_tests(tmp_path, BLOCKS[0] + SHOWN)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_k11_the_fixture_replays_every_harness_when_the_test_ends(tmp_path: Path) -> None:
    """K11: code that does not do the same twice fails its test."""
    text = BLOCKS[0] + (
        "import itertools\n"
        "count = itertools.count()\n"
        "@workflow\n"
        "async def other() -> str:\n"
        "    return await charge('o-1', next(count))\n"
        "def test_other(harness):\n"
        "    harness(other).start()\n"
    )
    done = run_tests(tmp_path, text)
    assert "1 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "NondeterminismError" in done.stdout


def test_the_transcript_on_the_page_is_that_of_the_run_above_it(page: Any) -> None:
    (shown,) = [json.loads(part.split("```")[0]) for part in PAGE.split("```json\n")[1:]]
    real = json.loads(page.h.transcript.to_json())
    assert real | {"run_id": "…", "turns": real["turns"][:2]} == shown
