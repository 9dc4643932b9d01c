"""The pytest plugin: fixtures for tests of workflows, loaded by pytest wherever Perdure is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def harness() -> Iterator[Callable[..., Any]]:
    """Make harnesses with `harness(workflow, *args)`; each is replayed strictly when the test ends."""
    from perdure.testing import Harness

    made: list[Any] = []

    def make(workflow: Any, *args: Any, **options: Any) -> Any:
        one: Any = Harness(workflow, *args, **options)
        made.append(one)
        return one

    yield make
    for one in made:
        if one.turns:
            one.replay()


@pytest.fixture
def replay_history() -> Callable[..., Any]:
    """Replay a recorded transcript with `replay_history(path, workflow)`; a harness that stands at its end."""
    from perdure.testing import Harness, Transcript

    def replay(path: str | Path, workflow: Any, **options: Any) -> Any:
        return Harness.replay_transcript(workflow, Transcript.from_json(Path(path).read_text()), **options)

    return replay
