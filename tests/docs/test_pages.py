"""The README and the pages under docs: their Python is run, top to bottom, as a reader would type it.

A block with a title is a file of its own (tests/docs/test_programs.py). Tests on a page that ask for an engine are run
on virtual time, as the pytest plugin does.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from perdure.testing import VirtualClock, run_virtual
from perdure.testing.engines import virtual_engine

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
FIXTURES = {"engine", "virtual_clock"}


def code_of(page: Path) -> str:
    """The Python of a page, each line where it stands on the page, so that errors name the page's lines."""
    text = page.read_text("utf-8")
    lines = [""] * (text.count("\n") + 1)
    for block in BLOCK.finditer(text):
        first = text.count("\n", 0, block.start(1))
        for number, line in enumerate(block[1].splitlines()):
            lines[first + number] = line
    return "\n".join(lines)


def async_tests(page: Path) -> list[tuple[Path, str, list[str]]]:
    """The tests on a page that need an engine or virtual time, with the fixtures that each asks for."""
    found: list[tuple[Path, str, list[str]]] = []
    for node in ast.parse(code_of(page)).body:
        if isinstance(node, ast.AsyncFunctionDef) and node.name.startswith("test_"):
            asked = [argument.arg for argument in node.args.args]
            assert set(asked) <= FIXTURES, f"{page.name}: {node.name} asks for {asked}"
            found.append((page, node.name, asked))
    return found


TESTS = [found for page in PAGES for found in async_tests(page)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of the reader's own: the pages make stores there."""
    monkeypatch.chdir(tmp_path)


def run_page(page: Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType(f"page_{page.stem.replace('-', '_')}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(code_of(page), str(page), "exec"), module.__dict__)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_on_a_page_runs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_page(page, monkeypatch)


@pytest.mark.parametrize(("page", "name", "asked"), TESTS, ids=lambda value: getattr(value, "stem", str(value)))
def test_a_test_on_a_page_passes(page: Path, name: str, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = VirtualClock()
    given: dict[str, Any] = {"engine": functools.partial(virtual_engine, clock=clock), "virtual_clock": clock}
    test = vars(run_page(page, monkeypatch))[name]
    run_virtual(test(**{fixture: given[fixture] for fixture in asked}), clock=clock)


def test_the_pages_that_should_hold_code_do() -> None:
    assert {page.name for page in PAGES if code_of(page).strip()} >= {"messages.md", "testing.md", "workflows.md"}
    assert {page.name for page, *_ in TESTS} >= {"testing.md", "messages.md", "recipes.md"}
