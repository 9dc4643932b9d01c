"""Turns: take what a live run was told, run the kernel over it, and say what has to be committed (E1).

In:  engine.worker, with a live run that it owns.
Out: kernel.executor, then engine.committer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from perdure.define.workflow import Workflow
from perdure.engine.live import Live, LocalAnswer, OpenTask, read_job
from perdure.engine.orders import orders_of
from perdure.engine.retrying import timed_out
from perdure.engine.settings import over_limit
from perdure.errors import Failure, SchedulerViolation
from perdure.kernel.executor import Completion
from perdure.kernel.waiting import waits
from perdure.model import jobs
from perdure.model.commands import Command
from perdure.model.turns import Answered, TurnRecord
from perdure.stores.answers import attempt_notes
from perdure.stores.checks import chain
from perdure.stores.records import Closing, Message, NewTask, Status, Successor, Task, TaskCancel, Turn, TurnCommit

write = msgspec.json.Encoder().encode
STATUS_OF: dict[str, Status] = {"complete": "completed", "fail": "failed", "cancel": "cancelled"}
CANCELLED = "the run was asked to cancel, and did"


class Slots(Protocol):
    """Who runs activities here."""

    def reserve(self, queue: str, name: str) -> bool:
        """Whether this worker runs one more of these now; the slot is taken."""
        ...


class Circumstances(msgspec.Struct, frozen=True):
    """When and by whom a turn is run."""

    now_us: int
    owner: int
    slots: Slots
    definitions: Mapping[str, Workflow[..., Any]]
    payload_bytes_max: int


class Prepared(msgspec.Struct):
    """A turn that was run, and what has to be committed of it."""

    live: Live
    record: TurnRecord
    commit: TurnCommit
    starts: list[Task]
    answers: tuple[Answered, ...]
    reports: tuple[str, ...]


class Taken(msgspec.Struct):
    """What a turn was told, and where it came from."""

    jobs: list[jobs.AnyJob]
    answers: list[LocalAnswer]
    messages: list[Message]
    expired: list[OpenTask]


def take_jobs(live: Live, now_us: int) -> Taken:
    """Everything that waits for the run: answers in the order in which they came, then limits that are over."""
    answers, live.answers = live.answers, []
    messages, live.messages = live.messages, []
    told: list[jobs.AnyJob] = []
    if live.last_turn < 0:
        told.append(msgspec.json.decode(live.run.facts.started, type=jobs.Started))
    told += [answer.job for answer in answers]
    told += [read_job(message.job) for message in messages]
    due = live.take_due(now_us)
    if not due:
        return Taken(told, answers, messages, [])
    told += [jobs.Fired(seq) for seq in due if seq in live.timers]
    answered = {job.seq for job in told if isinstance(job, jobs.ENDS)}
    expired = [live.tasks[seq] for seq in due if seq in live.tasks and seq not in answered]
    told += [jobs.Failed(task.seq, timed_out(task.which_limit(now_us), task.options)) for task in expired]
    return Taken(told, answers, messages, expired)


def prepare(live: Live, taken: Taken, around: Circumstances, run: Callable[[], Completion]) -> Prepared:
    """Run the turn. What it raises is the kernel's; then nothing counts, and the live copy is spent."""
    completion = run()
    record = completion.record
    assert record is not None
    _check_sizes(record, around.payload_bytes_max)
    previous, turn = live.checksum, _turn(live, taken, record)
    live.follow(record)
    live.last_turn = turn.number
    live.checksum = turn.checksum
    live.local -= len(taken.answers)
    starts: list[Task] = []
    new_tasks, cancels = _tasks(live, record, taken, around, starts)
    orders = orders_of(live, record, completion.answers, around.now_us, around.definitions)
    closing = _closing(live, record, orders.successor)
    live.ended = closing is not None
    park = closing is None and live.local == 0
    commit = TurnCommit(
        run=live.number,
        owner=around.owner,
        turn=turn,
        previous=previous,
        consumed=live.consumed,
        finished=tuple(answer.task.id for answer in taken.answers),
        new_tasks=new_tasks,
        cancels=cancels,
        wake_us=None if closing is not None else live.wake_us(),
        park=park,
        waiting=write(waits(live.executor)) if park else None,
        closing=closing,
        children=orders.children,
        sent=orders.sent,
        promises=orders.promises,
        lapsed=live.lapsed,
        answers=orders.answers,
        attributes=orders.attributes,
        successor=orders.successor,
        events=orders.events,
    )
    return Prepared(live, record, commit, starts, completion.answers, completion.reports)


def _check_sizes(record: TurnRecord, limit: int) -> None:
    """`SchedulerViolation` for a payload over the limit: the run waits for other code, or for a larger limit."""
    for command in record.commands:
        size = len(command.encoded) + len(command.encoded_kwargs)
        if size > limit:
            what = f"what {command.kind} `{command.name}` is given" if command.name else f"what {command.kind} is given"
            at = f" (at {command.source})" if command.source else ""
            raise SchedulerViolation(over_limit(size, limit, what) + at)


def _turn(live: Live, taken: Taken, record: TurnRecord) -> Turn:
    number = live.last_turn + 1
    encoded = write(record)
    return Turn(number=number, record=encoded, checksum=chain(live.checksum, number, encoded), notes=_notes(taken))


def _tasks(
    live: Live, record: TurnRecord, taken: Taken, around: Circumstances, starts: list[Task]
) -> tuple[tuple[NewTask, ...], tuple[TaskCancel, ...]]:
    """The activities that a turn schedules, and those that it does not want any more."""
    scheduled: list[Command] = []
    cancelled: list[Command] = []
    for command in record.commands:
        if command.kind == "schedule_activity":
            scheduled.append(command)
        elif command.kind == "cancel_activity":
            cancelled.append(command)
    if not cancelled and not taken.expired:
        return tuple([_new_task(live, command, around, starts) for command in scheduled]), ()
    unwanted = {command.seq for command in scheduled if command.seq not in live.tasks}  # and cancelled in the same turn
    cancels = [_cancel_of(live, command) for command in cancelled if command.seq not in unwanted]
    cancels += [TaskCancel(task.id) for task in taken.expired]
    wanted = [command for command in scheduled if command.seq not in unwanted]
    return tuple([_new_task(live, command, around, starts) for command in wanted]), tuple(cancels)


def _closing(live: Live, record: TurnRecord, successor: Successor | None) -> Closing | None:
    if successor is not None:
        return Closing("continued", write(successor.facts.run_id))
    last = record.commands[-1] if record.commands else None
    status = None if last is None else STATUS_OF.get(last.kind)
    if last is None or status is None:
        return None
    if last.kind in ("complete", "fail"):
        return Closing(status, bytes(last.encoded)[1:-1])  # the one value of a list
    reason = live.executor.root_scope.reason
    text = f"{CANCELLED}: {reason}" if reason else CANCELLED
    return Closing(status, write(Failure("Cancelled", text, retryable=False)))


def _new_task(live: Live, command: Command, around: Circumstances, starts: list[Task]) -> NewTask:
    assert command.seq is not None
    assert command.name is not None
    task = live.tasks[command.seq]
    options = task.options
    queue = options.get("queue") or live.run.facts.queue
    claimed = around.slots.reserve(queue, command.name)
    new = NewTask(
        id=task.id,
        seq=command.seq,
        name=command.name,
        queue=queue,
        priority=options.get("priority", 0),
        input=bytes(command.encoded) or b"[]",
        keywords=bytes(command.encoded_kwargs),
        options=write(options) if options else b"{}",
        claimed=claimed,
    )
    if claimed:
        task.local = task.started = True
        live.local += 1
        starts.append(_first_attempt(live, new, around.now_us))
    return new


def _first_attempt(live: Live, new: NewTask, now_us: int) -> Task:
    facts = live.run.facts
    return Task(
        id=new.id,
        run=live.number,
        run_id=facts.run_id,
        workflow_id=facts.workflow_id,
        seq=new.seq,
        name=new.name,
        queue=new.queue,
        priority=new.priority,
        input=new.input,
        keywords=new.keywords,
        options=new.options,
        scheduled_us=now_us,
        due_us=now_us,
        attempt=1,
        started_us=now_us,
    )


def _cancel_of(live: Live, command: Command) -> TaskCancel:
    assert command.seq is not None
    return TaskCancel(live.executor.operation_id(command.seq), answer=command.seq in live.tasks)


def _notes(taken: Taken) -> bytes | None:
    """The attempts behind the answers of a turn, for people."""
    notes = [attempt_notes(answer.task, answer.attempt) for answer in taken.answers]
    notes += [message.notes for message in taken.messages if message.notes is not None]
    return b"[" + b",".join(notes) + b"]" if notes else None
