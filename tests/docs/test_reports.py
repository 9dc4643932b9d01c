"""K12: the reports in docs/nondeterminism.md are what Perdure says of the code on that page, letter by letter."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import date
from pathlib import Path
from uuid import UUID

import pytest

from perdure import GuardViolation, NondeterminismError
from tests.docs import shop
from tests.tree import TREE

SECTIONS = shop.sections()
CODE = ["New code", "Changed argument", "Changed order"]
UUIDS = ("0b5c8f1e-5c6e-4d83-9d7c-5a3d4a0a3a55", "7d1f0a52-4444-4a4c-8f83-1f0e6a0c9b11")
WORLD = ["Clock", "Set order", "Randomness", "Environment"]


class Monday(date):
    """The day on which the sample was recorded."""

    @classmethod
    def today(cls) -> date:
        return date(2026, 1, 5)


class Tuesday(date):
    """The day on which it is replayed."""

    @classmethod
    def today(cls) -> date:
        return date(2026, 1, 6)


def drawn(text: str) -> dict[str, object]:
    """A world in which the next uuid is known."""
    return {"uuid4": lambda: UUID(text)}


def in_another_process(task: str, source: str, *arguments: str, hash_seed: str) -> str:
    """What the shop says in a process whose sets of text have another order."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.docs.shop", task, *arguments],
        input=source,
        capture_output=True,
        text=True,
        cwd=TREE,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def produced(title: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The report of a section, made from the code on the page."""
    source = shop.changed(shop.base(), SECTIONS[title].diff)
    match title:
        case "Clock":
            return shop.report(source, shop.record(source, {"date": Monday}), {"date": Tuesday})
        case "Set order":
            recorded = in_another_process("record", source, hash_seed="1")
            return in_another_process("report", source, recorded, hash_seed="2")
        case "Randomness":
            return shop.report(source, shop.record(source, drawn(UUIDS[0])), drawn(UUIDS[1]))
        case "Environment":
            monkeypatch.setenv("SHOP_REGION", "north")
            recorded = shop.record(source)
            monkeypatch.setenv("SHOP_REGION", "south")
            return shop.report(source, recorded)
        case _:
            return shop.report(source, shop.record(shop.base()))


def test_k12_the_page_shows_a_report_of_every_likely_cause_that_a_newcomer_meets() -> None:
    assert list(SECTIONS) == CODE + WORLD
    for title, section in SECTIONS.items():
        assert f"Likely cause: {title.lower()}. " in section.report
        assert "| shop.py:" in section.report


@pytest.mark.parametrize("title", CODE + WORLD)
def test_k12_a_report_on_the_page_is_what_the_code_on_the_page_gives(
    title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert produced(title, monkeypatch) == SECTIONS[title].report


def test_k12_the_code_on_the_page_as_it_was_recorded_replays() -> None:
    assert shop.report(shop.base(), shop.record(shop.base())) == ""


def test_m9_the_guarded_change_on_the_page_replays_old_runs_and_takes_new_ones_the_new_way() -> None:
    (diff,) = [block for block in shop.blocks(shop.PAGE.read_text("utf-8"), "diff") if "patched(" in block]
    guarded = shop.changed(shop.base(), diff)
    recorded = shop.record(shop.base())
    assert "We pack order" not in recorded
    assert shop.report(guarded, recorded) == ""
    assert '"We pack order o-1."' in shop.record(guarded)


def test_k11_the_test_that_the_page_shows_passes_on_old_code_and_fails_on_changed_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("checkout-o-1.json").write_text(shop.record(shop.base()))
    shown = shop.blocks(shop.PAGE.read_text("utf-8"), "python")[1]
    shop.load(shop.base() + shown, {}).test_open_runs_still_replay()
    changed = shop.changed(shop.base(), SECTIONS["Changed argument"].diff)
    with pytest.raises(NondeterminismError):
        shop.load(changed + shown, {}).test_open_runs_still_replay()


@pytest.mark.parametrize("title", ["Clock", "Randomness"])
def test_k16_in_tests_the_guards_refuse_the_call_of_that_section_at_its_line(title: str) -> None:
    with pytest.raises(GuardViolation, match=r"shop\.py:37"):
        shop.record(shop.changed(shop.base(), SECTIONS[title].diff))
