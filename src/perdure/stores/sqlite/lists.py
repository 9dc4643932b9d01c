"""Lists: runs found and counted by what is known of them."""

from __future__ import annotations

from perdure.errors import StoreCorrupt
from perdure.stores.records import Blocked, NewRun, Run, RunFilter
from perdure.stores.sqlite import sql
from perdure.stores.sqlite.access import Access, Row, Value, json_of
from perdure.stores.sqlite.rows import RUN_COLUMNS, read_run

Condition = tuple[str, Value]


def list_runs(access: Access, wanted: RunFilter, limit: int, before: int | None) -> list[Run]:
    """Damaged runs are shown as blocked, kind `corrupt`."""
    tables, given = _conditions(wanted)
    if before is not None:
        given = [(sql.BEFORE, before), *given]
    statement = sql.LIST_RUNS.format(tables=tables, conditions=_joined(given))
    return [_listed(row) for row in access.rows(statement, *_values(given), limit)]


def count_runs(access: Access, wanted: RunFilter) -> int:
    tables, given = _conditions(wanted)
    statement = sql.COUNT_RUNS.format(tables=tables, conditions=_joined(given))
    return access.number(statement, *_values(given)) or 0


def _conditions(wanted: RunFilter) -> tuple[str, list[Condition]]:
    """The tables that are needed, and the conditions with their values; a condition without one has None."""
    of_facts: list[Condition] = [
        (sql.WITH_WORKFLOW_ID, wanted.workflow_id),
        (sql.CREATED_FROM, wanted.created_from_us),
        (sql.CREATED_TO, wanted.created_to_us),
    ]
    of_states: list[Condition] = [
        (sql.WITH_WORKFLOW, wanted.workflow),
        (sql.CLOSED_FROM, wanted.closed_from_us),
        (sql.CLOSED_TO, wanted.closed_to_us),
    ]
    if wanted.status is not None and len(wanted.status) == 1:
        of_states.append((sql.WITH_STATUS, wanted.status[0]))
    elif wanted.status is not None:
        of_states.append((sql.WITH_ONE_STATUS_OF, json_of(wanted.status)))
    of_facts, of_states = ([each for each in given if each[1] is not None] for given in (of_facts, of_states))
    if wanted.blocked is not None:
        of_states.append((sql.ARE_BLOCKED if wanted.blocked else sql.NOT_BLOCKED, None))
    tables = sql.FROM_BOTH if of_facts and of_states else sql.FROM_STATES if of_states else sql.FROM_RUNS
    return tables, [*of_facts, *of_states]


def _joined(given: list[Condition]) -> str:
    return " and ".join(condition for condition, _ in given) or sql.EVERYTHING


def _values(given: list[Condition]) -> list[Value]:
    return [value for _, value in given if value is not None]


def _listed(row: Row) -> Run:
    try:
        return read_run(row)
    except StoreCorrupt as error:
        return _as_far_as_legible(row, error)


def _as_far_as_legible(row: Row, error: StoreCorrupt) -> Run:
    """What a damaged run is called, for a list: nothing else of it is to be relied on."""
    number, run_id, _, workflow_id, workflow = (row[at] for at in range(5))
    facts = NewRun(
        run_id=str(run_id), workflow_id=str(workflow_id), workflow=str(workflow), seed=0, input=b"", started=b""
    )
    created_us = row[RUN_COLUMNS - 2]
    number = row[RUN_COLUMNS] if number is None else number  # only its state is left
    return Run(
        number=number if isinstance(number, int) else 0,
        facts=facts,
        blocked=Blocked(kind="corrupt", reason=str(error), since_us=0),
        created_us=created_us if isinstance(created_us, int) else 0,
    )
