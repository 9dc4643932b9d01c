"""Records for the cases: runs, turns, tasks and reports with all that a case does not care about filled in.

Ids are derived from names, so that they are the same every time. A store reads no JSON, so each value is spelt in a way
that a store which does so anyway would change.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid5

from msgspec.structs import replace

from perdure.errors import Failure
from perdure.stores.checks import chain
from perdure.stores.records import (
    Attempt,
    Beat,
    NewChild,
    NewRun,
    NewTask,
    Parent,
    Report,
    Run,
    Start,
    Successor,
    Task,
    Turn,
    TurnCommit,
)

NAMESPACE = UUID("8f9d5c0e-3f0b-5f6e-9d52-a1f1a7c0de01")
JOB = b'{"kind": "resolved",  "seq":0, "value": 1.0}'


def an_id(name: str) -> str:
    """The id of something of this name."""
    return str(uuid5(NAMESPACE, name))


def some_facts(workflow_id: str, run: str = "first", **facts: Any) -> NewRun:
    """A run of this workflow id; `run` tells it from others of the same."""
    given: dict[str, Any] = {
        "run_id": an_id(f"{workflow_id} {run}"),
        "workflow_id": workflow_id,
        "workflow": "order",
        "seed": 7,
        "input": b'["o-1",  1.0]',
        "started": b'{"kind": "started"}',
    }
    return NewRun(**(given | facts))


def a_start(workflow_id: str, **options: Any) -> Start:
    """The start of such a run; what a Start does not know goes into its facts."""
    of_start = {name: options.pop(name) for name in Start.__struct_fields__ if name in options}
    return Start(facts=some_facts(workflow_id, **options), **of_start)


def a_turn(run: Run, text: str = "", notes: bytes | None = None) -> Turn:
    """The turn that follows a run's last one."""
    number = run.last_turn + 1
    record = b'{"turn": %d,  "text":"%b"}' % (number, text.encode())
    return Turn(number=number, record=record, checksum=chain(run.checksum, number, record), notes=notes)


def a_commit(run: Run, owner: int, **content: Any) -> TurnCommit:
    """A commit of that turn, taking no message unless told so."""
    given: dict[str, Any] = {
        "run": run.number,
        "owner": owner,
        "turn": a_turn(run),
        "previous": run.checksum,
        "consumed": run.consumed,
    }
    return TurnCommit(**(given | content))


def a_task(name: str, /, seq: int = 0, **options: Any) -> NewTask:
    """An activity `charge`, whose id is derived from this name."""
    given: dict[str, Any] = {"id": an_id(name), "seq": seq, "name": "charge", "input": b"[ 990 ]"}
    return NewTask(**(given | options))


def an_attempt(task: Task, outcome: str = "completed", worker: str = "w-1") -> Attempt:
    """What the present attempt at a task came to."""
    started_us = task.started_us or task.scheduled_us
    failure = Failure("CardRefused", "no funds") if outcome == "failed" else None
    return Attempt(
        attempt=task.attempt,
        worker=worker,
        started_us=started_us,
        ended_us=started_us + 5,
        outcome=outcome,
        failure=failure,
    )


def an_answer(task: Task, job: bytes = JOB, **options: Any) -> Report:
    """The report of whoever has a task that it is done."""
    return _report(task, attempt=an_attempt(task), job=job, **options)


def a_retry(task: Task, retry_us: int, **options: Any) -> Report:
    """The report of whoever has a task that it failed, and shall be tried again from then on."""
    return _report(task, attempt=an_attempt(task, "failed"), retry_us=retry_us, **options)


def a_beat(task: Task, details: bytes | None = None) -> Beat:
    """A heartbeat of whoever has a task."""
    return Beat(task.run, task.id, -1 if task.owner is None else task.owner, details)


def a_child(parent: Run, workflow_id: str, seq: int = 0, **facts: Any) -> NewChild:
    """A run that another one starts; `close` is what becomes of it with its parent."""
    link = Parent(run_id=parent.facts.run_id, seq=seq, close=facts.pop("close", "terminate"))
    return NewChild(seq, some_facts(workflow_id, parent=link, **facts))


def a_successor(run: Run, *carried: tuple[bytes, str | None], **facts: Any) -> Successor:
    """The next generation of a run."""
    given: dict[str, Any] = {
        "run_id": an_id(f"{run.facts.run_id} next"),
        "chain": run.facts.chain or run.facts.run_id,
        "input": b"[ 2 ]",
    }
    return Successor(facts=replace(run.facts, **(given | facts)), carried=carried)


def _report(task: Task, **given: Any) -> Report:
    whose: dict[str, Any] = {"run": task.run, "id": task.id, "owner": task.owner}
    return Report(**(whose | given))
