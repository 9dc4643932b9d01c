"""Beats: the heartbeats of a worker's activities on their way into the store (E4).

In:  engine.tasks, for every heartbeat.
Out: the store, many attempts at once; of each the newest details, at most once in a while.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from perdure.engine.attempts import MICROS, Attempt, Why
from perdure.errors import PerdureError
from perdure.stores.port import TaskStore
from perdure.stores.records import Beat

logger = logging.getLogger("perdure.engine")


class Beats:
    """Writes heartbeats, one group after the other; what the store answers stops the attempt."""

    def __init__(
        self, store: TaskStore, owner: Callable[[], int], seconds: float, stop: Callable[[Attempt, Why], None]
    ) -> None:
        self._store = store
        self._owner = owner
        self._pause_us = round(seconds * MICROS)
        self._stop = stop
        self._due: dict[Attempt, None] = {}
        self._writer: asyncio.Task[None] | None = None

    def add(self, attempt: Attempt, details: bytes | None, now_us: int) -> None:
        """Write it now, or as soon as the last one of the attempt is old enough."""
        waits = attempt.unsaved is not None
        if details is None and attempt.unsaved is not None:
            details = attempt.unsaved[0]
        attempt.unsaved = (details,)
        if now_us >= attempt.beat_due_us:
            attempt.beat_due_us = now_us + self._pause_us
            self._write_soon(attempt)
        elif not waits:
            attempt.loop.call_later((attempt.beat_due_us - now_us) / MICROS, self._write_late, attempt)

    async def save(self, attempts: Iterable[Attempt]) -> None:
        """Have all of them written before anything else happens to these attempts."""
        for attempt in attempts:
            if attempt.unsaved is not None:
                self._write_soon(attempt)
        while self._writer is not None:
            await asyncio.wait([self._writer])

    def _write_late(self, attempt: Attempt) -> None:
        if attempt.unsaved is not None and not attempt.answered:
            attempt.beat_due_us += self._pause_us
            self._write_soon(attempt)

    def _write_soon(self, attempt: Attempt) -> None:
        self._due[attempt] = None
        if self._writer is None:
            self._writer = attempt.loop.create_task(self._write(), name="perdure heartbeats")

    async def _write(self) -> None:
        try:
            while self._due:
                await self._write_group()
        finally:
            self._writer = None

    async def _write_group(self) -> None:
        group, self._due = list(self._due), {}
        beats: list[Beat] = []
        for attempt in group:
            details = attempt.unsaved[0] if attempt.unsaved is not None else None
            attempt.unsaved = None
            beats.append(Beat(attempt.task.run, attempt.task.id, self._owner(), details))
        try:
            answers = await self._store.beat_tasks(beats)
        except PerdureError as error:
            logger.warning("%d heartbeats of activities were not written: %s", len(beats), error)
            for attempt, beat in zip(group, beats, strict=True):
                attempt.unsaved = attempt.unsaved or (beat.details,)
            return
        for attempt, cancel in zip(group, answers, strict=True):
            if cancel is None:
                self._stop(attempt, "lost")
            elif cancel:
                self._stop(attempt, "cancel")
