"""Turns of a memory store: claiming runs, and committing what their turns come to."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from perdure.errors import InternalError, LeaseLost, NondeterminismError, UsageError
from perdure.stores.answers import cancelled_job, cancelling
from perdure.stores.checks import verify_chain
from perdure.stores.event_records import TurnEvent
from perdure.stores.memory.others import Others
from perdure.stores.memory.part import Part
from perdure.stores.memory.pipeline_rows import pipeline_rows
from perdure.stores.memory.state import State, claim_free
from perdure.stores.memory.tasks import report
from perdure.stores.pipeline_rules import pipeline_with
from perdure.stores.records import (
    NO_CHECKSUM,
    NO_TURN,
    Blocked,
    Committed,
    NewTask,
    Report,
    Run,
    Task,
    TaskCancel,
    Turn,
    TurnCommit,
)


class MemoryTurns(Part):
    """perdure.stores.port.TurnStore."""

    async def claim_runs(self, owner: int, queues: Sequence[str], workflows: Sequence[str], limit: int) -> list[Run]:
        with self._writing() as (state, now):
            if owner not in state.rows.leases:
                return []
            free = state.free_runs.take(queues, workflows, now, limit)
            return [claim_free(state, state.rows.runs[number], owner)[0] for number in free]

    async def claim_run(self, owner: int, number: int) -> Run | None:
        with self._writing() as (state, _):
            run = state.rows.runs.get(number)
            if run is None or owner not in state.rows.leases:
                return None
            run, claimed = claim_free(state, run, owner)
            return run if claimed or (run.owner == owner and run.status == "running") else None

    async def get_next_wake(self, queues: Sequence[str]) -> int | None:
        with self._reading() as state:
            return state.free_runs.next_time(queues)

    async def list_pending(self, owner: int) -> list[Run]:
        with self._reading() as state:
            return [state.rows.runs[number] for number in state.pending_runs.of(owner)]

    async def list_unknown(self, queues: Sequence[str], workflows: Sequence[str], limit: int) -> list[Run]:
        with self._reading() as state:
            unknown = state.free_runs.kinds(queues).difference(workflows)
            now, blocked = self._clock.now_us(), state.blocked
            free = state.free_runs.take(queues, unknown, now, limit, lambda number: number not in blocked)
            return [state.rows.runs[number] for number in free]

    async def commit_turns(
        self, commits: Sequence[TurnCommit], claims: Sequence[str] = ()
    ) -> list[Committed | Exception]:
        with self._writing() as (state, now):
            return [_refusal(state, commit) or _commit(state, commit, now, claims) for commit in commits]

    async def release_run(self, owner: int, number: int, wake_us: int | None) -> None:
        with self._writing() as (state, now):
            run = state.rows.runs.get(number)
            if run is None or run.owner != owner:
                return
            if run.accepted > run.consumed:
                wake_us = now if wake_us is None else min(now, wake_us)
            state.put_run(replace(run, owner=None, wake_us=wake_us))

    async def block_run(self, owner: int | None, number: int, blocked: Blocked, reports: Sequence[Report]) -> None:
        with self._writing() as (state, now):
            run = state.rows.runs.get(number)
            if run is None or run.status != "running" or run.owner != owner:
                raise _lost(number, "it has ended or is held by another worker")
            for each in reports:
                report(state, each, now)
            run = state.rows.runs[number]
            state.put_run(replace(run, owner=None, blocked=blocked, wake_us=blocked.retry_us))

    async def wake_blocked(self, queues: Sequence[str]) -> int:
        with self._writing() as (state, now):
            blocked = [state.rows.runs[number] for number in state.blocked]
            woken = [run for run in blocked if run.owner is None and run.facts.queue in queues]
            for run in woken:
                state.put_run(replace(run, wake_us=now if run.wake_us is None else min(now, run.wake_us)))
            return len(woken)

    async def list_turns(self, number: int, after: int = NO_TURN, limit: int | None = None) -> list[Turn]:
        with self._reading() as state:
            run = state.rows.runs.get(number)
            if run is None:
                return []
            turns = state.rows.turns.get(number, [])
            before = turns[after].checksum if NO_TURN < after < len(turns) else NO_CHECKSUM
            chosen = turns[after + 1 : None if limit is None else after + 1 + limit]
        verify_chain(run, chosen, after, before, whole=limit is None or len(chosen) < limit)
        return chosen


def _lost(run: int, why: str) -> LeaseLost:
    return LeaseLost(f"run {run} was not changed: {why}; drop the turn")


def _refusal(state: State, commit: TurnCommit) -> Exception | None:
    """Why a commit cannot be; None if it can."""
    run = state.rows.runs.get(commit.run)
    if run is None or run.status != "running":
        return _lost(commit.run, "it has ended")
    if run.owner != commit.owner:
        return _lost(commit.run, "it is held by another worker, or by nobody")
    if commit.turn.number != run.last_turn + 1 or commit.previous != run.checksum:
        return _lost(commit.run, f"its last turn is {run.last_turn}, and turn {commit.turn.number} does not follow it")
    if not run.consumed <= commit.consumed <= run.accepted:
        return InternalError(
            f"turn {commit.turn.number} of run {run.number} takes messages up to {commit.consumed}, "
            f"where {run.consumed} were taken and {run.accepted} accepted"
        )
    for task in commit.new_tasks:
        old = state.rows.tasks.get(task.id)
        if old is not None and (old.run, old.name) != (commit.run, task.name):
            return NondeterminismError(f"the activity {task.id} is {old.name!r}, and this turn has it as {task.name!r}")
    try:
        for each in commit.events:
            _pipeline_for(state, each)
    except UsageError as error:
        return error
    return None


def _commit(state: State, commit: TurnCommit, now: int, claims: Sequence[str]) -> Committed:
    run = state.rows.runs[commit.run]
    state.rows.turns.setdefault(run.number, []).append(commit.turn)
    state.consume(run, commit.consumed)
    run = replace(
        run,
        last_turn=commit.turn.number,
        checksum=commit.turn.checksum,
        consumed=commit.consumed,
        blocked=None,
        wake_us=commit.wake_us,
        waiting=commit.waiting,
    )
    state.put_run(run if commit.attributes is None else replace(run, attributes=commit.attributes))
    _commit_tasks(state, run, commit, now)
    for each in commit.events:
        pipeline_rows(state).publish(_pipeline_for(state, each), each.event, now, each.by)
    others = _commit_orders(state, commit, Others(state, now, commit.owner, claims))
    run = state.rows.runs[run.number]
    if commit.closing is not None:
        return Committed(told=tuple(others.told), ended=others.ended)
    pending = run.accepted - run.consumed
    parked = commit.park and not pending
    if parked:
        state.put_run(replace(run, owner=None))
    return Committed(pending, parked, tuple(others.told))


def _pipeline_for(state: State, event: TurnEvent) -> str:
    rows = list(pipeline_rows(state).pipelines.values())
    return pipeline_with(rows, event.pipeline, event.event.topic)


def _commit_tasks(state: State, run: Run, commit: TurnCommit, now: int) -> None:
    for id in commit.finished:
        task = state.rows.tasks.get(id)
        if task is not None and task.run == run.number:
            state.drop_task(task, by=commit.owner)
    for new in commit.new_tasks:
        if new.id not in state.rows.tasks:
            state.put_task(_task(run, new, commit.owner, now))
    for cancel in commit.cancels:
        _cancel(state, run.number, cancel, now)


def _commit_orders(state: State, commit: TurnCommit, others: Others) -> Others:
    """What a turn wants of other runs, and its run's end."""
    for child in commit.children:
        others.start_child(commit.run, child)
    for sent in commit.sent:
        others.send(commit.run, sent)
    for promise in commit.promises:
        others.promise(commit.run, promise)
    for name in commit.lapsed:
        others.lapse(commit.run, name)
    for update in commit.answers:
        others.answer_update(state.rows.runs[commit.run], update)
    run = state.rows.runs[commit.run]
    spare = frozenset(task.id for task in commit.new_tasks)
    if commit.closing is not None and commit.successor is not None:
        others.continue_as(run, commit.closing, commit.successor, spare)
    elif commit.closing is not None:
        others.end(run, commit.closing, spare, cancelling(commit))
    return others


def _task(run: Run, new: NewTask, owner: int, now: int) -> Task:
    return Task(
        id=new.id,
        run=run.number,
        run_id=run.facts.run_id,
        workflow_id=run.facts.workflow_id,
        seq=new.seq,
        name=new.name,
        queue=new.queue,
        priority=new.priority,
        input=new.input,
        keywords=new.keywords,
        options=new.options,
        scheduled_us=now,
        due_us=now if new.due_us is None else new.due_us,
        attempt=1 if new.claimed else 0,
        owner=owner if new.claimed else None,
        started_us=now if new.claimed else None,
    )


def _cancel(state: State, run: int, cancel: TaskCancel, now: int) -> None:
    task = state.rows.tasks.get(cancel.id)
    if task is None or task.run != run:
        return
    if not cancel.answer:
        state.drop_task(task)
    elif task.owner is None:
        state.answer_task(task, cancelled_job(task.seq), now)
    else:
        state.put_task(replace(task, cancel=True))
        state.tell(task.owner, task.id, cancelled=True)
