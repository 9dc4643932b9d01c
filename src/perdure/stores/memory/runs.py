"""Runs and messages of a memory store: starting, finding, ending, and accepting what they are told."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from perdure.errors import AlreadyExists, RunClosed
from perdure.stores.answers import replaced, same_start
from perdure.stores.memory.part import Part
from perdure.stores.memory.state import State
from perdure.stores.records import Accepted, Begun, Closing, Message, Run, RunFilter, Start


class MemoryRuns(Part):
    """perdure.stores.port.RunStore and MessageStore."""

    async def start_run(self, start: Start) -> Begun:
        with self._writing() as (state, now):
            number = state.newest.get(start.facts.workflow_id)
            old = None if number is None else state.rows.runs[number]
            if old is not None and _is_meant(old, start):
                return _join(state, old, start, now)
            if start.facts.run_id in state.run_ids:
                raise AlreadyExists(f"the run id {start.facts.run_id!r} is taken; every run needs one of its own")
            if old is not None and old.status == "running":
                state.end_run(old, Closing("terminated", replaced(start.facts.run_id)), now)
            return _begin(state, start, now)

    async def get_run(self, workflow_id: str, run_id: str | None = None) -> Run:
        with self._reading() as state:
            return state.find(workflow_id, run_id)

    async def get_runs(self, numbers: Sequence[int]) -> list[Run]:
        with self._reading() as state:
            return [state.rows.runs[number] for number in numbers if number in state.rows.runs]

    async def list_runs(self, wanted: RunFilter, limit: int, before: int | None = None) -> list[Run]:
        found: list[Run] = []
        with self._reading() as state:
            for number in reversed(state.rows.runs):
                if len(found) >= limit:
                    break
                run = state.rows.runs[number]
                if (before is None or number < before) and _is_wanted(run, wanted):
                    found.append(run)
        return found

    async def count_runs(self, wanted: RunFilter) -> int:
        with self._reading() as state:
            return sum(_is_wanted(run, wanted) for run in state.rows.runs.values())

    async def close_run(self, workflow_id: str, run_id: str | None, closing: Closing) -> Run:
        with self._writing() as (state, now):
            run = state.find_running(workflow_id, run_id)
            state.end_run(run, closing, now)
            return run

    async def accept_message(
        self,
        workflow_id: str,
        run_id: str | None,
        job: bytes,
        *,
        message_id: str | None = None,
        claim: int | None = None,
        claims: Sequence[str] = (),
    ) -> Accepted:
        with self._writing() as (state, now):
            run = state.find_running(workflow_id, run_id)
            run, number = state.accept(run, job, now, message_id=message_id)
            run, claimed = claim_free(state, run, claim if run.facts.workflow in claims else None)
            return Accepted(run, number, claimed)

    async def list_messages(self, number: int, after: int) -> list[Message]:
        with self._reading() as state:
            messages = state.rows.messages.get(number, {})
            return [message for message in messages.values() if message.number > after]


def claim_free(state: State, run: Run, owner: int | None) -> tuple[Run, bool]:
    """Own a run, if it is free and running, and the lease is not lost."""
    if owner not in state.rows.leases or run.owner is not None or run.status != "running":
        return run, False
    return state.put_run(replace(run, owner=owner)), True


def _is_meant(old: Run, start: Start) -> bool:
    """Whether a start comes to the run that is there (E2). `AlreadyExists` if it may not."""
    facts = start.facts
    is_open = old.status == "running"
    if start.id_policy == "terminate" or (start.id_policy == "again" and not is_open):
        return False
    if start.id_policy == "reject":
        raise AlreadyExists(f"the workflow id {facts.workflow_id!r} is taken by run {old.facts.run_id} ({old.status})")
    if not same_start(old.facts, facts):
        what = "other input" if old.facts.workflow == facts.workflow else f"the workflow {old.facts.workflow!r}"
        raise AlreadyExists(
            f"the workflow id {facts.workflow_id!r} is taken by run {old.facts.run_id} with {what}; "
            "choose another id, or end that run with id_policy='terminate'"
        )
    if start.message is not None and not is_open:
        raise RunClosed(f"the run {facts.workflow_id!r} ({old.facts.run_id}) has ended: it is {old.status}")
    return True


def _join(state: State, run: Run, start: Start, now: int) -> Begun:
    if start.message is None:
        return Begun(run, new=False)
    run, number = state.accept(run, start.message, now, message_id=start.message_id)
    run, claimed = claim_free(state, run, start.claim)
    return Begun(run, False, number, claimed)


def _begin(state: State, start: Start, now: int) -> Begun:
    wake_us = now if start.wake_us is None else start.wake_us
    run = Run(number=next(state.run_numbers), facts=start.facts, created_us=now, wake_us=wake_us)
    state.run_ids[start.facts.run_id] = state.newest[start.facts.workflow_id] = run.number
    state.put_run(run)
    number = 0
    if start.message is not None:
        run, number = state.accept(run, start.message, now, message_id=start.message_id)
        run = state.put_run(replace(run, wake_us=wake_us))
    run, claimed = claim_free(state, run, start.claim if wake_us <= now else None)
    return Begun(run, True, number, claimed)


def _is_wanted(run: Run, wanted: RunFilter) -> bool:
    facts = run.facts
    return (
        (wanted.status is None or run.status in wanted.status)
        and (wanted.workflow is None or facts.workflow == wanted.workflow)
        and (wanted.workflow_id is None or facts.workflow_id == wanted.workflow_id)
        and (wanted.blocked is None or (run.blocked is not None) == wanted.blocked)
        and _is_within(run.created_us, wanted.created_from_us, wanted.created_to_us)
        and _is_within(run.closed_us, wanted.closed_from_us, wanted.closed_to_us)
    )


def _is_within(moment: int | None, start: int | None, end: int | None) -> bool:
    if start is None and end is None:
        return True
    return moment is not None and (start is None or moment >= start) and (end is None or moment < end)
