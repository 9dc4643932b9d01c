"""Runs of a memory store: starting, finding, ending."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from perdure.errors import AlreadyExists
from perdure.stores.answers import replaced, same_start
from perdure.stores.finding import fits
from perdure.stores.memory.others import Others, children_of
from perdure.stores.memory.part import Part
from perdure.stores.memory.state import State, claim_free, new_message, refuse_closed
from perdure.stores.records import Begun, Closing, Condition, Run, Start


class MemoryRuns(Part):
    """perdure.stores.port.RunStore."""

    async def start_run(self, start: Start) -> Begun:
        with self._writing() as (state, now):
            number = state.newest.get(start.facts.workflow_id)
            old = None if number is None else state.rows.runs[number]
            if old is not None and _is_meant(state, old, start):
                return _join(state, old, start, now)
            if start.facts.run_id in state.run_ids:
                raise AlreadyExists(f"the run id {start.facts.run_id!r} is taken; every run needs one of its own")
            if old is not None and old.status == "running":
                Others(state, now).end(old, Closing("terminated", replaced(start.facts.run_id)))
            return _begin(state, start, now)

    async def get_run(self, workflow_id: str, run_id: str | None = None) -> Run:
        with self._reading() as state:
            return state.find(workflow_id, run_id)

    async def get_runs(self, numbers: Sequence[int]) -> list[Run]:
        with self._reading() as state:
            return [state.rows.runs[number] for number in numbers if number in state.rows.runs]

    async def list_runs(self, wanted: Condition, limit: int, before: int | None = None) -> list[Run]:
        found: list[Run] = []
        with self._reading() as state:
            runs = state.rows.runs  # whose numbers have no gap
            for number in range(len(runs) if before is None else min(before - 1, len(runs)), 0, -1):
                if len(found) >= limit:
                    break
                if fits(runs[number], wanted):
                    found.append(runs[number])
        return found

    async def count_runs(self, wanted: Condition) -> int:
        with self._reading() as state:
            return sum(fits(run, wanted) for run in state.rows.runs.values())

    async def list_children(self, number: int) -> list[Run]:
        with self._reading() as state:
            run = state.rows.runs.get(number)
            return [] if run is None else children_of(state, [run.facts.run_id])

    async def close_run(self, workflow_id: str, run_id: str | None, closing: Closing) -> Run:
        with self._writing() as (state, now):
            run = state.find(workflow_id, run_id)
            refuse_closed(run)
            Others(state, now).end(run, closing)
            return run

    async def get_next_deadline(self) -> int | None:
        with self._reading() as state:
            return state.deadlines.next(self._clock.now_us())

    async def time_out_runs(self, closing: Closing, limit: int) -> list[Run]:
        with self._writing() as (state, now):
            ended: list[Run] = []
            for number in state.deadlines.overdue(now, limit):
                run = state.rows.runs[number]
                if run.status == "running":  # it may have ended with another of these
                    Others(state, now).end(run, closing)
                    ended.append(run)
            return ended


def _is_meant(state: State, old: Run, start: Start) -> bool:
    """Whether a start comes to the run that is there (E2). `AlreadyExists` if it may not."""
    facts = start.facts
    is_open = old.status == "running"
    if start.id_policy == "terminate" or (start.id_policy == "again" and not is_open):
        return False
    if start.id_policy == "reject":
        raise AlreadyExists(f"the workflow id {facts.workflow_id!r} is taken by run {old.facts.run_id} ({old.status})")
    first = state.find(facts.workflow_id, old.facts.chain) if old.facts.chain else old  # generations have other inputs
    if not same_start(first.facts, facts):
        what = "other input" if old.facts.workflow == facts.workflow else f"the workflow {old.facts.workflow!r}"
        raise AlreadyExists(
            f"the workflow id {facts.workflow_id!r} is taken by run {old.facts.run_id} with {what}; "
            "choose another id, or end that run with id_policy='terminate'"
        )
    if start.message is not None and state.known(old, start.message_id) is None:
        refuse_closed(old)
    return True


def _join(state: State, run: Run, start: Start, now: int) -> Begun:
    if start.message is None:
        return Begun(run, new=False)
    number = state.known(run, start.message_id)
    if number is not None:
        return Begun(run, new=False, message=number)
    run = state.accept(run, new_message(start.message, now, start.message_id))
    claimed_run, claimed = claim_free(state, run, start.claim)
    return Begun(claimed_run, False, run.accepted, claimed)


def _begin(state: State, start: Start, now: int) -> Begun:
    wake_us = now if start.wake_us is None else start.wake_us
    run = state.add_run(start.facts, now, wake_us)
    if start.message is not None:
        run = state.accept(run, new_message(start.message, now, start.message_id))
        run = state.put_run(replace(run, wake_us=wake_us))
    run, claimed = claim_free(state, run, start.claim if wake_us <= now else None)
    return Begun(run, True, run.accepted, claimed)
