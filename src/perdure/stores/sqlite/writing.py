"""Writing: the line to the connection that writes; a lone small call may be made on the caller's thread.

To hand a call to a thread and its answer back costs about half of what a flush costs on a fast disk, and a caller that
is alone has nothing to do meanwhile. So where nobody else waits, and the disk has been fast of late, the event loop
makes the call itself. What else asks in the same go of the loop shares a transaction on the thread, as always.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

from perdure.errors import StoreUnavailable
from perdure.stores.sqlite.bells import Bell
from perdure.stores.sqlite.groups import Call, Transition, Writer
from perdure.stores.sqlite.lines import TICK_SECONDS, Held, ThreadLine, Waiting, resolve
from perdure.stores.sqlite.transactions import Transaction

SHORT_SECONDS = 0.0005  # an event loop may be held up that long
CHORES_SECONDS = 0.0002  # in which the thread has looked around; to shorten the log takes longer
LATEST_SHARE = 0.2  # of the pace, what the latest call weighs


class WritingLine(ThreadLine):
    """A thread that has the connection, and lends it to the event loop that opened the store."""

    def __init__(self, name: str, writer: Writer, now: Callable[[], float], bell: Bell) -> None:
        self._writer = writer
        self._home = bell.loop
        self._using = Lock()
        self._put_off: list[Waiting] = []  # small calls of this go of the loop
        self._last: asyncio.Future[Any] | None = None
        self._transaction: Transaction | None = None
        self._checked = 0.0  # when it was last seen that the file is still there
        self._nudged = float("-inf")  # when the thread was told last that the log is long
        self._pace = 1.0  # seconds for a call, as a floating mean: slow, until it is known
        super().__init__(name, writer.run, now, bell)

    def call(self, work: Transition, values: tuple[Any, ...]) -> asyncio.Future[Any]:
        self._hand_over()
        self._last = super().call(work, values)
        return self._last

    def call_small(self, work: Transition, values: tuple[Any, ...]) -> asyncio.Future[Any]:
        """As `call`, for what takes no longer however large a run is."""
        if not self._is_home() or not (self._put_off or self._may_lend()):
            return self.call(work, values)
        if not self._put_off:
            self._home.call_soon(self._make_put_off)
        waiting = Waiting(work, values, self._home)
        self._put_off.append(waiting)
        self._last = waiting.future
        return waiting.future

    def call_now(self, work: Transition, values: tuple[Any, ...]) -> Call | None:
        """Make a small call before this returns; None, and nothing is written, if it would wait or might take long."""
        call = Call(work, values)
        return call if self._may_lend() and self._lend(call) else None

    def hold(self, transaction: Transaction) -> None:
        self._hand_over()
        self._transaction = transaction
        super().hold(transaction)

    async def stop(self) -> None:
        self._hand_over()
        await super().stop()

    # --- on the loop ------------------------------------------------------------------------------

    def _make_put_off(self) -> None:
        if len(self._put_off) == 1 and self._lend(self._put_off[0]):
            resolve([self._put_off.pop()])
        self._hand_over()

    def _hand_over(self) -> None:
        """Leave what was put off to the thread."""
        if self._put_off and self._is_home():
            put_off, self._put_off = self._put_off, []
            for waiting in put_off:
                self._queue.put(waiting)

    def _is_home(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._home
        except RuntimeError:  # a transaction begins on a thread of its own
            return False

    def _may_lend(self) -> bool:
        """Whether all that was asked for is answered, and answers come soon."""
        last, transaction = self._last, self._transaction
        return (
            self._pace < SHORT_SECONDS
            and (last is None or last.done())
            and (transaction is None or transaction.over is not None)
            and not self._stopping
        )

    def _lend(self, call: Call) -> bool:
        if not self._using.acquire(timeout=CHORES_SECONDS):
            return False
        try:
            began = self._now()
            if began - self._checked >= TICK_SECONDS:
                self._writer.refuse_vanished()
                self._checked = began
            is_made = self._writer.run_now(call)
            self._measure(self._now() - began)
        except StoreUnavailable:
            return False  # the thread says why
        finally:
            self._using.release()
        if self._writer.log_is_long and began - self._nudged >= TICK_SECONDS:
            self._nudged = began
            self._queue.put(None)  # the thread shortens it, as far as no reader needs it
        return is_made

    # --- on the thread ----------------------------------------------------------------------------

    def _make(self, calls: Sequence[Waiting]) -> None:
        with self._using:
            began = self._now()
            super()._make(calls)
        if len(calls) == 1:
            self._measure(self._now() - began)

    def _serve(self, held: Held) -> None:
        with self._using:
            super()._serve(held)

    def _has_chores(self) -> bool:
        return self._writer.log_is_long or super()._has_chores()

    def _do_chores(self) -> None:
        with self._using:
            if self._writer.log_is_long:
                self._writer.shorten_log()
            super()._do_chores()

    def _measure(self, seconds: float) -> None:
        self._pace += LATEST_SHARE * (seconds - self._pace)
