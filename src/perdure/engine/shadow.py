"""Shadows: every turn is replayed as soon as it is durable, so that nondeterminism shows at the desk (K11, K12).

In:  engine.worker, which tells its listener of each turn; the command `perdure dev`, and whoever wants it in tests.
Out: engine.rebuild makes a second live copy of each run, which gets what history holds and nothing else.

A shadow stands a turn behind its run at most. What comes out differently is reported once for a run, and touches
nothing: the run goes on, and whoever wrote it mends it. One that is first seen in the middle is read from the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from perdure import policies
from perdure.clock import Clock
from perdure.define.registry import Registry
from perdure.engine.live import Live
from perdure.engine.parts import Listener
from perdure.engine.rebuild import Rebuilder, read_record
from perdure.engine.settings import Settings
from perdure.engine.turns import Prepared
from perdure.errors import NondeterminismError, PerdureError, SchedulerViolation
from perdure.model.turns import TurnRecord
from perdure.stores.port import Store
from perdure.stores.records import Closing, Run, Turn

logger = logging.getLogger("perdure.engine")
ENDED_FROM_OUTSIDE = ("terminated", "timed_out")
OnMismatch = Callable[[Run, PerdureError], None]


class Shadows(Listener):
    """A shadow of every run that this worker has turns of; the least recently used go first."""

    def __init__(
        self, store: Store, registry: Registry, settings: Settings, clock: Clock, on_mismatch: OnMismatch
    ) -> None:
        self._store = store
        self._rebuilder = Rebuilder(store, registry, settings, clock, _allows_everything)
        self._on_mismatch = on_mismatch
        self._most = max(1, settings.cache)
        self._shadows: OrderedDict[int, Live] = OrderedDict()
        self._reading: dict[int, asyncio.Task[None]] = {}
        self._reported: set[int] = set()

    def turn_committed(self, prepared: Prepared) -> None:
        """Replay it; a shadow that is behind reads what it has missed first."""
        run, record = prepared.live.run, prepared.record
        if run.number in self._reported or run.number in self._reading:
            return
        shadow = self._shadow_of(run)
        if shadow.last_turn + 1 == prepared.commit.turn.number:
            self._replay(shadow, [(prepared.commit.turn, record)])
        else:
            reading = asyncio.get_running_loop().create_task(self._catch_up(shadow))
            self._reading[run.number] = reading
            reading.add_done_callback(lambda _: self._reading.pop(run.number, None))
        if shadow.ended:
            self._drop(run.number)

    def run_closed(self, number: int, closing: Closing) -> None:
        """It takes no more turns. One that a turn has ended is told of that turn after this, and needs its shadow."""
        if closing.status in ENDED_FROM_OUTSIDE and number not in self._reading:
            self._drop(number)

    async def settle(self) -> None:
        """Wait for what is being read, and let go of all shadows."""
        while self._reading:
            await asyncio.wait(list(self._reading.values()))
        for number in list(self._shadows):
            self._drop(number)

    # --- leaves -----------------------------------------------------------------------------------

    def _shadow_of(self, run: Run) -> Live:
        shadow = self._shadows.get(run.number)
        if shadow is None:
            shadow = self._shadows[run.number] = self._rebuilder.new(run)
            while len(self._shadows) > self._most:
                self._drop(next(iter(self._shadows)))
        self._shadows.move_to_end(run.number)
        return shadow

    async def _catch_up(self, shadow: Live) -> None:
        """Replay what is stored of it, until nothing was added meanwhile."""
        while True:
            try:
                turns = await self._store.list_turns(shadow.number, shadow.last_turn)
            except PerdureError as error:
                logger.warning("run %s is not replayed: %s", shadow.run.facts.workflow_id, error)
                self._drop(shadow.number)
                return
            if not turns:
                return
            if not self._replay(shadow, [(turn, read_record(turn.record)) for turn in turns]) or shadow.ended:
                self._drop(shadow.number)
                return

    def _replay(self, shadow: Live, turns: Sequence[tuple[Turn, TurnRecord]]) -> bool:
        try:
            for turn, record in turns:
                _replay_turn(self._rebuilder, shadow, turn, record)
        except (NondeterminismError, SchedulerViolation) as error:
            self._reported.add(shadow.number)
            self._drop(shadow.number)
            self._on_mismatch(shadow.run, error)
            return False
        return True

    def _drop(self, number: int) -> None:
        shadow = self._shadows.pop(number, None)
        if shadow is not None:
            shadow.executor.discard()


class Recorded(msgspec.Struct, frozen=True):
    """A run with all its turns, on its way to another process."""

    run: Run
    turns: list[Turn]


def rehearse(recorded: Recorded, registry: Registry, settings: Settings, clock: Clock) -> PerdureError | None:
    """Replay a whole run, from its first turn; what came out differently, if anything did."""
    store: Any = None  # nothing is read: all the turns are here
    rebuilder = Rebuilder(store, registry, settings, clock, _allows_everything)
    shadow = rebuilder.new(recorded.run)
    try:
        for turn in recorded.turns:
            _replay_turn(rebuilder, shadow, turn, read_record(turn.record))
    except (NondeterminismError, SchedulerViolation) as error:
        return error
    finally:
        shadow.executor.discard()
    return None


def _replay_turn(rebuilder: Rebuilder, shadow: Live, turn: Turn, record: TurnRecord) -> None:
    executor, choices = shadow.executor, record.choices
    policy: Any = policies.from_log(list(choices), first_step=choices[0].step) if choices else None
    executor.rounds.policy = policy
    rebuilder.activate(shadow, lambda: executor.activate(record.now, record.jobs, record))
    executor.rounds.policy = None
    shadow.follow(record)
    shadow.last_turn = turn.number
    shadow.ended = executor.ended


def _allows_everything(_: Live) -> Callable[..., None]:
    return lambda *_: None
