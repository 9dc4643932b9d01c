"""Bad input is refused at the call with one clear error, and nothing is written (section 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.badinput.corpus import Case, cases
from tests.badinput.stage import WORDS, Stage, fault_of, given_to, outcome

CASES_MIN = 1_500
TOLD = [each for file in ("starting.toml", "messages.toml", "finding.toml") for each in cases(file)]
MADE = [each for file in ("opening.toml", "defining.toml") for each in cases(file)]


@pytest.fixture(scope="module", params=["memory", "sqlite"])
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    if request.param == "memory":
        opened = Stage("memory://")
        yield opened
        opened.close()
        return
    path = tmp_path_factory.mktemp("bad") / "store.db"
    opened = Stage(f"sqlite:///{path}", _writes_to(path))
    yield opened
    opened.close()


@pytest.mark.parametrize(("call", "wrong"), TOLD, ids=[call for call, _ in TOLD])
def test_bad_input_is_refused_at_the_call(stage: Stage, call: str, wrong: list[Case]) -> None:
    before = stage.footprint()
    faults = [fault for case in wrong if (fault := _fault(stage, case))]
    assert faults == []
    assert stage.footprint() == before


@pytest.mark.parametrize(("call", "wrong"), MADE, ids=[call for call, _ in MADE])
def test_what_cannot_work_cannot_be_made(
    call: str, wrong: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Engines, clients, workers, definitions, policies; and no file is made of what a URL may have meant."""
    monkeypatch.chdir(tmp_path)
    faults = [
        fault
        for case in wrong
        if (fault := fault_of(outcome(asyncio.run, case.call, {**WORDS, **given_to(case)}), case.error, case))
    ]
    assert faults == []
    assert list(tmp_path.iterdir()) == []


def test_the_corpus_is_as_large_as_it_says() -> None:
    assert sum(len(wrong) for _, wrong in TOLD + MADE) >= CASES_MIN


def _fault(stage: Stage, case: Case) -> str | None:
    return fault_of(stage.outcome(case.call, given_to(case)), case.error, case)


def _writes_to(path: Path) -> Callable[[], object]:
    """A number that changes whenever somebody else writes to a file."""
    connections: list[apsw.Connection] = []

    def version() -> object:
        if not connections:
            connections.append(apsw.Connection(str(path)))
        cursor: Any = connections[0].cursor()
        return cursor.execute("pragma data_version").fetchall()

    return version
