"""Attributes: the values by which a run is found, kept in step with its state.

A name has a column of `found`, as long as there are columns left. One value stands there, several as a blob
(see several), and `attributes` has a row for each, as for every value of a name without a column.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from perdure.stores.finding import searchable
from perdure.stores.sqlite import finding_sql as sql
from perdure.stores.sqlite import several
from perdure.stores.sqlite.access import Access, Row, Value
from perdure.stores.sqlite.rows import sealed, verified

Values = list[str | float]
COLUMNS = sql.PLACES  # so many names get a column


class Kept(NamedTuple):
    """What is kept of a run's attributes: its values by column, and its rows of `attributes`."""

    columns: dict[int, Value]
    rows: set[tuple[str, type, Value]]


def put(access: Access, run: int, before: bytes, now: bytes) -> None:
    """The attributes of a run were these, and are those."""
    if before == now:
        return
    places: dict[str, int] = {}
    new = by_name(now)
    for name in new:
        _give_place(access, places, name)
    old = by_name(before)
    for name in old.keys() - new.keys():
        _find_place(access, places, name)
    was, is_now = kept(old, places), kept(new, places)
    for place in was.columns.keys() | is_now.columns.keys():
        value = is_now.columns.get(place)
        if _typed(was.columns.get(place)) != _typed(value):
            access.write(sql.SET_VALUE[place], run, value)
    access.write_many(sql.DELETE_ATTRIBUTE, [(run, name, value) for name, _, value in was.rows - is_now.rows])
    access.write_many(sql.INSERT_ATTRIBUTE, _sealed(run, is_now.rows - was.rows))


def add(access: Access, run: int, attributes: bytes) -> Row:
    """The values of a new run by column, for its row of `found`; its rows of `attributes` are written."""
    given = by_name(attributes)
    if not given:
        return NONE
    places: dict[str, int] = {}
    for name in given:
        _give_place(access, places, name)
    found = kept(given, places)
    access.write_many(sql.INSERT_ATTRIBUTE, _sealed(run, found.rows))
    return in_order(found)


NONE: Row = (None,) * sql.PLACES


def by_name(attributes: bytes) -> dict[str, Values]:
    """What can be found of them."""
    found: dict[str, Values] = {}
    for name, value in searchable(attributes):
        found.setdefault(name, []).append(value)
    return found


def kept(given: Mapping[str, Values], places: Mapping[str, int]) -> Kept:
    columns: dict[int, Value] = {}
    rows: set[tuple[str, type, Value]] = set()
    for name, values in given.items():
        place = places.get(name)
        if place is not None:
            columns[place] = values[0] if len(values) == 1 else several.blob_of(values)
        if place is None or len(values) > 1:
            rows.update((name, type(value), value) for value in values)
    return Kept(columns, rows)


def in_order(found: Kept) -> Row:
    """The values of all columns."""
    return tuple(found.columns.get(place) for place in range(1, sql.PLACES + 1))


def read_place(row: Row) -> tuple[str, int]:
    """A name and its column. `StoreCorrupt`."""
    name, place = verified("attribute_places", row, row[0])
    return str(name), int(place or 0)


def place_of(access: Access, name: str) -> int | None:
    """The column of an attribute; None if it has none."""
    return access.number(sql.PLACE, name)


def is_in_rows(access: Access, name: str) -> bool:
    """Whether `attributes` has rows of this name."""
    return access.row(sql.NAME_THERE, name) is not None


def read(row: Row) -> tuple[str, type, Value]:
    """The name, the type and the value of a row of `attributes`. `StoreCorrupt`."""
    _, name, value = verified("attributes", row, f"{row[0]}/{row[1]}")
    return str(name), type(value), value


def rows_of(run: int, attributes: bytes, places: Mapping[str, int]) -> list[Row]:
    """The rows of `attributes` of a run that has these."""
    return _sealed(run, kept(by_name(attributes), places).rows)


def _sealed(run: int, rows: set[tuple[str, type, Value]]) -> list[Row]:
    return [sealed("attributes", (run, name, value)) for name, _, value in rows]


def _find_place(access: Access, places: dict[str, int], name: str) -> int | None:
    place = place_of(access, name)
    if place is not None:
        places[name] = place
    return place


def _give_place(access: Access, places: dict[str, int], name: str) -> None:
    if _find_place(access, places, name) is None:
        place = (access.number(sql.LAST_PLACE) or 0) + 1
        if place <= COLUMNS:
            access.write_row(sql.INSERT_PLACE, sealed("attribute_places", (name, place)))
            places[name] = place


def _typed(value: Value) -> tuple[type, Value]:
    """1 and 1.0 are two, as they read differently."""
    return type(value), value
