"""What pipelines ask again and again is answered from an index, however many events there are (E10)."""

from __future__ import annotations

from collections.abc import Iterator

import apsw
import pytest

from perdure.stores.sqlite import pipeline_sql as sql
from tests.stores.sqlite.plans import filled, plan

INDEXES = {
    "PIPELINE": "pipelines USING PRIMARY KEY (name=?)",
    "HANDLERS": "handlers USING PRIMARY KEY (pipeline=?)",
    "UPDATE_HANDLER": "handlers USING PRIMARY KEY (pipeline=? AND name=?)",
    "RUN": "handler_runs USING INDEX sqlite_autoindex_handler_runs_1 (id=?)",
    "UPDATE_RUN": "handler_runs USING PRIMARY KEY (pipeline=? AND number=?)",
    "RUNS": "handler_runs USING PRIMARY KEY (pipeline=? AND number>?)",
    "TOPIC": "topics USING INDEX sqlite_autoindex_topics_1 (pipeline=? AND name=?)",
    "TOPIC_BY_NUMBER": "topics USING INTEGER PRIMARY KEY",
    "EVENT": "events USING INDEX events_by_message_id (topic=? AND message_id=?)",
    "MARKS_NAMED": "events USING INDEX events_by_message_id (topic=? AND message_id=?)",
    "KNOWN": "events USING COVERING INDEX events_by_message_id (topic=? AND message_id=?)",
    "EVENTS": "events USING PRIMARY KEY (topic=? AND number>?)",
    "PENDING": "events USING INDEX events_pending (topic=?)",
    "NEWEST": "events USING INDEX events_pending (topic=?)",
    "RESERVED": "events USING INDEX events_reserved (reserved_by=?)",
    "SET_MARK": "events USING PRIMARY KEY (topic=? AND number=?)",
    "SET_FACTS": "events USING PRIMARY KEY (topic=? AND number=?)",
}


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    """A file with something in every table."""
    with filled(tmp_path_factory.mktemp("plans")) as connection:
        yield connection


@pytest.mark.parametrize(("name", "index"), INDEXES.items(), ids=INDEXES.keys())
def test_a_statement_is_served_by_its_index(connection: apsw.Connection, name: str, index: str) -> None:
    steps = plan(connection, getattr(sql, name))
    assert any(f"SEARCH {index}" in step for step in steps), steps
    assert not any(step.startswith("SCAN") and "wanted" not in step for step in steps), steps
    assert not any("TEMP B-TREE" in step for step in steps), steps
