"""`perdure dev`: it says what happens, starts again on a change, and shows nondeterminism at the desk."""

from __future__ import annotations

import json
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.stage import Process, Shell

ONCE = """
from perdure import activity, receive, workflow

@activity(retry=__import__("perdure").Retry(attempts=2, initial=0.7, jitter=0))
async def shaky(text: str) -> str:
    if text == "no":
        raise ValueError("it shook")
    return text

@workflow
async def hello(text: str) -> str:
    return await shaky(text) + "!"
"""
PIPELINE = """
from perdure.pipelines import Pipeline, Prepared

mail = Pipeline("mail")

@mail.consumer(mail.topic("inbox", str))
class Reader:
    async def prepare(self, ctx, state):
        return Prepared()
"""
COUNTS_IN_A_GLOBAL = """
from perdure import activity, workflow

started = []

@activity
async def act(number: int) -> None: ...; print("acted")

@workflow
async def counting() -> None:
    started.append(1)
    await act(len(started))
"""
ORDER_OF_A_SET = """
from perdure import activity, workflow

@activity
async def act(name: str) -> str:
    return name

@workflow
async def unordered() -> None:
    for name in {"ann", "bob", "cid", "dan", "eve", "fay", "gus", "hal", "ian", "joe"}:
        await act(name)
"""


@contextmanager
def desk(shell: Shell, folder: Path, text: str, **environment: str) -> Generator[Process]:
    """`perdure dev` on a module with this text."""
    (folder / "app.py").write_text(text)
    with shell.process("dev", "app.py", "--json", cwd=folder, **environment) as process:
        process.until_event("serving")
        yield process


def test_turns_attempts_and_endings_are_told_as_they_happen(shell: Shell, tmp_path: Path) -> None:
    with desk(shell, tmp_path, ONCE) as dev:
        assert shell("start", "hello", '"yes"', "--id", "h", "--wait").document == "yes!"
        first = dev.until_event("turn", id="h")
        assert first["record"]["commands"][0]["name"] == "shaky"
        assert dev.until_event("turn", id="h")["record"]["commands"][-1]["kind"] == "complete"
        shell("start", "hello", '"no"', "--id", "n", "--wait", code=1)
        failed = dev.until_event("attempt", id="n")
        assert failed["attempt"]["failure"]["message"] == "it shook"
        shell("start", "hello", "--id", "b")
        assert "hello" in dev.until_event("log", level="error")["message"]
        assert dev.signal(signal.SIGINT) == 0


def test_a_change_of_the_code_starts_it_again_and_the_runs_go_on_with_the_new_code(
    shell: Shell, tmp_path: Path
) -> None:
    with desk(shell, tmp_path, ONCE) as dev:
        (tmp_path / "app.py").write_text(ONCE.replace('"!"', '"?"'))
        dev.until_event("changed")
        dev.until_event("serving")
        assert shell("start", "hello", '"yes"', "--id", "h", "--wait").document == "yes?"
        (tmp_path / "app.py").write_text(ONCE + "\nbroken = (\n")
        assert "app.py:" in dev.until_event("not_imported")["message"]
        (tmp_path / "app.py").write_text(ONCE.replace('"!"', '"#"'))
        dev.until_event("serving")
        assert shell("start", "hello", '"yes"', "--id", "i", "--wait").document == "yes#"
        assert dev.signal(signal.SIGTERM) == 0


def test_a_turn_that_does_not_replay_is_told_at_once_with_both_sides(shell: Shell, tmp_path: Path) -> None:
    """K11, K12: code that depends on what an earlier turn left in the process."""
    with desk(shell, tmp_path, COUNTS_IN_A_GLOBAL) as dev:
        shell("start", "counting", "--id", "c")
        mismatch = dev.until_event("mismatch", id="c")
        assert "right after" in mismatch["how"]
        assert "recorded" in mismatch["message"]
        assert "app.py:" in mismatch["message"]


def test_a_run_whose_order_depends_on_the_hash_seed_is_told_when_it_has_ended(shell: Shell, tmp_path: Path) -> None:
    """K11, K12: a set of texts has another order in another process, and the same one in this."""
    with desk(shell, tmp_path, ORDER_OF_A_SET, PYTHONHASHSEED="0") as dev:
        shell("start", "unordered", "--id", "u", "--wait")
        mismatch = dev.until_event("mismatch", id="u")
        assert "hash seed" in mismatch["how"]
        assert "app.py:" in mismatch["message"]
    told = [json.loads(line) for line in dev.said if line.startswith("{")]
    assert [event["how"] for event in told if event["event"] == "mismatch"] == [mismatch["how"]]


def test_for_people_it_prints_lines(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(ONCE + PIPELINE)
    with shell.process("dev", "app.py", "--queue", "default=3", "--queue", "slow", cwd=tmp_path) as dev:
        dev.until(lambda line: "Ctrl-C stops it" in line)
        assert "queues `default` (3 at once), `slow` (100 at once)" in dev.said[0]
        assert dev.said[3].strip() == "pipelines:  mail"
        shell("start", "hello", '"yes"', "--id", "h", "--wait")
        dev.until(lambda line: "h " in line and "started" in line)
        dev.until(lambda line: '→ activity shaky("yes")' in line and "app.py:" in line)
        dev.until(lambda line: '→ completed: "yes!"' in line)
        shell("start", "hello", "--id", "b")
        dev.until(lambda line: line.startswith("run b is blocked"))
