"""The conformance suite itself, and on the memory store; tests/stores/sqlite runs it on the other one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from perdure.clock import Clock
from perdure.stores.memory import MemoryStore
from perdure.stores.port import Store
from perdure.testing.conformance import CASES, Case, MakeStore, run_case

by_name = pytest.mark.parametrize("case", CASES, ids=str)


def memory_stores(folder: Path) -> MakeStore:
    """Store objects of one name, which no other test has."""

    def make(clock: Clock) -> Store:
        return MemoryStore(clock, str(folder))

    return make


@by_name
def test_the_memory_store_conforms(case: Case, tmp_path: Path) -> None:
    run_case(case, memory_stores(tmp_path))


def test_every_case_has_a_sentence_for_its_name_and_says_which_promise_it_checks() -> None:
    assert [name for name, times in Counter(map(str, CASES)).items() if times > 1] == []
    for case in CASES:
        assert len(case.name.split("_")) >= 3, case.name
        assert case.rule.splitlines()[0].endswith((".", ":")), case.name
        assert case.rule.endswith("."), case.name


def test_the_suite_has_as_many_cases_as_it_promises() -> None:
    """At least 200 cases, from every side of the port."""
    assert len(CASES) >= 200
    assert min(Counter(case.side for case in CASES).values()) >= 5
