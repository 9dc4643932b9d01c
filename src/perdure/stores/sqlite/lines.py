"""Lines: how calls come to a connection and answers go back: through a thread's queue, or at once.

A thread takes everything that waits into one group. The answers of a group go back with one call for each event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, Protocol

from perdure.stores.sqlite.bells import Bell
from perdure.stores.sqlite.groups import Call, Transition
from perdure.stores.sqlite.transactions import Transaction
from perdure.stores.sqlite.troubles import refusal

GROUP_MAX = 1000
TICK_SECONDS = 0.01
Run = Callable[[Sequence[Call]], None]


class Line(Protocol):
    """Where calls queue up for a connection."""

    def call(self, work: Transition, values: tuple[Any, ...]) -> Awaitable[Any]:
        """What the transition gave, or raised. It may have queued up before it is awaited."""
        ...

    async def stop(self) -> None:
        """Do what waits, and end."""
        ...

    def hold(self, transaction: Transaction) -> None:
        """Let it have the connection for itself, when it is its turn."""
        ...


class StraightLine:
    """No queue: each call is a group, on the caller's thread. `lock` and `gate` are those of the connection."""

    def __init__(self, run: Run, lock: Lock, gate: Gate) -> None:
        self._run = run
        self._lock = lock
        self._gate = gate

    def hold(self, transaction: Transaction) -> None:
        self._gate.enter(transaction)

    async def call(self, work: Transition, values: tuple[Any, ...]) -> Any:
        await self._gate.passed()
        call = Call(work, values)
        with self._lock:
            self._run((call,))
        if isinstance(call.outcome, Exception):
            raise call.outcome
        return call.outcome

    async def stop(self) -> None:
        """Nothing waits."""


class Gate:
    """Keeps all others away from a connection without a thread while a transaction has it."""

    def __init__(self) -> None:
        self._queue: deque[Transaction] = deque()
        self._opened: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    async def passed(self) -> None:
        """Wait until nobody has the connection."""
        while self._queue:
            opened = asyncio.get_running_loop().create_future()
            self._opened.append(opened)
            await opened

    def enter(self, transaction: Transaction) -> None:
        """It begins when those before it have ended."""
        self._queue.append(transaction)
        transaction.on_order = lambda: self._serve(transaction)

    def _serve(self, transaction: Transaction) -> None:
        if self._queue[0] is not transaction:
            return
        if not transaction.began:
            self._timer = asyncio.get_running_loop().call_later(transaction.seconds, self._time_out, transaction)
        transaction.serve_waiting()
        self._leave(transaction)

    def _time_out(self, transaction: Transaction) -> None:
        if transaction.over is None:
            transaction.time_out()
            self._leave(transaction)

    def _leave(self, transaction: Transaction) -> None:
        if transaction.over is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        transaction.on_order = None
        self._queue.popleft()
        if self._queue:
            self._serve(self._queue[0])
        while not self._queue and self._opened:
            opened = self._opened.popleft()
            if not opened.done():
                opened.set_result(None)


class Held(Call):
    """Not a call: from here on a transaction has the connection for itself."""

    __slots__ = ("transaction",)

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction.serve, ())
        self.transaction = transaction


class Waiting(Call):
    """A call that somebody awaits on an event loop."""

    __slots__ = ("future", "loop")

    def __init__(self, work: Transition, values: tuple[Any, ...], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(work, values)
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()


class ThreadLine:
    """A thread that has the connection. With a tick, that is called every ten milliseconds, busy or not."""

    def __init__(self, name: str, run: Run, now: Callable[[], float], bell: Bell | None = None) -> None:
        self._run = run
        self._now = now
        self._rested = 0.0
        self._queue: SimpleQueue[Waiting | Held | None] = SimpleQueue()
        self._held: Held | None = None  # comes after the group that is made now
        self._tick: Callable[[], object] | None = None
        self._stopping = False
        self._bell = bell
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def call(self, work: Transition, values: tuple[Any, ...]) -> asyncio.Future[Any]:
        call = Waiting(work, values, asyncio.get_running_loop())
        self._queue.put(call)
        return call.future

    def hold(self, transaction: Transaction) -> None:
        self._queue.put(Held(transaction))

    async def stop(self) -> None:
        self._stopping = True
        self._queue.put(None)
        await in_thread(self._thread.join)

    def tick(self, call: Callable[[], object] | None) -> None:
        """Begin or end to call this."""
        self._tick = call
        self._queue.put(None)

    def _work(self) -> None:
        while True:
            calls = self._take()
            held, self._held = self._held, None
            if calls:
                self._make(calls)
                answer(calls, self._bell)
            if held is not None:
                self._serve(held)
            elif not calls and self._stopping and self._queue.empty():
                return
            if self._has_chores() and (not calls or self._now() - self._rested >= TICK_SECONDS):
                self._rested = self._now()
                self._do_chores()

    def _serve(self, held: Held) -> None:
        held.transaction.serve()

    def _has_chores(self) -> bool:
        """Whether there is something to do when nothing waits, and now and then if something always does."""
        return self._tick is not None

    def _do_chores(self) -> None:
        tick = self._tick  # another thread may take it away at any moment
        if tick is not None:
            tick()

    def _make(self, calls: Sequence[Waiting]) -> None:
        """Whatever happens, those who wait are told, and the thread goes on."""
        try:
            self._run(calls)
        except Exception as error:
            for call in calls:
                call.outcome = refusal(error)

    def _take(self) -> list[Waiting]:
        """All that waits, up to a transaction; after a while without anything, nothing."""
        calls: list[Waiting] = []
        try:
            call = self._queue.get(timeout=TICK_SECONDS if self._tick is not None else None)
            while call is not None:
                if isinstance(call, Held):
                    self._held = call
                    break
                calls.append(call)
                call = self._queue.get_nowait() if len(calls) < GROUP_MAX else None
        except Empty:
            pass
        return calls


def answer(calls: Sequence[Waiting], bell: Bell | None = None) -> None:
    """Hand the outcomes to those who wait, loop by loop. The bell is that of the loop where most of them do."""
    loops = {call.loop for call in calls}
    for loop in loops:
        theirs = calls if len(loops) == 1 else [call for call in calls if call.loop is loop]
        with suppress(RuntimeError):  # the loop has been closed: nobody waits any more
            if bell is not None and bell.loop is loop:
                bell.ring(theirs)
            else:
                loop.call_soon_threadsafe(resolve, theirs)


def resolve(calls: Sequence[Waiting]) -> None:
    """Tell those who wait, on their loop."""
    for call in calls:
        if call.future.done():
            continue
        if isinstance(call.outcome, Exception):
            call.future.set_exception(call.outcome)
        else:
            call.future.set_result(call.outcome)


async def in_thread(work: Callable[[], Any]) -> Any:
    """Do this in a thread of its own, which nobody else can keep busy."""
    call = Waiting(lambda: None, (), asyncio.get_running_loop())

    def do() -> None:
        try:
            call.outcome = work()
        except Exception as error:
            call.outcome = error
        answer([call])

    Thread(target=do, name="perdure-sqlite-opening", daemon=True).start()
    return await call.future
