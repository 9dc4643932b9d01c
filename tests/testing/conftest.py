"""What the tests of virtual time share: each is run on a loop of its own, and on one that runs already."""

from __future__ import annotations

import pytest

from perdure.testing import run_virtual
from tests.testing.loops import Runner, installed


@pytest.fixture(params=[run_virtual, installed], ids=["own loop", "running loop"])
def run(request: pytest.FixtureRequest) -> Runner:
    return request.param
