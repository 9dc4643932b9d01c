"""P6: every control-flow pattern has an entry on docs/patterns.md, whose example runs by itself and replays."""

from __future__ import annotations

import re
import sys
import types
from typing import Any

import pytest

from perdure.testing import Harness
from tests.docs.test_pages import BLOCK, ROOT
from tests.kernel.telling import EvictedHarness, replayed

PAGE = ROOT / "docs/patterns.md"
TEXT = PAGE.read_text("utf-8")
NAMES = """
Sequence, Parallel split, Synchronization, Exclusive choice, Simple merge,
Multi-choice, Structured synchronizing merge, Multi-merge, Structured discriminator, Arbitrary cycles,
Implicit termination, Multiple instances without synchronization,
Multiple instances with a priori design-time knowledge, Multiple instances with a priori run-time knowledge,
Multiple instances without a priori run-time knowledge, Deferred choice, Interleaved parallel routing, Milestone,
Cancel task, Cancel case, Structured loop, Recursion, Transient trigger, Persistent trigger, Cancel region,
Cancel multiple instance task, Complete multiple instance task, Blocking discriminator, Cancelling discriminator,
Structured partial join, Blocking partial join, Cancelling partial join, Generalized AND-join,
Static partial join for multiple instances, Cancelling partial join for multiple instances,
Dynamic partial join for multiple instances, Local synchronizing merge, General synchronizing merge, Critical section,
Interleaved routing, Thread merge, Thread split, Explicit termination
"""
PATTERNS = [f"{number}. {name.strip()}" for number, name in enumerate(NAMES.split(","), 1)]


def headings() -> dict[str, int]:
    """Where the entry of each pattern begins."""
    return {match[1]: match.start() for match in re.finditer(r"^### (.+)$", TEXT, re.MULTILINE)}


def code_at(block: re.Match[str]) -> str:
    """A block of code, each line where it stands on the page."""
    return "\n" * TEXT.count("\n", 0, block.start(1)) + block[1]


def example_of(pattern: str) -> list[str]:
    """The code of its entry, or of the next entry with code: what is shown together has one example."""
    after = [block for block in BLOCK.finditer(TEXT) if block.start() > headings()[pattern]]
    ends = [place for place in headings().values() if place > after[0].start()]
    return [code_at(block) for block in after if not ends or block.start() < ends[0]]


def test_p6_the_page_has_an_entry_for_each_of_the_43_patterns_and_for_nothing_else() -> None:
    assert len(PATTERNS) == 43
    assert set(headings()) == set(PATTERNS)
    rows = re.findall(r"^\| (\d+) \| \[([^]]+)\]", TEXT, re.MULTILINE)
    assert [f"{number}. {name}" for number, name in rows] == PATTERNS


def test_p6_an_entry_without_an_example_of_its_own_shares_the_one_that_follows_directly() -> None:
    for pattern, place in headings().items():
        entry = TEXT[place:]
        between = entry[: entry.index("```python")]
        assert "\n## " not in between, f"the example of {pattern} stands in another chapter"


@pytest.mark.parametrize("kind", [Harness, EvictedHarness], ids=["live", "evicted"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_p6_the_example_of_a_pattern_runs_by_itself_and_replays(
    pattern: str, kind: type[Harness[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6, K11: also with an eviction before each activation."""
    module = types.ModuleType("one_pattern")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    opening = next(BLOCK.finditer(TEXT))
    exec(compile(code_at(opening), str(PAGE), "exec"), module.__dict__)
    made = 0
    with replayed(kind) as start:

        def harness(*args: Any, **options: Any) -> Harness[Any]:
            nonlocal made
            made += 1
            return start(*args, **options)

        module.__dict__["Harness"] = harness
        for code in example_of(pattern):
            exec(compile(code, str(PAGE), "exec"), module.__dict__)
    assert made > 0
