"""Drives: the ways in which the samples of `asyncio_samples` are answered, turn by turn, and what comes out.

    python -m tests.kernel.asyncio_drives [plain|collected|rebuilt] [drive ...]

prints a digest per sample and drive, as JSON. Every choice depends on what the run has asked for, on nothing else.

    python -m tests.kernel.asyncio_drives record

records, on Python 3.11, the samples that tests/histories/asyncio does not hold yet: one line per drive, and one for a
run that a random policy ordered. What is there stays as it is.
"""

from __future__ import annotations

import gc
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

from perdure import policies
from perdure.model.commands import Command
from perdure.testing import Harness, Transcript, cancel, evict, fail, fire, resolve
from tests.kernel import asyncio_samples, asyncio_samples_locks, asyncio_samples_tasks, asyncio_samples_time

SAMPLES: dict[str, Any] = {
    workflow.name: workflow
    for part in (asyncio_samples, asyncio_samples_tasks, asyncio_samples_time, asyncio_samples_locks)
    for workflow in part.SAMPLES
}
TURNS_MAX = 400
FOLDER = Path(__file__).parents[1] / "histories/asyncio"

# What a drive answers in one turn: (open commands, oldest first; number of the turn) -> jobs.
Drive = Callable[[Sequence[Command], int], list[Any]]
Before = Callable[[Harness[Any]], object]


def answered(command: Command) -> Any:
    """A timer fires, an activity gives its name back; those that are called bad fail."""
    if command.kind == "start_timer":
        return fire(command)
    name = command.input[0]
    return fail(command, ValueError(name)) if name.startswith("bad") else resolve(command, name.upper())


def apart(waiting: Sequence[Command], _turn: int) -> list[Any]:
    """One answer a turn, the oldest first; a timer when nothing else is open."""
    return [answered(min(waiting, key=_timers_last))]


def backwards(waiting: Sequence[Command], _turn: int) -> list[Any]:
    """One answer a turn, the newest first, timers or not."""
    return [answered(waiting[-1])]


def late(waiting: Sequence[Command], _turn: int) -> list[Any]:
    """One answer a turn; timers before anything else."""
    return [answered(max(waiting, key=lambda command: command.kind == "start_timer"))]


def together(waiting: Sequence[Command], _turn: int) -> list[Any]:
    """All that is open in one turn, in its order."""
    return [answered(command) for command in waiting]


def together_backwards(waiting: Sequence[Command], _turn: int) -> list[Any]:
    """All that is open in one turn, the newest first."""
    return [answered(command) for command in reversed(waiting)]


def timers_before_answers(waiting: Sequence[Command], _turn: int) -> list[Any]:
    """All in one turn, every timer before every answer."""
    return [answered(command) for command in sorted(waiting, key=_timers_last, reverse=True)]


def answers_before_timers(waiting: Sequence[Command], _turn: int) -> list[Any]:
    """All in one turn, every answer before every timer."""
    return [answered(command) for command in sorted(waiting, key=_timers_last)]


def in_pairs(waiting: Sequence[Command], turn: int) -> list[Any]:
    """Two answers a turn, from alternating ends."""
    return [answered(command) for command in (waiting[:2] if turn % 2 else waiting[:-3:-1])]


def cancelled_alone(waiting: Sequence[Command], turn: int) -> list[Any]:
    """The run is cancelled in the third turn; what is open after that is answered."""
    return [cancel("enough")] if turn == 3 else apart(waiting, turn)


def cancelled_first(waiting: Sequence[Command], turn: int) -> list[Any]:
    """The run is cancelled in the second turn, before all that is open is answered in it."""
    return [*([cancel("enough")] if turn == 2 else []), *together(waiting, turn)]


def cancelled_last(waiting: Sequence[Command], turn: int) -> list[Any]:
    """The run is cancelled in the third turn, after one answer in it."""
    return [*apart(waiting, turn), *([cancel("enough")] if turn == 3 else [])]


DRIVES: dict[str, Drive] = {
    drive.__name__: drive
    for drive in (
        *(apart, backwards, late, together, together_backwards, timers_before_answers, answers_before_timers),
        *(in_pairs, cancelled_alone, cancelled_first, cancelled_last),
    )
}


def driven(workflow: Any, drive: Drive, before: Before = lambda _harness: None, policy: Any = None) -> Harness[Any]:
    """A run of the sample to its end, or to where the drive has nothing left to answer."""
    harness: Harness[Any] = Harness(workflow, turn_limit=None, policy=policy)
    waiting: dict[int, Command] = {}
    turn = harness.start()
    for number in range(1, TURNS_MAX):
        _keep_open(waiting, turn.commands)
        if harness.done or not waiting:
            return harness
        jobs = drive(list(waiting.values()), number)
        for job in jobs:
            waiting.pop(getattr(job, "seq", -1), None)
        before(harness)
        turn = harness.activate(*jobs)
    raise AssertionError(f"{workflow.name} did not end within {TURNS_MAX} turns of {drive.__name__}")


def collected(_harness: Harness[Any]) -> None:
    """Before each turn: a full garbage collection."""
    gc.collect()


def rebuilt(harness: Harness[Any]) -> None:
    """Before each turn: the live copy is dropped and collected, so that the turn begins with a rebuild."""
    harness.activate(evict())
    gc.collect()


BEFORE: dict[str, Before] = {
    "plain": lambda _harness: None,
    "collected": collected,
    "rebuilt": rebuilt,
}


def plain(transcript: Transcript) -> Any:
    """A transcript as JSON values, without what K10 leaves out of a failure."""
    return _without(json.loads(transcript.to_json()), {"traceback", "cause"})


def digest(transcript: Transcript) -> str:
    """Sixteen digits that stand for a transcript."""
    return hashlib.sha256(json.dumps(plain(transcript), sort_keys=True).encode()).hexdigest()[:16]


def digests(before: str = "plain", *drives: str) -> dict[str, str]:
    """What every sample comes to under these drives, or under all."""
    return {
        f"{name}/{drive}": digest(driven(SAMPLES[name], DRIVES[drive], BEFORE[before]).transcript)
        for name in SAMPLES
        for drive in drives or DRIVES
    }


def at_random(name: str, seed: int) -> Harness[Any]:
    """A run of a sample in which a random policy orders the units."""
    return driven(SAMPLES[name], apart, policy=policies.new("nondeterministic", seed=seed))


def runs_of(name: str) -> dict[str, Harness[Any]]:
    """The runs of a sample that are recorded, by drive."""
    return {drive: driven(SAMPLES[name], DRIVES[drive]) for drive in DRIVES} | {"at_random": at_random(name, 1)}


def recorded(name: str) -> dict[str, Any]:
    """Those runs as they were recorded on Python 3.11, by drive; as JSON values."""
    return json.loads((FOLDER / f"{name}.json").read_text("utf-8"))


def record() -> None:
    """Record what is not recorded yet."""
    FOLDER.mkdir(exist_ok=True)
    for name in SAMPLES:
        path = FOLDER / f"{name}.json"
        if not path.exists():
            lines = [f"{json.dumps(drive)}: {_line(run)}" for drive, run in runs_of(name).items()]
            path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def _line(run: Harness[Any]) -> str:
    return json.dumps(plain(run.transcript), separators=(",", ":"))


def _timers_last(command: Command) -> bool:
    return command.kind == "start_timer"


def _keep_open(waiting: dict[int, Command], commands: Iterable[Command]) -> None:
    for command in commands:
        if command.seq is None:
            continue
        if command.kind.startswith("cancel_"):
            waiting.pop(command.seq, None)
        else:
            waiting[command.seq] = command


def _without(value: Any, keys: set[str]) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {key: _without(item, keys) for key, item in fields.items() if key not in keys}
    return [_without(item, keys) for item in cast("list[Any]", value)] if isinstance(value, list) else value


if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    if sys.argv[1:] == ["record"]:
        record()
    else:
        sys.stdout.write(json.dumps(digests(*sys.argv[1:]), indent=0))
