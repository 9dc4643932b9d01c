"""Damage to what runs are found by is named, and shows no run as whole that is found by it (E9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.stores.records import Compare, Run
from perdure.stores.sqlite import SqliteStore
from tests.stores.sqlite.files import begin, look, with_store

DAMAGES = {
    "a value was changed": ("found", "update found set value_1 = 'us' where number = 2"),
    "a value and its type were changed": ("found", "update found set value_1 = 7 where number = 2"),
    "a value was lost": ("found", "update found set value_1 = null where number = 2"),
    "a value was given to another run": ("found", "update found set value_1 = 'eu' where number = 3"),
    "a value got into another's column": ("found", "update found set value_3 = 'eu', value_1 = null where number = 2"),
    "what is told of a run was changed": ("found", "update found set status = 'failed' where number = 2"),
    "one of several was changed": ("found", "update found set value_2 = x'74' where number = 2"),
    "what a run is found by was lost": ("found", "delete from found where number = 2"),
    "a name was changed": ("attribute_places", "update attribute_places set name = 'place' where place = 1"),
    "a place was changed": ("attribute_places", "update attribute_places set place = 9 where place = 1"),
    "a place was lost": ("found", "delete from attribute_places where place = 1"),
    "a value of a list was changed": ("attributes", "update attributes set value = 'c' where value = 'b'"),
    "a value of a list was renamed": ("attributes", "update attributes set name = 'place' where value = 'b'"),
    "a value of a list was given to another run": ("attributes", "update attributes set run = 3 where value = 'b'"),
    "a value of a list was lost": ("attributes", "delete from attributes where value = 'b'"),
    "a value of a list was copied, with its seal": (
        "attributes",
        "insert into attributes select 3, name, value, seal from attributes where value = 'b'",
    ),
}


async def _start(store: SqliteStore) -> None:
    await begin(store, "o-1", attributes=b'{"region":"us"}')
    await begin(store, "o-2", attributes=b'{"region":"eu","tags":["a","b"]}')
    await begin(store, "o-3", attributes=b'{"other":1}')


def _whole(runs: list[Run]) -> list[int]:
    return [run.number for run in runs if run.blocked is None]


@pytest.mark.parametrize(("table", "damage"), DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_to_attributes_is_named_and_nobody_takes_it_for_the_truth(
    table: str, damage: str, tmp_path: Path
) -> None:
    path = tmp_path / "store.db"

    async def check(store: SqliteStore) -> None:
        assert {found.table for found in await store.verify()} == {table}
        truth = {
            Compare("region", "=", "us", attribute=True): {1},
            Compare("region", "=", "eu", attribute=True): {2},
            Compare("region", "=", 7, attribute=True): set[int](),
            Compare("tags", "=", "b", attribute=True): {2},
            Compare("tags", ">", "b", attribute=True): set[int](),
            Compare("status", "=", "failed"): set[int](),
        }
        for wanted, numbers in truth.items():
            found = await store.list_runs(wanted, 10)
            assert set(_whole(found)) <= numbers, found
            for run in found:
                assert run.number in numbers or (run.blocked is not None and run.blocked.kind == "corrupt")
        for name in ("place", "other"):
            assert _whole(await store.list_runs(Compare(name, "=", "eu", attribute=True), 10)) == []

    with_store(path, _start)
    assert with_store(path, lambda store: store.verify()) == []
    look(path, damage)
    with_store(path, check)
