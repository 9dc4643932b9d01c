"""Lists: runs found and counted by a condition; however many there are, by as few as its best index leaves.

Of all that has to hold together, the rarest is looked up in its index, and the rest checked for each. Where nothing
is rare, the runs are gone through, the newest first, within an index that has all that is usually asked for.
"""

from __future__ import annotations

from typing import NamedTuple

from perdure.errors import StoreCorrupt
from perdure.stores.finding import fits
from perdure.stores.records import Blocked, Condition, NewRun, Run
from perdure.stores.sqlite import conditions, sql
from perdure.stores.sqlite.access import Access, Row
from perdure.stores.sqlite.conditions import Numbers, Part
from perdure.stores.sqlite.rows import RUN_COLUMNS, damaged, read_run

RARE = 50_000  # so few are looked up one by one
PARTS_WEIGHED = 20
NOTHING = b'{"kind":"started"}'


class Plan(NamedTuple):
    """How to go about a condition: whether its `numbers` are few, and what else is to be checked."""

    numbers: Numbers | None
    rare: bool
    others: list[Condition]


def list_runs(access: Access, wanted: Condition, limit: int, before: int | None) -> list[Run]:
    """Damaged runs are shown as blocked, kind `corrupt`."""
    checks = [] if before is None else [Part(sql.BEFORE, (before,))]
    parts = conditions.conjuncts(wanted)
    if not parts:
        numbers = (
            Part(sql.EVERY_NUMBER) if before is None else Part(f"{sql.EVERY_NUMBER} where {sql.BEFORE}", (before,))
        )
    else:
        plan = _plan(access, parts)
        if plan.rare and plan.numbers is not None:
            numbers = _found(sql.FOUND_NUMBERS, [*checks, _among(plan.numbers), *map(conditions.check, plan.others)])
        else:
            numbers = _found(sql.FOUND_NUMBERS, [*checks, *map(conditions.check, _cheap_first(parts))])
    rows = access.rows(sql.LIST_RUNS.format(numbers=numbers.text), *numbers.values, limit)
    return [_listed(row, wanted) for row in rows]


def count_runs(access: Access, wanted: Condition) -> int:
    parts = conditions.conjuncts(wanted)
    if not parts:
        return access.number(sql.COUNT_EVERY) or 0
    plan = _plan(access, parts)
    if plan.numbers is not None and not plan.others:
        count = sql.COUNT_NUMBERS if plan.numbers.different else sql.COUNT_DIFFERENT
        query = plan.numbers.query
        return access.number(count.format(numbers=query.text), *query.values) or 0
    if plan.numbers is not None:
        query = _found(sql.COUNT_FOUND, [_among(plan.numbers), *map(conditions.check, _cheap_first(plan.others))])
    else:
        query = _found(sql.COUNT_FOUND, [conditions.check(part) for part in _cheap_first(parts)])
    return access.number(query.text, *query.values) or 0


def _plan(access: Access, parts: list[Condition]) -> Plan:
    """By the part that the fewest runs fit; by none if all are many, unless `states` does not say all that is asked."""
    best: tuple[int, Numbers, Condition] | None = None
    for part in parts[:PARTS_WEIGHED]:
        numbers = conditions.numbers(part)
        if numbers is None:
            continue
        size = _size(access, numbers)
        if size >= RARE and conditions.is_of_states(part) and len(parts) > 1:
            continue
        if best is None or size < best[0]:
            best = size, numbers, part
    if best is None:
        return Plan(None, False, parts)
    size, numbers, chosen = best
    return Plan(numbers, size < RARE, [part for part in parts if part is not chosen])


def _size(access: Access, numbers: Numbers) -> int:
    """How many they are, up to `RARE`."""
    query = numbers.query
    return access.number(sql.COUNT_UP_TO.format(numbers=query.text), *query.values, RARE) or 0


def _among(numbers: Numbers) -> Part:
    return Part(sql.AMONG.format(numbers=numbers.query.text), numbers.query.values)


def _cheap_first(parts: list[Condition]) -> list[Condition]:
    return sorted(parts, key=conditions.is_of_states, reverse=True)


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
