"""Attributes: a run's rows in the table by which it is found, kept in step with its state."""

from __future__ import annotations

from perdure.stores.finding import searchable
from perdure.stores.sqlite import sql
from perdure.stores.sqlite.access import Access, Row, Value
from perdure.stores.sqlite.rows import State, damaged, sealed, verified

Found = list[tuple[str, str | float]]


def put(access: Access, run: int, before: bytes, now: bytes) -> None:
    """The attributes of a run were these, and are those."""
    if before == now:
        return
    old, new = searchable(before), searchable(now)
    access.write_many(sql.DELETE_ATTRIBUTE, [(run, name, value) for name, value in _only(old, new)])
    access.write_many(sql.INSERT_ATTRIBUTE, [_row(run, name, value) for name, value in _only(new, old)])


def rows_of(run: int, attributes: bytes) -> list[Row]:
    """All rows of a run with these attributes."""
    return [_row(run, name, value) for name, value in searchable(attributes)]


def read(row: Row) -> tuple[str, Value]:
    """The name and the value. `StoreCorrupt`."""
    _, name, value = verified("attributes", row, f"{row[0]}/{row[1]}")
    return str(name), value


def fit(state: State, rows: list[tuple[str, Value]], run_id: str) -> None:
    """`StoreCorrupt` unless these are the rows of a run with this state."""
    if set(rows) != set(searchable(state.attributes)):
        raise damaged("attributes", f"of run {state.number}", "they are not those that its state has", run_id)


def _row(run: int, name: str, value: str | float) -> Row:
    return sealed("attributes", (run, name, value))


def _only(some: Found, others: Found) -> Found:
    """Those that are not among the others; 1 and 1.0 are two, as their rows differ."""
    known = {(name, type(value), value) for name, value in others}
    return [(name, value) for name, value in some if (name, type(value), value) not in known]
