"""The process of rehearsals: `python -m perdure.cli.rehearsal MODULE` reads runs, replays them, and writes verdicts.

One JSON line each, until its input ends.
"""

from __future__ import annotations

import os
import sys

import msgspec

from perdure.cli.loading import load, registry_of
from perdure.clock import SystemClock
from perdure.engine.settings import Settings
from perdure.engine.shadow import Recorded, rehearse


def rehearse_all(module: str) -> None:
    """Replay what comes in. What the user's code prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    registry = registry_of(load(module))
    settings, clock = Settings(guard_names=True), SystemClock()
    for line in sys.stdin.buffer:
        error = rehearse(msgspec.json.decode(line, type=Recorded), registry, settings, clock)
        answers.write(msgspec.json.encode({"mismatch": None if error is None else str(error)}) + b"\n")
        answers.flush()


if __name__ == "__main__":
    rehearse_all(sys.argv[1])
