"""Stores with one fault each in time limits, promises that lapse and messages that are corrected; all are found."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from perdure.stores.memory import MemoryStore
from perdure.stores.memory.others import Others
from perdure.stores.records import Closing, Committed, Message, Run, TurnCommit


class ForgetsLapses(MemoryStore):
    """Lost: a promise that nobody waits for takes an answer, which nobody gets (M4)."""

    async def commit_turns(
        self, commits: Sequence[TurnCommit], claims: Sequence[str] = ()
    ) -> list[Committed | Exception]:
        return await super().commit_turns([replace(each, lapsed=()) for each in commits], claims)


class EndsWhatIsOwned(MemoryStore):
    """Owned by two: a run reaches its time limit while its owner has it, which hears nothing of it."""

    async def time_out_runs(self, closing: Closing, limit: int) -> list[Run]:
        now = self._clock.now_us()
        ended = [
            run
            for run in self._state.rows.runs.values()
            if run.status == "running" and run.facts.deadline_us is not None and run.facts.deadline_us <= now
        ]
        for run in ended[:limit]:
            Others(self._state, now).end(run, closing)
        return ended[:limit]


class ServesOneQueue(MemoryStore):
    """Lost: the time limit of a run whose queue nobody serves (E8)."""

    async def time_out_runs(self, closing: Closing, limit: int) -> list[Run]:
        runs = self._state.rows.runs.values()
        elsewhere = [run for run in runs if run.facts.queue == "elsewhere" and run.owner is None]
        for run in elsewhere:
            self._state.put_run(replace(run, owner=-1))
        ended = await super().time_out_runs(closing, limit)
        for run in elsewhere:
            self._state.put_run(run)
        return ended


class CorrectsAnything(MemoryStore):
    """Changed: a message of a run that is not blocked, which a turn may have read already."""

    async def correct_message(self, number: int, message: Message) -> bool:
        self._state.rows.messages.get(number, {})[message.number] = message
        return True
