"""The ledger of the demo: what its activities wrote, and the audit of that.

Pure, but for reading the file. Used by demo; demoshop writes it. The store is not asked: what counts is what the
outside has seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

STEPS = ("accept", "charge", "ship")


@dataclass(frozen=True)
class Line:
    """One line of the log."""

    what: str  # begin, done
    activity: str
    order: str
    key: str
    pid: int


@dataclass(frozen=True)
class Audit:
    """What became of the orders."""

    started: int
    accepted: int
    finished: int
    lost: int
    doubled: int
    interrupted: int
    repeated: int
    repeated_with_another_key: int
    unknown: int
    faults: list[str] = field(default_factory=list[str])

    def lines(self) -> list[tuple[str, str]]:
        """For people."""
        keys = "each with the same key"
        if self.repeated_with_another_key:
            keys = f"{self.repeated_with_another_key} of them with another key"
        return [
            ("orders accepted", str(self.accepted)),
            ("orders finished", str(self.finished)),
            ("lost", str(self.lost)),
            ("doubled", str(self.doubled)),
            ("activities that the kill interrupted", str(self.interrupted)),
            (f"activities repeated, {keys}", str(self.repeated)),
        ]


def read(log: Path) -> list[Line]:
    """All whole lines."""
    lines: list[Line] = []
    for text in log.read_text("utf-8").splitlines(keepends=True):
        if text.endswith("\n"):
            what, activity, order, key, pid = text.split()
            lines.append(Line(what, activity, order, key, int(pid)))
    return lines


def shipped(lines: Iterable[Line]) -> set[str]:
    """The orders whose last activity is done."""
    return {line.order for line in lines if (line.what, line.activity) == ("done", STEPS[-1])}


def interrupted(lines: Iterable[Line], pid: int) -> set[tuple[str, str]]:
    """What a process has begun and not done, as activity and order."""
    begun: set[tuple[str, str]] = set()
    done: set[tuple[str, str]] = set()
    for line in lines:
        if line.pid == pid:
            (begun if line.what == "begin" else done).add((line.activity, line.order))
    return begun - done


def audit_of(started: Sequence[str], lines: Sequence[Line], killed: int) -> Audit:
    """Count. `started` are the orders whose start was acknowledged.

    The outside knows a repetition by its key: what was done under two keys was done twice.
    """
    begins: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    done: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for line in lines:
        step = (line.activity, line.order)
        if line.what == "begin":
            begins[step].append(line.key)
        else:
            done[step].add(line.key)
    accepted = {order for activity, order in done if activity == "accept"}
    finished = {order for order in accepted if all(done.get((step, order)) for step in STEPS)}
    counted = {
        "lost": len(set(started) - finished),
        "doubled": sum(len(keys) > 1 for keys in done.values()),
        "interrupted": len(interrupted(lines, killed)),
        "repeated": sum(len(keys) - 1 for keys in begins.values()),
        "repeated_with_another_key": sum(len(set(keys)) > 1 for keys in begins.values()),
        "unknown": len({line.order for line in lines} - set(started)),
    }
    return Audit(len(started), len(accepted), len(finished), **counted, faults=_faults(counted))


def _faults(counted: dict[str, int]) -> list[str]:
    faults = [f"{counted[what]} {what}" for what in ("lost", "doubled") if counted[what]]
    if counted["repeated_with_another_key"]:
        faults.append(f"{counted['repeated_with_another_key']} activities repeated with another key")
    if counted["unknown"]:
        faults.append(f"{counted['unknown']} orders that nobody started")
    if not counted["interrupted"]:
        faults.append("the kill interrupted no activity, and so shows nothing")
    elif counted["repeated"] < counted["interrupted"]:
        faults.append(f"only {counted['repeated']} of {counted['interrupted']} interrupted activities were repeated")
    return faults
