"""The sample workflow of docs/nondeterminism.md: recorded, changed as the page says, and replayed.

Used by tests/docs/test_reports.py, which also runs this module as a program, to have a process of its own.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from perdure.errors import NondeterminismError
from perdure.testing import Harness, Transcript, Turn, fire, resolve

PAGE = Path(__file__).parents[2] / "docs/nondeterminism.md"
ANSWERS = {"charge": "receipt-7", "send": "track-9", "pack": None, "mail": None}


@dataclass(frozen=True)
class Section:
    """One report of the page: what is changed, and the text that replay gives."""

    title: str
    diff: str
    report: str


def base() -> str:
    """The code of `shop.py`, as the page shows it."""
    return blocks(PAGE.read_text("utf-8"), "python")[0]


def sections() -> dict[str, Section]:
    """The sections that show a report, by the words of their title."""
    found: dict[str, Section] = {}
    for part in re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        title = part.splitlines()[0]
        reports = [block for block in blocks(part, "text") if block.startswith("Nondeterminism: ")]
        if reports:
            found[title] = Section(title, blocks(part, "diff")[0], reports[0].rstrip("\n"))
    return found


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def changed(source: str, diff: str) -> str:
    """The source with every hunk of a diff applied; hunks are told apart by lines that begin with `@@`."""
    for hunk in re.split(r"^@@.*\n", diff, flags=re.MULTILINE):
        lines = [(line[:1], line[1:] + "\n") for line in hunk.splitlines()]
        before = "".join(text for sign, text in lines if sign != "+")
        after = "".join(text for sign, text in lines if sign != "-")
        assert source.count(before) == 1, f"this stands {source.count(before)} times in shop.py:\n{before}"
        source = source.replace(before, after)
    return source


def load(source: str, world: Mapping[str, object]) -> Any:
    """The module `shop.py`, with some of its names replaced by what stands for the world around it."""
    module = ModuleType("shop")
    sys.modules["shop"] = module
    exec(compile(source, "shop.py", "exec"), vars(module))
    vars(module).update(world)
    return module


def record(source: str, world: Mapping[str, object] | None = None) -> str:
    """The transcript of a whole run, source lines included."""
    shop = load(source, world or {})
    harness: Harness[Any] = Harness(shop.checkout, shop.Order("o-1", 990, ["mug", "tea", "jam"]))
    turn: Turn = harness.start()
    while not harness.done:
        answers = [
            fire(command) if command.kind == "start_timer" else resolve(command, ANSWERS[command.name or ""])
            for command in turn.commands
            if command.seq is not None
        ]
        turn = harness.activate(*answers)
    return harness.transcript.to_json(sources=True)


def report(source: str, recorded: str, world: Mapping[str, object] | None = None) -> str:
    """What replay says of this code; nothing if it fits the record."""
    try:
        Harness.replay_transcript(load(source, world or {}).checkout, Transcript.from_json(recorded))
    except NondeterminismError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    sys.stdout.write(record(sys.stdin.read()) if sys.argv[1] == "record" else report(sys.stdin.read(), sys.argv[2]))
