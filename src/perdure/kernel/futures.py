"""Futures and tasks of a workflow: asyncio's own protocol, with order and cancellation that replay can repeat.

kernel.loop makes and steps them. Beside that module, the only one of the kernel that knows asyncio.

A task is our own instead of asyncio's, so that it is the same on every Python: a cancellation yields to an answer
that is already there and is raised at the next pause (K15, K17), a cancelled scope raises at every pause (M6), and
what a task waits for can be read (K19).
"""

from __future__ import annotations

import asyncio
from asyncio import events
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, Protocol

from perdure.errors import SchedulerViolation
from perdure.kernel.entries import DelayHandle, Forked
from perdure.kernel.innards import CLEANING_UP, ENTER_TASK, LEAVE_TASK, LOCK_ACQUIRE, WAITING_FOR_CONDITION, chain_of
from perdure.kernel.scopes import Scope
from perdure.kernel.units import UNIT, Unit

CancelledError = asyncio.CancelledError
AsyncioFuture = asyncio.Future

# What asyncio does, without asking who does it.
INIT = asyncio.Future[Any].__init__
SET_RESULT = asyncio.Future[Any].set_result
SET_EXCEPTION = asyncio.Future[Any].set_exception
SET_CANCELLED = asyncio.Future[Any].cancel

HASH_MASK = (1 << 61) - 1
HASH_FACTOR = 0x9E3779B97F4A7C15


OUTSIDE = (
    "this belongs to a workflow, and was called from outside it: in another thread or between its turns. "
    "Nothing was done. Send the run a signal instead"
)


class RunEnds(BaseException):
    """Unwinds workflow code after `continue_as_new`. No Exception, so that `except Exception` lets it pass."""


def is_outcome(loop: TaskLoop, error: BaseException) -> bool:
    """Whether what a strand of workflow code raised is what became of it; else the turn or the run is over with it."""
    return not (loop.closing or isinstance(error, KeyboardInterrupt | RunEnds))


class TaskLoop(Protocol):
    """What futures and tasks ask of kernel.loop."""

    turn: int
    closing: bool
    futures_hashed: int
    salt: int
    scopes_cancelled: int
    settlements: int
    sweeping: Scope | None
    task: UnitTask | None

    def defers_cancel(self, task: UnitTask, message: Any) -> bool: ...
    def queue_yield(self, task: UnitTask) -> None: ...
    def queue_wake(self, task: UnitTask) -> None: ...
    def queue_ending(self, fork: Forked, number: int) -> None: ...
    def cancel_delay(self, handle: DelayHandle) -> None: ...


class LoopFuture(asyncio.Future[Any]):
    """A future whose hash depends on the run only, so that sets of them iterate alike on every replay.

    It is numbered when it is first hashed: how many futures asyncio makes for itself differs from Python to Python.
    """

    __slots__ = ("_number",)

    def __hash__(self) -> int:
        loop: Any = self.get_loop()
        number: int = getattr(self, "_number", 0)
        if not number:
            loop.futures_hashed = self._number = number = loop.futures_hashed + 1
        return (number * HASH_FACTOR ^ loop.salt) & HASH_MASK

    def refuse_outsiders(self) -> None:
        """In another thread, and between the turns, nobody may touch what belongs to a run (K14)."""
        if events._get_running_loop() is not self.get_loop():
            raise SchedulerViolation(OUTSIDE)

    def set_result(self, result: Any, /) -> None:
        """Settle it with a value; from outside it is refused, and nothing is done."""
        self.refuse_outsiders()
        super().set_result(result)

    def set_exception(self, exception: Any, /) -> None:
        """Settle it with an error; from outside it is refused, and nothing is done."""
        self.refuse_outsiders()
        super().set_exception(exception)


class AnsweredFuture(LoopFuture):
    """A future that the outside answers, and nobody else."""

    __slots__ = ()

    def answer(self, value: Any) -> None:
        """The outside has answered."""
        SET_RESULT(self, value)

    def refuse(self, error: BaseException) -> None:
        """The outside has answered with an error."""
        SET_EXCEPTION(self, error)

    def set_result(self, result: Any, /) -> None:
        """Refused: its result comes from outside."""
        self.refuse_outsiders()
        raise RuntimeError(
            "what was asked of the outside is answered from there: this future does not support set_result"
        )

    def set_exception(self, exception: Any, /) -> None:
        """Refused: its end comes from outside."""
        self.refuse_outsiders()
        raise RuntimeError(
            "what was asked of the outside is answered from there: this future does not support set_exception"
        )


class PlainFuture(LoopFuture):
    """What workflow code and asyncio's primitives get from `loop.create_future()`."""

    __slots__ = ("delay",)

    def __init__(self, loop: Any) -> None:
        super().__init__(loop=loop)
        self.delay: DelayHandle | None = None

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel it, and the durable timer that would have answered it."""
        self.refuse_outsiders()
        if self.delay is not None and not self.done():
            self.delay.cancel()
        return super().cancel(msg)


class Joint(LoopFuture):
    """A future that stands for several strands: cancelled, it stops them first and ends when they have ended."""

    __slots__ = ("_stop", "cancel_requested", "what")

    def __init__(self, loop: Any, what: Callable[[], str], stop: Callable[[], object]) -> None:
        super().__init__(loop=loop)
        self._stop = stop
        self.what = what
        self.cancel_requested = False

    def cancel(self, msg: Any | None = None) -> bool:
        """Stop the strands; the future is cancelled when the last of them has ended. False: it has its answer."""
        self.refuse_outsiders()
        if self.done():
            return False
        if not self.cancel_requested:
            self.cancel_requested = True
            self.cancel_requested = self._stop() is not False
        return self.cancel_requested

    def end_cancelled(self) -> None:
        """The strands have ended after a cancellation."""
        super().cancel()


class UnitTask(LoopFuture):
    """A coroutine that runs in a unit: what asyncio.Task is to other loops."""

    __slots__ = (
        "_cancels",
        "_interrupted",
        "_must_cancel",
        "_name",
        "_refusal",
        "_text",
        "base",
        "context",
        "coroutine",
        "fork",
        "kept",
        "loop",
        "number",
        "scope",
        "settled_as",
        "shares_context",
        "since_turn",
        "unit",
        "waiter",
    )

    def __init__(
        self,
        loop: Any,
        coroutine: Coroutine[Any, Any, Any],
        unit: Unit,
        scope: Scope,
        context: Context | None = None,
    ) -> None:
        INIT(self, loop=loop)
        self.loop: TaskLoop = loop
        self.coroutine = coroutine
        self.unit = unit
        self.scope = self.base = scope
        self.shares_context = context is not None
        if context is None:
            context = copy_context()
            context.run(UNIT.set, unit)
        self.context = context
        self.waiter: asyncio.Future[Any] | None = None
        self.since_turn: int  # when it began to wait for that
        self.settled_as: int  # the how-many-th answer or end of a task of the run it was (K13)
        self._must_cancel = False
        self._text: Any = None
        self._refusal: RuntimeError | None = None
        self._cancels = 0
        self._interrupted: object = None
        self._name: str | None = None
        self.fork: Forked | None = None  # that it is a branch of, and
        self.number: int  # which one
        unit.tasks.append(self)

    def __hash__(self) -> int:
        return (hash(self.unit.key) * HASH_FACTOR ^ self.loop.salt) & HASH_MASK

    # --- the part of asyncio.Task that asyncio and its users call -----------------------------

    def get_coro(self) -> Coroutine[Any, Any, Any]:
        """The coroutine that it runs."""
        return self.coroutine

    def get_context(self) -> Context:
        """The context that it runs in."""
        return self.context

    def get_name(self) -> str:
        """The name that it was given, else its unit's id."""
        return self._name or self.unit.text

    def set_name(self, value: object) -> None:
        """Give it a name for people; its unit keeps its id."""
        self._name = str(value)

    def cancel(self, msg: Any | None = None) -> bool:
        """Ask it to end: CancelledError is raised at its pause, or at the next one if an answer is already there."""
        self.refuse_outsiders()
        if self.done():
            return False
        self._cancels += 1
        if not self.loop.defers_cancel(self, msg):
            self.deliver_cancel(msg)
        return True

    def cancelling(self) -> int:
        """How many requests to cancel it are open."""
        return self._cancels

    def uncancel(self) -> int:
        """Take one request back; with the last one, what was not raised yet is not raised at all."""
        if self._cancels:
            self._cancels -= 1
            if not self._cancels:
                self._must_cancel = False
        return self._cancels

    def set_result(self, result: Any, /) -> None:
        """Refused: a task's result is its coroutine's."""
        raise RuntimeError("Task does not support set_result operation")

    def set_exception(self, exception: Any, /) -> None:
        """Refused: a task's exception is its coroutine's."""
        raise RuntimeError("Task does not support set_exception operation")

    # --- what the kernel calls ----------------------------------------------------------------

    def wake(self, future: asyncio.Future[Any]) -> None:
        """The callback by which an awaited future wakes it. The loop queues it and calls `advance`."""

    def deliver_cancel(self, message: Any) -> None:
        """Carry out a request that `cancel` made, down a chain of tasks that wait for each other, however long."""
        task = self
        while True:
            if task.done() or not task._cancels:  # it has ended, or the request was taken back
                return
            if self.loop.sweeping is not None and task.scope.is_reached_by(self.loop.sweeping):
                return  # it is interrupted when its unit's turn comes (M6)
            task._text = message
            waiter = task.waiter
            if waiter is None or waiter.done() or task.scope.shielded_from(task.base):
                task._must_cancel = True
                return
            if type(waiter) is not UnitTask:
                task._must_cancel = task._must_cancel or not waiter.cancel(message)
                return
            waiter._cancels += 1
            if self.loop.defers_cancel(waiter, message):
                return
            task = waiter

    def interrupt(self) -> None:
        """Its scope was cancelled: raise at the pause where it stands. An answer that is there goes first."""
        if self.waiter is not None and not self.waiter.done():
            self._interrupted, before = self._clean_up(), self._interrupted
            if self._interrupted is None or self._interrupted is not before:
                self.waiter.cancel()

    def advance(self) -> None:
        """Run the coroutine to its next pause. Called in its own context, while its unit has the step."""
        if self.done():
            return
        if self.shares_context:
            UNIT.set(self.unit)
        waiter, self.waiter = self.waiter, None
        loop = self.loop
        loop.task = self
        ENTER_TASK(loop, self)
        try:
            if self._refusal is not None:
                refusal, self._refusal = self._refusal, None
                pause = self.coroutine.throw(refusal)
            elif (self._must_cancel or loop.scopes_cancelled) and self._raises_now(waiter):
                self._must_cancel = False
                pause = self.coroutine.throw(CancelledError() if self._text is None else CancelledError(self._text))
            else:
                pause = self.coroutine.send(None)
        except StopIteration as stop:
            SET_RESULT(self, stop.value)
        except CancelledError as error:
            SET_CANCELLED(self, *error.args[:1])
        except KeyboardInterrupt:  # a person's, or the watchdog's
            raise
        except BaseException as error:  # also an exit(): it is what became of the run, and of nothing around it
            SET_EXCEPTION(self, error)
        else:
            self._pause(pause)
            return
        finally:
            LEAVE_TASK(loop, self)
            loop.task = None
        self.unit.tasks.remove(self)
        if self.fork is not None:
            loop.queue_ending(self.fork, self.number)
        loop.settlements += 1
        self.settled_as = loop.settlements

    def _raises_now(self, waiter: asyncio.Future[Any] | None) -> bool:
        answered = waiter is not None and not waiter.cancelled()
        if answered:
            return False
        if self._must_cancel:
            return not self.scope.shielded_from(self.base)
        return self.scope.interrupted()

    def _pause(self, pause: Any) -> None:
        self.since_turn = self.loop.turn
        if pause is None:  # the explicit yield, `await asyncio.sleep(0)`
            self.loop.queue_yield(self)
            return
        if getattr(pause, "_asyncio_future_blocking", None) is None:
            self._refuse(f"a workflow cannot await {pause!r}: it is not a future of the workflow's loop")
            return
        if pause.get_loop() is not self.loop:
            self._refuse(f"{pause!r} belongs to another event loop, not to this run")
            return
        if pause is self:
            self._refuse("a task cannot await itself")
            return
        pause._asyncio_future_blocking = False
        pause.add_done_callback(self.wake, context=self.context)
        self.waiter = pause
        if self._must_cancel:
            if not self.scope.shielded_from(self.base) and not pause.done() and pause.cancel(self._text):
                self._must_cancel = False
        elif self.loop.scopes_cancelled and self.scope.interrupted():
            self.interrupt()

    def _refuse(self, text: str) -> None:
        self._refusal = RuntimeError(text)
        self.loop.queue_wake(self)

    def _clean_up(self) -> object:
        """The clean-up of asyncio's own in which it stands: a cancelled scope interrupts it once, and not again."""
        outer: Any = None
        outer_code: object = None
        for awaited, frame in chain_of(self.coroutine):
            code = frame.f_code
            if code in CLEANING_UP:
                return awaited
            if code is LOCK_ACQUIRE and outer_code in WAITING_FOR_CONDITION:
                return outer
            outer, outer_code = awaited, code
        return None
