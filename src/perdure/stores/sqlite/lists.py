"""Lists: runs found and counted by a condition; however many there are, by as few as its best index leaves.

Of all that has to hold together, the rarest is looked up in its index, and the rest checked for each. Where nothing
is rare, the runs are gone through, the newest first, within an index that has what is asked for most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from perdure.errors import StoreCorrupt
from perdure.stores.finding import fits
from perdure.stores.records import Blocked, Condition, NewRun, Not, Run
from perdure.stores.sqlite import conditions, sql
from perdure.stores.sqlite.access import Access, Row
from perdure.stores.sqlite.conditions import Numbers, Part
from perdure.stores.sqlite.rows import RUN_COLUMNS, damaged, read_run

RARE = 50_000  # so few are looked up one by one
PARTS_WEIGHED = 20
NOTHING = b'{"kind":"started"}'


class Indexed(NamedTuple):
    """A part of what is wanted that an index can give the numbers of."""

    part: Condition
    numbers: Numbers


def list_runs(access: Access, wanted: Condition, limit: int, before: int | None) -> list[Run]:
    """Damaged runs are shown as blocked, kind `corrupt`."""
    parts = conditions.conjuncts(wanted)
    numbers = _every(before) if not parts else _page(access, parts, before)
    rows = access.rows(sql.LIST_RUNS.format(numbers=numbers.text), *numbers.values, limit)
    return [_listed(row, wanted) for row in rows]


def count_runs(access: Access, wanted: Condition) -> int:
    return _count(access, conditions.conjuncts(wanted))


def _every(before: int | None) -> Part:
    if before is None:
        return Part(sql.EVERY_NUMBER)
    return Part(f"{sql.EVERY_NUMBER} where {sql.NUMBER_BEFORE}", (before,))


def _page(access: Access, parts: list[Condition], before: int | None) -> Part:
    checks = [] if before is None else [Part(sql.BEFORE, (before,))]
    rarest = _rarest(access, _indexed(parts))
    if rarest is not None:
        return _found(sql.FOUND_NUMBERS, [*checks, _among(rarest.numbers), *_checks(parts, [rarest])])
    return _found(sql.FOUND_NUMBERS, [*checks, *_checks(parts)])


def _count(access: Access, parts: list[Condition]) -> int:
    if not parts:
        return access.number(sql.COUNT_EVERY) or 0
    indexed = _indexed(parts)
    rarest = None if len(parts) == 1 else _rarest(access, indexed)
    opposites = [part for part in parts if isinstance(part, Not) and not conditions.is_of_states(part)]
    if indexed and len(parts) == 1:
        query, different, _ = indexed[0].numbers
        found = Part((sql.COUNT_NUMBERS if different else sql.COUNT_DIFFERENT).format(numbers=query.text), query.values)
    elif rarest is not None:
        found = _found(sql.COUNT_FOUND, [_among(rarest.numbers), *_checks(parts, [rarest])])
    elif len(opposites) == 1:  # all but those that do fit it, which an index may have
        rest = [part for part in parts if part is not opposites[0]]
        return _count(access, rest) - _count(access, [*rest, *conditions.conjuncts(opposites[0].part)])
    else:
        found = _count_merged(parts, [each for each in indexed if each.numbers.ordered])
    return access.number(found.text, *found.values) or 0


def _count_merged(parts: list[Condition], ordered: list[Indexed]) -> Part:
    """By what several indexes have in common, which SQLite merges, as all of them give the numbers in order."""
    if len(ordered) == len(parts) and not all(conditions.is_of_states(part) for part in parts):
        queries = [each.numbers.query for each in ordered]
    else:
        ordered = [each for each in ordered if not conditions.is_of_states(each.part)]
        if not ordered:
            return _found(sql.COUNT_FOUND, _checks(parts))
        queries = [*(each.numbers.query for each in ordered), _found(sql.FOUND_NUMBERS, _checks(parts, ordered))]
    numbers = sql.INTERSECTED.join(query.text for query in queries) + sql.IN_ORDER
    return Part(sql.COUNT_NUMBERS.format(numbers=numbers), conditions.values_of(queries))


def _indexed(parts: list[Condition]) -> list[Indexed]:
    found = [(part, conditions.numbers(part)) for part in parts[:PARTS_WEIGHED]]
    return [Indexed(part, numbers) for part, numbers in found if numbers is not None]


def _rarest(access: Access, indexed: list[Indexed]) -> Indexed | None:
    """The part that the fewest runs fit, if they are few."""
    sizes = [(_size(access, each.numbers), number) for number, each in enumerate(indexed)]
    smallest, number = min(sizes, default=(RARE, 0))
    return indexed[number] if smallest < RARE else None


def _size(access: Access, numbers: Numbers) -> int:
    """How many they are, up to `RARE`."""
    query = numbers.query
    return access.number(sql.COUNT_UP_TO.format(numbers=query.text), *query.values, RARE) or 0


def _among(numbers: Numbers) -> Part:
    return Part(sql.AMONG.format(numbers=numbers.query.text), numbers.query.values)


def _checks(parts: list[Condition], done: Sequence[Indexed] = ()) -> list[Part]:
    """Of what is not done otherwise; the cheap ones first."""
    left = [part for part in parts if all(part is not each.part for each in done)]
    return [conditions.check(part) for part in sorted(left, key=conditions.is_of_states, reverse=True)]


def _found(statement: str, checks: list[Part]) -> Part:
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
