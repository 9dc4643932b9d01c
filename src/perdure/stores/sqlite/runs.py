"""Runs: started once, found by id, listed, and ended from outside."""

from __future__ import annotations

from collections.abc import Container, Sequence

from perdure.errors import AlreadyExists, RunClosed, StoreCorrupt
from perdure.stores.answers import replaced, same_start
from perdure.stores.records import Begun, Blocked, Closing, NewRun, Run, RunFilter, Start
from perdure.stores.sqlite import leases, messages, sql, states, tasks
from perdure.stores.sqlite.access import Access, Row, Value, json_of
from perdure.stores.sqlite.rows import RUN_COLUMNS, State, facts_row, read_run, run_of, state_row
from perdure.stores.sqlite.states import Standing


def start_run(access: Access, start: Start) -> Begun:
    facts = start.facts
    there = states.seek(access, facts.workflow_id)
    if there is not None and _is_meant(there, start):
        return _join(access, there, start)
    if access.row(sql.RUN_ID_TAKEN, facts.run_id) is not None:
        raise AlreadyExists(f"the run id {facts.run_id!r} is taken; every run needs one of its own")
    number = (access.number(sql.LAST_RUN) or 0) + 1
    if there is not None:
        if there.state.running:
            end(access, there.state, Closing("terminated", replaced(facts.run_id)))
        there.state.followed_by = number
        states.save(access, there.state)
    return _begin(access, start, number)


def _is_meant(there: Standing, start: Start) -> bool:
    """Whether a start comes to the run that is there (E2). `AlreadyExists` if it may not."""
    facts, old, state = start.facts, there.facts, there.state
    if start.id_policy == "terminate" or (start.id_policy == "again" and not state.running):
        return False
    if start.id_policy == "reject":
        raise AlreadyExists(f"the workflow id {facts.workflow_id!r} is taken by run {old.run_id} ({state.status})")
    if not same_start(old, facts):
        what = "other input" if old.workflow == facts.workflow else f"the workflow {old.workflow!r}"
        raise AlreadyExists(
            f"the workflow id {facts.workflow_id!r} is taken by run {old.run_id} with {what}; "
            "choose another id, or end that run with id_policy='terminate'"
        )
    if start.message is not None and not state.running:
        raise RunClosed(f"the run {facts.workflow_id!r} ({old.run_id}) has ended: it is {state.status}")
    return True


def _join(access: Access, there: Standing, start: Start) -> Begun:
    if start.message is None:
        return Begun(run=there.as_run(), new=False)
    number, claimed = messages.accept(access, there.state, start.message, start.message_id, start.claim)
    return Begun(run=there.as_run(), new=False, message=number, claimed=claimed)


def _begin(access: Access, start: Start, number: int) -> Begun:
    facts = start.facts
    wake_us = access.now_us if start.wake_us is None else start.wake_us
    state = State(number, facts.queue, facts.workflow, facts.priority, wake_us=wake_us)
    claimed = wake_us <= access.now_us and start.claim is not None and leases.alive(access, start.claim)
    if claimed:
        state.owner = start.claim
    access.write_row(sql.INSERT_RUN, facts_row(number, facts, access.now_us))
    message = 0
    if start.message is not None:
        message = states.append_message(access, state, start.message, start.message_id, None)
        state.wake_us = wake_us
    access.write_row(sql.INSERT_STATE, state_row(state))
    return Begun(run=run_of(number, facts, access.now_us, state), new=True, message=message, claimed=claimed)


def get_run(access: Access, workflow_id: str, run_id: str | None) -> Run:
    return states.find(access, workflow_id, run_id).as_run()


def get_runs(access: Access, numbers: Sequence[int]) -> list[Run]:
    return [run for number in numbers if (run := states.get(access, number)) is not None]


def close_run(access: Access, workflow_id: str, run_id: str | None, closing: Closing) -> Run:
    there = states.find(access, workflow_id, run_id)
    states.refuse_closed(there)
    before = there.as_run()
    end(access, there.state, closing)
    states.save(access, there.state)
    return before


def end(access: Access, state: State, closing: Closing, spared: Container[str] = ()) -> None:
    """End a run: its messages and its open tasks go, but for those spared. The state is not saved yet."""
    tasks.drop_all(access, state, spared)
    if state.pending:
        access.write(sql.DELETE_MESSAGES, state.number, state.accepted)
    state.status = closing.status
    state.result = closing.result
    state.closed_us = access.now_us
    state.owner = state.wake_us = state.blocked = state.waiting = None


# --- lists ---------------------------------------------------------------------------------------


def list_runs(access: Access, wanted: RunFilter, limit: int, before: int | None) -> list[Run]:
    """Damaged runs are shown as blocked, kind `corrupt`."""
    conditions, values, _ = _conditions(wanted)
    if before is not None:
        conditions, values = [sql.BEFORE, *conditions], [before, *values]
    statement = sql.LIST_RUNS + " and ".join(conditions or [sql.EVERYTHING]) + sql.LIST_NEWEST_FIRST
    return [_listed(row) for row in access.rows(statement, *values, limit)]


def count_runs(access: Access, wanted: RunFilter) -> int:
    conditions, values, by_facts = _conditions(wanted)
    statement = sql.COUNT_RUNS_BY_FACTS if by_facts else sql.COUNT_RUNS
    return access.number(statement + " and ".join(conditions or [sql.EVERYTHING]), *values) or 0


def _conditions(wanted: RunFilter) -> tuple[list[str], list[Value], bool]:
    """Conditions, their values, and whether any is about what never changes of a run."""
    of_facts: list[tuple[str, Value]] = [
        (sql.WITH_WORKFLOW_ID, wanted.workflow_id),
        (sql.CREATED_FROM, wanted.created_from_us),
        (sql.CREATED_TO, wanted.created_to_us),
    ]
    of_states: list[tuple[str, Value]] = [
        (sql.WITH_WORKFLOW, wanted.workflow),
        (sql.CLOSED_FROM, wanted.closed_from_us),
        (sql.CLOSED_TO, wanted.closed_to_us),
    ]
    if wanted.status is not None and len(wanted.status) == 1:
        of_states.append((sql.WITH_STATUS, wanted.status[0]))
    elif wanted.status is not None:
        of_states.append((sql.WITH_ONE_STATUS_OF, json_of(wanted.status)))
    by_facts = any(value is not None for _, value in of_facts)
    given = [(condition, value) for condition, value in [*of_facts, *of_states] if value is not None]
    conditions = [condition for condition, _ in given]
    if wanted.blocked is not None:
        conditions.append(sql.ARE_BLOCKED if wanted.blocked else sql.NOT_BLOCKED)
    return conditions, [value for _, value in given], by_facts


def _listed(row: Row) -> Run:
    try:
        return read_run(row)
    except StoreCorrupt as error:
        return _as_far_as_legible(row, error)


def _as_far_as_legible(row: Row, error: StoreCorrupt) -> Run:
    """What a damaged run is called, for a list: nothing else of it is to be relied on."""
    number, run_id, workflow_id, workflow = (row[at] for at in range(4))
    facts = NewRun(
        run_id=str(run_id), workflow_id=str(workflow_id), workflow=str(workflow), seed=0, input=b"", started=b""
    )
    created_us = row[RUN_COLUMNS - 2]
    return Run(
        number=number if isinstance(number, int) else 0,
        facts=facts,
        blocked=Blocked(kind="corrupt", reason=str(error), since_us=0),
        created_us=created_us if isinstance(created_us, int) else 0,
    )
