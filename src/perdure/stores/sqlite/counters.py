"""Counters: numbers that are never given twice, and how many rows there are, so that a missing one is noticed."""

from __future__ import annotations

from perdure.stores.sqlite import sql
from perdure.stores.sqlite.access import Access
from perdure.stores.sqlite.rows import damaged, sealed, verified

NAMES = ("leases", "questions")


def begin(access: Access) -> None:
    """Write the counters of a new store."""
    for name in NAMES:
        access.write_row(sql.INSERT_COUNTER, sealed("counters", (name, 0, 0)))


def give(access: Access, name: str) -> int:
    """The next number, and one more row. `StoreCorrupt`."""
    last, amount = read(access, name)
    access.write_row(sql.SET_COUNTER, sealed("counters", (name, last + 1, amount + 1)))
    return last + 1


def take_back(access: Access, name: str) -> None:
    """One row less. `StoreCorrupt`."""
    last, amount = read(access, name)
    access.write_row(sql.SET_COUNTER, sealed("counters", (name, last, amount - 1)))


def read(access: Access, name: str) -> tuple[int, int]:
    """The last number given, and how many rows there are. `StoreCorrupt`."""
    row = access.row(sql.COUNTER, name)
    if row is None:
        raise damaged("counters", name, "it is missing")
    _, last, amount = verified("counters", row, name)
    assert isinstance(last, int)
    assert isinstance(amount, int)
    return last, amount
