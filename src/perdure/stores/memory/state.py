"""State: what a memory store keeps, and the few ways in which rows change; the transitions are in the modules beside.

Whoever comes here holds the lock. Nothing here waits, and what can be refused is refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from threading import RLock
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary, WeakSet

import msgspec
from msgspec.structs import replace

from perdure.errors import NotFound, RunClosed
from perdure.stores.answers import attempt_notes, cancelled_job
from perdure.stores.memory.agenda import Agenda
from perdure.stores.memory.deadlines import Deadlines
from perdure.stores.records import Attempt, Lease, Message, NewRun, Question, Run, Settlement, Task, Turn

Key = TypeVar("Key")


class Holder:
    """One opening of a store object: the leases that it opened live at most as long as it is open."""


class Promise(msgspec.Struct):
    """A promise of a run, and what the outside has made of it."""

    settlement: Settlement | None = None
    key: str | None = None


class Update(msgspec.Struct):
    """An update that was accepted, and what it came to."""

    answer: bytes | None = None


class Rows(msgspec.Struct):
    """The tables."""

    runs: dict[int, Run] = {}
    turns: dict[int, list[Turn]] = {}
    messages: dict[int, dict[int, Message]] = {}
    tasks: dict[str, Task] = {}
    leases: dict[int, Lease] = {}
    questions: dict[int, Question] = {}
    answers: dict[int, bytes] = {}
    promises: dict[tuple[int, str], Promise] = {}  # by run and name
    updates: dict[str, dict[str, Update]] = {}  # by chain and id


class Owned(Generic[Key]):
    """Who owns what, by lease."""

    def __init__(self) -> None:
        self._of: dict[int, dict[Key, None]] = {}

    def put(self, key: Key, old: int | None, new: int | None) -> None:
        """Its owner was the one, and is the other."""
        if old is not None and old != new:
            self._of[old].pop(key, None)
            if not self._of[old]:
                del self._of[old]
        if new is not None:
            self._of.setdefault(new, {})[key] = None

    def of(self, owner: int) -> list[Key]:
        """What this one owns."""
        return list(self._of.get(owner, ()))


class State:
    """The rows with their indexes, shared by all store objects of one name."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.rows = Rows()
        self.run_ids: dict[str, int] = {}
        self.newest: dict[str, int] = {}  # by workflow id
        self.chains: dict[str, int] = {}  # the newest generation, by chain
        self.generations: dict[str, list[str]] = {}  # the run ids of all of them, by chain
        self.children: dict[str, list[str]] = {}  # chains, by the run id of their parent
        self.message_ids: dict[tuple[str, str], tuple[int, int]] = {}  # by chain and id: run and number
        self.answering: dict[int, set[int]] = {}  # by run: the messages that answer what it has asked for
        self.keys: dict[str, tuple[int, str]] = {}  # of promises: run and name
        self.open_tasks: dict[int, dict[str, None]] = {}
        self.cancelled: dict[int, dict[str, None]] = {}  # by lease: tasks that shall cancel, or are gone
        self.free_runs = Agenda[int]()
        self.free_tasks = Agenda[str]()
        self.owned_runs = Owned[int]()
        self.owned_tasks = Owned[str]()
        self.pending_runs = Owned[int]()  # those owned runs for which messages wait
        self.blocked: dict[int, None] = {}
        self.deadlines = Deadlines(self.rows.runs)
        self.holders: WeakSet[Holder] = WeakSet()
        self.held_by: dict[int, Callable[[], Holder | None]] = {}
        self.seconds: dict[int, float] = {}  # by lease: how long it lives without being renewed
        self.changes = 0
        self.listeners = WeakKeyDictionary[Holder, Callable[[], Callable[[], None] | None]]()
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

    def add_run(self, facts: NewRun, now: int, wake_us: int) -> Run:
        """A new run, due from then on. Its ids are free."""
        run = Run(
            number=next(self.run_numbers), facts=facts, created_us=now, wake_us=wake_us, attributes=facts.attributes
        )
        self.run_ids[facts.run_id] = self.newest[facts.workflow_id] = run.number
        if facts.parent is not None and chain_of(facts) not in self.chains:
            self.children.setdefault(facts.parent.run_id, []).append(chain_of(facts))
        if facts.deadline_us is not None:
            self.deadlines.put(facts.deadline_us, run.number)
        self.chains[chain_of(facts)] = run.number
        self.generations.setdefault(chain_of(facts), []).append(facts.run_id)
        return self.put_run(run)

    def put_run(self, run: Run) -> Run:
        """Write a run."""
        self.changes += 1
        number = run.number
        old = self.rows.runs.get(number)
        self.rows.runs[number] = run
        if run.status == "running" and run.owner is None and run.wake_us is not None:
            self.free_runs.put(number, run.facts.queue, run.facts.workflow, run.wake_us, run.facts.priority)
        else:
            self.free_runs.drop(number)
        was, behind = (None, False) if old is None else (old.owner, old.accepted > old.consumed)
        self.owned_runs.put(number, was, run.owner)
        self.pending_runs.put(number, was if behind else None, run.owner if run.accepted > run.consumed else None)
        if run.blocked is None:
            self.blocked.pop(number, None)
        else:
            self.blocked[number] = None
        return run

    # --- messages ---------------------------------------------------------------------------

    def known(self, run: Run, message_id: str | None) -> int | None:
        """The number of a message that was accepted under this id already; 0 if it does not wait any more (M1)."""
        found = None if message_id is None else self.message_ids.get((chain_of(run.facts), message_id))
        if found is None:
            return None
        waits = found[0] == run.number and found[1] in self.rows.messages.get(run.number, ())
        return found[1] if waits else 0

    def accept(self, run: Run, message: Message, *, answers: bool = False) -> Run:
        """Accept a message for a running run, under its next number; the run, due now."""
        number = run.accepted + 1
        self.rows.messages.setdefault(run.number, {})[number] = replace(message, number=number)
        if message.message_id is not None:
            self.message_ids[chain_of(run.facts), message.message_id] = run.number, number
        if answers:
            self.answering.setdefault(run.number, set()).add(number)
        wake_us = message.accepted_us if run.wake_us is None else min(message.accepted_us, run.wake_us)
        return self.put_run(replace(run, accepted=number, wake_us=wake_us))

    def consume(self, run: Run, consumed: int) -> None:
        """Remove the messages up to this one."""
        messages = self.rows.messages.get(run.number, {})
        for number in range(run.consumed + 1, consumed + 1):
            del messages[number]
        self.answering.get(run.number, set()).difference_update(range(run.consumed + 1, consumed + 1))

    # --- tasks ------------------------------------------------------------------------------

    def put_task(self, task: Task) -> None:
        """Write a task."""
        self.changes += 1
        old = self.rows.tasks.get(task.id)
        self.rows.tasks[task.id] = task
        self.open_tasks.setdefault(task.run, {})[task.id] = None
        self.owned_tasks.put(task.id, None if old is None else old.owner, task.owner)
        if task.owner is None:
            self.free_tasks.put(task.id, task.queue, task.name, task.due_us, task.priority)
        else:
            self.free_tasks.drop(task.id)

    def drop_task(self, task: Task, *, by: int | None = None) -> None:
        """Remove a task; whoever runs it, other than `by`, is to learn of it."""
        self.changes += 1
        del self.rows.tasks[task.id]
        self.open_tasks[task.run].pop(task.id)
        if not self.open_tasks[task.run]:
            del self.open_tasks[task.run]
        self.free_tasks.drop(task.id)
        self.owned_tasks.put(task.id, task.owner, None)
        if task.owner is not None:
            self.tell(task.owner, task.id, task.owner != by)

    def answer_task(self, task: Task, job: bytes, now: int, last: Attempt | None = None) -> None:
        """Remove a task, and tell its run what came of it, if that is still running."""
        self.drop_task(task, by=task.owner)
        run = self.rows.runs[task.run]
        if run.status == "running":
            self.accept(run, new_message(job, now, notes=attempt_notes(task, last)), answers=True)

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
        for task in [self.rows.tasks[id] for id in self.owned_tasks.of(lease.number)]:
            started = task.scheduled_us if task.started_us is None else task.started_us
            last = Attempt(attempt=task.attempt, worker=lease.name, started_us=started, ended_us=now, outcome=outcome)
            self.free_task(task, now, now, last)
        for run in [self.rows.runs[number] for number in self.owned_runs.of(lease.number)]:
            self.put_run(replace(run, owner=None, wake_us=now))


def chain_of(facts: NewRun) -> str:
    """What all generations of a run have in common."""
    return facts.chain or facts.run_id


def new_message(job: bytes, now: int, message_id: str | None = None, notes: bytes | None = None) -> Message:
    """A message that has no number yet."""
    return Message(number=0, job=job, message_id=message_id, accepted_us=now, notes=notes)


def claim_free(state: State, run: Run, owner: int | None) -> tuple[Run, bool]:
    """Own a run, if it is free and running, and the lease is not lost."""
    if owner not in state.rows.leases or run.owner is not None or run.status != "running":
        return run, False
    return state.put_run(replace(run, owner=owner)), True


def refuse_closed(run: Run) -> None:
    """`RunClosed` if it has ended."""
    if run.status != "running":
        raise RunClosed(f"the run {run.facts.workflow_id!r} ({run.facts.run_id}) has ended: it is {run.status}")
