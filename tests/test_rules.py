"""The rules of the contract that this project carries out: each is named by a test, and what is left says by what.

A rule is named where its number stands in the name or the docstring of a test: `test_k17_…`, "… (M6)".
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.tree import TREE, modules, name_of

RULES = [
    *(f"K{number}" for number in range(1, 21)),
    *(f"M{number}" for number in range(1, 12)),
    *(f"P{number}" for number in range(1, 7)),
]
NUMBER = re.compile(r"(?<![a-z0-9])([kmp][1-9][0-9]?)(?![a-z0-9])", re.IGNORECASE)


@dataclass(frozen=True)
class Left:
    """A part of a rule that is not there yet, and the file that will bring it."""

    rule: str
    part: str
    waits_for: str


LEFT = (
    Left("K16", "the third net: `perdure check` finds statically what the guards refuse", "src/perdure/cli/check.py"),
    Left("M9", "`perdure check` replays every open run against the code in the tree", "src/perdure/cli/check.py"),
)


def named_rules(source: str) -> Iterator[str]:
    """The rules that the tests in a module name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            words = f"{node.name.replace('_', ' ')} {ast.get_docstring(node) or ''}"
            yield from (found.upper() for found in NUMBER.findall(words))


def test_every_rule_of_the_kernel_of_messages_and_of_policies_is_named_by_a_test() -> None:
    tests = [path for path in modules() if name_of(path).startswith("tests/")]
    named = {rule for path in tests for rule in named_rules(path.read_text("utf-8"))}
    assert [rule for rule in RULES if rule not in named] == []


@pytest.mark.parametrize("left", LEFT, ids=lambda left: left.rule)
def test_a_part_that_is_left_to_later_is_not_there_yet(left: Left) -> None:
    assert left.rule in RULES
    assert not (TREE / left.waits_for).exists(), (
        f"{left.waits_for} is there. Let a test name {left.rule} for this part ({left.part}), and take it out of LEFT"
    )


def test_a_rule_is_named_by_the_name_or_the_docstring_of_a_test_and_by_nothing_else() -> None:
    source = '''
def test_k17_something(): ...
async def test_more():
    """A cancelled run keeps its value (M6, M11); K9: P1 to P3."""
    "K1"
def helps():
    """K2"""
def test_mk3_and_k200(): ...
'''
    assert list(named_rules(source)) == ["K17", "M6", "M11", "K9", "P1", "P3"]
