"""Hands: the one activity that a run's owner is making is kept in the run's state, which each turn writes anyway (E1).

A chain of steps would insert a row of `tasks` in every turn, and delete the one before. So an activity that its turn's
worker begins at once, with nothing beside it, is at hand: a column of the state, for as long as the run is owned and
nobody but its turns has to do with it. Everybody else finds it put down: then it is a row like all others.
"""

from __future__ import annotations

import msgspec

from perdure.stores.sqlite import sql, states
from perdure.stores.sqlite.access import Access, to_json
from perdure.stores.sqlite.rows import State, TaskRow, task_row

BYTES_MAX = 1000  # what is larger would spread the states of runs over many pages
_read = msgspec.json.Decoder(TaskRow).decode


def take(state: State, task: TaskRow) -> bool:
    """Have a new task at hand, if its worker has it, and there is room. The state is saved by the caller."""
    if state.at_hand is not None or task.owner is None or task.owner != state.owner:
        return False
    if len(task.input) + len(task.keywords) + len(task.options) > BYTES_MAX:
        return False
    state.at_hand = to_json(task)
    return True


def at_hand(state: State) -> TaskRow | None:
    """What is at hand."""
    return None if state.at_hand is None else _read(state.at_hand)


def put_down(access: Access, state: State) -> None:
    """Make a row of what is at hand. The state is saved by the caller."""
    task = at_hand(state)
    if task is not None:
        state.at_hand = None
        state.open_tasks += 1
        access.write_row(sql.INSERT_TASK, task_row(task))


def put_down_of(access: Access, number: int) -> None:
    """Make a row of what is at hand of this run, if there is something. `StoreCorrupt`."""
    state = states.load(access, number)
    if state is not None and state.at_hand is not None:
        put_down(access, state)
        states.save(access, state)
