"""`perdure doctor`: a whole store is read, and what is damaged is named, with what to do (E9)."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.cli.stage import Shell


@pytest.fixture
def stored(shell: Shell) -> Shell:
    shell("start", "naps", "1", "--id", "one")
    shell("signal", "one", "hurry")
    return shell


def damage(shell: Shell, statement: str) -> None:
    connection = sqlite3.connect(shell.store.removeprefix("sqlite:///"))
    try:
        with connection:
            assert connection.execute(statement).rowcount == 1
    finally:
        connection.close()


def test_a_store_that_is_whole_is_said_to_be_with_its_counts(stored: Shell) -> None:
    said = stored("doctor").out
    assert "everything is as it was written" in said
    assert "1 run, 0 turns, 1 message," in said
    assert "no worker is there now" in said
    report = stored("doctor", "--json").document
    assert (report["counts"]["runs"], report["findings"], report["leases"]) == (1, [], [])


@pytest.mark.parametrize(
    ("table", "statement"),
    [
        ("messages", "update messages set job = cast(replace(job, 'hurry', 'worry') as blob)"),
        ("runs", "update runs set workflow = 'other'"),
        ("runs", "delete from runs"),
        ("states", "update states set status = 'completed'"),
    ],
)
def test_a_damaged_row_is_named_with_its_table_and_run_and_what_to_do(
    stored: Shell, table: str, statement: str
) -> None:
    run_id = stored("show", "one", "--json").document["run_id"]
    damage(stored, statement)
    ended = stored("doctor", code=1)
    assert f"damaged  table {table}, row" in ended.out
    assert "nothing was changed" in ended.out
    assert ended.err == ""
    findings = stored("doctor", "--json", code=1).document["findings"]
    assert table in {finding["table"] for finding in findings}
    assert all(finding["problem"] and finding["advice"] for finding in findings)
    if statement.startswith("update"):
        assert run_id in {finding["run_id"] for finding in findings}


def test_a_file_with_overwritten_pages_is_a_finding_and_no_traceback(stored: Shell) -> None:
    path = Path(stored.store.removeprefix("sqlite:///"))
    content = bytearray(path.read_bytes())
    content[4096 : len(content)] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)
    ended = stored("doctor", code=1)
    assert "damaged  table file" in ended.out
    assert "newest backup" in ended.out
    assert stored("doctor", "--json", code=1).document["findings"]


def test_a_file_that_is_no_database_is_a_finding(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("this is a letter to somebody")
    said = shell("doctor", "--store", f"sqlite:///{tmp_path}/text.txt", code=1).out
    assert "is no SQLite database" in said
    assert "damaged" not in said


def test_a_store_that_this_user_may_not_open_is_not_called_damaged(
    stored: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, mode: int) -> bool:  # tests may run as root, who may everything
        return False

    monkeypatch.setattr("perdure.stores.sqlite.opening.os.access", refuse)
    said = stored("doctor", code=1).out
    assert "not read  the store: " in said
    assert "may not be read and written" in said
    assert "damaged  " not in said
    [finding] = stored("doctor", "--json", code=1).document["findings"]
    assert "may not be read and written" in finding["problem"]


def test_a_damaged_run_is_not_shown_wrongly(stored: Shell) -> None:
    damage(stored, "update runs set workflow = 'other'")
    ended = stored("show", "one", code=1)
    assert ended.err.startswith("error: ")
    assert "perdure doctor" in ended.err
