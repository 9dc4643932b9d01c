"""Fixtures of the kernel's tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from perdure.testing import Harness
from tests.kernel.telling import EvictedHarness, Start, replayed


@pytest.fixture(params=[Harness, EvictedHarness], ids=["live", "evicted"])
def run(request: pytest.FixtureRequest) -> Iterator[Start]:
    """Start runs: in one copy, and with an eviction before each activation; replayed strictly at the end."""
    kind: type[Harness[Any]] = request.param
    with replayed(kind) as start:
        yield start
