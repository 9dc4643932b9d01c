"""Rehearsals: every run that has ended is replayed once more, in a process with another hash seed.

In:  desk. Out: a child process (rehearsal), which is given whole histories and opens no store.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable
from typing import Any, Self

import msgspec

from perdure.engine.shadow import Recorded
from perdure.errors import PerdureError
from perdure.stores.port import Store
from perdure.stores.records import Run

BACKLOG_MAX = 500  # runs that end faster than they are replayed; the rest is not
LINE_BYTES_MAX = 64 * 1024 * 1024
STOP_SECONDS = 2.0


class Verdict(msgspec.Struct):
    """What a replay came to: None, or how it differs."""

    mismatch: str | None = None


class Rehearsals:
    """Ended runs, one after the other, through one child process."""

    def __init__(self, store: Store, module: str, on_mismatch: Callable[[Run, str], None]) -> None:
        self._store = store
        self._module = module
        self._on_mismatch = on_mismatch
        self._queue: asyncio.Queue[Run] = asyncio.Queue(BACKLOG_MAX)
        self._child: asyncio.subprocess.Process | None = None
        self._going: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._going = asyncio.create_task(self._go())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._going is not None:
            self._going.cancel()
            await asyncio.gather(self._going, return_exceptions=True)
        await self._stop()

    def add(self, run: Run) -> None:
        """A run has ended."""
        with contextlib.suppress(asyncio.QueueFull):
            self._queue.put_nowait(run)

    # --- leaves -----------------------------------------------------------------------------------

    async def _go(self) -> None:
        while True:
            run = await self._queue.get()
            with contextlib.suppress(PerdureError, OSError):
                verdict = await self._replayed(run)
                if verdict is not None and verdict.mismatch is not None:
                    self._on_mismatch(run, verdict.mismatch)

    async def _replayed(self, run: Run) -> Verdict | None:
        turns = await self._store.list_turns(run.number)
        child = self._child
        if child is None or child.returncode is not None:
            child = self._child = await _child_of(self._module)
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(msgspec.json.encode(Recorded(run, turns)) + b"\n")
        await child.stdin.drain()
        line = await child.stdout.readline()
        return msgspec.json.decode(line, type=Verdict) if line else None

    async def _stop(self) -> None:
        child = self._child
        if child is None or child.returncode is not None:
            return
        assert child.stdin is not None
        child.stdin.close()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await child.wait()
        except TimeoutError:
            child.kill()
            await child.wait()


async def _child_of(module: str) -> Any:
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "perdure.cli.rehearsal",
        module,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,  # what the code prints while it is imported, it has printed before
        env={**os.environ, "PYTHONHASHSEED": seed},
        start_new_session=True,  # Ctrl-C is for the one at the desk
        limit=LINE_BYTES_MAX,
    )
