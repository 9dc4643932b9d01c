"""Bad input on the command line: one line and a hint, no traceback, exit code 2, nothing written (section 6)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.badinput.corpus import read
from tests.badinput.stage import WORDS, faults_of
from tests.cli.stage import Shell

CASES_MIN = 150
HINT_LENGTH_MAX = 300


def _lines(entry: dict[str, Any]) -> Iterator[tuple[list[str], tuple[str, ...]]]:
    """What is typed, and what is said of it."""
    says: str = entry["says"]
    if "bad" in entry:
        kinds = read("nonsense.toml")[entry["bad"]]
        for name in entry["only"]:
            yield _typed(entry["type"], eval(kinds[name]["value"], dict(WORDS))), (says, kinds[name]["says"])
    elif "each" in entry:
        for text in entry["each"]:
            yield _typed(entry["type"], text.replace("\\udcff", "\udcff")), (says,)
    else:
        yield entry["type"], (says,)


def _typed(words: list[str], bad: str) -> list[str]:
    return [bad if word == "BAD" else word for word in words]


COMMANDS = [(" ".join(entry["type"]), entry, list(_lines(entry))) for entry in read("commands.toml")["command"]]


class Stored:
    """A store in a file with two runs, and a number that changes when somebody writes to it."""

    def __init__(self, folder: Path) -> None:
        path = folder / "shop.db"
        self.shell = Shell(f"sqlite:///{path}")
        self.shell("start", "naps", "1", "--id", "there")
        self.shell("start", "naps", "1", "--id", "ended")
        self.shell("terminate", "ended")
        self._connection = apsw.Connection(str(path))

    def version(self) -> Any:
        cursor: Any = self._connection.cursor()
        return cursor.execute("pragma data_version").fetchall()

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    stored = Stored(tmp_path_factory.mktemp("commands"))
    yield stored
    stored.close()


@pytest.mark.parametrize(("name", "entry", "lines"), COMMANDS, ids=[name for name, _, _ in COMMANDS])
def test_a_mistake_is_one_line_and_a_hint(
    stored: Stored,
    name: str,
    entry: dict[str, Any],
    lines: list[tuple[list[str], tuple[str, ...]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    before = stored.version()
    faults = [fault for typed, says in lines for fault in _faults(stored.shell, typed, says, entry.get("code", 2))]
    assert faults == [], name
    assert stored.version() == before
    assert list(tmp_path.iterdir()) == []


def test_the_corpus_is_as_large_as_it_says() -> None:
    assert sum(len(lines) for _, _, lines in COMMANDS) >= CASES_MIN


def _faults(shell: Shell, typed: list[str], says: tuple[str, ...], code: int) -> Iterator[str]:
    try:
        ended = shell(*typed, code=None)
    except Exception as error:  # what a person would see as a traceback
        yield f"{typed}: {type(error).__name__}: {error}"
        return
    said = ended.err.splitlines()
    about = f"{[word[:60] for word in typed]}: {ended.code}: {ended.err!r}"
    if ended.code != code or ended.out:
        yield f"{about} — exit code {code} and nothing on stdout are wanted"
    elif len(said) != 2 or not said[0].startswith("error: ") or not said[1].startswith("hint: "):
        yield f"{about} — one line and a hint are wanted"
    else:
        yield from (f"{about} — {fault}" for fault in faults_of(said[0], says))
        if not said[1].isprintable() or len(said[1]) > HINT_LENGTH_MAX:
            yield f"{about} — the hint cannot be shown"
