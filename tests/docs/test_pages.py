"""The README and the pages under docs: their Python is run, top to bottom, as a reader would type it."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def code_of(page: Path) -> str:
    """The Python of a page, each line where it stands on the page, so that errors name the page's lines."""
    text = page.read_text("utf-8")
    lines = [""] * (text.count("\n") + 1)
    for block in BLOCK.finditer(text):
        first = text.count("\n", 0, block.start(1))
        for number, line in enumerate(block[1].splitlines()):
            lines[first + number] = line
    return "\n".join(lines)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_on_a_page_runs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType(f"page_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(code_of(page), str(page), "exec"), module.__dict__)


def test_the_pages_that_should_hold_code_do() -> None:
    assert {page.name for page in PAGES if code_of(page).strip()} >= {"README.md", "testing.md", "workflows.md"}
