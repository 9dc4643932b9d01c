"""Hash seeds: replays what a test has run in processes in which sets have another order (K16).

A run that iterates over a set replays well in the process that recorded it. So each run of a workflow that another
process can import is replayed in a few of them, each with a hash seed of its own. Only what they disagree about
counts: all that a test has patched, and they have not, is the same in all of them. What they cannot tell is no fault.

Asked by perdure.testing.plugin's `harness`; run as a module, this file is such a process.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import subprocess
import sys
import threading
from typing import Any

from perdure.define.workflow import Workflow, definition_of
from perdure.errors import NondeterminismError
from perdure.testing.harness import Harness
from perdure.testing.transcript import Transcript

SEEDS = ("1", "2", "3")
PATIENCE_SECONDS = 30


class HashSeeds:
    """The processes, started when the first run is replayed. Close it at the end."""

    def __init__(self) -> None:
        self._replayers: list[_Replayer] = []
        self._gave_up = False

    def check(self, run: Harness[Any], workflow: Workflow[..., Any]) -> None:
        """Raise `NondeterminismError` if what this run does depends on the hash seed."""
        asked = _place_of(workflow)
        if asked is None or self._gave_up:
            return
        try:
            if not self._replayers:
                self._replayers = [_Replayer(seed) for seed in SEEDS]
            for replayer in self._replayers:
                replayer.ask({**asked, "transcript": run.transcript.to_json(sources=True)})
            outcomes = [replayer.answer() for replayer in self._replayers]
        except (OSError, queue.Empty):  # a module that hangs or ends the process when it is imported
            self._gave_up = True
            self.close()
            return
        if None not in outcomes and len(set(outcomes)) > 1:
            report = next(outcome for outcome in outcomes if outcome)
            raise NondeterminismError(
                f"`{workflow.name}` depends on the hash seed of the process: it replays here, and not with another "
                f"one. It iterates over a set, or orders by a hash: use a list, or sorted(…).\n\n{report}",
                cause="set order",
            )

    def close(self) -> None:
        """End the processes."""
        for replayer in self._replayers:
            replayer.close()
        self._replayers = []


class _Replayer:
    """One process with a hash seed of its own: a line of JSON in, a line out."""

    def __init__(self, seed: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ask(self, question: dict[str, str]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()

    def answer(self) -> str | None:
        line = self._answers.get(timeout=PATIENCE_SECONDS)
        if not line:
            raise queue.Empty
        return json.loads(line)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")


def _place_of(workflow: Workflow[..., Any]) -> dict[str, str] | None:
    """Where another process finds the workflow; None if it was made in a function, or in the program itself."""
    module = sys.modules.get(workflow.fn.__module__)
    file = getattr(module, "__file__", None)
    name = workflow.fn.__qualname__
    if file is None or module is None or module.__name__ == "__main__" or "<locals>" in name:
        return None
    return {"module": module.__name__, "file": file, "name": name}


# --- such a process -------------------------------------------------------------------------------


def serve() -> None:
    """Replay what is asked for, line by line, until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)  # what a module prints when it is imported is no answer
    for line in sys.stdin:
        answers.write(json.dumps(_outcome(json.loads(line))) + "\n")
        answers.flush()


def _outcome(asked: dict[str, str]) -> str | None:
    """The report of a run that does not replay, "" if it does, None where nobody can tell."""
    try:
        found: Any = importlib.import_module(asked["module"])
        if not os.path.samefile(found.__file__, asked["file"]):
            return None
        for name in asked["name"].split("."):
            found = getattr(found, name)
        Harness.replay_transcript(definition_of(found), Transcript.from_json(asked["transcript"]))
    except NondeterminismError as error:
        return str(error)
    except BaseException:  # of the module's own code too: a test module that skips itself raises no Exception
        return None
    return ""


if __name__ == "__main__":
    serve()
