"""Rebuilding: a run's live copy from its history, or from nothing for a new one (E10, K14).

In:  a run as it is stored, and the registry.
Out: kernel.executor against the recorded turns; a long history gives the event loop back every few milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from perdure import policies
from perdure.clock import Clock
from perdure.define.registry import Registry
from perdure.define.workflow import Workflow
from perdure.engine.live import Live
from perdure.engine.settings import Settings
from perdure.errors import NotFound
from perdure.kernel.callsite import is_workflow_code
from perdure.kernel.executor import Completion, Executor, RunIdentity, Vet
from perdure.kernel.guards import Profile
from perdure.kernel.matching import Story, Strict
from perdure.model.turns import TurnRecord
from perdure.stores.port import Store
from perdure.stores.records import NewRun, Run, Turn
from perdure.watchdog import Watchdog

logger = logging.getLogger("perdure.engine")
read_record = msgspec.json.Decoder(TurnRecord).decode
read_raw = msgspec.Raw


class UnknownWorkflow(NotFound):
    """This worker does not know the workflow of a run."""


class Rebuilder:
    """Makes live copies, and runs their turns within the limit and under the guards."""

    def __init__(
        self, store: Store, registry: Registry, settings: Settings, clock: Clock, vet: Callable[[Live], Vet]
    ) -> None:
        self._store = store
        self._registry = registry
        self._settings = settings
        self._clock = clock
        self._vet = vet
        self.watchdog = Watchdog(
            settings.turn_limit_seconds,
            is_workflow_code=is_workflow_code,
            on_stuck=lambda text: logger.warning("%s", text),
        )

    def new(self, run: Run, records: Sequence[TurnRecord] = ()) -> Live:
        """A live copy that has not taken its first turn."""
        definition = self.definition(run.facts)
        facts = run.facts
        keywords = read_raw(facts.keywords) if facts.keywords else None
        identity = RunIdentity(uuid.UUID(facts.run_id), facts.seed, read_raw(facts.input), keywords)
        story = Story(facts.workflow, facts.run_id, os.environ)
        executor = Executor(definition.program, identity, matcher=Strict(story, records))
        executor.defaults = {}
        live = Live(run, executor)
        executor.vet = self._vet(live)
        return live

    async def from_history(self, run: Run) -> Live:
        """A live copy that stands where the run stands. `StoreCorrupt`, `NondeterminismError`, violations."""
        self.definition(run.facts)
        if run.last_turn < 0:
            return self.new(run)
        turns = await self._store.list_turns(run.number)
        records: list[TurnRecord] = []
        live = self.new(run, records)
        await self._go_through(live, turns, records)
        return live

    async def catch_up(self, live: Live, run: Run) -> None:
        """Take the turns that another worker has added (E3)."""
        turns = await self._store.list_turns(run.number, live.last_turn)
        live.run = run
        await self._go_through(live, turns, [])

    def activate(self, live: Live, call: Callable[[], Completion]) -> Completion:
        """Run one turn of it, within the limit of a turn."""
        if self._settings.guard_names:
            call = _profiled(live, call)
        return self.watchdog.run(call, f"turn {live.executor.turn} of run {live.run.facts.workflow_id}")

    def definition(self, facts: NewRun) -> Workflow[..., Any]:
        """The workflow that a run goes on with, in the version that it began with (M9); `UnknownWorkflow`."""
        definition = self._registry.version_of(facts.workflow, facts.version)
        if definition is not None:
            return definition
        if facts.workflow in self._registry.workflows:
            raise UnknownWorkflow(
                f"this worker does not know version {facts.version} of workflow `{facts.workflow}`, with which the run "
                "began: list that one too"
            )
        known = ", ".join(sorted(self._registry.workflows)) or "none"
        raise UnknownWorkflow(f"this worker knows no workflow `{facts.workflow}`; it knows: {known}")

    async def _go_through(self, live: Live, turns: Sequence[Turn], records: list[TurnRecord]) -> None:
        executor = live.executor
        records += [read_record(turn.record) for turn in turns]
        logged = [choice for record in records for choice in record.choices]
        replay: Any = policies.from_log(logged, first_step=logged[0].step) if logged else None
        began = self._clock.monotonic()
        try:
            for turn, record in zip(turns, records, strict=True):
                if replay is not None:
                    executor.rounds.policy = replay if record.choices else None
                self.activate(live, lambda record=record: executor.activate(record.now, record.jobs, record))
                if replay is not None:
                    replay = executor.rounds.policy or replay
                live.follow(record)
                live.last_turn = turn.number
                live.checksum = turn.checksum
                if self._clock.monotonic() - began > self._settings.rebuild_slice_seconds:
                    await asyncio.sleep(0)
                    began = self._clock.monotonic()
        finally:
            records.clear()  # the matcher looks at them for its reports only
        executor.rounds.policy = None
        live.ended = executor.ended


def _profiled(live: Live, call: Callable[[], Completion]) -> Callable[[], Completion]:
    def watched() -> Completion:
        profile = Profile(live.executor.loop)
        profile.enter()
        try:
            return call()
        finally:
            profile.leave()

    return watched
