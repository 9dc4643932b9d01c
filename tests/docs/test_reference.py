"""Every public name, error and transcript kind is documented."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import perdure
from perdure import errors, testing
from perdure.model.commands import KINDS

ROOT = Path(__file__).parents[2]
PAGES = {page.name: page.read_text("utf-8") for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]}
EVERYTHING = "\n".join(PAGES.values())


def missing(names: set[str], text: str) -> set[str]:
    return {name for name in names if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)}


def test_every_public_name_is_documented() -> None:
    assert missing({*perdure.__all__, *testing.__all__}, EVERYTHING) == set()


def test_every_error_has_an_entry() -> None:
    classes = {name: value for name, value in vars(errors).items() if inspect.isclass(value)}
    names = {name for name, value in classes.items() if value.__module__ == "perdure.errors"}
    rows = {match[1] for match in re.finditer(r"^\| `(\w+)` \|", PAGES["errors.md"], re.MULTILINE)}
    assert names - {"Failure"} == rows


def test_every_kind_of_command_is_documented() -> None:
    assert missing(set(KINDS), PAGES["testing.md"]) == set()


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = (folder / "README.md").read_text("utf-8")
    assert [page.name for page in sorted(folder.glob("0*.md")) if page.name not in listed] == []
