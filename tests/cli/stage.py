"""The command line as tests use it: commands in this process, and as processes of their own on pipes and terminals."""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from perdure.cli import program

PATIENCE_SECONDS = 30.0


@dataclass(frozen=True)
class Ended:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


class Shell:
    """Commands on one store."""

    def __init__(self, store: str) -> None:
        self.store = store

    def __call__(self, *arguments: str, store: str | None = None, code: int | None = 0) -> Ended:
        """Run a command in this process; `code` is what it has to exit with."""
        environment = {"PERDURE_STORE": store or self.store, "COLUMNS": "100"}
        with patience(arguments):
            result = CliRunner().invoke(program, list(arguments), env=environment)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        ended = Ended(result.exit_code, result.stdout, result.stderr)
        if code is not None:
            assert ended.code == code, ended
        return ended

    @contextmanager
    def process(self, *arguments: str, cwd: Path, **environment: str) -> Generator[Process]:
        """A command as a process, which is ended with the block."""
        started = Process(arguments, cwd, {"PERDURE_STORE": self.store, **environment})
        try:
            yield started
        finally:
            started.end()


@contextmanager
def patience(arguments: tuple[str, ...]) -> Generator[None]:
    """A command that never ends fails its test, instead of holding up all others."""

    def give_up(*_: object) -> None:
        raise AssertionError(f"perdure {' '.join(arguments)} has not ended")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Process:
    """A command in a process of its own, whose lines are read as they come."""

    def __init__(self, arguments: tuple[str, ...], cwd: Path, environment: dict[str, str]) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "perdure.cli", *arguments],
            cwd=cwd,
            env={**os.environ, **environment, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._popen.stdout is not None
        self._out = self._popen.stdout
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ)
        self._rest = b""
        self.said: list[str] = []

    @property
    def pid(self) -> int:
        return self._popen.pid

    def until(self, wanted: Callable[[str], bool]) -> str:
        """The next line that is wanted; a failure that shows what was said if none comes."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while True:
            while b"\n" in self._rest:
                line, self._rest = self._rest.split(b"\n", 1)
                self.said.append(line.decode())
                if wanted(self.said[-1]):
                    return self.said[-1]
            ready = self._selector.select(max(0, give_up - time.monotonic()))
            piece = os.read(self._out.fileno(), 65536) if ready else b""
            assert piece, "it never came:\n" + "\n".join(self.said)
            self._rest += piece

    def until_event(self, name: str, **facts: object) -> dict[str, Any]:
        """The next JSON line that is this event with these facts."""

        def wanted(line: str) -> bool:
            event: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
            return event.get("event") == name and all(event.get(key) == value for key, value in facts.items())

        return json.loads(self.until(wanted))

    def signal(self, number: int = signal.SIGTERM) -> int:
        """Send it a signal; its exit code."""
        os.kill(self._popen.pid, number)
        return self._popen.wait(PATIENCE_SECONDS)

    def end(self) -> None:
        if self._popen.poll() is None:
            self._popen.kill()
            self._popen.wait()
        self._selector.close()
        self._out.close()


def in_a_terminal(arguments: list[str], columns: int, environment: dict[str, str]) -> tuple[int, str]:
    """Run a command in a terminal of so many columns: its exit code, and what is on the screen, without colours."""
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    popen = subprocess.Popen(
        [sys.executable, "-m", "perdure.cli", *arguments],
        env={
            **{k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")},
            **environment,
            "TERM": "xterm",
        },
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        said += piece
    os.close(ours)
    code = popen.wait(PATIENCE_SECONDS)
    return code, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said.decode()).replace("\r\n", "\n")


def when(shell: Shell, id: str, text: str) -> str:
    """The page of a run as soon as its sentence fits."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while True:
        out = shell("show", id).out
        if re.search(text, out.splitlines()[1]):
            return out
        assert time.monotonic() < give_up, out
