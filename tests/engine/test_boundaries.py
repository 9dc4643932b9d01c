"""Every commit boundary of a corpus of stories is crashed once; each outcome equals the undisturbed one (E1, E8).

I1 to I4, I6 to I8 and I14 of the invariants: nothing acknowledged is lost, every accepted run ends once, history has no
gaps, no answer is delivered twice, a repeated activity has the same key.
"""

from __future__ import annotations

import pytest

from perdure.stores.memory import MemoryStore
from perdure.testing import VirtualClock
from tests.engine import corpus, stories
from tests.engine.boundaries import Stage, every_boundary


def test_the_corpus_is_large_enough() -> None:
    assert len(stories.STORIES) >= 30
    assert len(corpus.WORKFLOWS) >= 30


@pytest.mark.parametrize("name", stories.STORIES)
def test_a_crash_at_any_commit_changes_nothing(name: str) -> None:
    """Rules E1, E8; I1 to I4, I6 to I8, I14."""
    clock = VirtualClock()
    stage = Stage(clock, lambda name: MemoryStore(clock, name), corpus.WORKFLOWS, corpus.ACTIVITIES)
    every_boundary(stories.STORIES[name], stage)
