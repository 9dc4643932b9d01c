"""Tasks: activities that wait, or run somewhere; taken, reported, cancelled, and handed back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Sequence
from functools import partial

from perdure.errors import InternalError, NotFound, PerdureError, StoreCorrupt
from perdure.stores.answers import attempt_notes, cancelled_job
from perdure.stores.records import NEVER_US, Attempt, Beat, NewRun, NewTask, Report, Run, Task
from perdure.stores.sqlite import hands, leases, sql, states
from perdure.stores.sqlite.access import Access, Row, json_of, to_json
from perdure.stores.sqlite.rows import State, TaskRow, damaged, read_task, task_of, task_row
from perdure.stores.sqlite.urgency import earliest, most_urgent, next_below


def claim_tasks(access: Access, owner: int, queue: str, names: Sequence[str], limit: int) -> list[Task]:
    wanted = json_of(names)
    ids = most_urgent(
        next_below(access, sql.TASK_PRIORITY_BELOW, [queue]),
        lambda priority, room: access.rows(sql.TASKS_DUE_OF, queue, priority, access.now_us, wanted, room),
        limit,
    )
    if not ids or not leases.alive(access, owner):
        return []
    taken = [_take(access, owner, each) for each in ids if isinstance(each, str)]
    return [task for task in taken if task is not None]


def _take(access: Access, owner: int, task_id: str) -> Task | None:
    """Count an attempt; None for a damaged row, whose run is stopped."""
    row = access.row(sql.TASK, task_id)
    assert row is not None
    try:
        task = read_task(row)
        facts = states.facts_of(access, task.run)
        if facts is None:
            raise damaged("runs", task.run, f"it is missing, but has the task {task_id}")
    except StoreCorrupt as error:
        set_task_aside(access, row, error)
        return None
    task.owner = owner
    task.attempt += 1
    task.started_us = access.now_us
    task.heartbeat_us = None
    replace(access, task)
    return task_of(task, facts)


def set_task_aside(access: Access, row: Row, error: Exception) -> None:
    """Stop the run that a damaged task belongs to: the one it names, unless it is another one that misses a task."""
    named = row[1]
    try:
        task = read_task(row)
    except StoreCorrupt:
        access.write(sql.SET_TASK_ASIDE, row[0])
        missing = access.numbers(sql.MISCOUNTED)
    else:  # it is its run that is damaged
        task.owner, task.due_us, missing = None, NEVER_US, []
        replace(access, task)
    if isinstance(named, int) and not missing:
        states.set_aside(access, named, error)
    for number in missing:
        if number != named:
            states.set_aside(access, number, damaged("tasks", f"of run {number}", "one is missing"))


def get_next_due(access: Access, queues: Sequence[str]) -> int | None:
    return earliest(access, sql.TASK_PRIORITY_BELOW, sql.FIRST_DUE, queues)


def list_tasks(access: Access, number: int) -> list[Task]:
    there = states.stand(access, number)
    if there is None:
        return []
    whole = [read_task(row) for row in access.rows(sql.TASKS_OF_RUN, number)]
    if len(whole) != there.state.open_tasks:
        raise damaged("tasks", f"of run {number}", "one is missing, or too many", there.facts.run_id)
    held = hands.at_hand(there.state)
    if held is not None:
        whole = sorted([*whole, held], key=lambda task: task.seq)
    return [task_of(task, there.facts) for task in whole]


def get_task(access: Access, run_id: str, task_id: str) -> tuple[Run, Task | None]:
    number = access.number(sql.RUN_NUMBER, run_id)
    there = None if number is None else states.stand(access, number)
    if there is None:
        raise NotFound(f"no run has the run id {run_id!r}; look it up with `perdure list`")
    task = of_state(access, there.state, task_id)
    return there.as_run(), None if task is None or task.run != number else task_of(task, there.facts)


# --- what attempts came to -----------------------------------------------------------------------


def report_tasks(access: Access, reports: Sequence[Report]) -> list[bool]:
    for each in reports:
        if each.job is None and each.retry_us is None:
            raise InternalError(f"the report on the activity {each.id} says neither the answer nor when to retry")
    return [bool(_unless_damaged(access, each.id, partial(report, access, each))) for each in reports]


def _unless_damaged(access: Access, task_id: str, work: Callable[[], bool | None]) -> bool | None:
    """What this gives; None where rows are damaged, whose run is stopped then, and no other."""
    given = access.alone(work)
    if isinstance(given, StoreCorrupt):
        row = access.row(sql.TASK, task_id)
        if row is not None:
            set_task_aside(access, row, given)
        return None
    if isinstance(given, PerdureError):
        raise given
    return given


def report(access: Access, report: Report) -> bool:
    """Write what an attempt came to; False if it is not the reporter's any more. `StoreCorrupt`."""
    task = _load_of(access, report.run, report.id)
    if report.owner is not None and (task is None or task.cancel or task.owner != report.owner):
        leases.untell(access, report.owner, report.id)
    if task is None or task.owner != report.owner or task.attempt != report.attempt.attempt:
        return False
    if report.job is not None:
        answer(access, task, report.job, report.attempt)
    elif report.retry_us is not None:
        give_back(access, task, report.retry_us, report.attempt, counts=report.counts)
    return True


def of_state(access: Access, state: State, task_id: str) -> TaskRow | None:
    """A task of this run, wherever it is; that of another, if it has this id. `StoreCorrupt`."""
    held = hands.at_hand(state)
    return held if held is not None and held.id == task_id else _load(access, task_id)


def _load_of(access: Access, run: int, task_id: str) -> TaskRow | None:
    """A task that somebody else than a turn has to do with: it is put down. `StoreCorrupt`."""
    task = _load(access, task_id)
    if task is None:
        hands.put_down_of(access, run)
        task = _load(access, task_id)
    return task


def _load(access: Access, task_id: str) -> TaskRow | None:
    row = access.row(sql.TASK, task_id)
    return None if row is None else read_task(row)


def answer(access: Access, task: TaskRow, job: bytes, last: Attempt | None) -> None:
    """Remove a task and tell its run what came of it, if that is still running."""
    there = states.stand(access, task.run)
    if there is None:
        raise damaged("runs", task.run, f"it is missing, but has the task {task.id}")
    _answer(access, there.state, there.facts, task, job, last)
    states.save(access, there.state)


def _answer(access: Access, state: State, facts: NewRun, task: TaskRow, job: bytes, last: Attempt | None) -> None:
    access.write(sql.DELETE_TASK, task.id)
    state.open_tasks -= 1
    if state.running:
        message = states.new_message(access, job, notes=attempt_notes(task_of(task, facts), last))
        states.append_message(access, state, message, answers=True)


def give_back(access: Access, task: TaskRow, due_us: int, last: Attempt, *, counts: bool = False) -> None:
    """An attempt is over and there shall be another, unless the task has been cancelled meanwhile."""
    if task.cancel:
        answer(access, task, cancelled_job(task.seq), last)
        return
    task.attempts = to_json((*task.past(), last))
    task.failures += counts
    task.owner = task.started_us = task.heartbeat_us = None
    task.due_us = due_us
    replace(access, task)


def beat_tasks(access: Access, beats: Sequence[Beat]) -> list[bool | None]:
    return [_unless_damaged(access, beat.id, partial(_beat, access, beat)) for beat in beats]


def _beat(access: Access, beat: Beat) -> bool | None:
    task = _load_of(access, beat.run, beat.id)
    if task is None or task.owner != beat.owner:
        return None
    if beat.details is not None:
        task.details = beat.details
    task.heartbeat_us = access.now_us
    replace(access, task)
    return bool(task.cancel)


# --- within the turn of a run, or at its end: the state is changed, and saved by the caller ---------


def add(access: Access, state: State, owner: int, new: Sequence[NewTask]) -> None:
    """Insert those that are not there yet."""
    fresh: list[Row] = []
    for task in new:
        if task.seq <= state.top_seq and of_state(access, state, task.id) is not None:
            continue
        row = _new_row(access, state.number, task, owner)
        if len(new) > 1 or not hands.take(state, row):
            fresh.append(task_row(row))
    state.top_seq = max(state.top_seq, *(task.seq for task in new)) if new else state.top_seq
    state.open_tasks += len(fresh)
    access.write_many(sql.INSERT_TASK, fresh)


def finish(access: Access, state: State, owner: int, task_id: str) -> None:
    """A turn took the answer of a task directly."""
    held = hands.at_hand(state)
    if held is not None and held.id == task_id:
        state.at_hand = None
        return
    gone = access.row(sql.FINISH_TASK, task_id, state.number)
    if gone is None:
        return
    state.open_tasks -= 1
    holder, cancel = gone
    if holder == owner:
        if cancel:
            leases.untell(access, owner, task_id)
    elif isinstance(holder, int):
        leases.tell(access, holder, [task_id])


def cancel(access: Access, state: State, task_id: str, wants_answer: bool) -> None:
    """The workflow does not want a task any more: a free one is over at once, whoever runs it learns of it."""
    hands.put_down(access, state)
    task = _load(access, task_id)
    if task is None or task.run != state.number:
        return  # its answer is on its way
    if wants_answer and task.owner is None:
        facts = states.facts_of(access, state.number)
        assert facts is not None
        _answer(access, state, facts, task, cancelled_job(task.seq), None)
    elif wants_answer:
        task.cancel = 1
        replace(access, task)
    else:
        access.write(sql.DELETE_TASK, task_id)
        state.open_tasks -= 1
    if task.owner is not None:
        leases.tell(access, task.owner, [task_id])


def drop_all(access: Access, state: State, spared: Container[str] = ()) -> None:
    """What a run's end does to its tasks."""
    hands.put_down(access, state)
    if not state.open_tasks:
        return
    revoked: defaultdict[int, list[str]] = defaultdict(list)
    for row in access.rows(sql.TASKS_OF_RUN, state.number):
        task = read_task(row)
        if task.id not in spared:
            access.write(sql.DELETE_TASK, task.id)
            state.open_tasks -= 1
            if task.owner is not None:
                revoked[task.owner].append(task.id)
    for owner, ids in revoked.items():
        leases.tell(access, owner, ids)


def replace(access: Access, task: TaskRow) -> None:
    access.write_row(sql.REPLACE_TASK, task_row(task))


def _new_row(access: Access, run: int, new: NewTask, owner: int) -> TaskRow:
    now_us = access.now_us
    return TaskRow(
        id=new.id,
        run=run,
        seq=new.seq,
        name=new.name,
        queue=new.queue,
        priority=new.priority,
        input=new.input,
        keywords=new.keywords,
        options=new.options,
        scheduled_us=now_us,
        due_us=now_us if new.due_us is None else new.due_us,
        attempt=int(new.claimed),
        owner=owner if new.claimed else None,
        started_us=now_us if new.claimed else None,
    )
