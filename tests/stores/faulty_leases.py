"""Stores with one fault each in who owns what, and when; the conformance suite has to find every one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import count

from msgspec.structs import replace

from perdure.clock import Clock
from perdure.stores.memory import MemoryStore
from perdure.stores.records import Lease, Run


class SharesRuns(MemoryStore):
    """A run that has an owner is given to whoever asks for it by its number (E3)."""

    async def claim_run(self, owner: int, number: int) -> Run | None:
        run = self._state.rows.runs.get(number)
        if run is not None and run.owner is not None:
            self._state.put_run(replace(run, owner=None))
        return await super().claim_run(owner, number)


class GivesNumbersAgain(MemoryStore):
    """The number of a lease that has ended is given to the next one (E3)."""

    async def open_lease(self, name: str, queues: Mapping[str, int], seconds: float) -> Lease:
        self._state.lease_numbers = count(max(self._state.rows.leases, default=0) + 1)
        return await super().open_lease(name, queues, seconds)


class KeepsTheDead(MemoryStore):
    """A lease that has expired is ended, and its runs stay with it."""

    async def end_dead_leases(self) -> list[Lease]:
        owners = {run.number: run for run in self._state.rows.runs.values() if run.owner is not None}
        dead = await super().end_dead_leases()
        for lease in dead:
            for run in owners.values():
                if run.owner == lease.number:
                    self._state.put_run(run)
        return dead


class EndsTheLiving(MemoryStore):
    """A lease that was renewed in time is taken for dead."""

    async def renew_lease(self, number: int) -> bool:
        return number in self._state.rows.leases


@dataclass
class LaterClock:
    """What time it is in an hour."""

    clock: Clock

    def now_us(self) -> int:
        return self.clock.now_us() + 3_600_000_000

    def monotonic(self) -> float:
        return self.clock.monotonic()


class ClaimsTooEarly(MemoryStore):
    """What is due within the hour is due now."""

    async def claim_runs(self, owner: int, queues: Sequence[str], workflows: Sequence[str], limit: int) -> list[Run]:
        hasty = copy(self)
        hasty._clock = LaterClock(self._clock)
        return await MemoryStore.claim_runs(hasty, owner, queues, workflows, limit)


class IgnoresPriority(MemoryStore):
    """First come, first served."""

    async def claim_runs(self, owner: int, queues: Sequence[str], workflows: Sequence[str], limit: int) -> list[Run]:
        claimed = await super().claim_runs(owner, queues, workflows, 1_000)
        claimed.sort(key=lambda run: run.wake_us or 0)
        for run in claimed[limit:]:
            self._state.put_run(replace(run, owner=None))
        return claimed[:limit]
