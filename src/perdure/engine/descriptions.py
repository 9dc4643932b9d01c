"""Descriptions: a run as people look at it, read out of the store; no code of the workflow is needed.

Made by engine.handles and engine.client; drawn by the command line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from perdure.clock import moment_of
from perdure.engine.effects import what_it_waits_for
from perdure.errors import Failure
from perdure.model import jobs
from perdure.model.commands import Command
from perdure.model.turns import TurnRecord, Waiting
from perdure.stores.answers import AttemptNotes
from perdure.stores.records import NEVER_US, Attempt, Closing, Lease, Run, Task, Turn

read_record = msgspec.json.Decoder(TurnRecord).decode
_read_waiting = msgspec.json.Decoder(list[Waiting]).decode
_read_notes = msgspec.json.Decoder(list[AttemptNotes]).decode
_read_started = msgspec.json.Decoder(jobs.Started).decode
_read_failure = msgspec.json.Decoder(Failure).decode


class Blockage(msgspec.Struct, frozen=True):
    """Why a running run cannot go on, and when it is tried again."""

    kind: str
    reason: str
    since: datetime
    tries: int
    next_try: datetime | None


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A run in a list."""

    id: str
    run_id: str
    type: str
    status: str
    queue: str
    priority: int
    started: datetime
    closed: datetime | None
    attributes: Mapping[str, Any]
    memo: Mapping[str, Any]
    blocked: Blockage | None
    generation: int
    parent: str | None  # the run id of the run that started it as a child


class AttemptSeen(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of an activity. `outcome` is `running` while it runs."""

    activity: str
    seq: int
    key: str
    attempt: int
    worker: str
    started: datetime
    ended: datetime | None
    outcome: str
    failure: Failure | None = None


class OpenActivity(msgspec.Struct, frozen=True, kw_only=True):
    """An activity that has no answer yet.

    `waits_for`, since `since`: `the outside` has to complete it; `its reconcile` or `a person` has to say whether it
    happened. `due` is None where it waits for nothing else.
    """

    activity: str
    seq: int
    key: str
    queue: str
    scheduled: datetime
    due: datetime | None
    worker: str | None
    attempt: int
    cancelling: bool
    waits_for: str | None = None
    since: datetime | None = None


class LeaseSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that holds the run, or an activity of it."""

    number: int
    worker: str
    queues: Mapping[str, int]
    since: datetime
    expires: datetime


class Description(RunSummary, frozen=True, kw_only=True):
    """A run as it stands. `published` is the newest value that it has published, the `published_version`-th."""

    turns: int
    waiting: list[Waiting]
    children: list[RunSummary]
    activities: list[OpenActivity]
    attempts: list[AttemptSeen]
    leases: list[LeaseSeen]
    pending_messages: int
    next_wake: datetime | None
    deadline: datetime | None
    input: Any
    published: Any = None
    published_version: int = 0
    result: Any = None
    failure: Failure | None = None


class HistoryTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn as it is recorded, with the attempts behind the answers that it took."""

    turn: int
    now: datetime
    jobs: tuple[jobs.Recorded, ...]
    commands: tuple[Command, ...]
    attempts: list[AttemptSeen]
    record: TurnRecord


def summary_of(run: Run) -> RunSummary:
    """A run in a list."""
    return RunSummary(**_summary(run))


def description_of(
    run: Run, turns: Sequence[Turn], tasks: Sequence[Task], leases: Sequence[Lease], children: Sequence[Run]
) -> Description:
    """A run as it stands, from everything that is stored of it."""
    records = [read_record(turn.record) for turn in turns]
    names = {lease.number: lease.name for lease in leases}
    holders = {run.owner, *(task.owner for task in tasks)}
    seen = [attempt for turn in turns for attempt in attempts_of(turn)]
    seen += [attempt for task in tasks for attempt in _attempts_of_task(task, names)]
    published = published_in(records)
    return Description(
        **_summary(run),
        turns=run.last_turn + 1,
        waiting=_waiting(run, tasks, records),
        children=[summary_of(child) for child in children],
        activities=[_open(task, names) for task in tasks],
        attempts=seen,
        leases=[_lease(lease) for lease in leases if lease.number in holders],
        pending_messages=run.accepted - run.consumed,
        next_wake=_moment(run.wake_us),
        deadline=_moment(run.facts.deadline_us),
        input=msgspec.json.decode(run.facts.input),
        published=published[-1] if published else None,
        published_version=len(published),
        result=msgspec.json.decode(run.result) if run.status == "completed" and run.result is not None else None,
        failure=failure_of_closing(Closing(run.status, run.result)),
    )


def history_turn(turn: Turn) -> HistoryTurn:
    """A turn as people read it."""
    record = read_record(turn.record)
    return HistoryTurn(
        turn=turn.number,
        now=record.now,
        jobs=record.jobs,
        commands=record.commands,
        attempts=attempts_of(turn),
        record=record,
    )


def published_in(records: Sequence[TurnRecord]) -> list[Any]:
    """The values that these turns publish (M10)."""
    return [command.input[0] for record in records for command in record.commands if command.kind == "publish"]


def failure_of_closing(closing: Closing) -> Failure | None:
    """Why a run ended, if it ended without a value."""
    if closing.result is None or closing.status in ("completed", "running", "continued"):
        return None
    return _read_failure(closing.result)


def attempts_of(turn: Turn) -> list[AttemptSeen]:
    """The attempts behind the answers that a turn took."""
    if turn.notes is None:
        return []
    return [
        _attempt(note.name, note.seq, note.id, attempt) for note in _read_notes(turn.notes) for attempt in note.attempts
    ]


def _summary(run: Run) -> dict[str, Any]:
    started = _read_started(run.facts.started)
    blocked = run.blocked
    return {
        "id": run.facts.workflow_id,
        "run_id": run.facts.run_id,
        "type": run.facts.workflow,
        "status": run.status,
        "queue": run.facts.queue,
        "priority": run.facts.priority,
        "started": moment_of(run.created_us),
        "closed": _moment(run.closed_us),
        "attributes": msgspec.json.decode(run.attributes),
        "generation": started.generation,
        "parent": None if run.facts.parent is None else run.facts.parent.run_id,
        "memo": started.memo,
        "blocked": None
        if blocked is None
        else Blockage(
            blocked.kind, blocked.reason, moment_of(blocked.since_us), blocked.tries, _moment(blocked.retry_us)
        ),
    }


def _waiting(run: Run, tasks: Sequence[Task], records: Sequence[TurnRecord]) -> list[Waiting]:
    """As it was parked; of a run that a worker holds, the activities and timers that are open."""
    if run.status != "running":
        return []
    if run.waiting is not None:
        return _read_waiting(run.waiting)
    open_seqs = {task.seq for task in tasks}
    commands = {
        command.seq: (record.turn, command)
        for record in records
        for command in record.commands
        if command.kind == "schedule_activity" and command.seq in open_seqs
    }
    return [
        Waiting(command.unit, f"activity `{command.name}`", turn, command.source or "")
        for turn, command in commands.values()
    ]


def _attempts_of_task(task: Task, workers: Mapping[int, str]) -> list[AttemptSeen]:
    seen = [_attempt(task.name, task.seq, task.id, attempt) for attempt in task.attempts]
    if task.owner is not None:
        seen.append(
            AttemptSeen(
                activity=task.name,
                seq=task.seq,
                key=task.id,
                attempt=task.attempt,
                worker=workers.get(task.owner, f"lease {task.owner}"),
                started=moment_of(task.started_us or task.scheduled_us),
                ended=None,
                outcome="running",
            )
        )
    return seen


def _attempt(activity: str, seq: int, key: str, attempt: Attempt) -> AttemptSeen:
    return AttemptSeen(
        activity=activity,
        seq=seq,
        key=key,
        attempt=attempt.attempt,
        worker=attempt.worker,
        started=moment_of(attempt.started_us),
        ended=moment_of(attempt.ended_us),
        outcome=attempt.outcome,
        failure=attempt.failure,
    )


def _open(task: Task, workers: Mapping[int, str]) -> OpenActivity:
    waits_for, since_us = what_it_waits_for(task) or (None, None)
    return OpenActivity(
        activity=task.name,
        seq=task.seq,
        key=task.id,
        queue=task.queue,
        scheduled=moment_of(task.scheduled_us),
        due=None if task.due_us == NEVER_US else moment_of(task.due_us),
        worker=None if task.owner is None else workers.get(task.owner, f"lease {task.owner}"),
        attempt=task.attempt,
        cancelling=task.cancel,
        waits_for=waits_for,
        since=_moment(since_us),
    )


def _lease(lease: Lease) -> LeaseSeen:
    return LeaseSeen(
        number=lease.number,
        worker=lease.name,
        queues=lease.queues,
        since=moment_of(lease.started_us),
        expires=moment_of(lease.expires_us),
    )


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else moment_of(micros)
