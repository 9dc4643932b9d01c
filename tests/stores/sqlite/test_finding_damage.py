"""Damage to what runs are found by is named, and shows no run as whole that is found by it (E9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.stores.records import Compare, Run
from perdure.stores.sqlite import SqliteStore
from tests.stores.sqlite.files import begin, look, with_store

DAMAGES = {
    "a value was changed": "update attributes set value = 'us' where run = 2 and name = 'region'",
    "a value and its type were changed": "update attributes set value = 7 where run = 2 and name = 'region'",
    "a name was changed": "update attributes set name = 'place' where run = 2 and name = 'region'",
    "a row was given to another run": "update attributes set run = 3 where run = 2 and name = 'region'",
    "a row was lost": "delete from attributes where run = 2 and name = 'region'",
    "a row was copied, with its seal": (
        "insert into attributes select 3, name, value, seal from attributes where run = 2 and name = 'region'"
    ),
    "a row of a list was lost": "delete from attributes where run = 2 and value = 'b'",
}


async def _start(store: SqliteStore) -> None:
    await begin(store, "o-1", attributes=b'{"region":"us"}')
    await begin(store, "o-2", attributes=b'{"region":"eu","tags":["a","b"]}')
    await begin(store, "o-3", attributes=b'{"other":1}')


def _whole(runs: list[Run]) -> list[int]:
    return [run.number for run in runs if run.blocked is None]


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_to_attributes_is_named_and_nobody_takes_it_for_the_truth(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def check(store: SqliteStore) -> None:
        assert {found.table for found in await store.verify()} == {"attributes"}
        truth = {"us": {1}, "eu": {2}, 7: set[int]()}
        for value, numbers in truth.items():
            found = await store.list_runs(Compare("region", "=", value, attribute=True), 10)
            assert set(_whole(found)) <= numbers, found
            for run in found:
                assert run.number in numbers or (run.blocked is not None and run.blocked.kind == "corrupt")
        assert _whole(await store.list_runs(Compare("place", "=", "eu", attribute=True), 10)) == []

    with_store(path, _start)
    assert with_store(path, lambda store: store.verify()) == []
    look(path, damage)
    with_store(path, check)
