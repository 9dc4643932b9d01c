"""Deadlines: when open runs time out, found without a look at all runs, and carried out whoever knows their workflows.

A row of `deadlines` for each run that has a time limit and has not ended; a run without one costs nothing here.
"""

from __future__ import annotations

from perdure.errors import StoreCorrupt
from perdure.stores.records import Closing, NewRun, Run
from perdure.stores.sqlite import states
from perdure.stores.sqlite.access import Access, Row
from perdure.stores.sqlite.others import DELETE_DEADLINE, Others
from perdure.stores.sqlite.rows import State, damaged

NEXT_DEADLINE = "select min(deadline_us) from deadlines where deadline_us > ?"
FIRST_OVERDUE = """
select min(deadlines.deadline_us) from deadlines join states on states.number = deadlines.run
where deadlines.deadline_us <= ? and states.owner is null"""
OVERDUE = """
select deadlines.* from deadlines join states on states.number = deadlines.run
where deadlines.deadline_us <= ? and states.owner is null order by deadlines.deadline_us, deadlines.run limit ?"""


def get_next_deadline(access: Access) -> int | None:
    overdue = access.number(FIRST_OVERDUE, access.now_us)
    return access.number(NEXT_DEADLINE, access.now_us) if overdue is None else overdue


def time_out_runs(access: Access, closing: Closing, limit: int) -> list[Run]:
    ended: list[Run] = []
    for deadline_us, number in access.rows(OVERDUE, access.now_us, limit):
        assert isinstance(number, int)
        try:
            there = states.stand(access, number)
            if there is not None and there.state.running:  # it may have ended with another of these
                if there.facts.deadline_us != deadline_us:
                    raise damaged("deadlines", f"of run {number}", "it is not that of the run", there.facts.run_id)
                before, others = there.as_run(), Others(access, there)
                others.end(there, closing)
                others.save()
                ended.append(before)
        except StoreCorrupt as error:
            states.set_aside(access, number, error)
        access.write(DELETE_DEADLINE, deadline_us, number)  # what is damaged is not looked at for ever
    return ended


def fit(facts: NewRun, state: State, rows: list[Row]) -> None:
    """`StoreCorrupt` unless these are the rows of a run with these facts and this state."""
    expected = [(facts.deadline_us, state.number)] if state.running and facts.deadline_us is not None else []
    if rows != expected:
        raise damaged("deadlines", f"of run {state.number}", "they do not say when the run times out", facts.run_id)
