"""Stores that find the wrong runs, each in one way."""

from __future__ import annotations

from itertools import chain
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from perdure.stores.finding import fits, searchable
from perdure.stores.memory import MemoryStore
from perdure.stores.records import EVERY, AllOf, AnyOf, Compare, Condition, Not, Run
from perdure.testing.conformance.making import some_facts

ALL = 10**9


class Looking:
    """Goes through all runs by a rule of its own."""

    async def list_runs(self, wanted: Condition, limit: int, before: int | None = None) -> list[Run]:
        runs = await MemoryStore.list_runs(cast("MemoryStore", self), EVERY, ALL, before)
        return [run for run in runs if self.finds(run, wanted)][:limit]

    async def count_runs(self, wanted: Condition) -> int:
        return len(await self.list_runs(wanted, ALL))

    def finds(self, run: Run, wanted: Condition) -> bool:
        if isinstance(wanted, AllOf):
            return all(self.finds(run, part) for part in wanted.parts)
        if isinstance(wanted, AnyOf):
            return any(self.finds(run, part) for part in wanted.parts)
        if isinstance(wanted, Not):
            return not self.finds(run, wanted.part)
        return self.compares(run, wanted)

    def compares(self, run: Run, wanted: Compare) -> bool:
        return fits(run, wanted)


def _named(run: Run, name: str) -> Any:
    return msgspec.json.decode(run.attributes).get(name)


class MissesWhatIsMissing(Looking, MemoryStore):
    """What compares with nothing is unknown, and so is the opposite."""

    def finds(self, run: Run, wanted: Condition) -> bool:
        inner = wanted.part if isinstance(wanted, Not) else None
        if isinstance(inner, Compare) and inner.attribute and _named(run, inner.field) is None:
            return False
        return super().finds(run, wanted)


class ComparesNumbersAsText(Looking, MemoryStore):
    """7 is `'7'`."""

    def compares(self, run: Run, wanted: Compare) -> bool:
        if wanted.attribute and wanted.operator == "=":
            return str(_named(run, wanted.field)) == str(wanted.value)
        return fits(run, wanted)


class IgnoresCase(Looking, MemoryStore):
    """As SQLite's own `like` does."""

    def compares(self, run: Run, wanted: Compare) -> bool:
        if wanted.operator == "like" and isinstance(wanted.value, str):
            lowered = replace(run, attributes=run.attributes.lower())
            return fits(lowered, replace(wanted, value=wanted.value.lower()))
        return fits(run, wanted)


class TakesListsAsOne(Looking, MemoryStore):
    """A list is found by nothing."""

    def compares(self, run: Run, wanted: Compare) -> bool:
        return fits(run, wanted) and not (wanted.attribute and isinstance(_named(run, wanted.field), list))


class KeepsOldAttributes(Looking, MemoryStore):
    """A run is found for ever by what it began with."""

    def compares(self, run: Run, wanted: Compare) -> bool:
        return fits(replace(run, attributes=run.facts.attributes), wanted)


class CountsValues(MemoryStore):
    """A run whose list fits twice counts twice."""

    async def count_runs(self, wanted: Condition) -> int:
        found = await self.list_runs(wanted, ALL)
        if not isinstance(wanted, Compare) or not wanted.attribute:
            return len(found)
        values = [
            value for name, value in chain(*(searchable(run.attributes) for run in found)) if name == wanted.field
        ]
        return sum(fits(_with(wanted.field, value), wanted) for value in values)


def _with(name: str, value: object) -> Run:
    return Run(number=1, facts=some_facts("any"), created_us=0, attributes=msgspec.json.encode({name: value}))
