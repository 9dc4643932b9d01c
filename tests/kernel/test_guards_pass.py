"""What the guards let pass (K16): what replay can repeat, what libraries do, and everything outside a step."""

from __future__ import annotations

import importlib
import io
import logging
import os
import random
import sys
import threading
import time
import traceback
import uuid
import warnings
import zoneinfo
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import time as clock
from typing import Any

import pytest

import perdure
from perdure import GuardViolation, log, receive, side_effect, workflow
from perdure.testing import Harness, signal

Call = Callable[[], object]


def refused(run: Harness[Any]) -> str:
    with pytest.raises(GuardViolation) as caught:
        run.start()
    return str(caught.value)


class Broken:
    def __del__(self) -> None:
        os.listdir(".")
        raise ValueError("in a finalizer")


def drop_broken() -> None:
    """The interpreter itself reads this file, to show the line that failed."""
    hook, stderr = sys.unraisablehook, sys.stderr
    sys.unraisablehook, sys.stderr = sys.__unraisablehook__, io.StringIO()
    try:
        Broken()
    finally:
        sys.unraisablehook, sys.stderr = hook, stderr


def traceback_of_an_error() -> str:
    try:
        raise ValueError("shown")
    except ValueError:
        return traceback.format_exc()


def warn() -> None:
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        warnings.warn("a word", stacklevel=1)


PASSING: dict[str, Call] = {
    "the turn's own time": lambda: perdure.now(),
    "the unit's own numbers": lambda: [perdure.random().random(), perdure.random().choice([1, 2])],
    "the unit's own ids": lambda: perdure.uuid4(),
    "a recorded side effect": lambda: side_effect("clock", lambda: [clock(), len(os.listdir("."))]),
    "a seeded generator": lambda: random.Random(7).sample(range(9), 3),
    "an id made from a name": lambda: uuid.uuid5(uuid.NAMESPACE_DNS, "name"),
    "a time that was given": lambda: [time.gmtime(0), time.strftime("%Y", (2020, 1, 1, 0, 0, 0, 0, 1, 0))],
    "arithmetic with times": lambda: datetime.fromtimestamp(0, UTC) + timedelta(1),
    "zone data": lambda: zoneinfo.ZoneInfo.no_cache("Europe/Madrid").utcoffset(datetime(2024, 7, 1)),
    "a traceback": traceback_of_an_error,
    "a finalizer": drop_broken,
    "a warning": warn,
    "the run's log": lambda: log.info("a line"),
}


@workflow
async def passes(name: str) -> None:
    PASSING[name]()


@pytest.mark.parametrize("name", PASSING)
def test_what_replay_can_repeat_passes(name: str) -> None:
    """K16: only calls that workflow code itself makes, and only those that replay cannot repeat."""
    run = Harness(passes, name)
    run.start()
    assert run.done


def test_logging_passes_with_a_handler_that_opens_its_file_late(tmp_path: Path) -> None:
    """K16: the logging module reads the clock and opens the file, not the workflow."""
    logger = logging.getLogger("perdure-guards-sample")
    handler = logging.FileHandler(tmp_path / "log", delay=True)
    logger.addHandler(handler)

    @workflow
    async def logs() -> None:
        logger.warning("a line")

    Harness(logs).start()
    handler.close()
    logger.removeHandler(handler)
    assert (tmp_path / "log").read_text() == "a line\n"


def test_an_import_passes_whatever_the_module_does_at_its_top_but_its_functions_are_guarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K16: importing is no step of the workflow; calling what was imported is."""
    (tmp_path / "late_sample.py").write_text(
        "import time\nfrom pathlib import Path\ndef read():\n    Path(__file__).stat()\n    return time.time()\n"
        "Path(__file__).with_suffix('.txt').write_text('at the top')\nAT_THE_TOP = read()\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    @workflow
    async def imports(call: bool) -> None:
        late_sample = importlib.import_module("late_sample")
        if call:
            late_sample.read()

    Harness(imports, False).start()
    assert (tmp_path / "late_sample.txt").exists()
    assert f".stat() at {tmp_path / 'late_sample.py'}:4" in refused(Harness(imports, True))


def test_other_threads_do_not_notice(tmp_path: Path) -> None:
    """K16: the hooks look at the thread that has the step, and at no other."""
    began, over = threading.Event(), threading.Event()
    errors: list[BaseException] = []
    opened: list[int] = []

    def other() -> None:
        try:
            while not over.is_set():
                (tmp_path / "file").write_text(str(clock()))
                opened.append(1)
                began.set()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    began.wait()

    @workflow
    async def counts() -> None:
        until = len(opened) + 20
        while len(opened) < until:
            pass

    run = Harness(counts)
    run.start()
    over.set()
    thread.join()
    assert (run.done, errors) == (True, [])


def test_the_host_may_do_everything_between_turns(tmp_path: Path) -> None:
    """K16: nothing is watched outside a step, in the same thread."""

    @workflow
    async def waits() -> str:
        return await receive("go", str)

    run = Harness(waits)
    run.start()
    (tmp_path / "file").write_text(str(clock()))
    assert sys.getprofile() is None
    run.activate(signal("go", "on"))
    assert run.result == "on"
