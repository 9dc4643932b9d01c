"""`perdure list`: the runs of a store, all or those that a filter picks."""

from __future__ import annotations

import pytest

from tests.cli.stage import Shell, in_a_terminal


@pytest.fixture
def stored(shell: Shell) -> Shell:
    """Three runs: two naps in different regions, and a cart that was terminated."""
    shell("start", "naps", "1", "--id", "nap-1", "--attribute", "region=EU", "--attribute", "size=3")
    shell("start", "naps", "1", "--id", "nap-2", "--attribute", "region=US")
    shell("start", "Cart", '"ann"', "--id", "cart")
    shell("terminate", "cart", "--reason", "enough")
    return shell


def ids(shell: Shell, *arguments: str) -> list[str]:
    return [run["id"] for run in shell("list", *arguments, "--json").document]


def test_runs_are_listed_the_newest_first_with_their_attributes(stored: Shell) -> None:
    said = stored("list").out.splitlines()
    assert said[0].split() == ["id", "type", "status", "started", "took", "attributes"]
    assert [line.split()[:3] for line in said[1:]] == [
        ["cart", "Cart", "terminated"],
        ["nap-2", "naps", "running"],
        ["nap-1", "naps", "running"],
    ]
    assert 'region="EU", size=3' in said[3]


@pytest.mark.parametrize(
    ("filter", "found"),
    [
        ("", ["cart", "nap-2", "nap-1"]),
        ("type = 'naps'", ["nap-2", "nap-1"]),
        ("status = 'terminated'", ["cart"]),
        ("region = 'EU'", ["nap-1"]),
        ("size > 2 and status = 'running'", ["nap-1"]),
        ("started > '-1h' and not type = 'Cart'", ["nap-2", "nap-1"]),
        ("started < '-1h'", []),
    ],
)
def test_a_filter_picks_and_count_counts(stored: Shell, filter: str, found: list[str]) -> None:
    assert ids(stored, filter) == found
    assert stored("list", filter, "--count").out == f"{len(found)}\n"
    assert stored("list", filter, "--count", "--json").document == {"count": len(found)}


def test_no_more_than_the_limit_is_printed_and_that_there_are_more_is_said(stored: Shell) -> None:
    ended = stored("list", "--limit", "2")
    assert len(ended.out.splitlines()) == 3
    assert ended.err == "there are more than 2: --limit N prints more of them\n"
    assert ids(stored, "--limit", "2") == ["cart", "nap-2"]
    assert stored("list", "--limit", "3").err == ""


def test_where_there_is_none_that_is_said(stored: Shell) -> None:
    assert stored("list", "type = 'none'").out == "no run fits\n"
    assert ids(stored, "type = 'none'") == []


@pytest.mark.parametrize("filter", ["type =", "colour", "type = 'a' or", "started > 'soon'", "status = 'lost'", "(((("])
def test_a_filter_that_is_none_is_refused(stored: Shell, filter: str) -> None:
    ended = stored("list", filter, code=2)
    assert ended.err.startswith("error: ")
    assert len(ended.err.splitlines()) == 2


@pytest.mark.parametrize("columns", [80, 120])
def test_on_a_terminal_no_line_is_longer_than_the_terminal(stored: Shell, columns: int) -> None:
    stored("start", "naps", "1", "--id", "n" * 300, "--attribute", f"long={'x' * 300}")
    code, screen = in_a_terminal(["list"], columns, {"PERDURE_STORE": stored.store})
    assert code == 0
    assert max(map(len, screen.splitlines())) <= columns
    assert "n" * 300 in "".join(line.split()[0] for line in screen.splitlines() if line[0] == "n")
