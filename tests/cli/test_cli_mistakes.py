"""Mistakes of users: one line and a hint, no traceback, exit code 2, and nothing is written."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import HERE
from tests.cli.stage import Shell, in_a_terminal

SHOP = str(HERE / "shop.py")


@pytest.fixture
def stored(shell: Shell) -> Shell:
    """A store with one run."""
    shell("start", "naps", "1", "--id", "there")
    return shell


def refused(shell: Shell, *arguments: str, says: str, code: int = 2, **options: str) -> None:
    """The command is refused in one line that says this, and with a hint; as JSON, in one document."""
    ended = shell(*arguments, code=code, **options)
    lines = ended.err.splitlines()
    assert len(lines) == 2, ended.err
    assert lines[0].startswith("error: ")
    assert says in lines[0]
    assert lines[1].startswith("hint: ")
    assert ended.out == ""
    before, separator, after = " ".join(arguments).partition(" -- ")
    if "--json" not in arguments and not separator and before:
        document = shell(*arguments, "--json", code=code, **options).document
        assert says in document["error"]["message"]
        assert document["error"]["hint"], after


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["signal", "gone", "x"], "gone"),
        (["show", "gone"], "gone"),
        (["history", "gone"], "gone"),
        (["cancel", "gone"], "gone"),
        (["terminate", "gone"], "gone"),
        (["query", "gone", "x"], "gone"),
        (["update", "gone", "x"], "gone"),
        (["show", "there", "--run-id", "00000000-0000-0000-0000-000000000000"], "there"),
        (["show", ""], "a workflow id is empty"),
        (["show", "a\nb"], "control character"),
        (["show", "x" * 600], "600 characters"),
        (["signal", "there", " "], "the name of a signal is empty"),
        (["start", ""], "the name of a workflow is empty"),
        (["start", "naps", "{"], "argument 1 is not JSON: '{'"),
        (["start", "naps", "1", "NaN"], "argument 2 is not JSON"),
        (["start", "naps", "[" * 100_000], "argument 1 is not JSON"),
        (["start", "naps", "\udcff"], "argument 1 is not JSON"),
        (["signal", "there", "hurry", "fast"], "argument 1 is not JSON: 'fast'"),
        (["start", "naps", "--delay", "soon"], "delay"),
        (["start", "naps", "--delay", "-5"], "delay"),
        (["start", "naps", "--timeout", "inf"], "timeout"),
        (["start", "naps", "--priority", "9999999999"], "priority"),
        (["start", "naps", "--queue", ""], "the name of a queue is empty"),
        (["start", "naps", "--attribute", "region"], "--attribute 'region' is not name=value"),
        (["start", "naps", "--policy", "maybe"], "maybe"),
        (["start"], "WORKFLOW"),
        (["show"], "ID"),
        (["show", "there", "--deep"], "--deep"),
        (["show", "there", "--turns", "-1"], "--turns"),
        (["frobnicate"], "frobnicate"),
        (["history", "there", "--last", "0"], "--last"),
        (["update", "there", "x", "--timeout", "never"], "--timeout"),
        (["completion", "tcsh"], "tcsh"),
        (["demo", "--orders", "0"], "--orders"),
    ],
)
def test_a_mistake_is_told_in_one_line_with_a_hint(stored: Shell, arguments: list[str], says: str) -> None:
    """Section 6: each gives a clear error, and nothing is written."""
    before = stored("show", "there", "--json").document
    refused(stored, *arguments, says=says)
    assert stored("show", "there", "--json").document["pending_messages"] == before["pending_messages"]


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "names no store"),
        ("shop.db", "names no store"),
        ("sqlite://shop.db", "names no file"),
        ("sqlite:///", "names no file"),
        ("mysql://localhost/x", "names no store"),
        ("memory://", "lives inside one process"),
        ("sqlite:///{folder}/none.db", "there is no store at"),
        ("sqlite:///{folder}", "is a folder"),
        ("sqlite:///{folder}/none/none.db", "there is no store at"),
        ("sqlite:///{folder}/text.txt", "is no SQLite database"),
    ],
)
def test_a_store_that_is_none_is_refused_and_not_created(shell: Shell, tmp_path: Path, url: str, says: str) -> None:
    (tmp_path / "text.txt").write_text("this is a letter to somebody")
    before = sorted(tmp_path.iterdir())
    refused(shell, "show", "x", "--store", url.format(folder=tmp_path), says=says)
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "text.txt").read_text() == "this is a letter to somebody"


def test_a_folder_that_does_not_exist_is_not_created_by_start(shell: Shell, tmp_path: Path) -> None:
    refused(shell, "start", "naps", "--store", f"sqlite:///{tmp_path}/none/none.db", says="does not exist")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("mod_a.py", "x = 1\n\ny = undefined\n", "NameError: name 'undefined' is not defined ({folder}/mod_a.py:3)"),
        ("mod_b.py", "x = 1\ndef f(:\n", "({folder}/mod_b.py:2)"),
        ("mod_c.py", "import nothing_of_that_name\n", "No module named 'nothing_of_that_name' ({folder}/mod_c.py:1)"),
        ("mod_d.py", "raise SystemExit(3)\n", "it ended the program ({folder}/mod_d.py:1)"),
        ("mod_e.py", "x = 1\n", "holds no workflow and no activity"),
        ("json.py", "x = 1\n", "the name json stands for"),
        ("my-shop.py", "x = 1\n", "cannot be imported by the name 'my-shop'"),
        ("notes.txt", "x = 1\n", "is no Python file"),
    ],
)
@pytest.mark.parametrize("command", ["worker", "dev"])
def test_a_module_that_cannot_be_served_is_refused_with_file_and_line(
    shell: Shell, tmp_path: Path, command: str, name: str, text: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, name.removesuffix(".py") if name.startswith("mod_") else "", raising=False)
    (tmp_path / name).write_text(text)
    refused(shell, command, str(tmp_path / name), says=says.format(folder=tmp_path))


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("no_such_module", "there is no module no_such_module"),
        ("no/such/file.py", "no/such/file.py does not exist"),
        ("..", "'..' names no module"),
        ("", "'' names no module"),
        (f"{SHOP}:nothing", "it is not there"),
        (f"{SHOP}:Order", "it is type"),
        (f"{SHOP}:1x", "is no name of a list"),
        (f"{SHOP}:EMPTY", "holds no workflow and no activity"),
        (str(HERE), "names no module" if "/" not in str(HERE) else "is a folder"),
    ],
)
def test_a_module_that_is_not_there_is_refused(shell: Shell, module: str, says: str) -> None:
    refused(shell, "worker", module, says=says)


@pytest.mark.parametrize("queue", ["a=0", "a=-1", "a=many", "a="])
def test_a_queue_of_no_size_is_refused(shell: Shell, queue: str) -> None:
    refused(shell, "worker", SHOP, "--queue", queue, says=f"--queue {queue!r}")


@pytest.mark.parametrize(
    ("option", "value"), [("--lease", "0"), ("--cache", "-1"), ("--lease", "x"), ("--queue", "=3")]
)
def test_nonsense_for_a_worker_is_refused(shell: Shell, option: str, value: str) -> None:
    refused(shell, "worker", SHOP, option, value, says=option.strip("-"))


def test_text_without_quotes_is_told_how_to_be_written(stored: Shell) -> None:
    assert "'\"fast\"'" in stored("signal", "there", "hurry", "fast", code=2).err


def test_without_a_command_the_commands_are_listed(shell: Shell) -> None:
    said = shell("--help").out
    for name in ("demo", "dev", "worker", "start", "list", "show", "history", "signal", "query", "update", "cancel"):
        assert f"\n  {name} " in said


def test_a_mistake_on_a_terminal_is_not_cut_and_asks_nothing(stored: Shell) -> None:
    code, screen = in_a_terminal(["show", "gone"], 80, {"PERDURE_STORE": stored.store})
    assert code == 2
    assert screen.startswith("error: ")
    assert "Traceback" not in screen


def test_who_waits_for_long_is_told_where_to_look(stored: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.cli.waiting.SAYS_SO_AFTER_SECONDS", 0.01)
    ended = stored("update", "there", "add", "1", "--timeout", "0.3", code=1)
    said = ended.err.splitlines()
    assert (
        said[0]
        == "update `add` of run there was not answered yet: `perdure show there` says why; Ctrl-C ends the waiting"
    )
    assert said[1].startswith("error: ")
    assert ended.out == ""


def test_a_query_that_nobody_answers_did_not_work(stored: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.engine.runs.ANSWER_SECONDS", 0.05)
    ended = stored("query", "there", "size", code=1)
    assert "nobody answered" in ended.err
    assert "hint: a worker that knows the workflow answers" in ended.err
    assert json.loads(stored("query", "there", "size", "--json", code=1).out)["error"]["type"] == "QueryFailed"
