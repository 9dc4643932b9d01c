"""docs/command-line.md has every command and every option, and no other ones."""

from __future__ import annotations

import re
import subprocess
import sys

import click
import pytest

from perdure.cli import COMMANDS, program
from tests.tree import TREE

PAGE = (TREE / "docs" / "command-line.md").read_text("utf-8")
SHARED = PAGE[PAGE.index("## What all commands share") : PAGE.index("## See")]


def section_of(name: str) -> str:
    """What the page says of a command."""
    for section in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]:
        if f"`perdure {name}" in section.splitlines()[0]:
            return section
    raise AssertionError(f"perdure {name} has no section")


def command_of(name: str) -> click.Command:
    command = program.get_command(click.Context(program), name)
    assert command is not None
    return command


def options_of(command: click.Command) -> list[click.Parameter]:
    """Of a command, and of those below it."""
    below = command.commands.values() if isinstance(command, click.Group) else ()
    return [*command.params, *(option for one in below for option in one.params)]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_on_the_page_with_all_its_options(name: str) -> None:
    section = section_of(name)
    for option in options_of(command_of(name)):
        if isinstance(option, click.Option) and not option.hidden:
            assert f"`{option.opts[-1]}" in section + SHARED, option.opts
        elif isinstance(option, click.Argument):
            assert option.make_metavar(click.Context(command_of(name))).split("]")[0] in section, option.name


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_names_no_option_that_a_command_does_not_have(name: str) -> None:
    known = {text for option in options_of(command_of(name)) for text in option.opts}
    said = set(re.findall(r"`(--[a-z-]+)", section_of(name)))
    if name in ("cancel", "terminate", "dev"):
        said -= {"--store"}
    assert said <= known


def test_every_command_of_the_page_exists() -> None:
    assert set(re.findall(r"^\$ perdure ([a-z]+)", PAGE, re.MULTILINE)) <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_json_and_a_first_line_of_help(name: str) -> None:
    command = command_of(name)
    assert "--json" in {text for option in command.params for text in option.opts}
    assert command.get_short_help_str()


def test_importing_the_command_line_loads_neither_rich_nor_the_engine_nor_a_store() -> None:
    """What is imported beyond `import perdure` is click and the group."""
    code = "import sys, perdure.cli; print(*[name for name in sys.modules if name.split('.')[0] in {'rich', 'apsw'}"
    code += " or name.startswith(('perdure.engine', 'perdure.stores', 'perdure.app'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
