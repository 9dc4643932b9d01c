"""Every public name, error, transcript kind, fixture and command is documented, and shown as code."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

import perdure
from perdure import Client, Engine, Handle, Worker, errors, policies, testing
from perdure.app import Surroundings, WorkerOptions
from perdure.cli import COMMANDS
from perdure.define.activity import ActivityOptions
from perdure.define.starting import ChildOptions
from perdure.define.workflow import WorkflowOptions
from perdure.engine.client import StartOptions
from perdure.engine.descriptions import Description
from perdure.engine.settings import Settings
from perdure.model.commands import KINDS
from perdure.testing import plugin

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
PAGES = {"the README": README} | {page.name: page.read_text("utf-8") for page in (ROOT / "docs").glob("*.md")}
CODE = re.compile(r"^```.*?^```|``.+?``|`[^`]+`", re.MULTILINE | re.DOTALL)


def missing(names: set[str], *pages: str) -> set[str]:
    """The names that these pages do not show as code: to use the word in a sentence is not to document it."""
    code = "\n".join(found[0] for page in pages for found in CODE.finditer(page))
    return {name for name in names if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", code)}


def test_a_name_counts_only_where_it_is_shown_as_code() -> None:
    page = "Take the first.\n`second()` and\n```python\nthird = 1\n```\nand the log."
    assert missing({"first", "second", "third", "log"}, page) == {"first", "log"}


def test_every_public_name_is_documented() -> None:
    assert missing(set(perdure.__all__), PAGES["reference.md"], PAGES["errors.md"]) == set()


@pytest.mark.parametrize("what", [Client, Engine, Worker, Handle], ids=lambda what: what.__name__)
def test_every_method_is_documented(what: type) -> None:
    methods = {name for name in dir(what) if not name.startswith("_")}
    assert missing(methods, PAGES["reference.md"]) == set()


@pytest.mark.parametrize(
    "options",
    [WorkerOptions, Surroundings, StartOptions, ChildOptions, ActivityOptions, WorkflowOptions, Settings, Description],
    ids=lambda options: options.__name__,
)
def test_every_setting_option_and_field_is_documented(options: type) -> None:
    names = set(inspect.get_annotations(options)) | set(getattr(options, "__required_keys__", ()))
    names |= set(getattr(options, "__optional_keys__", ())) | set(getattr(options, "__struct_fields__", ()))
    assert len(names) >= 4
    assert missing(names, PAGES["reference.md"]) == set()


def test_every_public_name_for_tests_is_documented() -> None:
    assert missing(set(testing.__all__), PAGES["testing.md"]) == set()


def test_every_public_name_of_policies_is_documented() -> None:
    assert missing(set(policies.__all__), PAGES["policies.md"]) == set()


def test_every_fixture_is_documented() -> None:
    fixtures = {name for name, value in vars(plugin).items() if type(value).__name__ == "FixtureFunctionDefinition"}
    assert fixtures == {"engine", "harness", "hash_seeds", "replay_history", "virtual_clock"}
    assert missing(fixtures, PAGES["testing.md"]) == set()


def test_every_command_that_a_page_names_is_there() -> None:
    pages = [*PAGES.values(), *((ROOT / name).read_text("utf-8") for name in ("CONTRIBUTING.md", "ARCHITECTURE.md"))]
    named = {name for page in pages for code in CODE.findall(page) for name in re.findall(r"\bmake ([a-z-]+)", code)}
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert {"test", "check", "test-pythons", "mutants", "bench"} <= named <= targets


def test_every_command_of_perdure_that_a_page_shows_is_there() -> None:
    pages = [*PAGES.values(), (ROOT / "CHANGELOG.md").read_text("utf-8")]
    shown = [code for page in pages for code in CODE.findall(page)]
    named = {name for code in shown for name in re.findall(r"(?:^\$ |`|\()perdure ([a-z]+)\b", code, re.MULTILINE)}
    assert len(named) > 10
    assert named - set(COMMANDS) == set()


def test_every_error_has_an_entry() -> None:
    classes = {name: value for name, value in vars(errors).items() if inspect.isclass(value)}
    names = {name for name, value in classes.items() if value.__module__ == "perdure.errors"}
    public = {name: getattr(perdure, name) for name in perdure.__all__}
    names |= {name for name, value in public.items() if inspect.isclass(value) and issubclass(value, Exception)}
    rows = {match[1] for match in re.finditer(r"^\| `(\w+)` \|", PAGES["errors.md"], re.MULTILINE)}
    assert names - {"Failure"} == rows


def test_every_kind_of_command_is_documented() -> None:
    assert missing(set(KINDS), PAGES["testing.md"]) == set()


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = (folder / "README.md").read_text("utf-8")
    assert [page.name for page in sorted(folder.glob("0*.md")) if page.name not in listed] == []


def test_every_part_that_the_architecture_names_is_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    rooms = "|".join(path.name for path in (ROOT / "src/perdure").iterdir() if (path / "__init__.py").exists())
    named = set(re.findall(rf"(?<![\w.])(?:perdure\.)?((?:{rooms})\.[a-z_]+)(?![\w(])", text))
    assert len(named) > 25
    assert {name for name in named if not is_there(name)} == set()


def is_there(name: str) -> bool:
    """Whether a module of the package has that name, or a name of it."""
    place = ROOT / "src/perdure" / name.replace(".", "/")
    if place.is_dir() or place.with_suffix(".py").exists():
        return True
    room, _, part = name.rpartition(".")
    return hasattr(importlib.import_module(f"perdure.{room}"), part)
