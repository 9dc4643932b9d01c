"""The driver: starts the program, kills it with SIGKILL at random instants, starts it again; at the end, the audit.

    python -m tests.crash.driver KILLS [SEED]

A kill counts only when at least 8 runs had an activity that was not finished, or a turn that was not durable. The
report says how many kills hit which instant.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.crash.audit import audit
from tests.crash.ledger import entries

IN_FLIGHT = 16
UNFINISHED_MIN = 8
READY_SECONDS = 30.0
LIFE_SECONDS = (0.0, 0.35)  # of a process, from when it is ready
FINISH_SECONDS = 120.0


class Report:
    """What a campaign came to."""

    def __init__(self) -> None:
        self.kills = 0
        self.missed = 0
        self.instants: Counter[str] = Counter()
        self.ended = 0
        self.acknowledged = 0
        self.repeated = 0
        self.wrong: list[str] = []

    def __str__(self) -> str:
        hit = ", ".join(f"{count} {instant}" for instant, count in self.instants.most_common())
        return (
            f"{self.kills} kills counted, {self.missed} missed; of the unfinished runs they hit: {hit}. "
            f"{self.acknowledged} acknowledgements, {self.ended} runs ended, {self.repeated} activities repeated, "
            f"{len(self.wrong)} findings"
        )


def campaign(kills: int, seed: int, folder: Path, say: Any = None) -> Report:
    """Kill until so many kills have counted, let it finish, and look."""
    rng = random.Random(seed)
    report = Report()
    ledger = folder / "ledger"
    while report.kills < kills:
        process = _start(folder)
        try:
            _until_ready(process, ledger, report.kills + report.missed + 1)
            time.sleep(rng.uniform(*LIFE_SECONDS))  # the instant is what is random here
        finally:
            process.kill()
            process.communicate()
        unfinished = _unfinished(entries(ledger))
        if len(unfinished) >= UNFINISHED_MIN:
            report.kills += 1
            report.instants.update(unfinished.values())
        else:
            report.missed += 1
        if say is not None:
            say(f"{report.kills} of {kills} kills")
    process = _start(folder)
    _until_ready(process, ledger, report.kills + report.missed + 1)
    assert process.stdin is not None
    process.stdin.close()
    code = process.wait(FINISH_SECONDS)
    known = entries(ledger)
    report.acknowledged = sum(entry[0] in ("started", "signalled", "updated", "ended") for entry in known)
    report.ended = sum(entry[0] == "ended" for entry in known)
    report.repeated = sum(count > 1 for count in Counter(entry[1] for entry in known if entry[0] == "did").values())
    report.wrong = [*([f"the last process ended with {code}"] if code else []), *audit(folder)]
    return report


def _start(folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "output").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.crash.program", str(folder), str(IN_FLIGHT)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
        )


def _until_ready(process: subprocess.Popen[bytes], ledger: Path, times: int) -> None:
    give_up = time.monotonic() + READY_SECONDS
    while not ledger.exists() or ledger.read_bytes().count(b'["ready"]') < times:
        if process.poll() is not None or time.monotonic() > give_up:
            raise RuntimeError(f"the program is not ready: {(ledger.parent / 'output').read_text()[-4000:]}")
        time.sleep(0.005)


def _unfinished(known: list[list[Any]]) -> dict[str, str]:
    """The runs that were in the middle of something, and of what; by the last entry of each."""
    last: dict[str, str] = {}
    for entry in known:
        if entry[0] in ("began", "did", "turn"):
            last[entry[2] if entry[0] != "turn" else entry[1]] = entry[0]
        elif entry[0] == "start":
            last[entry[1]] = "start"
        elif entry[0] == "ended":
            last.pop(entry[1], None)
    instants = {
        "began": "in an activity",
        "did": "between an activity and its commit",
        "start": "before a first commit",
    }
    return {run: instants[what] for run, what in last.items() if what in instants}


def main() -> int:
    """As a command."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(2**32)
    sys.stdout.write(f"seed {seed}\n")
    with tempfile.TemporaryDirectory() as folder:
        report = campaign(kills, seed, Path(folder), _show)
    sys.stdout.write("\n".join(["", str(report), *report.wrong, ""]))
    return int(bool(report.wrong))


def _show(text: str) -> None:
    sys.stdout.write(f"\r{text}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
