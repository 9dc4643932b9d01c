"""Leases: a worker's lease is kept alive off the user's event loop, and the line that blocks that loop is named (E3).

In:  engine.worker opens a lease and has it kept.
Out: the store renews it; the worker is told, on its own loop, once it is lost.

A keeper in a thread of its own goes on while the worker's loop is busy, as long as other threads get the interpreter.
Without threads it is a task of the loop.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Protocol

from perdure.clock import Clock
from perdure.engine.settings import Settings
from perdure.errors import StoreError
from perdure.kernel.callsite import is_workflow_code
from perdure.stores.port import LeaseStore

logger = logging.getLogger("perdure.engine")
RENEWALS_PER_LEASE = 4
LOOKS_PER_LIMIT = 2  # at the loop, while it does not answer


class Keeper(Protocol):
    """Who keeps a worker's lease alive."""

    def keep(self, lease: int, lost: Callable[[], object]) -> None:
        """Renew this lease from now on; `lost` is called on the worker's loop once it is not the worker's any more."""
        ...

    async def stop(self) -> None: ...


async def renewed(store: LeaseStore, lease: int) -> bool | None:
    """Whether the lease was renewed; None where the store could not be asked."""
    try:
        return await store.renew_lease(lease)
    except StoreError as error:
        logger.error("the lease could not be renewed: %s", error)
        return None


class LoopKeeper:
    """A task of the worker's own loop, for engines without threads."""

    def __init__(self, store: LeaseStore, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._seconds = settings.lease_seconds
        self._clock = clock
        self._task: asyncio.Task[None] | None = None

    def keep(self, lease: int, lost: Callable[[], object]) -> None:
        """Begin, or go on with another lease."""
        if self._task is not None:
            self._task.cancel()
        self._task = asyncio.get_running_loop().create_task(self._keep(lease, lost), name="perdure lease")

    async def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _keep(self, lease: int, lost: Callable[[], object]) -> None:
        last = self._clock.monotonic()
        while True:
            await asyncio.sleep(self._seconds / RENEWALS_PER_LEASE)
            alive = await renewed(self._store, lease)
            if alive:
                last = self._clock.monotonic()
            elif alive is False or self._clock.monotonic() - last > self._seconds:
                lost()
                return


class ThreadKeeper:
    """A thread that renews the lease, and watches whether the worker's loop still answers."""

    def __init__(self, store: LeaseStore, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._seconds = settings.lease_seconds
        self._blocked_seconds = settings.blocked_loop_seconds
        self._clock = clock
        self._lease = 0
        self._lost: Callable[[], object] | None = None
        self._last = 0.0
        self._stopping = threading.Event()
        self._ended = asyncio.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = 0
        self._asked_at: float | None = None  # when the loop was asked for a sign, while it has given none
        self._told = False

    def keep(self, lease: int, lost: Callable[[], object]) -> None:
        """Begin, or go on with another lease."""
        self._last = self._clock.monotonic()
        self._lease, self._lost = lease, lost
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._loop_thread = threading.get_ident()
            self._thread = threading.Thread(target=self._run, name="perdure-lease", daemon=True)
            self._thread.start()

    async def stop(self) -> None:
        """End."""
        self._stopping.set()
        if self._thread is not None:
            await self._ended.wait()
            self._thread.join()

    def _run(self) -> None:
        loop = asyncio.new_event_loop()
        try:
            self._work(loop)
        finally:
            loop.close()
            self._call(self._ended.set)

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        pause = self._seconds / RENEWALS_PER_LEASE
        step = pause if self._blocked_seconds is None else min(pause, self._blocked_seconds / LOOKS_PER_LIMIT)
        due = self._clock.monotonic() + pause
        while not self._stopping.wait(step):
            now = self._clock.monotonic()
            self._look_at_loop(now)
            if now < due or self._lost is None:
                continue
            due = now + pause
            lease = self._lease
            alive = loop.run_until_complete(renewed(self._store, lease))
            if alive:
                self._last = now
            elif lease == self._lease and (alive is False or now - self._last > self._seconds):
                lost, self._lost = self._lost, None
                self._call(lost)

    def _look_at_loop(self, now: float) -> None:
        if self._blocked_seconds is None:
            return
        if self._asked_at is None:
            self._asked_at = now
            self._told = False
            self._call(self._sign)
        elif now - self._asked_at >= self._blocked_seconds and not self._told:
            self._told = True
            frame = sys._current_frames().get(self._loop_thread)  # pyright: ignore[reportPrivateUsage]
            if frame is not None:
                logger.warning(
                    "the event loop has been blocked for %.1f s at %s: nothing else goes on meanwhile. "
                    "Make it a `def` activity, which runs in a thread, or await what takes long",
                    now - self._asked_at,
                    _place(frame),
                )

    def _sign(self) -> None:
        self._asked_at = None

    def _call(self, call: Callable[[], object] | None) -> None:
        assert self._loop is not None
        try:
            if call is not None:
                self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # the loop is closed
            self._stopping.set()


def _place(frame: FrameType) -> str:
    """The innermost line of the user's; where there is none, the innermost of all."""
    found: FrameType | None = frame
    while found is not None and not is_workflow_code(found.f_code.co_filename):
        found = found.f_back
    shown = found or frame
    return f"{shown.f_code.co_filename}:{shown.f_lineno} in {shown.f_code.co_name}"
