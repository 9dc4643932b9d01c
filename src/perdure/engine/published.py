"""Published: a run's state and the values that it publishes, read out of its turns without running its code (M10).

In:  engine.handles.
Out: the store, and what this process knows of new turns.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.engine.descriptions import published_in, read_record
from perdure.engine.news import until
from perdure.model import jobs
from perdure.stores.records import NO_TURN, Closing, Run, Turn

if TYPE_CHECKING:
    from perdure.engine.runs import Runs

read_started = msgspec.json.Decoder(jobs.Started).decode
LOOK_SECONDS = 1.0  # in case that nobody says that something has changed


def state_of(run: Run, turns: Sequence[Turn]) -> dict[str, Any]:
    """The state after these turns, the first ones of a run."""
    state = {key: msgspec.json.decode(value) for key, value in read_started(run.facts.started).state.items()}
    for turn in turns:
        for command in read_record(turn.record).commands:
            if command.kind == "set_state" and command.name is not None:
                state[command.name] = command.input[0]
            elif command.kind == "clear_state" and command.name is not None:
                state.pop(command.name, None)
    return state


async def published(runs: Runs, workflow_id: str, run_id: str | None) -> AsyncIterator[Any]:
    """The current value, then each new one, through all generations unless one was asked for."""
    run = await runs.store.get_run(workflow_id, run_id)
    seen = NO_TURN
    first = True
    with runs.news.watching() as changed:
        while True:
            changed.clear()
            run = (await runs.store.get_runs([run.number]))[0]
            values: list[Any] = []
            if run.last_turn > seen:
                turns = await runs.store.list_turns(run.number, seen)
                seen = turns[-1].number
                values = published_in([read_record(turn.record) for turn in turns])
            for value in values[-1:] if first else values:
                yield value
            first = first and not values
            if run.status == "running":
                await until(changed, LOOK_SECONDS)
            elif run.status == "continued" and run_id is None:
                run, seen = await runs.next_generation(run, Closing(run.status, run.result)), NO_TURN
            else:
                return
