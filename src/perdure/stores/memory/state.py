"""State: what a memory store keeps, and the few ways in which rows change.

The transitions are in the modules beside.

Whoever comes here holds the lock. Nothing here waits, and what can be refused is refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from threading import RLock
from weakref import WeakSet

import msgspec
from msgspec.structs import replace

from perdure.errors import NotFound, RunClosed
from perdure.stores.answers import attempt_notes, cancelled_job
from perdure.stores.memory.agenda import Agenda
from perdure.stores.records import Attempt, Closing, Lease, Message, Question, Run, Task, Turn


class Holder:
    """One opening of a store object: the leases that it opened live at most as long as it is open."""


class Rows(msgspec.Struct):
    """The tables."""

    runs: dict[int, Run] = {}
    turns: dict[int, list[Turn]] = {}
    messages: dict[int, dict[int, Message]] = {}
    tasks: dict[str, Task] = {}
    leases: dict[int, Lease] = {}
    questions: dict[int, Question] = {}
    answers: dict[int, bytes] = {}


class State:
    """The rows with their indexes, shared by all store objects of one name."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.rows = Rows()
        self.run_ids: dict[str, int] = {}
        self.newest: dict[str, int] = {}
        self.message_ids: dict[tuple[int, str], int] = {}
        self.open_tasks: dict[int, dict[str, None]] = {}
        self.cancelled: dict[int, dict[str, None]] = {}  # by lease: tasks that shall cancel, or are gone
        self.free_runs = Agenda[int]()
        self.free_tasks = Agenda[str]()
        self.holders: WeakSet[Holder] = WeakSet()
        self.held_by: dict[int, Callable[[], Holder | None]] = {}
        self.seconds: dict[int, float] = {}  # by lease: how long it lives without being renewed
        self.changes = 0
        self.listeners: dict[Holder, Callable[[], None]] = {}
        self.run_numbers = count(1)
        self.lease_numbers = count(1)
        self.question_numbers = count(1)

    # --- runs -------------------------------------------------------------------------------

    def find(self, workflow_id: str, run_id: str | None = None) -> Run:
        """The run of these ids, or the newest of the workflow id."""
        number = self.newest.get(workflow_id) if run_id is None else self.run_ids.get(run_id)
        run = None if number is None else self.rows.runs[number]
        if run is None or run.facts.workflow_id != workflow_id:
            which = "" if run_id is None else f" with run id {run_id!r}"
            raise NotFound(f"no run has the workflow id {workflow_id!r}{which}; look it up with `perdure list`")
        return run

    def find_running(self, workflow_id: str, run_id: str | None = None) -> Run:
        """The same, if it has not ended."""
        run = self.find(workflow_id, run_id)
        if run.status != "running":
            raise RunClosed(f"the run {workflow_id!r} ({run.facts.run_id}) has ended: it is {run.status}")
        return run

    def put_run(self, run: Run) -> Run:
        """Write a run."""
        self.changes += 1
        self.rows.runs[run.number] = run
        if run.status == "running" and run.owner is None and run.wake_us is not None:
            self.free_runs.put(run.number, run.facts.queue, run.wake_us, run.facts.priority)
        else:
            self.free_runs.drop(run.number)
        return run

    def end_run(self, run: Run, closing: Closing, now: int, spare: frozenset[str] = frozenset()) -> Run:
        """End a run: its messages are dropped, and its open tasks cancelled but for those to spare."""
        for message in self.rows.messages.pop(run.number, {}).values():
            self._forget_id(run.number, message)
        for id in [id for id in self.open_tasks.get(run.number, ()) if id not in spare]:
            self.drop_task(self.rows.tasks[id])
        ended = replace(run, status=closing.status, result=closing.result, closed_us=now)
        return self.put_run(replace(ended, owner=None, wake_us=None, blocked=None, waiting=None))

    # --- messages ---------------------------------------------------------------------------

    def accept(
        self, run: Run, job: bytes, now: int, *, message_id: str | None = None, notes: bytes | None = None
    ) -> tuple[Run, int]:
        """Accept a job for a running run; the run, due now, and the number of the message."""
        waiting = None if message_id is None else self.message_ids.get((run.number, message_id))
        if waiting is not None:
            return run, waiting
        number = run.accepted + 1
        message = Message(number=number, job=job, message_id=message_id, accepted_us=now, notes=notes)
        self.rows.messages.setdefault(run.number, {})[number] = message
        if message_id is not None:
            self.message_ids[run.number, message_id] = number
        wake_us = now if run.wake_us is None else min(now, run.wake_us)
        return self.put_run(replace(run, accepted=number, wake_us=wake_us)), number

    def consume(self, run: Run, consumed: int) -> None:
        """Remove the messages up to this one."""
        messages = self.rows.messages.get(run.number, {})
        for number in range(run.consumed + 1, consumed + 1):
            self._forget_id(run.number, messages.pop(number))

    def _forget_id(self, run: int, message: Message) -> None:
        if message.message_id is not None:
            self.message_ids.pop((run, message.message_id), None)

    # --- tasks ------------------------------------------------------------------------------

    def put_task(self, task: Task) -> None:
        """Write a task."""
        self.changes += 1
        self.rows.tasks[task.id] = task
        self.open_tasks.setdefault(task.run, {})[task.id] = None
        if task.owner is None:
            self.free_tasks.put(task.id, task.queue, task.due_us, task.priority)
        else:
            self.free_tasks.drop(task.id)

    def drop_task(self, task: Task, *, by: int | None = None) -> None:
        """Remove a task; whoever runs it, other than `by`, is to learn of it."""
        self.changes += 1
        del self.rows.tasks[task.id]
        del self.open_tasks[task.run][task.id]
        self.free_tasks.drop(task.id)
        if task.owner is not None:
            self.tell(task.owner, task.id, task.owner != by)

    def answer_task(self, task: Task, job: bytes, now: int, last: Attempt | None = None) -> None:
        """Remove a task, and tell its run what came of it, if that is still running."""
        self.drop_task(task, by=task.owner)
        run = self.rows.runs[task.run]
        if run.status == "running":
            self.accept(run, job, now, notes=attempt_notes(task, last))

    def free_task(self, task: Task, due_us: int, now: int, last: Attempt, *, counts: bool = False) -> None:
        """An attempt is over and there shall be another, unless the task has been cancelled meanwhile."""
        if task.cancel:
            self.answer_task(task, cancelled_job(task.seq), now, last)
            return
        freed = replace(task, owner=None, started_us=None, heartbeat_us=None, due_us=due_us)
        self.put_task(replace(freed, failures=task.failures + counts, attempts=(*task.attempts, last)))

    def tell(self, owner: int, id: str, cancelled: bool) -> None:
        """The holder of a lease is to learn, or need not learn any more, that a task of its is not wanted."""
        if cancelled and owner in self.rows.leases:
            self.cancelled.setdefault(owner, {})[id] = None
        elif owner in self.cancelled:
            self.cancelled[owner].pop(id, None)

    # --- leases -----------------------------------------------------------------------------

    def end_lease(self, lease: Lease, outcome: str, now: int) -> None:
        """Free everything that is owned under a lease, and take the lease away."""
        del self.rows.leases[lease.number]
        del self.held_by[lease.number], self.seconds[lease.number]
        self.cancelled.pop(lease.number, None)
        self.changes += 1
        for task in [task for task in self.rows.tasks.values() if task.owner == lease.number]:
            started = task.scheduled_us if task.started_us is None else task.started_us
            last = Attempt(attempt=task.attempt, worker=lease.name, started_us=started, ended_us=now, outcome=outcome)
            self.free_task(task, now, now, last)
        for run in [run for run in self.rows.runs.values() if run.owner == lease.number]:
            self.put_run(replace(run, owner=None, wake_us=now))
