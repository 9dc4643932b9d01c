"""Turns: runs are claimed, and what their turns come to is committed.

The way of a step in a chain of activities: a turn is appended, and the state, which this connection knows, is written
over; its activity is at hand in it (see hands).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from perdure.errors import InternalError, LeaseLost, NondeterminismError, PerdureError, StoreCorrupt
from perdure.stores.answers import cancelling
from perdure.stores.checks import verify_chain
from perdure.stores.records import NO_CHECKSUM, NO_TURN, Blocked, Committed, Report, Run, Turn, TurnCommit
from perdure.stores.sqlite import attributes, events, hands, leases, messages, sql, states, tasks
from perdure.stores.sqlite.access import Access, HalfDone, Row, Value, json_of, to_json
from perdure.stores.sqlite.messages import Claim
from perdure.stores.sqlite.others import Others
from perdure.stores.sqlite.rows import (
    State,
    damaged,
    place_of,
    read_run,
    read_state,
    read_turn,
    state_of,
    state_row,
    turn_row,
    whole_ones,
)
from perdure.stores.sqlite.states import Standing
from perdure.stores.sqlite.urgency import earliest, earliest_first, most_urgent, next_below

# --- claims --------------------------------------------------------------------------------------


def claim_runs(access: Access, owner: int, queues: Sequence[str], workflows: Sequence[str], limit: int) -> list[Run]:
    numbers = _due(access, sql.DUE_OF, queues, workflows, limit)
    if not numbers or not leases.alive(access, owner):
        return []
    claimed = [_claim_unless_damaged(access, owner, number) for number in numbers]
    return [run for run in claimed if run is not None]


def _due(access: Access, due_of: str, queues: Sequence[str], workflows: Sequence[str], limit: int) -> list[int]:
    queues, names = list(dict.fromkeys(queues)), json_of(workflows)

    def rows(priority: int, room: int) -> list[Row]:
        found = [row for each in queues for row in access.rows(due_of, each, priority, access.now_us, names, room)]
        return earliest_first(found, len(queues), room)

    numbers = most_urgent(next_below(access, sql.PRIORITY_BELOW, queues), rows, limit)
    return [number for number in numbers if isinstance(number, int)]


def _claim_unless_damaged(access: Access, owner: int, number: int) -> Run | None:
    try:
        return _claim(access, owner, states.stand(access, number))
    except StoreCorrupt as error:
        states.set_aside(access, number, error)
        return None


def claim_run(access: Access, owner: int, number: int) -> Run | None:
    if not leases.alive(access, owner):
        return None
    there = states.stand(access, number)
    if there is not None and there.state.running and there.state.owner == owner:
        return there.as_run()
    return _claim(access, owner, there)


def _claim(access: Access, owner: int, there: Standing | None) -> Run | None:
    if there is None or there.state.owner is not None or not there.state.running:
        return None
    there.state.owner = owner
    states.save(access, there.state)
    return there.as_run()


def get_next_wake(access: Access, queues: Sequence[str]) -> int | None:
    return earliest(access, sql.PRIORITY_BELOW, sql.FIRST_WAKE, list(dict.fromkeys(queues)))


def list_pending(access: Access, owner: int) -> list[Run]:
    return whole_ones(access.rows(sql.PENDING, owner), read_run)


def list_unknown(access: Access, queues: Sequence[str], workflows: Sequence[str], limit: int) -> list[Run]:
    found: list[Run] = []
    for number in _due(access, sql.DUE_UNKNOWN, queues, workflows, limit):
        with suppress(StoreCorrupt):  # whoever claims it puts it aside
            if (run := states.get(access, number)) is not None:
                found.append(run)
    return found


# --- commits -------------------------------------------------------------------------------------


def commit_turns(access: Access, commits: Sequence[TurnCommit], claims: Sequence[str]) -> list[Committed | Exception]:
    return [access.alone(partial(_commit, access, commit, claims)) for commit in commits]


def _commit(access: Access, commit: TurnCommit, claims: Sequence[str]) -> Committed:
    orders = commit.children or commit.sent or commit.promises or commit.lapsed or commit.answers or commit.closing
    row, state = _state_before(access, commit, known=not orders)
    turn = commit.turn
    access.write_row(sql.INSERT_TURN, turn_row(commit.run, turn))
    if commit.consumed > state.consumed:
        access.write(sql.DELETE_MESSAGES, commit.run, commit.consumed)
    state.last_turn, state.tail, state.consumed = turn.number, turn.checksum, commit.consumed
    state.blocked, state.wake_us, state.waiting = None, commit.wake_us, commit.waiting
    if commit.attributes is not None:
        attributes.put(access, commit.run, state.attributes, commit.attributes)
        state.attributes = commit.attributes
    for task_id in commit.finished:
        tasks.finish(access, state, commit.owner, task_id)
    if commit.new_tasks:
        tasks.add(access, state, commit.owner, commit.new_tasks)
    for cancel in commit.cancels:
        tasks.cancel(access, state, cancel.id, cancel.answer)
    if commit.events:
        events.publish_turn(access, commit.events)
    told = _order(access, state, commit, claims) if orders else None
    if commit.closing is not None and told is not None:
        return Committed(told=tuple(told.told), ended=told.ended)
    parked = commit.park and not state.pending
    if parked:
        hands.put_down(access, state)
        state.owner = None
    _save_step(access, row, state)
    return Committed(state.pending, parked, () if told is None else tuple(told.told))


def _state_before(access: Access, commit: TurnCommit, *, known: bool) -> tuple[Row, State]:
    """The state that a turn starts from; one that is known need not be read: `_save_step` sees whether it still is so.

    `LeaseLost`, `StoreCorrupt`.
    """
    row = access.states.get(commit.run) if known else None
    if row is not None:
        state = state_of(row)
        with suppress(PerdureError):  # unless this is refused because of what somebody else has written meanwhile
            _refuse(access, state, commit)
            return row, state
    row = access.row(sql.STATE, commit.run)
    if row is None:
        raise lost(commit.run, "there is no such run")
    state = read_state(row)
    _refuse(access, state, commit)
    return row, state


def _order(access: Access, state: State, commit: TurnCommit, claims: Sequence[str]) -> Others:
    """What a turn wants of other runs, and its run's end."""
    facts = states.facts_of(access, commit.run)
    if facts is None:
        raise damaged("runs", commit.run, "it is missing")
    own = Standing(commit.run, facts, state.created_us, state)
    others = Others(access, own, Claim(commit.owner, claims))
    for child in commit.children:
        others.start_child(own, child)
    for sent in commit.sent:
        others.send(own, sent)
    for promise in commit.promises:
        others.promise(own, promise)
    for name in commit.lapsed:
        messages.lapse_promise(access, own, name)
    for update in commit.answers:
        messages.answer_update(access, own, update.id, update.answer)
    spared = {task.id for task in commit.new_tasks}
    if commit.closing is not None and commit.successor is not None:
        others.continue_as(own, commit.closing, commit.successor, spared)
    elif commit.closing is not None:
        others.end(own, commit.closing, spared, cancelling(commit))
    others.save()
    return others


def _refuse(access: Access, state: State, commit: TurnCommit) -> None:
    """Raise why a commit cannot be, if it cannot."""
    turn = commit.turn
    if not state.running:
        raise lost(commit.run, "it has ended")
    if state.owner != commit.owner:
        raise lost(commit.run, "it is held by another worker, or by nobody")
    if turn.number != state.last_turn + 1 or commit.previous != state.tail:
        raise lost(commit.run, f"its last turn is {state.last_turn}, and turn {turn.number} does not follow it")
    if not state.consumed <= commit.consumed <= state.accepted:
        raise InternalError(
            f"turn {turn.number} of run {commit.run} takes messages up to {commit.consumed}, "
            f"where {state.consumed} were taken and {state.accepted} accepted"
        )
    for task in commit.new_tasks:
        if task.seq <= state.top_seq:
            old = tasks.of_state(access, state, task.id)
            if old is not None and (old.run, old.name) != (commit.run, task.name):
                raise NondeterminismError(
                    f"the activity {task.id} is {old.name!r}, and this turn has it as {task.name!r}"
                )


def lost(run: int, why: str) -> LeaseLost:
    return LeaseLost(f"run {run} was not changed: {why}; drop the turn")


STAYS = slice(1, 8)  # the columns of a state that a step in between leaves alone, but for its owner
OWNER = 9
KNOWN_MAX = 10_000  # states that are kept in mind: more than one worker owns


def _save_step(access: Access, before: Row, state: State) -> None:
    """Save a state; as a step in between, if its run stays with its owner.

    `HalfDone` if it was not as it was known: somebody else has written it, and the turn starts from what they wrote.
    """
    row, known = state_row(state), access.states.get(state.number) is before
    if row[STAYS] == before[STAYS] and row[OWNER] == before[OWNER]:
        values = (row[8], *row[10:21], row[22], row[0])
        if not known:
            access.write_row(sql.UPDATE_STATE_STEP, values)
        else:
            access.write_row(sql.UPDATE_STATE_KNOWN, (*values, before[22]))
            if not access.connection.changes():
                raise HalfDone
        if len(access.states) >= KNOWN_MAX and not known:
            del access.states[next(iter(access.states))]
        access.states[state.number] = row
    elif known and access.row(sql.STATE, state.number) != before:
        raise HalfDone
    else:
        states.write(access, state, row)


# --- set free ------------------------------------------------------------------------------------


def release_run(access: Access, owner: int, number: int, wake_us: int | None) -> None:
    state = states.load(access, number)
    if state is None or state.owner != owner:
        return
    hands.put_down(access, state)
    state.owner, state.wake_us = None, wake_us
    if state.pending:
        states.be_due(state, access.now_us)
    states.save(access, state)


def block_run(access: Access, owner: int | None, number: int, blocked: Blocked, reports: Sequence[Report]) -> None:
    state = states.load(access, number)
    if state is None or not state.running or state.owner != owner:
        raise lost(number, "it has ended or is held by another worker")
    for each in reports:
        tasks.report(access, each)
    state = states.load(access, number)
    assert state is not None
    hands.put_down(access, state)
    state.owner, state.blocked, state.wake_us = None, to_json(blocked), blocked.retry_us
    states.save(access, state)


def wake_blocked(access: Access, queues: Sequence[str]) -> int:
    woken = 0
    for queue in dict.fromkeys(queues):
        for number in access.numbers(sql.BLOCKED, queue):
            woken += _wake(access, number)
    return woken


def _wake(access: Access, number: int) -> bool:
    try:
        state = states.load(access, number)
    except StoreCorrupt:
        return False
    if state is None:
        return False
    states.be_due(state, access.now_us)
    states.save(access, state)
    return True


# --- reading -------------------------------------------------------------------------------------


def list_turns(access: Access, number: int, after: int, limit: int | None) -> list[Turn]:
    there = states.stand(access, number)
    if there is None:
        return []
    run_id = there.facts.run_id
    before: Value = NO_CHECKSUM
    if after > NO_TURN:
        row = access.row(sql.TURN_CHAIN, place_of(number, after))
        if row is None and after <= there.state.last_turn:
            raise damaged("turns", f"{number}/{after}", "it is missing", run_id)
        before = row[0] if row is not None else NO_CHECKSUM
    rows = access.rows(sql.TURNS, place_of(number, after), place_of(number + 1, 0), -1 if limit is None else limit)
    turns = [read_turn(row, run_id) for row in rows]
    assert isinstance(before, bytes)
    verify_chain(there.as_run(), turns, after, before, whole=limit is None or len(turns) < limit)
    return turns
