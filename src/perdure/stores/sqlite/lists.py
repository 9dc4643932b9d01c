"""Lists: runs found and counted by a condition; however many there are, by as few as its best index leaves.

Of all that has to hold together, the rarest is looked up in its index, and the rest checked for each. Where nothing
is rare, the narrow rows of `found` are gone through, the newest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from perdure.errors import StoreCorrupt
from perdure.stores.finding import fits
from perdure.stores.records import Blocked, Condition, NewRun, Not, Run
from perdure.stores.sqlite import attributes, conditions
from perdure.stores.sqlite import finding_sql as sql
from perdure.stores.sqlite.access import Access, Row
from perdure.stores.sqlite.conditions import Kept, Numbers, Part, Places
from perdure.stores.sqlite.rows import RUN_COLUMNS, damaged, read_run

RARE = 50_000  # so few are looked up one by one
PARTS_WEIGHED = 20
NOTHING = b'{"kind":"started"}'


class Indexed(NamedTuple):
    """Parts of what is wanted that an index can give the numbers of."""

    parts: tuple[Condition, ...]
    numbers: Numbers


def list_runs(access: Access, wanted: Condition, limit: int, before: int | None) -> list[Run]:
    """Damaged runs are shown as blocked, kind `corrupt`."""
    parts = conditions.conjuncts(wanted)
    numbers = _page(access, parts, _places(access, wanted), before) if parts else _every(before)
    rows = access.rows(sql.LIST_RUNS.format(numbers=numbers.text), *numbers.values, limit)
    return [_listed(row, wanted) for row in rows]


def count_runs(access: Access, wanted: Condition) -> int:
    return _count(access, conditions.conjuncts(wanted), _places(access, wanted))


def _places(access: Access, wanted: Condition) -> Places:
    """Where the values are of the attributes that are asked for."""
    names = set(conditions.attribute_names(wanted))
    return {name: Kept(attributes.place_of(access, name), attributes.is_in_rows(access, name)) for name in names}


def _every(before: int | None) -> Part:
    if before is None:
        return Part(sql.EVERY_NUMBER)
    return Part(f"{sql.EVERY_NUMBER} where {sql.NUMBER_BEFORE}", (before,))


def _page(access: Access, parts: list[Condition], places: Places, before: int | None) -> Part:
    checks = [] if before is None else [Part(sql.BEFORE, (before,))]
    rarest = _rarest(access, _indexed(parts, places))
    return _found(sql.FOUND_NUMBERS, [*checks, *_checks(parts, places, rarest)])


def _count(access: Access, parts: list[Condition], places: Places) -> int:
    if not parts:
        return access.number(sql.COUNT_EVERY) or 0
    if len(parts) == 1 and isinstance(parts[0], Not):
        return _count(access, [], places) - _count(access, conditions.conjuncts(parts[0].part), places)
    indexed = _indexed(parts, places)
    for each in indexed:
        if len(each.parts) == len(parts) and each.numbers.different:
            return sum(_count_by(access, query) for query in each.numbers.queries)
    found = _found(sql.COUNT_FOUND, _checks(parts, places, _rarest(access, indexed)))
    return access.number(found.text, *found.values) or 0


def _count_by(access: Access, query: Part) -> int:
    return access.number(sql.COUNT_NUMBERS.format(numbers=query.text), *query.values) or 0


def _indexed(parts: list[Condition], places: Places) -> list[Indexed]:
    weighed = parts[:PARTS_WEIGHED]
    ranges = [Indexed(pair, numbers) for pair, numbers in conditions.pairs(weighed, places)]
    single = [(part, conditions.numbers(part, places)) for part in weighed]
    return [*ranges, *(Indexed((part,), numbers) for part, numbers in single if numbers is not None)]


def _rarest(access: Access, indexed: list[Indexed]) -> Indexed | None:
    """What the fewest runs fit, if they are few."""
    sizes = [(_size(access, each.numbers), number) for number, each in enumerate(indexed)]
    smallest, number = min(sizes, default=(RARE, 0))
    return indexed[number] if smallest < RARE else None


def _size(access: Access, numbers: Numbers) -> int:
    """How many they are, up to `RARE`."""
    query = _either(numbers)
    return access.number(sql.COUNT_UP_TO.format(numbers=query.text), *query.values, RARE) or 0


def _either(numbers: Numbers) -> Part:
    text = sql.EITHER.join(query.text for query in numbers.queries)
    return Part(text, conditions.values_of(numbers.queries))


def _checks(parts: list[Condition], places: Places, rarest: Indexed | None) -> list[Part]:
    """That a run is among the rarest, and whatever else it has to be."""
    if rarest is None:
        return [conditions.check(part, places) for part in parts]
    query = _either(rarest.numbers)
    among = Part(sql.AMONG.format(numbers=query.text), query.values)
    left = [part for part in parts if all(part is not done for done in rarest.parts)]
    return [among, *(conditions.check(part, places) for part in left)]


def _found(statement: str, checks: Sequence[Part]) -> Part:
    whole = conditions.joined(checks, "and")
    return Part(statement.format(condition=whole.text), whole.values)


def _listed(row: Row, wanted: Condition) -> Run:
    try:
        run = read_run(row)
        if not fits(run, wanted):
            raise damaged("attributes", f"of run {run.number}", "what it was found by is not its own", run.facts.run_id)
    except StoreCorrupt as error:
        return _as_far_as_legible(row, error)
    return run


def _as_far_as_legible(row: Row, error: StoreCorrupt) -> Run:
    """What a damaged run is called, for a list: nothing else of it is to be relied on."""
    number, run_id, _, workflow_id, workflow = (row[at] for at in range(5))
    facts = NewRun(
        run_id=str(run_id), workflow_id=str(workflow_id), workflow=str(workflow), seed=0, input=b"", started=NOTHING
    )
    created_us = row[RUN_COLUMNS - 2]
    number = row[RUN_COLUMNS] if number is None else number  # only its state is left
    return Run(
        number=number if isinstance(number, int) else 0,
        facts=facts,
        blocked=Blocked(kind="corrupt", reason=str(error), since_us=0),
        created_us=created_us if isinstance(created_us, int) else 0,
    )
