"""Records: what a store keeps, and what its transitions take and give; frozen data of perdure.stores.port.

What is kept of jobs, commands and values is JSON that no store reads. Times are microseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from perdure.errors import Failure
from perdure.stores.event_records import TurnEvent

Status = Literal["running", "completed", "failed", "cancelled", "terminated", "timed_out", "continued"]
IdPolicy = Literal["use_existing", "reject", "terminate", "again"]
ParentClose = Literal["terminate", "cancel", "abandon"]

NO_TURN = -1
NEVER_US = 2**63 - 1  # when something is due that waits for the outside
NO_CHECKSUM = b""


class Parent(msgspec.Struct, frozen=True, kw_only=True):
    """The run that waits for another one's end (M7), and what its own end does to it."""

    run_id: str
    seq: int
    close: ParentClose = "terminate"


class NewRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run to be: what never changes of it."""

    run_id: str
    chain: str = ""  # the run id of its first generation, where that is another (M8)
    workflow_id: str
    workflow: str
    version: str | None = None
    queue: str = "default"
    priority: int = 0
    seed: int
    input: bytes
    keywords: bytes = b""
    started: bytes  # the job of kind started, as JSON
    attributes: bytes = b"{}"  # those that it starts with, as a JSON object
    deadline_us: int | None = None  # when the run times out
    parent: Parent | None = None
    generation: int = 0  # how many runs of its chain came before it


class Blocked(msgspec.Struct, frozen=True, kw_only=True):
    """Why a run cannot go on, for a person and for the next try."""

    kind: str  # nondeterminism, violation, unknown_workflow, undecodable, corrupt, error
    reason: str
    since_us: int
    tries: int = 1
    retry_us: int | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it stands."""

    number: int  # the store's own name for it, growing in the order of creation
    facts: NewRun
    status: Status = "running"
    blocked: Blocked | None = None
    result: bytes | None = None  # JSON: the value if completed, a failure if it ended otherwise
    created_us: int
    closed_us: int | None = None
    wake_us: int | None = None  # from when on a worker has to look at it; None: not before a message comes
    owner: int | None = None  # the lease of the worker that has it
    last_turn: int = NO_TURN
    checksum: bytes = NO_CHECKSUM  # of its last turn
    accepted: int = 0  # messages that were ever accepted for it: their numbers are 1, 2, 3 …
    consumed: int = 0  # those that a turn has taken; always the first ones
    waiting: bytes | None = None  # what its units wait for, as JSON, when it was parked last
    attributes: bytes = b"{}"  # as they are now, as a JSON object


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One turn as it is kept: `record` is JSON; `notes`, outside the history, are for people (attempts)."""

    number: int
    record: bytes
    checksum: bytes  # chain(previous turn's, number, record)
    notes: bytes | None = None


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """Something accepted for a run that no turn has taken yet. `job` is JSON; `notes` go to the turn that takes it."""

    number: int
    job: bytes
    message_id: str | None = None
    accepted_us: int
    notes: bytes | None = None


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt of an activity, for people to see."""

    attempt: int
    worker: str
    started_us: int
    ended_us: int
    outcome: str  # completed, failed, timed_out, cancelled, worker_died, handed_over; more in engine.effects
    failure: Failure | None = None


class NewTask(msgspec.Struct, frozen=True, kw_only=True):
    """An activity to be run."""

    id: str  # of the activity (K8), and its idempotency key
    seq: int
    name: str
    queue: str = "default"
    priority: int = 0  # larger goes first
    input: bytes
    keywords: bytes = b""
    options: bytes = b"{}"  # the effective ones, as JSON
    due_us: int | None = None  # not before; None: now
    claimed: bool = False  # inserted as the first attempt of the worker that commits it


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """An activity that has not been answered."""

    id: str
    run: int
    run_id: str
    workflow_id: str
    seq: int
    name: str
    queue: str
    priority: int
    input: bytes
    keywords: bytes
    options: bytes
    scheduled_us: int
    due_us: int
    attempt: int = 0  # how often it was taken
    failures: int = 0  # how often an attempt reported a failure
    owner: int | None = None
    started_us: int | None = None
    details: bytes | None = None  # of its last heartbeat
    heartbeat_us: int | None = None
    cancel: bool = False
    attempts: tuple[Attempt, ...] = ()


class TaskCancel(msgspec.Struct, frozen=True):
    """The workflow does not want an activity any more; with `answer` it waits for how it ends."""

    id: str
    answer: bool = False


class NewChild(msgspec.Struct, frozen=True):
    """A run to be started by this turn. Where its workflow id is taken, that is the answer to `seq` (E2)."""

    seq: int
    facts: NewRun  # with its `parent`


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A job for the newest run of another workflow id. With `seq`, the sender is answered: null, or why not (E2)."""

    workflow_id: str
    job: bytes
    seq: int | None = None


class NewPromise(msgspec.Struct, frozen=True, kw_only=True):
    """A promise that the outside settles (M4). A key that another open run's promise has is the answer to `seq`."""

    seq: int
    name: str
    key: str | None = None


class UpdateAnswer(msgspec.Struct, frozen=True):
    """What an update came to, as JSON."""

    id: str
    answer: bytes


class Successor(msgspec.Struct, frozen=True, kw_only=True):
    """The next generation (M8): it takes over the messages that no turn has taken, after those that are `carried`.

    `carried` are jobs and their message ids. Of the messages that wait, those that answer the old generation are left.
    """

    facts: NewRun
    carried: tuple[tuple[bytes, str | None], ...] = ()


class Closing(msgspec.Struct, frozen=True):
    """The end of a run. Its open tasks are cancelled, but for those that its last turn scheduled.

    Its parent is told, its children are treated as they asked for, its open updates are answered as closed. One that
    is `continued` tells nobody: its successor stands for it, and `result` is that one's run id, as JSON.
    """

    status: Status
    result: bytes | None = None


class TurnCommit(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one turn comes to: all of it is written, or nothing."""

    run: int
    owner: int
    turn: Turn
    previous: bytes  # checksum of the turn before: the run must stand there
    consumed: int  # messages taken so far, this turn's included
    finished: tuple[str, ...] = ()  # tasks whose answers this turn took directly from the worker
    new_tasks: tuple[NewTask, ...] = ()
    cancels: tuple[TaskCancel, ...] = ()
    wake_us: int | None = None
    park: bool = False  # give the run back, unless a message is waiting
    waiting: bytes | None = None
    closing: Closing | None = None
    children: tuple[NewChild, ...] = ()
    sent: tuple[Sent, ...] = ()
    promises: tuple[NewPromise, ...] = ()
    lapsed: tuple[str, ...] = ()  # promises that timed out or were cancelled, unless somebody has settled them
    answers: tuple[UpdateAnswer, ...] = ()
    attributes: bytes | None = None  # all of them, where they have changed
    successor: Successor | None = None
    events: tuple[TurnEvent, ...] = ()


class Told(msgspec.Struct, frozen=True):
    """A run that a transition of another one has started, or given a message; `claimed`: the caller owns it now."""

    run: Run
    message: Message | None = None
    claimed: bool = False


class Committed(msgspec.Struct, frozen=True):
    """A turn was committed. `pending`: messages that wait; the run was then not parked. `ended`: other runs, by it."""

    pending: int = 0
    parked: bool = False
    told: tuple[Told, ...] = ()
    ended: int = 0


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """Start a run, perhaps with a first message. `claim` is the lease of a worker that would take it at once."""

    facts: NewRun
    id_policy: IdPolicy = "use_existing"
    wake_us: int | None = None  # None: now
    claim: int | None = None
    message: bytes | None = None
    message_id: str | None = None


class Begun(msgspec.Struct, frozen=True):
    """The run that a start came to; `message` is the number of its message; `claimed`: the caller owns it now."""

    run: Run
    new: bool
    message: int = 0
    claimed: bool = False


class Accepted(msgspec.Struct, frozen=True):
    """A message was accepted, as this number; `claimed`: the caller owns the run now, which was free."""

    run: Run
    number: int
    claimed: bool = False


class Settlement(msgspec.Struct, frozen=True):
    """What became of a promise: its value as JSON, or why the outside has rejected it; or its run waits no more."""

    value: bytes | None = None
    rejected: str | None = None
    lapsed: bool = False


class Requested(msgspec.Struct, frozen=True):
    """An update was asked for: `accepted` as a message now, or known before, with its `answer` if there is one."""

    run: Run
    accepted: Accepted | None = None
    answer: bytes | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt came to, where its answer does not go straight into a turn. Either `job` or `retry_us`.

    With `job`, the task is done: it is removed, and the job becomes a message of its run, if that is still running.
    With `retry_us`, it is free again from then on; one that has been cancelled meanwhile is answered as cancelled.
    `owner` is who had it, None for nobody: the outside may say what an attempt comes to that nobody makes.
    """

    run: int
    id: str
    owner: int | None
    attempt: Attempt
    job: bytes | None = None
    retry_us: int | None = None
    counts: bool = True  # as a failure of the retry policy


class Beat(msgspec.Struct, frozen=True):
    """A heartbeat of an attempt."""

    run: int
    id: str
    owner: int
    details: bytes | None = None


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that is, or was, alive. Its number is never given twice: it is the fencing number (E3)."""

    number: int
    name: str  # for people: host and process id
    queues: Mapping[str, int]
    started_us: int
    expires_us: int


class Question(msgspec.Struct, frozen=True):
    """A query that another process asked. `arguments` is JSON."""

    number: int
    run: int
    run_id: str
    workflow: str
    name: str
    arguments: bytes


Scalar = str | int | float | bool
Operator = Literal["=", "<", "<=", ">", ">=", "in", "like"]
FIELDS = frozenset(
    {"status", "type", "id", "run_id", "queue", "priority", "started", "closed", "blocked", "generation", "parent"}
)


class Compare(msgspec.Struct, frozen=True):
    """A field of `FIELDS`, or an attribute, compared; false where there is nothing, or something of another type.

    Moments are microseconds, `blocked` is a bool, `in` takes a tuple, `%` and `_` in `like` stand for any text and any
    character. Text compares by code points, bools as 0 and 1. An attribute that is a list is each of its values.
    Whole numbers have at most 64 bits, texts no NUL. perdure.stores.finding says all this in Python.
    """

    field: str
    operator: Operator
    value: Scalar | tuple[Scalar, ...]
    attribute: bool = False


class AllOf(msgspec.Struct, frozen=True):
    """All of these hold; of none, always."""

    parts: tuple[Condition, ...] = ()


class AnyOf(msgspec.Struct, frozen=True):
    """One of these holds."""

    parts: tuple[Condition, ...]


class Not(msgspec.Struct, frozen=True):
    """This does not hold."""

    part: Condition


Condition = Compare | AllOf | AnyOf | Not
EVERY = AllOf()


class Damage(msgspec.Struct, frozen=True):
    """Something that is not as it was written: which row of which table, and what is wrong with it."""

    table: str
    row: str
    problem: str
    run_id: str | None = None
