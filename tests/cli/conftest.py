"""Fixtures of the command line: a store in a file, and a worker of the shop that serves it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.stage import Process, Shell

HERE = Path(__file__).parent


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Commands on a store of the test's own, which does not exist yet."""
    return Shell(f"sqlite:///{tmp_path / 'shop.db'}")


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shell, Process]]:
    """Commands on a store that a worker process serves."""
    folder = tmp_path_factory.mktemp("served")
    shell = Shell(f"sqlite:///{folder / 'shop.db'}")
    with shell.process("worker", str(HERE / "shop.py"), "--name", "w-1", "--json", cwd=folder) as worker:
        worker.until_event("serving")
        yield shell, worker
