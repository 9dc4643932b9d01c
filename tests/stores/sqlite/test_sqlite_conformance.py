"""The SQLite store does what the port says, with threads and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.stores.sqlite import SqliteStore
from perdure.testing.conformance import CASES, Case, run_case


@pytest.mark.parametrize("threads", [True, False], ids=["threads", "inline"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_sqlite_store_conforms(case: Case, threads: bool, tmp_path: Path) -> None:
    run_case(case, lambda clock: SqliteStore(tmp_path / "store.db", clock, threads=threads))
