"""K15: asyncio's primitives are durable and deterministic.

The samples are in `asyncio_samples` and the modules named after it, the drives in `asyncio_drives`. Every sample is
driven in eleven ways. Each run must be what was recorded on Python 3.11 (tests/histories/asyncio), on whichever Python
this is, however the garbage collector runs and whatever the hash seed is.
"""

from __future__ import annotations

import ast
import gc
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from perdure.define.workflow import Workflow
from perdure.testing import Harness, Transcript
from tests.kernel import asyncio_samples, asyncio_samples_locks, asyncio_samples_tasks, asyncio_samples_time
from tests.kernel.asyncio_drives import BEFORE, DRIVES, SAMPLES, apart, at_random, digests, driven, plain, runs_of
from tests.kernel.asyncio_drives import recorded as recorded_runs

ROOT = Path(__file__).parents[2]
PARTS = (asyncio_samples, asyncio_samples_tasks, asyncio_samples_time, asyncio_samples_locks)
HASH_SEEDS = ("0", "1", "42", "1001", "4294967295")
SOME_DRIVES = ("backwards", "late", "together", "cancelled_first")
# Every primitive that works inside a workflow, and what `wait` can be told.
PRIMITIVES = {
    *("create_task", "ensure_future", "gather", "wait", "as_completed", "wait_for", "timeout", "timeout_at", "shield"),
    *("sleep", "TaskGroup", "Event", "Lock", "Semaphore", "BoundedSemaphore", "Condition", "Barrier", "Queue"),
    *("PriorityQueue", "LifoQueue", "FIRST_COMPLETED", "FIRST_EXCEPTION", "current_task", "all_tasks"),
    "get_running_loop",
}

every_sample = pytest.mark.parametrize("name", SAMPLES)


@pytest.fixture
def small_heap() -> Iterator[None]:
    """The garbage collector looks only at what the test itself makes, so that it can run at every turn."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def outcome(run: Harness[Any]) -> Any:
    """What a run has decided so far, in its order, and what it came to."""
    turns = [plain_commands(turn.commands) for turn in run.turns]
    return [turns, run.status, run.result]


def plain_commands(commands: Any) -> list[Any]:
    return [(one.kind, one.unit, one.seq, one.name, one.input if one.kind != "fail" else None) for one in commands]


# --- live and on replay ---------------------------------------------------------------------------


@every_sample
def test_k15_command_order_and_result_are_the_same_live_and_on_replay(name: str) -> None:
    for drive in DRIVES.values():
        live = driven(SAMPLES[name], drive)
        assert outcome(live.replay()) == outcome(live)


@every_sample
def test_k15_a_sample_whose_units_a_random_policy_orders_replays_too(name: str) -> None:
    """K15, P4."""
    for seed in range(4):
        live = at_random(name, seed)
        assert outcome(live.replay()) == outcome(live)


@every_sample
def test_k15_every_python_runs_a_sample_as_3_11_did(name: str) -> None:
    """K15: unit ids and orders survive an upgrade of the interpreter."""
    assert {drive: plain(run.transcript) for drive, run in runs_of(name).items()} == recorded_runs(name)


@every_sample
def test_k11_every_python_replays_what_3_11_recorded(name: str) -> None:
    """K11, K15."""
    live = runs_of(name)
    for drive, recorded in recorded_runs(name).items():
        replayed = Harness.replay_transcript(SAMPLES[name], Transcript.from_json(json.dumps(recorded)))
        assert outcome(replayed) == outcome(live[drive])


@every_sample
@pytest.mark.usefixtures("small_heap")
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")  # by the sample, when its run is evicted
@pytest.mark.parametrize("before", ["collected", "rebuilt"])
def test_k15_garbage_collected_at_every_turn_changes_nothing(name: str, before: str) -> None:
    """K1, K15: also where the collector finds the coroutines of an evicted copy."""
    recorded = recorded_runs(name)
    for drive, act in DRIVES.items():
        assert plain(driven(SAMPLES[name], act, BEFORE[before]).transcript) == recorded[drive]


@pytest.mark.usefixtures("small_heap")
@every_sample
def test_k15_garbage_collected_in_the_midst_of_a_turn_changes_nothing(name: str) -> None:
    """K1, K15: a collection after every few objects."""
    recorded = recorded_runs(name)["apart"]
    threshold = gc.get_threshold()
    gc.set_threshold(3, 1, 1)
    try:
        transcript = driven(SAMPLES[name], apart).transcript
    finally:
        gc.set_threshold(*threshold)
    assert plain(transcript) == recorded


# --- under other hash seeds -----------------------------------------------------------------------


@cache
def here() -> dict[str, str]:
    return digests("plain", *SOME_DRIVES)


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[dict[str, subprocess.Popen[str]]]:
    """One process per hash seed, side by side; each runs all samples in some drives, collecting at every turn."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.kernel.asyncio_drives", "collected", *SOME_DRIVES]
    with ExitStack() as stack:
        processes: dict[str, subprocess.Popen[str]] = {}
        for seed in HASH_SEEDS:
            environment = {**os.environ, "PYTHONHASHSEED": seed}
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
            processes[seed] = stack.enter_context(process)
            stack.callback(process.kill)
        yield processes


@pytest.mark.parametrize("seed", HASH_SEEDS)
def test_k15_the_hash_seed_changes_nothing(elsewhere: dict[str, subprocess.Popen[str]], seed: str) -> None:
    """K1, K15."""
    output = elsewhere[seed].stdout
    assert output is not None
    assert json.loads(output.read()) == here()


# --- that nothing is left out ---------------------------------------------------------------------


def used(module: Any) -> set[str]:
    """The names of asyncio's that a module of samples uses."""
    tree = ast.parse(Path(module.__file__).read_text("utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    return {node.attr for node in found if isinstance(node.value, ast.Name) and node.value.id == "asyncio"}


def test_k15_every_primitive_has_a_sample() -> None:
    assert PRIMITIVES - {name for part in PARTS for name in used(part)} == set()


def test_k15_every_sample_of_every_part_is_driven() -> None:
    made = [one.name for part in PARTS for one in vars(part).values() if isinstance(one, Workflow)]
    assert sorted(made) == sorted(SAMPLES)


def test_k15_every_sample_pauses_and_ends_in_some_drive() -> None:
    """No sample is recorded only up to a place where it hangs, or without a turn that was answered."""
    for name in SAMPLES:
        runs = (driven(SAMPLES[name], drive) for drive in DRIVES.values())
        assert any(run.status == "completed" and len(run.turns) > 1 for run in runs), name
