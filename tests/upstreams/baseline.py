"""What the cases of seed 002 share: histories written by hand in the transcript's format, and what comes of them.

A case is a baseline history, what the next turn is told, and the code as it is now; nothing of the engine around it.
"""

from __future__ import annotations

import json
from typing import Any

from perdure import activity
from perdure.testing import Harness, Transcript

NOW = "2026-01-01T00:00:00Z"
STARTED: dict[str, Any] = {"kind": "started"}

Command = dict[str, Any]
Turn = tuple[list[dict[str, Any]], list[Command]]


@activity
async def greet(name: str) -> str: ...


@activity
async def bid_farewell(name: str) -> str: ...


def job(kind: str, **fields: Any) -> dict[str, Any]:
    """A recorded job."""
    return {"kind": kind, **fields}


def asked(name: str, seq: int, *given: Any, unit: str = "/") -> Command:
    """A recorded command that schedules an activity."""
    return {"kind": "schedule_activity", "seq": seq, "unit": unit, "name": name, "input": list(given)}


def timer(seq: int, seconds: float, unit: str = "/") -> Command:
    """A recorded command that starts a timer."""
    return {"kind": "start_timer", "seq": seq, "unit": unit, "input": [seconds]}


def child_of(name: str, seq: int, *given: Any, **options: Any) -> Command:
    """A recorded command that starts a child."""
    command = {"kind": "start_child", "seq": seq, "unit": "/", "name": name, "input": list(given)}
    return {**command, "options": options} if options else command


def end(kind: str, *given: Any) -> Command:
    """The recorded command that ends a run."""
    return {"kind": kind, "unit": "/", "input": list(given)} if given else {"kind": kind, "unit": "/"}


def history(*turns: Turn, workflow: str = "now", given: tuple[Any, ...] = ()) -> dict[str, Any]:
    """A transcript as JSON: each turn is what it was told and what it decided."""
    return {
        "format": 1,
        "workflow": workflow,
        "run_id": "00000000-0000-4000-8000-000000000000",
        "seed": 0,
        "input": list(given),
        "match": "strict",
        "turns": [
            {"turn": number, "now": NOW, "jobs": jobs, "commands": commands}
            for number, (jobs, commands) in enumerate(turns)
        ],
    }


def replayed(workflow: Any, record: dict[str, Any]) -> Harness[Any]:
    """The code as it is, replayed against a history."""
    return Harness.replay_transcript(workflow, Transcript.from_json(json.dumps(record)))
