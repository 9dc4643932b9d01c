"""States: what changes of a run, loaded and saved; and how a run is put aside whose rows are damaged."""

from __future__ import annotations

import msgspec

from perdure.errors import NotFound, RunClosed, StoreCorrupt
from perdure.stores.records import Blocked, Message, NewRun, Run
from perdure.stores.sqlite import found, sql
from perdure.stores.sqlite.access import Access, Row, to_json
from perdure.stores.sqlite.rows import (
    RUN_COLUMNS,
    State,
    damaged,
    message_row,
    read_both,
    read_facts,
    read_state,
    run_of,
    state_row,
)


class Standing(msgspec.Struct, frozen=True):
    """A run's facts and its state, to be changed and saved."""

    number: int
    facts: NewRun
    created_us: int
    state: State

    @property
    def chain(self) -> str:
        """What all generations of a run have in common."""
        return self.facts.chain or self.facts.run_id

    def as_run(self) -> Run:
        """The run as it stands now."""
        return run_of(self.number, self.facts, self.created_us, self.state)


def load(access: Access, number: int) -> State | None:
    """The state of a run; None if there is none. `StoreCorrupt`."""
    row = access.row(sql.STATE, number)
    return None if row is None else read_state(row)


def save(access: Access, state: State) -> None:
    write(access, state, state_row(state))


def write(access: Access, state: State, row: Row) -> None:
    """Save a state by its row. Every index that an update names is written again, so it names what may have changed."""
    access.states.pop(state.number, None)
    found_by = state.found_by()
    if found_by == state.was:
        access.write_row(sql.UPDATE_STATE_PLACE, (row[0], *row[8:21], row[22]))
    else:
        access.write_row(sql.UPDATE_STATE, (row[0], *row[4:21], row[22]))
        found.update(access, state)
        state.was = found_by


def add(access: Access, facts: NewRun, state: State) -> None:
    access.write_row(sql.INSERT_STATE, state_row(state))
    found.add(access, facts, state)
    state.was = state.found_by()


def find(access: Access, workflow_id: str, run_id: str | None = None) -> Standing:
    """The run of this id. `NotFound`, `StoreCorrupt`."""
    there = seek(access, workflow_id, run_id)
    if there is None:
        which = "" if run_id is None else f" with run id {run_id!r}"
        raise NotFound(f"no run has the workflow id {workflow_id!r}{which}; look it up with `perdure list`")
    return there


def seek(access: Access, workflow_id: str, run_id: str | None = None) -> Standing | None:
    """The run of this id, None if there is none. `StoreCorrupt`, also where the newest one has been lost."""
    if run_id is None:
        row = access.row(sql.NEWEST_RUN, workflow_id)
    else:
        row = access.row(sql.RUN_BY_RUN_ID, run_id, workflow_id)
    if row is None:
        return None
    there = Standing(*read_both(row))
    if run_id is None and there.state.followed_by is not None:
        raise damaged("runs", there.state.followed_by, f"it is missing, and was the newest of {workflow_id!r}")
    return there


def stand(access: Access, number: int) -> Standing | None:
    """The run of this number; None if there is none. `StoreCorrupt`, also where only its state is there."""
    row = access.row(sql.RUN, number)
    if row is None:
        if access.row(sql.STATE, number) is not None:
            raise damaged("runs", number, "it is missing")
        return None
    return Standing(*read_both(row))


def get(access: Access, number: int) -> Run | None:
    """`StoreCorrupt`."""
    there = stand(access, number)
    return None if there is None else there.as_run()


def facts_of(access: Access, number: int) -> NewRun | None:
    """`StoreCorrupt`."""
    row = access.row(sql.RUN, number)
    return None if row is None else read_facts(row[:RUN_COLUMNS])[1]


def refuse_closed(there: Standing) -> None:
    """`RunClosed`."""
    if not there.state.running:
        raise RunClosed(
            f"the run {there.facts.workflow_id!r} ({there.facts.run_id}) has ended: it is {there.state.status}"
        )


def append_message(access: Access, state: State, message: Message, *, answers: bool = False) -> Message:
    """Put a message behind those of a running run, which is due then; with its number. The state is not saved yet."""
    state.accepted += 1
    message = msgspec.structs.replace(message, number=state.accepted)
    access.write_row(sql.INSERT_MESSAGE, message_row(state.number, message, answers))
    be_due(state, message.accepted_us)
    return message


def new_message(access: Access, job: bytes, message_id: str | None = None, notes: bytes | None = None) -> Message:
    """A message that has no number yet."""
    return Message(number=0, job=job, message_id=message_id, accepted_us=access.now_us, notes=notes)


def be_due(state: State, now_us: int) -> None:
    """The run is due now, or already is. The state is not saved yet."""
    state.wake_us = now_us if state.wake_us is None else min(now_us, state.wake_us)


def set_aside(access: Access, number: int, error: Exception) -> None:
    """Stop a run whose rows are damaged, and only it. A damaged state keeps its broken seal."""
    try:
        state = load(access, number)
    except StoreCorrupt:
        access.states.pop(number, None)
        access.write(sql.SET_RUN_ASIDE, number)
        return
    if state is not None and state.running:
        state.blocked = to_json(Blocked(kind="corrupt", reason=str(error), since_us=access.now_us))
        state.owner = None
        state.wake_us = None
        save(access, state)
