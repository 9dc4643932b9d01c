"""Programs with activities in processes: their main file, their guard, their end; and what they cannot have (E4)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure import UsageError, activity
from perdure.testing.clock import VirtualClock
from tests.engine import process_samples as samples
from tests.engine.performing import Stage
from tests.engine.process_samples import is_alive

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason='executor="process" needs a Unix-like system')
ROOT = Path(__file__).parents[2]

PROGRAM = """
import asyncio, os, sys, time
from perdure import activity
from perdure.testing.clock import VirtualClock
from tests.engine.performing import Stage, really, until, value_of, virtual

@activity(executor="process")
def where(mark: str) -> list[str]:
    if mark:
        open(mark, "w").write(str(os.getpid()))
        time.sleep(600)
    return [__name__, *sys.argv[1:]]

async def main(clock: VirtualClock) -> None:
    async with Stage(clock, where) as stage:
        mark = os.environ.get("MARK", "")
        print(value_of(await stage.perform(where, mark)), flush=True)

if __name__ == "__main__" or os.environ.get("UNGUARDED"):
    virtual(main)
"""


def program(tmp_path: Path, *how: str, **variables: str) -> subprocess.Popen[str]:
    (tmp_path / "app.py").write_text(PROGRAM)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])} | variables
    command = [sys.executable, *how, "an-argument"]
    return subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=-1, stderr=-1, text=True)


@pytest.mark.parametrize(("how", "name"), [(["app.py"], "__perdure_main__"), (["-m", "app"], "app")])
def test_an_activity_of_the_main_program_is_found_by_its_file(how: list[str], name: str, tmp_path: Path) -> None:
    out, errors = program(tmp_path, *how).communicate(timeout=60)
    assert (out, errors) == (f"['{name}', 'an-argument']\n", "")


def test_a_main_program_without_a_guard_is_told_so(tmp_path: Path) -> None:
    out, errors = program(tmp_path, "app.py", UNGUARDED="1").communicate(timeout=60)
    assert out == ""
    assert 'put what starts it under `if __name__ == "__main__":`' in errors


def test_processes_end_with_their_worker_also_when_it_is_killed(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with program(tmp_path, "app.py", MARK=str(mark)) as worker:
        while not (mark.exists() and mark.read_text()):
            assert worker.poll() is None
        pid = int(mark.read_text())
        assert is_alive(pid)
        worker.send_signal(signal.SIGKILL)
        worker.communicate(timeout=60)
    while is_alive(pid):
        pass


# --- refused ------------------------------------------------------------------------------------

far = activity(executor="process", name="far")(samples.price.fn)
shadowed = activity(executor="process", name="shadowed")(lambda: 1)


def local() -> Any:
    @activity(executor="process")
    def inside() -> int:
        return 1

    return inside


def test_an_activity_that_another_process_cannot_import_is_refused_when_the_engine_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for odd in (local(), shadowed):
        with pytest.raises(UsageError, match=r"cannot import it: it is defined inside a function, or is a lambda"):
            Stage(VirtualClock(), odd)
    Stage(VirtualClock(), far)
    monkeypatch.setattr(samples, "price", None)
    with pytest.raises(UsageError, match=r"`price` of module `tests.engine.process_samples` is something else"):
        Stage(VirtualClock(), far)


def test_an_activity_of_a_program_without_a_file_is_refused() -> None:
    code = PROGRAM.replace("__name__ ==", "__name__ !=") + "\nStage(VirtualClock(), where)"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "UsageError" in run.stderr
    assert "cannot import it: the main program has no file" in run.stderr
