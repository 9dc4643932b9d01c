"""What the engine does in a second: its figures on SQLite, against bare commits, and against another engine if given.

Run it with `python -m bench.engine [--rounds N] [--only WORKLOAD] [--folder F] [--peer COMMAND]`. Every workload
(bench/workloads.py) runs in a process of its own on a new file, the peer's right after ours, round by round; each
figure is the median of the rounds, each ratio that of the rounds' ratios, because machines are noisy. The last line is
one JSON object. Exit code 1 if a figure misses its bound.

A peer is a command that takes `--only WORKLOAD` and prints on its last line a JSON object with that workload's figures.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from statistics import median
from typing import Any

from bench.workloads import WORKLOADS

SHARED = {  # what a peer does too, and what is compared of it
    "chain-1": "steps_per_s",
    "chain-100": "steps_per_s",
    "fanout": "steps_per_s",
    "start": "workflows_per_s",
    "signal": "p50_ms",
    "long": "s_2000",
    "parked": "rss_bytes_per_workflow",
}
NOTES = (
    "SQLite in WAL mode, synchronous FULL: one flush for each group of turns, and nothing starts before it; async "
    "activities on the event loop, a queue of 2,000 at once; signal: acknowledged when the turn that took it is durable"
)
Figures = dict[str, Any]


@dataclass(frozen=True)
class Bound:
    """What is promised of a figure: of ours (None), or of our ratio to the peer's."""

    workload: str
    figure: str
    least: float | None = None
    most: float | None = None
    against_peer: bool = False

    def holds(self, value: float) -> bool:
        """Whether a value keeps it."""
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)


BOUNDS = (
    Bound("chain-1", "share_of_bare", least=0.35),
    Bound("chain-100", "steps_per_s", least=5, against_peer=True),
    Bound("fanout", "steps_per_s", least=5, against_peer=True),
    Bound("start", "workflows_per_s", least=5, against_peer=True),
    Bound("long", "growth", most=2.2),
    Bound("parked", "rss_bytes_per_evicted_workflow", most=300),  # by which SQLite's caches and the allocator vary
    Bound("children", "children_per_s", least=1_500),
    Bound("update", "ratio", most=1.5),
    Bound("open-steps", "growth", most=2),
    Bound("long-20000", "growth", most=1.5),
    Bound("restart", "ready_s", most=5),
)


def run_ours(workload: str, folder: str) -> Figures:
    """One workload of ours, in a process of its own."""
    command = [sys.executable, "-m", "bench.workloads", workload, "--folder", folder]
    return json.loads(subprocess.check_output(command, text=True).splitlines()[-1])


def run_peer(command: str, workload: str) -> Figures | None:
    """The peer's figures of one workload; None if it has none."""
    printed = subprocess.check_output([*shlex.split(command), "--only", workload], text=True)
    return json.loads(printed.splitlines()[-1])[workload]


def medians(rounds: Sequence[Figures]) -> Figures:
    """The figures of several rounds in one."""
    return {name: round(median(each[name] for each in rounds), 3) for name in rounds[0]}


def measure(workloads: Sequence[str], rounds: int, folder: str, peer: str | None) -> dict[str, dict[str, Figures]]:
    """For each workload: ours, the peer's, and the ratios of ours to the peer's; what is compared is run in turns."""
    measured: dict[str, dict[str, Figures]] = {}
    for workload in workloads:
        ours: list[Figures] = []
        theirs: list[Figures] = []
        for number in range(rounds):
            ours.append(run_ours(workload, folder))
            if peer is not None and workload in SHARED and (figures := run_peer(peer, workload)) is not None:
                theirs.append(figures)
            print(f"{workload} {number + 1}/{rounds}: {json.dumps(ours[-1])}", file=sys.stderr, flush=True)
        measured[workload] = {"ours": medians(ours)}
        if len(theirs) == rounds:
            figure = SHARED[workload]
            ratios = [mine[figure] / other[figure] for mine, other in zip(ours, theirs, strict=True)]
            measured[workload]["peer"] = {figure: round(median(each[figure] for each in theirs), 3)}
            measured[workload]["against_peer"] = {figure: round(median(ratios), 3)}
    return measured


def judged(measured: dict[str, dict[str, Figures]]) -> list[dict[str, Any]]:
    """The bounds that could be looked at, each with its figure and whether it holds."""
    found: list[dict[str, Any]] = []
    for bound in BOUNDS:
        value = measured.get(bound.workload, {}).get("against_peer" if bound.against_peer else "ours", {})
        if bound.figure in value:
            found.append(asdict(bound) | {"value": value[bound.figure], "holds": bound.holds(value[bound.figure])})
    return found


def show(measured: dict[str, dict[str, Figures]], bounds: Sequence[dict[str, Any]]) -> None:
    """The table for people."""
    for workload, all_figures in measured.items():
        print(f"{workload:12} " + ", ".join(f"{name} {value:g}" for name, value in all_figures["ours"].items()))
        for name, ratio in all_figures.get("against_peer", {}).items():
            print(f"{'':12} {name} {ratio:g} times the peer's, which is {all_figures['peer'][name]:g}")
    print()
    for each in bounds:
        limit = f"at least {each['least']:g}" if each["least"] is not None else f"at most {each['most']:g}"
        what = f"{each['workload']} {each['figure']}" + (", times the peer's" if each["against_peer"] else "")
        print(f"{what:52} {each['value']:10g}  {limit:16} {'' if each['holds'] else 'MISSED'}".rstrip())
    print()


def main() -> int:
    """Measure, and print the table and, on the last line, one JSON object."""
    parser = argparse.ArgumentParser(description="The engine's figures on SQLite")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=list(WORKLOADS), action="append")
    parser.add_argument("--folder", default=".", help="where to put the files: on the disk that is to be measured")
    parser.add_argument("--peer", help="a command that runs one workload of another engine")
    parser.add_argument("--json", action="store_true", help="print only one JSON object")
    options = parser.parse_args()
    measured = measure(options.only or list(WORKLOADS), options.rounds, options.folder, options.peer)
    bounds = judged(measured)
    if not options.json:
        show(measured, bounds)
    line: dict[str, Any] = {"engine": "perdure", "backend": "sqlite", "version": version("perdure")}
    line |= {workload: all_figures["ours"] for workload, all_figures in measured.items()}
    compared = {name: all_figures["against_peer"] for name, all_figures in measured.items() if "peer" in all_figures}
    print(json.dumps(line | {"against_peer": compared, "bounds": bounds, "notes": NOTES}))
    return 0 if all(bound["holds"] for bound in bounds) else 1


if __name__ == "__main__":
    sys.exit(main())
