"""Among 6,000 runs each filter that people use finds what it should, within indexes (section 6)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import apsw
import pytest

from bench.finding import Listening
from bench.finding_runs import FILTERS, make
from perdure.clock import SystemClock, moment_of
from perdure.engine.filters import read_filter
from perdure.stores.finding import fits
from perdure.stores.records import EVERY, Run
from perdure.stores.sqlite import lists
from perdure.stores.sqlite.access import Access

RUNS = 6_000
PAGE = 50
ASTRAY = re.compile(r"SCAN (states|runs|attributes)$|USE TEMP B-TREE FOR ORDER BY")


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    path: Path = tmp_path_factory.mktemp("many") / "store.db"
    make(path, RUNS)
    with closing(apsw.Connection(str(path))) as connection:
        yield connection


@pytest.fixture(scope="module")
def everything(connection: apsw.Connection) -> list[Run]:
    return lists.list_runs(Access(connection), EVERY, RUNS + 1, None)


@pytest.mark.parametrize("text", FILTERS)
def test_a_filter_finds_its_runs_within_indexes(connection: apsw.Connection, everything: list[Run], text: str) -> None:
    """However many fit, which decides how they are looked for."""
    wanted = read_filter(text, moment_of(SystemClock().now_us()))
    found = [run for run in everything if fits(run, wanted)]
    before = found[len(found) // 2].number if found else None
    for rare in (0, 500, RUNS + 1):
        listening = Listening(connection)
        with patch.object(lists, "RARE", rare):
            assert lists.list_runs(listening, wanted, PAGE, None) == found[:PAGE]
            if before is not None:
                rest = [run for run in found if run.number < before]
                assert lists.list_runs(listening, wanted, PAGE, before) == rest[:PAGE]
            assert lists.count_runs(listening, wanted) == len(found)
        for statement, values in listening.asked if text else ():
            steps = [str(row[3]) for row in Access(connection).rows(f"explain query plan {statement}", *values)]
            assert not any(ASTRAY.match(step) for step in steps), (rare, statement, steps)
