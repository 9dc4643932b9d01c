"""K11: the fixture `replay_history` replays a file against the workflow that it names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import NondeterminismError, NotFound, UsageError, activity, workflow
from perdure.testing import Harness, resolve


@activity
async def ask(order: str) -> str: ...


@workflow(name="replayed-by-its-name")
async def asking(order: str) -> str:
    return await ask(order)


@workflow(name="two-of-this-name")
async def one() -> None: ...


@workflow(name="two-of-this-name")
async def other() -> None: ...


@workflow
async def changed(order: str) -> str:
    return await ask(order + "!")


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    h = Harness(asking, "o-1")
    h.activate(resolve(h.start().commands[0], "yes"))
    path = tmp_path / "asked.json"
    path.write_text(h.transcript.to_json(), "utf-8")
    return path


def test_k11_a_file_is_replayed_against_the_workflow_of_its_name(
    replay_history: Callable[..., Any], kept: Path
) -> None:
    assert replay_history(kept).result == "yes"
    assert replay_history(str(kept), asking, match="names").done


def test_k11_another_workflow_can_be_given(replay_history: Callable[..., Any], kept: Path) -> None:
    with pytest.raises(NondeterminismError):
        replay_history(kept, changed)


@pytest.mark.parametrize(
    ("name", "kind", "told"),
    [("gone", NotFound, "no workflow `gone` is loaded"), ("two-of-this-name", UsageError, "there are 2 workflows")],
)
def test_section_6_a_name_that_does_not_say_which_workflow_is_refused(
    replay_history: Callable[..., Any], kept: Path, name: str, kind: type[Exception], told: str
) -> None:
    kept.write_text(kept.read_text("utf-8").replace("replayed-by-its-name", name), "utf-8")
    with pytest.raises(kind, match=told):
        replay_history(kept)
