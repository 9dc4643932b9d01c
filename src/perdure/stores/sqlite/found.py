"""Found: the one narrow row of each run that filters look at, kept in step with what it repeats."""

from __future__ import annotations

from collections.abc import Mapping

from perdure.stores.records import NewRun
from perdure.stores.sqlite import attributes
from perdure.stores.sqlite import finding_sql as sql
from perdure.stores.sqlite.access import Access, Row, Value
from perdure.stores.sqlite.rows import State, damaged


def add(access: Access, facts: NewRun, state: State) -> None:
    """The row of a new run."""
    access.write_row(sql.INSERT_FOUND, _row(facts, state, attributes.add(access, state.number, state.attributes)))


def update(access: Access, state: State) -> None:
    """What a run's `State.found_by` says has changed; its attributes change by `attributes.put`."""
    access.write(sql.UPDATE_FOUND, state.number, state.status, state.closed_us, int(state.blocked is not None))


def row_of(facts: NewRun, state: State, places: Mapping[str, int]) -> Row:
    """The row as it has to be."""
    kept = attributes.kept(attributes.by_name(state.attributes), places)
    return _row(facts, state, attributes.in_order(kept))


def fit(
    facts: NewRun,
    state: State,
    places: Mapping[str, int],
    rows: list[Row],
    named: list[tuple[str, type, Value]],
) -> None:
    """`StoreCorrupt` unless these are the rows that a run with these facts and this state is found by."""
    kept = attributes.kept(attributes.by_name(state.attributes), places)
    expected = _row(facts, state, attributes.in_order(kept))
    if [_typed(row) for row in rows] != [_typed(expected)]:
        raise damaged("found", state.number, "it does not say what the run is", facts.run_id)
    if set(named) != kept.rows:
        raise damaged("attributes", f"of run {state.number}", "they are not those that its state has", facts.run_id)


def _row(facts: NewRun, state: State, values: Row) -> Row:
    return (
        state.number,
        state.status,
        state.workflow,
        state.queue,
        state.priority,
        state.created_us,
        state.closed_us,
        int(state.blocked is not None),
        facts.generation,
        facts.workflow_id,
        None if facts.parent is None else facts.parent.run_id,
        *values,
    )


def _typed(row: Row) -> list[tuple[type, Value]]:
    return [(type(value), value) for value in row]
