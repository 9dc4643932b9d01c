"""The conformance suite on every store of the package; docs/stores.md shows how to run it on another one."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from perdure.clock import Clock
from perdure.stores.memory import MemoryStore
from perdure.stores.port import Store
from perdure.stores.sqlite import SqliteStore
from perdure.testing.conformance import CASES, Case, MakeStore, run_case

IN_MEMORY = Path("/dev/shm")
by_name = pytest.mark.parametrize("case", CASES, ids=str)


def memory_stores(folder: Path) -> MakeStore:
    """Store objects of one name, which no other test has."""

    def make(clock: Clock) -> Store:
        return MemoryStore(clock, str(folder))

    return make


@pytest.fixture
def quick_folder() -> Iterator[Path]:
    """A new folder, in memory where the system has such: a few thousand flushes to a disk take a minute."""
    with TemporaryDirectory(dir=IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None) as folder:
        yield Path(folder)


def sqlite_stores(folder: Path, *, threads: bool) -> MakeStore:
    """Store objects on one file."""

    def make(clock: Clock) -> Store:
        return SqliteStore(folder / "store.db", clock, threads=threads)

    return make


@by_name
def test_the_memory_store_conforms(case: Case, tmp_path: Path) -> None:
    run_case(case, memory_stores(tmp_path))


@by_name
def test_the_sqlite_store_conforms(case: Case, quick_folder: Path) -> None:
    run_case(case, sqlite_stores(quick_folder, threads=True))


@by_name
def test_the_sqlite_store_conforms_without_threads(case: Case, quick_folder: Path) -> None:
    run_case(case, sqlite_stores(quick_folder, threads=False))


def test_every_case_has_a_sentence_for_its_name_and_says_which_promise_it_checks() -> None:
    assert [name for name, times in Counter(map(str, CASES)).items() if times > 1] == []
    for case in CASES:
        assert len(case.name.split("_")) >= 3, case.name
        assert case.rule.splitlines()[0].endswith((".", ":")), case.name
        assert case.rule.endswith("."), case.name


def test_the_suite_has_as_many_cases_as_it_promises() -> None:
    """At least 120 cases, from every side of the port."""
    assert len(CASES) >= 120
    assert min(Counter(case.side for case in CASES).values()) >= 5
