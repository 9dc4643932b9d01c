"""Memory: a store in this process, gone with it; its state and the transitions are in the modules beside.

`memory://` is private to its store object; all objects of one `memory://name` share their rows for the life of the
process, also when they live on event loops in several threads. Nothing waits, so the store runs on any event loop,
virtual time included.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Lock
from typing import Any
from weakref import WeakMethod

from perdure.clock import Clock
from perdure.errors import StoreCorrupt
from perdure.stores.checks import verify_chain
from perdure.stores.memory.events import MemoryEvents
from perdure.stores.memory.handler_runs import MemoryHandlerRuns
from perdure.stores.memory.leases import MemoryLeases, MemoryQuestions
from perdure.stores.memory.messages import MemoryMessages
from perdure.stores.memory.pipeline_rows import pipeline_rows
from perdure.stores.memory.pipelines import MemoryPipelines
from perdure.stores.memory.runs import MemoryRuns
from perdure.stores.memory.state import Holder, Rows, State
from perdure.stores.memory.tasks import MemoryTasks
from perdure.stores.memory.turns import MemoryTurns
from perdure.stores.records import NO_TURN, Damage, Run

_named: dict[str, State] = {}
_naming = Lock()


class MemoryStore(
    MemoryRuns,
    MemoryTurns,
    MemoryMessages,
    MemoryTasks,
    MemoryLeases,
    MemoryQuestions,
    MemoryPipelines,
    MemoryHandlerRuns,
    MemoryEvents,
):
    """perdure.stores.port.Store in memory. Its leases end with it: close it without closing them, and they are dead."""

    def __init__(self, clock: Clock, name: str | None = None) -> None:
        with _naming:
            self._state = State() if not name else _named.setdefault(name, State())
        self._clock = clock
        self._holder = None
        self._calls: dict[Callable[[], object], asyncio.AbstractEventLoop] = {}
        self._due: set[Callable[[], object]] = set()
        self.url = f"memory://{name or ''}"
        self.others_possible = bool(name)

    async def open(self) -> None:
        if self._holder is None:
            self._holder = Holder()
            with self._state.lock:
                self._state.holders.add(self._holder)
                self._state.listeners[self._holder] = WeakMethod(self._tell)

    async def close(self) -> None:
        if self._holder is not None:
            with self._state.lock:
                self._state.holders.discard(self._holder)
                self._state.listeners.pop(self._holder, None)
            self._holder = None

    def on_change(self, call: Callable[[], object]) -> Callable[[], None]:
        self._due.discard(call)
        self._calls[call] = asyncio.get_running_loop()
        return lambda: self._calls.pop(call, None) and None

    def _tell(self) -> None:
        """Somebody else has written. Called on their thread, and with the lock; each call is due once at a time."""
        for call, loop in list(self._calls.items()):
            if call not in self._due and not loop.is_closed():
                self._due.add(call)
                with suppress(RuntimeError):  # closed just now
                    loop.call_soon_threadsafe(self._call, call)

    def _call(self, call: Callable[[], object]) -> None:
        with self._state.lock:
            self._due.discard(call)
        if call in self._calls:
            call()

    async def verify(self) -> list[Damage]:
        with self._reading() as state:
            rows = state.rows
            return [damage for run in rows.runs.values() for damage in _damages(rows, run)]

    async def counts(self) -> Mapping[str, Any]:
        with self._reading() as state:
            rows, pipelines = state.rows, pipeline_rows(state)
            return {
                "runs": len(rows.runs),
                "turns": sum(map(len, rows.turns.values())),
                "messages": sum(map(len, rows.messages.values())),
                "tasks": len(rows.tasks),
                "leases": len(rows.leases),
                "questions": len(rows.questions),
                "pipelines": len(pipelines.pipelines),
                "handler_runs": len(pipelines.runs),
                "events": sum(len(topic.events) for topic in pipelines.topics.values()),
            }


def _damages(rows: Rows, run: Run) -> list[Damage]:
    run_id = run.facts.run_id
    found: list[Damage] = []
    try:
        verify_chain(run, rows.turns.get(run.number, []), NO_TURN)
    except StoreCorrupt as damage:
        found.append(Damage("turns", str(run.number), str(damage), run_id))
    expected = range(run.consumed + 1, run.accepted + 1) if run.status == "running" else range(0)
    if list(rows.messages.get(run.number, {})) != list(expected):
        found.append(Damage("messages", str(run.number), "the numbers of its messages have a gap", run_id))
    return found
