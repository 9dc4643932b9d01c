"""The engine's bench: what is promised is measured, and judged on the medians of its rounds.

Whether a bound holds is for `make bench` on a quiet machine to say, not for a test.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path

from bench.engine import BOUNDS, SHARED, Bound, judged, medians, run_peer
from bench.workloads import WORKLOADS, percentiles, updates


def test_every_bound_is_of_a_workload_that_is_run_and_a_peer_is_compared_in_what_it_runs_too() -> None:
    assert {bound.workload for bound in BOUNDS} <= WORKLOADS.keys()
    assert SHARED.keys() <= WORKLOADS.keys()
    assert all(SHARED[bound.workload] == bound.figure for bound in BOUNDS if bound.against_peer)


def test_a_bound_is_judged_by_our_figure_or_by_the_ratio_to_the_peers_and_not_at_all_without_it() -> None:
    measured = {
        "start": {"ours": {"workflows_per_s": 900.0}, "against_peer": {"workflows_per_s": 4.9}},
        "fanout": {"ours": {"steps_per_s": 9_000.0}},
        "update": {"ours": {"ratio": 1.2}},
    }
    found = {each["workload"]: (each["value"], each["holds"]) for each in judged(measured)}
    assert found == {"start": (4.9, False), "update": (1.2, True)}


def test_a_bound_holds_from_its_least_to_its_most() -> None:
    bound = Bound("long", "growth", least=1, most=2.2)
    assert [bound.holds(value) for value in (0.99, 1, 2.2, 2.21)] == [False, True, True, False]


def test_medians_are_of_each_figure_over_the_rounds() -> None:
    assert medians([{"a": 1.0, "b": 9.0}, {"a": 3.0, "b": 7.0}, {"a": 2.0, "b": 8.0}]) == {"a": 2.0, "b": 8.0}
    assert percentiles([number / 1_000 for number in range(1, 101)]) == {"p50_ms": 51.0, "p99_ms": 100.0}


def test_a_peer_is_any_command_that_prints_its_figures_on_its_last_line() -> None:
    program = "import sys; print('warming up'); print('{\"%s\": {\"steps_per_s\": 5}}' % sys.argv[2])"
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(program)}"
    assert run_peer(command, "chain-1") == {"steps_per_s": 5}


def test_a_workload_runs_on_a_file_and_gives_its_figures(tmp_path: Path) -> None:
    figures = asyncio.run(updates(str(tmp_path)))
    assert figures.keys() == {"update_p50_ms", "signal_p50_ms", "ratio"}
    assert all(value > 0 for value in figures.values())
