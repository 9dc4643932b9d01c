"""Runs from the shell: started, told, asked and ended, on a store that a worker process serves."""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.cli.conftest import HERE
from tests.cli.stage import Process, Shell, when

Served = tuple[Shell, Process]
SHOP = str(HERE / "shop.py")


def test_a_run_is_started_by_name_waited_for_and_its_result_printed_as_json(served: Served) -> None:
    shell, _ = served
    shell("start", "checkout", '{"id": "o", "cents": 1}', "--id", "waited")
    shell("signal", "waited", "approve", "true")
    assert shell("start", "checkout", '{"id": "o", "cents": 1}', "--id", "waited", "--wait").document == (
        "receipt o, label o"
    )
    ended = shell("start", "checkout", '{"id": "o", "cents": 1}', "--id", "waited", "--wait", "--json").document
    assert (ended["id"], ended["workflow"], ended["result"]) == ("waited", "checkout", "receipt o, label o")


def test_a_run_that_fails_makes_start_wait_exit_with_1_and_say_why(served: Served) -> None:
    shell, _ = served
    ended = shell("start", "checkout", '{"id": "o", "cents": -1}', "--id", "bad", "--wait", code=1)
    assert "negative amount" in ended.err
    assert "hint: " in ended.err
    assert "Traceback" not in ended.err


def test_what_a_start_sets_is_stored_with_the_run(served: Served) -> None:
    shell, _ = served
    options = ["--attribute", "region=EU", "--attribute", "size=3", "--memo", 'note={"a": 1}', "--priority", "7"]
    shell("start", "naps", "1", "--id", "set", "--queue", "other", "--delay", "1h", "--timeout", "2d", *options)
    seen = shell("show", "set", "--json").document
    assert (seen["attributes"], seen["memo"]) == ({"region": "EU", "size": 3}, {"note": {"a": 1}})
    assert (seen["queue"], seen["priority"]) == ("other", 7)
    assert seen["deadline"] is not None


def test_an_id_that_is_taken_is_treated_by_the_policy(served: Served) -> None:
    shell, _ = served
    first = shell("start", "naps", "1000", "--id", "taken", "--json").document["run_id"]
    assert shell("start", "naps", "1000", "--id", "taken", "--json").document["run_id"] == first
    assert "error: " in shell("start", "naps", "1000", "--id", "taken", "--policy", "reject", code=2).err
    assert (
        shell("start", "naps", "1000", "--id", "taken", "--policy", "terminate", "--json").document["run_id"] != first
    )
    seen = shell("show", "taken", "--json").document
    assert [run["status"] for run in seen["generations"]] == ["terminated", "running"]


def test_updates_and_queries_print_their_answers(served: Served) -> None:
    shell, _ = served
    shell("start", "Cart", '"ann"', "--id", "cart")
    assert shell("update", "cart", "add", '"apple"').document == 1
    assert shell("update", "cart", "add", '"pear"', "--update-id", "u-1", "--json").document["answer"] == 2
    assert shell("update", "cart", "add", '"pear"', "--update-id", "u-1", "--timeout", "20").document == 2
    assert shell("query", "cart", "size").document == 2
    assert shell("query", "cart", "size", "--json").document == {"id": "cart", "query": "size", "answer": 2}
    assert "empty item" in shell("update", "cart", "add", '""', code=2).err
    unknown = shell("query", "cart", "weight", code=2).err
    assert "no query `weight`; known: " in unknown
    assert "`perdure show ID`" in unknown
    greedy = shell("query", "cart", "take", code=1).err
    assert "changed self.items" in greedy
    assert "hint: the run is as it was" in greedy
    timeline = shell("show", "cart").out
    assert "reject update add: ValueError: empty item" in timeline
    assert "traceback" not in timeline
    shell("signal", "cart", "close")
    assert shell("start", "Cart", '"ann"', "--id", "cart", "--wait").document == 2
    assert shell("query", "cart", "size").document == 2
    assert "error: " in shell("signal", "cart", "close", code=2).err


def test_a_signal_sent_twice_with_one_message_id_counts_once(served: Served) -> None:
    shell, _ = served
    shell("start", "Cart", '"bob"', "--id", "once")
    for _ in range(2):
        assert shell("signal", "once", "close", "--message-id", "m-1", "--json").document["accepted"] is True
    shell("start", "Cart", '"bob"', "--id", "once", "--wait")
    told = [
        job for turn in shell("history", "once", "--json").document for job in turn["jobs"] if job["kind"] == "signal"
    ]
    assert [job["message_id"] for job in told] == ["m-1"]


@pytest.mark.parametrize(("command", "status"), [("cancel", "cancelled"), ("terminate", "terminated")])
def test_a_run_is_ended_with_a_reason(served: Served, command: str, status: str) -> None:
    shell, _ = served
    shell("start", "naps", "1000", "--id", command)
    shell(command, command, "--reason", "no longer wanted")
    ended = shell("start", "naps", "1000", "--id", command, "--wait", code=1)
    assert ended.err.startswith("error: ")
    assert shell("show", command, "--json").document["status"] == status
    assert status in shell("show", command).out
    assert "error: " in shell(command, command, code=2).err


def test_the_history_is_readable_and_its_records_are_json(served: Served) -> None:
    shell, _ = served
    shell("start", "checkout", '{"id": "h", "cents": 1}', "--id", "hist")
    shell("signal", "hist", "approve", "true")
    shell("start", "checkout", '{"id": "h", "cents": 1}', "--id", "hist", "--wait")
    records = shell("history", "hist", "--json").document
    assert [record["turn"] for record in records] == list(range(len(records)))
    kinds = [command["kind"] for record in records for command in record["commands"]]
    assert kinds[:2] == ["schedule_activity", "schedule_activity"]
    assert kinds[-1] == "complete"
    assert [attempt["activity"] for record in records for attempt in record["attempts"]]
    text = shell("history", "hist").out
    for part in ("turn 0", "started", 'activity charge("h", 1)', "signal approve(true)", "shop.py:", "completed:"):
        assert part in text
    assert "turn 0" not in shell("history", "hist", "--last", "1").out


def test_children_and_their_parent_are_shown(served: Served) -> None:
    shell, _ = served
    shell("start", "parent", "2", "--id", "family", "--wait")
    seen = shell("show", "family", "--json").document
    assert [(one["id"], one["status"]) for one in seen["children"]] == [("nap-0", "completed"), ("nap-1", "completed")]
    assert "children" in shell("show", "family").out
    assert f"child of  family (run {seen['run_id']})" in shell("show", "nap-0").out
    assert (seen["parent_id"], shell("show", "nap-0", "--json").document["parent_id"]) == (None, "family")


def test_a_worker_says_what_it_serves_and_hands_over_when_it_is_told_to_stop(served: Served) -> None:
    _, worker = served
    serving = next(json.loads(line) for line in worker.said if '"serving"' in line)
    assert serving["queues"] == {"default": 100}
    assert serving["workflows"] == ["Cart", "checkout", "inspected", "naps", "paid", "parent"]
    assert serving["activities"] == ["charge", "pay", "print_label"], "a stub is somebody else's to serve"


@pytest.mark.parametrize(
    ("answer", "status", "result"),
    [(["happened", '"r-1"'], "completed", "r-1"), (["fail", '"not paid"'], "failed", None)],
)
def test_a_person_says_what_became_of_an_activity(
    served: Served, answer: list[str], status: str, result: str | None
) -> None:
    """E5: what nobody knows is not guessed."""
    shell, _ = served
    id = f"paid-{status}"
    shell("start", "paid", '"o"', "--id", id)
    said = when(shell, id, "activity `pay` has waited .* for a person: .* `perdure resolve")
    key = re.search(rf"perdure resolve {id} (\S+) ", said)
    assert key is not None
    shell("resolve", id, key[1], *answer)
    shell("start", "paid", '"o"', "--id", id, "--wait", code=0 if status == "completed" else 1)
    seen = shell("show", id, "--json").document
    assert (seen["status"], seen["result"]) == (status, result)
    assert shell("resolve", id, key[1], "fail", code=2).err.startswith("error: ")


def test_what_a_person_says_is_held_to_what_the_activity_returns(served: Served) -> None:
    """Section 6: with the module it is refused; without, it blocks the run, and the next answer mends that (E5)."""
    shell, _ = served
    shell("start", "paid", '"o"', "--id", "typed")
    said = when(shell, "typed", "activity `pay` has waited .* for a person: .* `perdure resolve")
    key = re.search(r"perdure resolve typed (\S+) ", said)
    assert key is not None
    word = ("resolve", "typed", key[1], "happened")
    refused = shell(*word, "--module", SHOP, code=2)
    assert "expected str, got null: give the value that the activity returns. Nothing was written" in refused.err
    shell(*word)
    when(shell, "typed", r"blocked for .* \(undecodable\)")
    shell(*word, '"r-1"', "--module", SHOP)
    assert shell("start", "paid", '"o"', "--id", "typed", "--wait").document == "r-1"


@pytest.mark.parametrize(
    "shared", [["--store", "{}", "--json"], ["--json", "--store={}"], ["--json", "--store", "{}"]], ids=" ".join
)
def test_shared_options_may_stand_before_the_command(tmp_path: Path, shared: list[str]) -> None:
    shell = Shell("sqlite:///elsewhere.db")
    before = [one.format(f"sqlite:///{tmp_path / 'shop.db'}") for one in shared]
    assert shell(*before, "start", "naps", "--id", "first", "--", "1").document["id"] == "first"
    assert [run["id"] for run in shell(*before, "list").document] == ["first"]
    assert shell(*before, "pipeline", "list").document == []
    assert shell(*before, "list", "status = 'failed'").document == []


def test_the_version_is_told(shell: Shell) -> None:
    assert shell("--version").out == f"perdure {version('perdure')}\n"
