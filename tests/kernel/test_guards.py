"""The guards (K16): what replay cannot repeat is refused at the line that calls it, and nothing else is.

The sample workflows are in this file, so this file is workflow code.
"""

from __future__ import annotations

import _thread
import asyncio
import concurrent.futures
import glob
import gzip
import os
import pathlib
import random
import secrets
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from time import time as clock
from typing import Any

import pytest

from perdure import GuardViolation, parallel, receive, workflow
from perdure.kernel import guards
from perdure.kernel.forbidden import LOOP_METHODS
from perdure.testing import Harness, evict

Call = Callable[[], object]
POOL = concurrent.futures.ThreadPoolExecutor(1)


@dataclass
class Parcel:
    label: uuid.UUID = field(default_factory=uuid.uuid4)


# What is called -> how the error names it, and what it recommends.
AUDITED: dict[str, tuple[Call, str, str]] = {
    "open": (lambda: open("x").close(), "open()", "an activity"),
    "os.open": (lambda: os.open("x", 0), "os.open()", "an activity"),
    "gzip": (lambda: gzip.open("x", "w").close(), "gzip.open()", "perdure.log"),
    "read_text": (lambda: Path("x").read_text(), "pathlib.Path.read_text()", "perdure.side_effect"),
    "write_text": (lambda: pathlib.Path("x").write_text(""), "pathlib.Path.write_text()", "an activity"),
    "listdir": (lambda: os.listdir("."), "os.listdir()", "an activity"),
    "walk": (lambda: list(os.walk(".")), "os.walk()", "an activity"),
    "makedirs": (lambda: os.makedirs("x/y"), "os.makedirs()", "an activity"),
    "glob": (lambda: glob.glob("*"), "glob.glob()", "an activity"),
    "rmtree": (lambda: shutil.rmtree("x"), "shutil.rmtree()", "an activity"),
    "temporary": (lambda: tempfile.TemporaryFile().close(), "tempfile.TemporaryFile()", "an activity"),
    "socket": (lambda: socket.socket(), "socket.socket()", "an activity"),
    "connection": (lambda: socket.create_connection(("::1", 9)), "socket.create_connection()", "an activity"),
    "urlopen": (lambda: urllib.request.urlopen("http://[::1]:9"), "urllib.request.urlopen()", "an activity"),
    "popen": (lambda: subprocess.run(["true"], check=False, capture_output=True), "subprocess.run()", "an activity"),
    "kill": (lambda: os.kill(os.getpid(), 0), "os.kill()", "an activity"),
    "fork": (lambda: os.fork(), "os.fork()", "an activity"),
    "sqlite": (lambda: sqlite3.connect(":memory:"), "sqlite3.connect()", "transactional"),
    "input": (lambda: input(), "input()", "perdure.receive"),
}
PROFILED: dict[str, tuple[Call, str, str]] = {
    "time": (lambda: time.time(), "time.time()", "perdure.now()"),
    "imported by name": (lambda: clock(), "time.time()", "perdure.now()"),
    "time_ns": (lambda: time.time_ns(), "time.time_ns()", "perdure.now()"),
    "monotonic": (lambda: time.monotonic(), "time.monotonic()", "perdure.now()"),
    "perf_counter": (lambda: time.perf_counter(), "time.perf_counter()", "perdure.now()"),
    "process_time": (lambda: time.process_time(), "time.process_time()", "perdure.now()"),
    "localtime": (lambda: time.localtime(), "time.localtime()", "perdure.now()"),
    "gmtime": (lambda: time.gmtime(), "time.gmtime()", "perdure.now()"),
    "strftime": (lambda: time.strftime("%Y"), "time.strftime()", "perdure.now()"),
    "now": (lambda: datetime.now(UTC), "datetime.now()", "perdure.now()"),
    "today": (lambda: date.today(), "date.today()", "perdure.now()"),
    "sleep": (lambda: time.sleep(0), "time.sleep()", "perdure.sleep"),
    "random": (lambda: random.random(), "random.random()", "perdure.random()"),
    "randint": (lambda: random.randint(1, 6), "random.randint()", "perdure.random()"),
    "shuffle": (lambda: random.shuffle([1, 2]), "random.shuffle()", "perdure.random()"),
    "seed": (lambda: random.seed(1), "random.seed()", "perdure.random()"),
    "unseeded": (lambda: random.Random(), "random.Random()", "perdure.random()"),
    "SystemRandom": (lambda: random.SystemRandom(), "random.Random()", "perdure.random()"),
    "seeded SystemRandom": (lambda: random.SystemRandom(7), "random.Random()", "perdure.random()"),
    "token": (lambda: secrets.token_hex(), "secrets.token_hex()", "perdure.random()"),
    "urandom": (lambda: os.urandom(1), "os.urandom()", "perdure.random()"),
    "uuid1": (lambda: uuid.uuid1(), "uuid.uuid1()", "perdure.uuid4()"),
    "uuid4": (lambda: uuid.uuid4(), "uuid.uuid4()", "perdure.uuid4()"),
    "default_factory": (lambda: Parcel(), "uuid.uuid4()", "perdure.uuid4()"),
    "thread": (lambda: threading.Thread(target=int).start(), "threading.Thread.start()", "an activity"),
    "raw_thread": (lambda: _thread.start_new_thread(int, ()), "_thread.start_new_thread()", "an activity"),
    "submit": (lambda: POOL.submit(int), "ThreadPoolExecutor.submit()", "an activity"),
    "new loop": (lambda: asyncio.new_event_loop(), "asyncio.new_event_loop()", "asyncio.create_task"),
    "exists": (lambda: os.path.exists("x"), "os.path.exists()", "an activity"),
    "path exists": (lambda: Path("x").is_file(), ".is_file()", "an activity"),
}


@workflow
async def calls(table: str, name: str) -> None:
    {"audited": AUDITED, "profiled": PROFILED}[table][name][0]()


@pytest.fixture
def audit_only() -> Iterator[None]:
    """With another profiler at work, the second net stays off."""
    sys.setprofile(_profiler)
    yield
    sys.setprofile(None)


def _profiler(_frame: Any, _event: str, _arg: Any) -> None:
    return None


def refused(run: Harness[Any]) -> str:
    with pytest.raises(GuardViolation) as caught:
        run.start()
    return str(caught.value)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.usefixtures("audit_only")
@pytest.mark.parametrize("name", AUDITED)
def test_the_audit_hook_refuses_files_sockets_and_processes(name: str) -> None:
    """K16: net 1, always on, without a profiler."""
    call, function, instead = AUDITED[name]
    text = refused(Harness(calls, "audited", name))
    assert text.startswith(f"{function} at {__file__}:{call.__code__.co_firstlineno}, in unit /, cannot be repeated: ")
    assert instead in text.partition(". Use ")[2]


@pytest.mark.usefixtures("audit_only")
def test_the_reason_is_that_of_what_was_called_and_not_of_its_first_event() -> None:
    """K16: `run` opens its pipes, as files, before it starts anything."""
    assert "cannot be repeated: it would be done again on every replay." in refused(Harness(calls, "audited", "popen"))


@pytest.mark.parametrize("name", PROFILED)
def test_the_profile_hook_also_refuses_clocks_randomness_ids_and_threads(name: str) -> None:
    """K16: net 2, in the harness, however the name was imported."""
    call, function, instead = PROFILED[name]
    before, line, _ = refused(Harness(calls, "profiled", name)).partition(
        f" at {__file__}:{call.__code__.co_firstlineno}, in unit /, cannot be repeated: "
    )
    assert line
    assert before.endswith(function)
    assert instead in _.partition(". Use ")[2]


@pytest.mark.usefixtures("audit_only")
@pytest.mark.skipif(sys.version_info < (3, 12), reason="before 3.12 the start of a thread raises no audit event")
def test_the_audit_hook_refuses_threads() -> None:
    """K16: net 1, where Python tells of it."""
    assert "threading.Thread.start() at " in refused(Harness(calls, "profiled", "thread"))


@workflow
async def branches() -> None:
    async def second() -> None:
        clock()

    async def first() -> None: ...

    await parallel(first(), second())


def test_the_error_names_the_unit() -> None:
    """K16: in which strand of the workflow it happened."""
    assert ", in unit /p1, cannot be repeated" in refused(Harness(branches))


def test_a_swallowed_violation_fails_the_turn_all_the_same() -> None:
    """K14: raised at the call, and the turn fails; nothing is committed."""
    raised: list[BaseException] = []

    @workflow
    async def swallows() -> str:
        try:
            clock()
        except GuardViolation as error:
            raised.append(error)
        return "went on"

    run = Harness(swallows)
    with pytest.raises(GuardViolation) as caught:
        run.start()
    assert raised == [caught.value]
    assert (run.turns, run.done) == ([], False)


def test_code_made_from_text_is_workflow_code() -> None:
    """K16: what `exec` runs is refused at the text's own line."""

    @workflow
    async def executes() -> None:
        exec("\n\nopen('x')", {})

    assert "open() at <string>:3, in unit /" in refused(Harness(executes))


def test_a_file_touched_while_a_run_is_evicted_is_refused(tmp_path: Path) -> None:
    """K18: an eviction leaves no trace outside."""
    mark = tmp_path / "mark"

    @workflow
    async def cleans_up() -> None:
        try:
            await receive("never", str)
        finally:
            mark.write_text("evicted")

    run = Harness(cleans_up)
    run.start()
    run.activate(evict())
    assert not mark.exists()


# --- the methods of the loop ----------------------------------------------------------------------


LOOP_CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "to_thread": (lambda: asyncio.to_thread(int), "run_in_executor"),
    "open_connection": (lambda: asyncio.open_connection("::1", 9), "create_connection"),
    "subprocess": (lambda: asyncio.create_subprocess_exec("true"), "subprocess_exec"),
    "executor": (lambda: asyncio.get_running_loop().run_in_executor(None, int), "run_in_executor"),
    "threadsafe": (lambda: asyncio.get_running_loop().call_soon_threadsafe(int), "call_soon_threadsafe"),
}


@pytest.mark.usefixtures("audit_only")
@pytest.mark.parametrize("name", LOOP_CALLS)
def test_what_asyncio_would_do_outside_is_refused_and_named(name: str) -> None:
    """K15: sockets, subprocesses and threads raise at once and name the alternative."""

    @workflow
    async def reaches_out() -> None:
        await LOOP_CALLS[name][0]()

    text = refused(Harness(reaches_out))
    method = LOOP_CALLS[name][1]
    assert text.startswith(f"asyncio's loop.{method}() at {__file__}:")
    assert text.endswith(f"Use {LOOP_METHODS[method]}")
    assert ", in unit /, " in text


def test_every_refused_method_is_one_of_asyncios_loop() -> None:
    """K15: the table holds no name that asyncio does not know."""
    assert [name for name in LOOP_METHODS if not hasattr(asyncio.AbstractEventLoop, name)] == []


# --- the hooks themselves -------------------------------------------------------------------------


def test_the_audit_hook_is_installed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """K16: one audit hook per process; it cannot be taken out again."""
    guards.install_audit_hook()
    added: list[object] = []
    monkeypatch.setattr(sys, "addaudithook", added.append)
    guards.install_audit_hook()
    assert added == []


def test_no_profiler_is_left_behind_after_a_violation() -> None:
    """K16: the thread is as it was, also where the turn failed."""
    refused(Harness(calls, "profiled", "time"))
    assert sys.getprofile() is None


@pytest.mark.usefixtures("audit_only")
def test_another_profiler_is_not_disturbed() -> None:
    """K16: where somebody profiles already, the second net stays off."""
    run = Harness(calls, "profiled", "time")
    run.start()
    assert run.done
    assert sys.getprofile() is _profiler


def test_a_profiler_that_was_set_within_the_turn_stays() -> None:
    """K16: leaving takes down nothing but its own hook."""

    @workflow
    async def profiles() -> None:
        sys.setprofile(_profiler)

    Harness(profiles).start()
    found = sys.getprofile()
    sys.setprofile(None)
    assert found is _profiler
