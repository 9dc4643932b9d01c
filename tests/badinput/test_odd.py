"""Odd input that is right: it comes back as it was given, and is text for everything that could take it for more."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.app import Engine
from tests.badinput.corpus import read
from tests.badinput.stage import WORDS, Stage, anything
from tests.cli.stage import Shell

ODD: Any = read("odd.toml")
TEXTS: list[str] = ODD["texts"]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    path = tmp_path_factory.mktemp("odd") / "store.db"
    opened = Stage(f"sqlite:///{path}")
    yield opened
    opened.close()


def test_every_text_is_an_id_a_value_and_an_attribute_and_nothing_else(stage: Stage) -> None:
    """The run is found by it, and by it alone."""

    async def go(e: Engine) -> None:
        assert len(set(TEXTS)) == len(TEXTS)
        for text in TEXTS:
            handle = await e.start(anything, [text, {text: text}], id=text, attributes={text: text}, memo={text: text})
            assert await handle.result() == [text, {text: text}]
        for text in TEXTS:
            seen = await e.handle(text).describe()
            assert (seen.id, seen.attributes) == (text, {text: text})
            quoted, named = text.replace("'", "''"), text.replace('"', '""')
            for wanted in (f"id = '{quoted}'", f"\"{named}\" = '{quoted}'"):
                assert [run.id async for run in e.list(wanted)] == [text], wanted
        assert await e.count("type = 'anything'") == len(TEXTS)
        assert await e.store.verify() == []

    stage.run(go(stage.engine))


def test_every_value_comes_back_as_it_was_given(stage: Stage) -> None:
    async def go(e: Engine) -> None:
        for name, each in ODD["values"].items():
            given = eval(each["value"], dict(WORDS))
            found = await e.run(anything, given)
            assert found == given, name
            assert type(found) is type(given), name
            if isinstance(given, float):
                assert math.copysign(1, found) == math.copysign(1, given), name

    stage.run(go(stage.engine))


def test_the_command_line_shows_them_as_they_are(tmp_path: Path) -> None:
    """Nothing of a text steers the terminal, is taken for an option, or runs."""
    shell = Shell(f"sqlite:///{tmp_path / 'store.db'}")
    for text in TEXTS[::6]:
        shell("start", "--id", text, "--attribute", f"note={json.dumps(text)}", "--", "naps", json.dumps(text))
        document = shell("show", "--json", "--", text).document
        assert document["id"] == text
        assert document["attributes"] == {"note": text}
        shown = shell("show", "--", text).out
        assert text in shown
        assert "\x1b" not in shown
    assert len(shell("list", "--json", "--limit", "1000").document) == len(TEXTS[::6])
    assert sorted(tmp_path.iterdir()) == [tmp_path / "store.db"]
