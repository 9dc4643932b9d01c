"""K16: the `harness` fixture replays every run in processes with other hash seeds, too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SAMPLES = '''
from perdure import activity, workflow
from perdure.testing import resolve

print("what a module prints is no answer")
PEOPLE = {"ada", "bob", "cyd", "dan"}
WANTED = 1

@activity
async def greet(name: str) -> str: ...

@workflow
async def in_order_of_a_set() -> None:
    for name in PEOPLE:
        await greet(name)

@workflow
class InOrderOfASet:
    async def run(self) -> None:
        for name in PEOPLE:
            await greet(name)

@workflow
async def sorted_first() -> None:
    for name in sorted(PEOPLE)[:WANTED]:
        await greet(name)

def drive(h):
    turn = h.start()
    while not h.done:
        turn = h.activate(resolve(turn.commands[0], "hello"))

def test_function(harness):
    drive(harness(in_order_of_a_set))

def test_class(harness):
    drive(harness(InOrderOfASet))

def test_sorted(harness):
    drive(harness(sorted_first))

def test_patched(harness, monkeypatch):
    """What a test has changed in its own process is the same in all others, and so no fault."""
    global WANTED
    WANTED = 3
    drive(harness(sorted_first))

def test_local(harness):
    @workflow
    async def made_in_a_test() -> None:
        await greet("ada")

    drive(harness(made_in_a_test))
'''


def run_tests(folder: Path, text: str) -> str:
    (folder / "test_greeting.py").write_text(text)
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    done = subprocess.run([*command, "test_greeting.py"], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_k16_a_run_that_iterates_over_a_set_fails_its_test_and_no_other_does(tmp_path: Path) -> None:
    said = run_tests(tmp_path, SAMPLES)
    assert "5 passed, 2 errors" in said
    for name in ("in_order_of_a_set", "InOrderOfASet"):
        assert f"`{name}` depends on the hash seed of the process" in said
    assert "Likely cause: set order." in said
    assert f"{tmp_path / 'test_greeting.py'}:" in said


@pytest.mark.parametrize("elsewhere", ["os._exit(3)", "pytest.skip(allow_module_level=True)"])
def test_what_other_processes_cannot_import_is_not_replayed_there(tmp_path: Path, elsewhere: str) -> None:
    """A module that needs what only this process has is no fault of the workflow."""
    only_here = (
        f"import os, pytest, sys\nif 'pytest' not in os.path.basename(sys.argv[0]) + sys.argv[0]:\n    {elsewhere}\n"
    )
    said = run_tests(tmp_path, only_here + SAMPLES)
    assert "5 passed" in said, said
