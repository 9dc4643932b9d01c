"""The programs of the README and of docs/start.md, typed into files, run, killed with SIGKILL and run again."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import Client
from tests.docs.test_pages import PAGES, ROOT

TITLED = re.compile(r'^```python title="([^"]+)"\n(.*?)^```', re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
SECONDS = 60


def type_in(page: Path, folder: Path) -> str:
    """Write the files that a page shows, and give the page's text."""
    text = page.read_text("utf-8")
    for name, code in TITLED.findall(text):
        (folder / name).write_text(code)
    return text


def steps_of(text: str) -> list[tuple[str, list[str]]]:
    """The commands of a page's consoles, each with the lines that it should print."""
    steps: list[tuple[str, list[str]]] = []
    for block in CONSOLE.findall(text):
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append((line[2:], []))
            else:
                steps[-1][1].append(line)
    return steps


def pattern_of(lines: list[str]) -> re.Pattern[str]:
    """What a page says a command prints: `…` is any text, on a line of its own any lines."""
    parts = [r"(?:.*\n)*?" if line == "…" else f"{re.escape(line).replace('…', '.*')}\n" for line in lines]
    return re.compile("".join(parts))


class Reader:
    """Somebody who types what the page says, and looks whether it prints what the page says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items() if name != "PERDURE_STORE"}
        self.environment |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        self.running: list[tuple[subprocess.Popen[str], Path]] = []

    def run(self, command: str, printed: list[str]) -> None:
        words = shlex.split(command)
        if words[:2] == ["kill", "-9"]:
            self.running[-1][0].kill()
            self.running[-1][0].wait()
            return
        if words[:2] == ["perdure", "worker"]:
            self._start(words, printed)
            return
        give_up = time.monotonic() + SECONDS
        while True:
            done = subprocess.run(
                words, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
            )
            if pattern_of(printed).fullmatch(done.stdout):
                return
            # Only what looks may be asked again: a worker needs a moment until there is something to see.
            assert words[:2] == ["perdure", "show"], f"{command}\n{done.stdout}{done.stderr}"
            assert time.monotonic() < give_up, f"{command}\n{done.stdout}{done.stderr}"

    def _start(self, words: list[str], printed: list[str]) -> None:
        output = self.folder.parent / f"output-{len(self.running)}"
        with output.open("w") as file:
            process = subprocess.Popen(
                words, cwd=self.folder, env=self.environment, stdout=file, stderr=file, text=True
            )
        self.running.append((process, output))
        shown = re.sub(r"worker \d+ serves", f"worker {process.pid} serves", "\n".join(printed)).splitlines()
        give_up = time.monotonic() + SECONDS
        while not pattern_of(shown).match(output.read_text()):
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < give_up, output.read_text()

    def leave(self) -> None:
        for process, _ in self.running:
            process.kill()
            process.wait()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    folder = tmp_path / "typed"
    folder.mkdir()
    one = Reader(folder)
    yield one
    one.leave()


def test_what_the_start_page_says_happens(reader: Reader) -> None:
    """Its files are typed in, its commands run in their order; the worker is killed where the page says so."""
    steps = steps_of(type_in(ROOT / "docs/start.md", reader.folder))
    assert [command.split()[0] for command, _ in steps].count("kill") == 1
    for command, printed in steps:
        reader.run(command, printed)


def test_the_readmes_program_survives_a_kill_as_typed(reader: Reader) -> None:
    """E8: what was done before the kill is not done again, and the run goes on at once."""
    text = type_in(ROOT / "README.md", reader.folder)
    ((first, before), (second, after)) = steps_of(text)
    assert first == second == "python shop.py"
    words = [sys.executable, "-u", "shop.py"]
    with subprocess.Popen(words, cwd=reader.folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().splitlines() == before[:1]
        asyncio.run(until_it_sleeps(f"sqlite:///{reader.folder / 'shop.db'}", "order-o-1"))
        process.send_signal(signal.SIGKILL)
    assert (process.returncode, before[1:]) == (-signal.SIGKILL, ["Killed"])
    done = subprocess.run(words, cwd=reader.folder, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert (done.stdout.splitlines(), done.stderr) == (after, "")


async def until_it_sleeps(url: str, id: str) -> None:
    """Wait until the timer is in the store: a kill before that repeats the activity, as E4 allows."""
    async with asyncio.timeout(SECONDS), Client(url) as client:
        while (await client.handle(id).describe()).next_wake is None:
            await asyncio.sleep(0)


def test_the_worker_on_its_page_serves_until_it_is_asked_to_stop(reader: Reader) -> None:
    type_in(ROOT / "docs/workers.md", reader.folder)
    command = [sys.executable, "worker.py"]
    url = f"sqlite:///{reader.folder / 'hotel.db'}"
    with subprocess.Popen(command, cwd=reader.folder, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert asyncio.run(welcomed(url, "ann")) == "hello, ann"
            process.send_signal(signal.SIGTERM)
            assert process.wait(SECONDS) == 0
            assert process.stderr is not None
            assert process.stderr.read() == ""
        finally:
            process.kill()


async def welcomed(url: str, name: str) -> object:
    async with Client(url) as client:
        return await client.run("welcome", name)


def test_the_programs_on_the_pages_are_typed(reader: Reader) -> None:
    """As their reader's editor sees them, in pyright's strict mode."""
    typed = 0
    rooms: list[dict[str, str]] = []
    for number, page in enumerate(PAGES):
        folder = reader.folder / f"page-{number}"
        folder.mkdir()
        type_in(page, folder)
        for test in folder.glob("test_*.py"):
            test.unlink()  # fixtures are given by name, without types
        typed += len(list(folder.iterdir()))
        rooms.append({"root": folder.name})
    settings: dict[str, object] = {
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "executionEnvironments": rooms,
    }
    (reader.folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [
        sys.executable,
        "-m",
        "pyright",
        "--pythonpath",
        sys.executable,
        "--outputjson",
        "-p",
        str(reader.folder),
    ]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    assert report["summary"]["filesAnalyzed"] == typed > 3
    assert report["generalDiagnostics"] == []


def test_the_readmes_program_is_about_twenty_lines() -> None:
    ((_, code),) = TITLED.findall((ROOT / "README.md").read_text("utf-8"))
    assert len([line for line in code.splitlines() if line.strip()]) <= 22
