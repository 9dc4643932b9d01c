"""Verification: everything is read, and what is damaged is listed (E9).

The tables that belong to runs are gone through side by side, in the order of runs: what is kept in memory is one run.
"""

from __future__ import annotations

from collections.abc import Iterator

import apsw

from perdure.errors import StoreCorrupt
from perdure.stores.checks import verify_chain
from perdure.stores.records import NO_TURN, Damage, NewRun, Turn
from perdure.stores.sqlite import attributes, counters, deadlines, migrations, pipeline_verify, sql
from perdure.stores.sqlite import found as found_by
from perdure.stores.sqlite.access import Access, Row
from perdure.stores.sqlite.rows import (
    PLACE_BITS,
    State,
    damaged,
    key_of,
    read_facts,
    read_known_id,
    read_message,
    read_promise,
    read_state,
    read_task,
    read_turn,
    read_update,
    run_of,
)
from perdure.stores.sqlite.streams import Read, Stream, damage_of, read_all, read_one
from perdure.stores.sqlite.worker_rows import read_lease, read_question

ORDERS = {
    "runs": ("number", 0, 0),
    "states": ("number", 0, 0),
    "turns": ("place", 0, PLACE_BITS),
    "messages": ("run, number", 0, 0),
    "tasks": ("run, seq", 1, 0),
    "message_ids": ("run", 2, 0),
    "updates": ("run", 2, 0),
    "promises": ("run, name", 0, 0),
    "found": ("number", 0, 0),
    "deadlines": ("run", 1, 0),
    "attributes": ("run, name", 0, 0),
    "leases": ("number", 0, 0),
    "questions": ("number", 0, 0),
}

KEPT: tuple[tuple[str, Read], ...] = (
    ("tasks", read_task),
    ("message_ids", read_known_id),
    ("updates", read_update),
    ("promises", read_promise),
)
COUNTED = ("message_ids", "updates", "promises")


def verify(access: Access) -> list[Damage]:
    """Every row, what rows say of each other, and the file's own structure."""
    found = [*_structure(access), *_of_runs(access)]
    found += _of_counted(access, "leases", read_lease)
    found += _of_counted(access, "questions", read_question)
    found += pipeline_verify.verify(access)
    try:
        migrations.read_applied(access)
    except StoreCorrupt as error:
        found.append(damage_of("migrations", "-", error))
    return list(dict.fromkeys(found))


def _structure(access: Access) -> Iterator[Damage]:
    """What SQLite itself finds: damaged pages, and indexes that do not fit their tables."""
    try:
        problems = [key_of(row[0]) for row in access.rows(sql.STRUCTURE)]
    except (apsw.Error, StoreCorrupt) as error:
        problems = [str(error)]
    for problem in problems:
        if problem != "ok":
            yield Damage(table="file", row="-", problem=problem)


def _of_counted(access: Access, table: str, read: Read) -> Iterator[Damage]:
    """A table whose rows are counted."""
    amount = 0
    for row in Stream(access, table, *ORDERS[table]).rest():
        amount += 1
        yield from read_one(table, row, read)[1]
    try:
        last, expected = counters.read(access, table)
    except StoreCorrupt as error:
        yield damage_of("counters", table, error)
        return
    if amount != expected:
        yield Damage(table=table, row="-", problem=f"there are {amount}, and should be {expected}, up to number {last}")


# --- what belongs to runs ------------------------------------------------------------------------


def _of_runs(access: Access) -> Iterator[Damage]:
    given = list(Stream(access, "attribute_places", "name").rest())
    places, damages = read_all("attribute_places", given, attributes.read_place, None)
    yield from damages
    known = None if damages else dict(places)
    streams = {table: Stream(access, table, *ORDERS[table]) for table in ORDERS if table not in ("leases", "questions")}
    expected = 1
    while keys := [stream.key for stream in streams.values() if stream.key is not None]:
        number = min(keys)
        if number > expected:  # one line, however far a damaged number is off
            missing = f"{expected}" if number == expected + 1 else f"{expected} to {number - 1}"
            yield Damage(table="runs", row=missing, problem="nothing is there, where runs should be")
        expected = max(expected, number + 1)
        yield from _of_run(number, {table: list(stream.take(number)) for table, stream in streams.items()}, known)


def _of_run(number: int, rows: dict[str, list[Row]], places: dict[str, int] | None) -> Iterator[Damage]:
    """`places`: the columns of attributes; None if nobody can say."""
    run_id: str | None = None
    facts = state = None
    found: list[Damage] = []
    for row in rows["runs"]:
        run_id = row[1] if isinstance(row[1], str) else None
        facts, damages = read_one("runs", row, read_facts, run_id)
        found += damages
    for row in rows["states"]:
        state, damages = read_one("states", row, read_state, run_id)
        found += damages
    for table in ("runs", "states"):
        if not rows[table]:
            found.append(Damage(table=table, row=str(number), problem="it is missing", run_id=run_id))
    turns, damages = read_all("turns", rows["turns"], lambda row: read_turn(row, run_id), run_id)
    found += damages
    messages, damages = read_all("messages", rows["messages"], lambda row: read_message(row, run_id), run_id)
    found += damages
    for table, read in KEPT:
        found += read_all(table, rows[table], read, run_id)[1]
    named, damages = read_all("attributes", rows["attributes"], attributes.read, run_id)
    found += damages
    if facts is not None and state is not None and not found:
        try:
            _fit(facts, state, turns, [message.number for message in messages])
            _fit_kept(facts, state, rows)
            deadlines.fit(facts[1], state, rows["deadlines"])
            if places is not None:
                found_by.fit(facts[1], state, places, rows["found"], named)
        except StoreCorrupt as error:
            found.append(damage_of("turns", str(number), error, run_id))
    yield from found


def _fit(whole: tuple[int, NewRun, int], state: State, turns: list[Turn], messages: list[int]) -> None:
    """`StoreCorrupt` unless the rows of a run fit each other."""
    number, facts, created_us = whole
    run_id = facts.run_id
    verify_chain(run_of(number, facts, created_us, state), turns, NO_TURN)
    if len(turns) != state.last_turn + 1:
        raise damaged("turns", f"of run {number}", "there are more than the run has", run_id)
    expected = range(state.consumed + 1, state.accepted + 1) if state.running else range(0)
    if messages != list(expected):
        raise damaged("messages", f"of run {number}", f"there are {messages}, and should be {list(expected)}", run_id)


def _fit_kept(whole: tuple[int, NewRun, int], state: State, rows: dict[str, list[Row]]) -> None:
    """`StoreCorrupt` unless there are as many rows as the state has counted."""
    number, facts, _ = whole
    kept = sum(len(rows[table]) for table in COUNTED)
    tables = " or ".join(COUNTED)
    for table, there, counted in (("tasks", len(rows["tasks"]), state.open_tasks), (tables, kept, state.kept)):
        if there != counted:
            problem = f"there are {there} rows, and should be {counted}"
            raise damaged(table, f"of run {number}", problem, facts.run_id)
