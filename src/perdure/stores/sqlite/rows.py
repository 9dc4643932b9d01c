"""Rows: sealed when they are written, verified whenever their values are used (E9).

A seal is the checksum over all other columns, the key included, so a flipped, swapped or moved value is found.
What is damaged is never sealed again: it stays damaged for everybody who looks later.
A value whose seal fits is what was written, and needs no other check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar, cast

import msgspec

from perdure.errors import StoreCorrupt
from perdure.stores.checks import checksum
from perdure.stores.records import (
    NO_CHECKSUM,
    NO_TURN,
    Attempt,
    Blocked,
    Damage,
    Message,
    NewRun,
    Parent,
    Run,
    Settlement,
    Status,
    Task,
    Turn,
)
from perdure.stores.sqlite.access import Row, Value

T = TypeVar("T")
RUN_COLUMNS = 20
PLACE_BITS = 32  # of a turn's place, for its number in its run
_blocked = msgspec.json.Decoder(Blocked).decode
_attempts = msgspec.json.Decoder(tuple[Attempt, ...]).decode
_settlement = msgspec.json.Decoder(Settlement).decode
_values_of = msgspec.structs.astuple


class DamagedRow(StoreCorrupt):
    """A row is not as it was written; `damage` says which and how."""

    def __init__(self, damage: Damage) -> None:
        of_run = f" (run {damage.run_id})" if damage.run_id else ""
        super().__init__(
            f"the store is damaged: {damage.table}, row {damage.row}{of_run}: {damage.problem}. Only this run is "
            "stopped; `perdure doctor` lists all that is damaged; a backup from before has it whole"
        )
        self.damage = damage


def damaged(table: str, row: object, problem: str, run_id: str | None = None) -> DamagedRow:
    return DamagedRow(Damage(table=table, row=str(row), problem=problem, run_id=run_id))


def sealed(table: str, values: Row) -> Row:
    """The row as it is written: with its seal behind."""
    return (*values, checksum(table, values))


def verified(table: str, row: Row, key: object, run_id: str | None = None) -> Row:
    """The row without its seal. `StoreCorrupt` if that does not fit."""
    values = row[:-1]
    if checksum(table, values) != row[-1]:
        raise damaged(table, key, "its checksum does not fit: it is not as it was written", run_id)
    return values


def whole_ones(rows: Iterable[Row], read: Callable[[Row], T]) -> list[T]:
    """Those rows that are as they were written: a damaged one is to hold up nobody else, and `verify` names it."""
    found: list[T] = []
    for row in rows:
        with suppress(StoreCorrupt):
            found.append(read(row))
    return found


# --- runs and states -----------------------------------------------------------------------------


class State(msgspec.Struct):
    """What changes of a run: a row of `states`, in the order of its columns."""

    number: int
    queue: str
    workflow: str
    priority: int
    status: Status = "running"
    blocked: bytes | None = None
    result: bytes | None = None
    closed_us: int | None = None
    wake_us: int | None = None
    owner: int | None = None
    followed_by: int | None = None
    last_turn: int = NO_TURN
    tail: bytes = NO_CHECKSUM
    accepted: int = 0
    consumed: int = 0
    open_tasks: int = 0  # as rows
    top_seq: int = -1  # the largest seq of a task so far: a new one beyond it cannot be there yet
    kept: int = 0  # rows of message_ids, updates and promises that this run has written
    at_hand: bytes | None = None  # see hands
    waiting: bytes | None = None
    attributes: bytes = b"{}"
    created_us: int = 0
    was: tuple[Value, ...] = ()  # no column: what `found_by` gave when it was read or written last

    def found_by(self) -> tuple[Value, ...]:
        """What filters look at, and most changes leave alone."""
        return (self.status, self.blocked, self.closed_us)

    @property
    def running(self) -> bool:
        return self.status == "running"

    @property
    def pending(self) -> int:
        return self.accepted - self.consumed


def facts_row(number: int, facts: NewRun, created_us: int) -> Row:
    parent = facts.parent
    values = (
        number,
        facts.run_id,
        facts.chain,
        facts.workflow_id,
        facts.workflow,
        facts.version,
        facts.queue,
        facts.priority,
        str(facts.seed),
        facts.input,
        facts.keywords,
        facts.started,
        facts.attributes,
        facts.deadline_us,
        *((None, None, None) if parent is None else (parent.run_id, parent.seq, parent.close)),
        facts.generation,
        created_us,
    )
    return sealed("runs", values)


def read_facts(row: Row) -> tuple[int, NewRun, int]:
    """Number, facts and time of creation. `StoreCorrupt`."""
    run_id = row[1] if isinstance(row[1], str) else None
    values: Any = verified("runs", row, row[0], run_id)
    facts = NewRun(
        run_id=values[1],
        chain=values[2],
        workflow_id=values[3],
        workflow=values[4],
        version=values[5],
        queue=values[6],
        priority=values[7],
        seed=int(values[8]),
        input=values[9],
        keywords=values[10],
        started=values[11],
        attributes=values[12],
        deadline_us=values[13],
        parent=None if values[14] is None else Parent(run_id=values[14], seq=values[15], close=values[16]),
        generation=values[17],
    )
    return values[0], facts, values[18]


def state_row(state: State) -> Row:
    return sealed("states", _values_of(state)[:-1])


def read_state(row: Row, run_id: str | None = None) -> State:
    """`StoreCorrupt`."""
    verified("states", row, row[0], run_id)
    return state_of(row)


def state_of(row: Row) -> State:
    """From a row that was just written, or verified."""
    state = State(*cast("Any", row[:-1]))
    state.was = state.found_by()
    return state


def read_run(row: Row) -> Run:
    """A run from its row of `runs` and its row of `states`, one behind the other. `StoreCorrupt`."""
    number, facts, created_us, state = read_both(row)
    return run_of(number, facts, created_us, state)


def read_both(row: Row) -> tuple[int, NewRun, int, State]:
    """Number, facts, time of creation and state. `StoreCorrupt`, also where one of the two rows is missing."""
    if row[0] is None:
        raise damaged("runs", row[RUN_COLUMNS], "it is missing")
    number, facts, created_us = read_facts(row[:RUN_COLUMNS])
    if row[RUN_COLUMNS] is None:
        raise damaged("states", number, "it is missing", facts.run_id)
    return number, facts, created_us, read_state(row[RUN_COLUMNS:], facts.run_id)


def run_of(number: int, facts: NewRun, created_us: int, state: State) -> Run:
    return Run(
        number=number,
        facts=facts,
        status=state.status,
        blocked=None if state.blocked is None else _blocked(state.blocked),
        result=state.result,
        created_us=created_us,
        closed_us=state.closed_us,
        wake_us=state.wake_us,
        owner=state.owner,
        last_turn=state.last_turn,
        checksum=state.tail,
        accepted=state.accepted,
        consumed=state.consumed,
        waiting=state.waiting,
        attributes=state.attributes,
    )


# --- turns and messages --------------------------------------------------------------------------


def place_of(run: int, number: int) -> int:
    """Where a turn is, among those of all runs."""
    return (run << PLACE_BITS) + number


def turn_row(run: int, turn: Turn) -> Row:
    place = place_of(run, turn.number)
    return (place, turn.record, turn.checksum, turn.notes, checksum("turns", (place, turn.checksum, turn.notes)))


def read_turn(row: Row, run_id: str | None) -> Turn:
    """`StoreCorrupt`. The record is not looked at: `checks.verify_chain` does that."""
    place, record, chain, notes, seal = cast("Any", row)
    run, number = divmod(place, 1 << PLACE_BITS)
    if checksum("turns", (place, chain, notes)) != seal:
        raise damaged("turns", f"{run}/{number}", "its checksum does not fit: it is not as it was written", run_id)
    return Turn(number=number, record=record, checksum=chain, notes=notes)


def message_row(run: int, message: Message, answers: bool) -> Row:
    told = (message.number, message.job, message.message_id, message.accepted_us, message.notes)
    return sealed("messages", (run, *told, int(answers)))


def read_message(row: Row, run_id: str | None) -> Message:
    """`StoreCorrupt`."""
    values: Any = verified("messages", row, _pair(row), run_id)
    _, number, job, message_id, accepted_us, notes, _ = values
    return Message(number=number, job=job, message_id=message_id, accepted_us=accepted_us, notes=notes)


def _pair(row: Row) -> str:
    return f"{row[0]}/{row[1]}"


class KnownId(msgspec.Struct):
    """A row of `message_ids`, in the order of its columns."""

    chain: str
    message_id: str
    run: int  # whose row it is
    holder: int  # the run for which it waited last
    number: int


def known_id_row(known: KnownId) -> Row:
    return sealed("message_ids", _values_of(known))


def read_known_id(row: Row) -> KnownId:
    """`StoreCorrupt`."""
    return KnownId(*cast("Any", verified("message_ids", row, _pair(row))))


class UpdateRow(msgspec.Struct):
    """A row of `updates`, in the order of its columns."""

    chain: str
    id: str
    run: int  # whose row it is
    answer: bytes | None = None


def update_row(update: UpdateRow) -> Row:
    return sealed("updates", _values_of(update))


def read_update(row: Row) -> UpdateRow:
    """`StoreCorrupt`."""
    return UpdateRow(*cast("Any", verified("updates", row, _pair(row))))


class PromiseRow(msgspec.Struct):
    """A row of `promises`, in the order of its columns."""

    run: int
    name: str
    key: str | None = None
    settlement: bytes | None = None  # a Settlement as JSON

    def settled(self) -> Settlement | None:
        return None if self.settlement is None else _settlement(self.settlement)


def promise_row(promise: PromiseRow) -> Row:
    return sealed("promises", _values_of(promise))


def read_promise(row: Row) -> PromiseRow:
    """`StoreCorrupt`."""
    return PromiseRow(*cast("Any", verified("promises", row, _pair(row))))


# --- tasks ---------------------------------------------------------------------------------------


class TaskRow(msgspec.Struct):
    """A row of `tasks`, in the order of its columns."""

    id: str
    run: int
    seq: int
    name: str
    queue: str
    priority: int
    input: bytes
    keywords: bytes
    options: bytes
    scheduled_us: int
    due_us: int
    attempt: int = 0
    failures: int = 0
    owner: int | None = None
    started_us: int | None = None
    details: bytes | None = None
    heartbeat_us: int | None = None
    cancel: int = 0
    attempts: bytes = b"[]"

    def past(self) -> tuple[Attempt, ...]:
        return _attempts(self.attempts)


def task_row(task: TaskRow) -> Row:
    return sealed("tasks", _values_of(task))


def read_task(row: Row) -> TaskRow:
    """`StoreCorrupt`."""
    return TaskRow(*cast("Any", verified("tasks", row, row[0])))


def task_of(row: TaskRow, facts: NewRun) -> Task:
    return Task(
        id=row.id,
        run=row.run,
        run_id=facts.run_id,
        workflow_id=facts.workflow_id,
        seq=row.seq,
        name=row.name,
        queue=row.queue,
        priority=row.priority,
        input=row.input,
        keywords=row.keywords,
        options=row.options,
        scheduled_us=row.scheduled_us,
        due_us=row.due_us,
        attempt=row.attempt,
        failures=row.failures,
        owner=row.owner,
        started_us=row.started_us,
        details=row.details,
        heartbeat_us=row.heartbeat_us,
        cancel=bool(row.cancel),
        attempts=row.past(),
    )


def key_of(value: Value) -> str:
    """A key for people."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
