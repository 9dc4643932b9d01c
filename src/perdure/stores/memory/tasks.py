"""Tasks of a memory store: taken, kept alive, and what attempts came to."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from perdure.errors import InternalError, NotFound
from perdure.stores.memory.part import Part
from perdure.stores.memory.state import State
from perdure.stores.records import Beat, Report, Run, Task


class MemoryTasks(Part):
    """perdure.stores.port.TaskStore."""

    async def claim_tasks(self, owner: int, queue: str, names: Sequence[str], limit: int) -> list[Task]:
        with self._writing() as (state, now):
            if owner not in state.rows.leases:
                return []
            tasks = state.rows.tasks
            free = state.free_tasks.take([queue], names, now, limit)
            for id in free:
                task = tasks[id]
                state.put_task(replace(task, owner=owner, attempt=task.attempt + 1, started_us=now, heartbeat_us=None))
            return [tasks[id] for id in free]

    async def get_next_due(self, queues: Sequence[str]) -> int | None:
        with self._reading() as state:
            return state.free_tasks.next_time(queues)

    async def list_tasks(self, number: int) -> list[Task]:
        with self._reading() as state:
            tasks = [state.rows.tasks[id] for id in state.open_tasks.get(number, ())]
        return sorted(tasks, key=lambda task: task.seq)

    async def get_task(self, run_id: str, task_id: str) -> tuple[Run, Task | None]:
        with self._reading() as state:
            number = state.run_ids.get(run_id)
            if number is None:
                raise NotFound(f"no run has the run id {run_id!r}; look it up with `perdure list`")
            task = state.rows.tasks.get(task_id)
            return state.rows.runs[number], task if task is not None and task.run == number else None

    async def report_tasks(self, reports: Sequence[Report]) -> list[bool]:
        for each in reports:
            if each.job is None and each.retry_us is None:
                raise InternalError(f"the report on the activity {each.id} says neither the answer nor when to retry")
        with self._writing() as (state, now):
            return [report(state, each, now) for each in reports]

    async def beat_tasks(self, beats: Sequence[Beat]) -> list[bool | None]:
        with self._writing() as (state, now):
            return [_beat(state, beat, now) for beat in beats]

    async def list_cancelled(self, owner: int) -> list[str]:
        with self._reading() as state:
            return list(state.cancelled.get(owner, ()))


def report(state: State, report: Report, now: int) -> bool:
    """Write what an attempt came to; False if it is not the reporter's any more."""
    if report.owner is not None:
        state.tell(report.owner, report.id, cancelled=False)
    task = state.rows.tasks.get(report.id)
    if task is None or task.owner != report.owner or task.attempt != report.attempt.attempt:
        return False
    if report.job is not None:
        state.answer_task(task, report.job, now, report.attempt)
    elif report.retry_us is not None:
        state.free_task(task, report.retry_us, now, report.attempt, counts=report.counts)
    return True


def _beat(state: State, beat: Beat, now: int) -> bool | None:
    task = state.rows.tasks.get(beat.id)
    if task is None or task.owner != beat.owner:
        return None
    details = task.details if beat.details is None else beat.details
    state.put_task(replace(task, heartbeat_us=now, details=details))
    return task.cancel
