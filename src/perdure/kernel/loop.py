"""The workflow's event loop: just enough of asyncio for asyncio's own primitives.

It keeps what is ready, unit by unit, and runs one step of a unit when kernel.rounds asks for it. Durable timers
behind `call_later` go to the executor through `Host`.

A step is everything that a unit has ready, with what it queues for itself meanwhile, so that the number of hops
inside an await never changes the order (K4). The unit of a callback is its task's, else the one in its context.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from asyncio import events
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextvars import Context, copy_context
from math import isnan
from types import MethodType
from typing import Any, NoReturn, Protocol

from perdure.codec.durations import SECONDS_MAX, duration_seconds
from perdure.errors import PerdureError, SchedulerViolation
from perdure.kernel.callsite import caller
from perdure.kernel.entries import Callback, DelayHandle, Endings, Forked
from perdure.kernel.forbidden import LOOP_METHODS, refuse
from perdure.kernel.futures import OUTSIDE, PlainFuture, RunEnds, UnitTask
from perdure.kernel.innards import SET_RESULT, called_by_wait_for, give_current_task, runs_eagerly, take_current_task
from perdure.kernel.scopes import Scope
from perdure.kernel.units import TASK, UNIT, Unit

GENERATORS_KEPT = 64
FOREIGN_TASK = "asyncio.Task(…) and eager task factories make no unit of the run: use asyncio.create_task(…)"
WAKE = UnitTask.wake


class Host(Protocol):
    """What the loop asks of kernel.executor."""

    reading: str | None

    def start_delay(self, handle: DelayHandle, seconds: float) -> None: ...
    def cancel_delay(self, handle: DelayHandle) -> None: ...
    def scope(self) -> Scope: ...
    def seconds(self) -> float: ...


class WorkflowLoop(asyncio.AbstractEventLoop):
    """The event loop that workflow code sees. It runs only while its executor has a turn."""

    __slots__ = (
        "_cancels",
        "_outside",
        "_yielded",
        "closing",
        "futures_hashed",
        "gathers_hashed",
        "generators",
        "handled_outside",
        "host",
        "own_code",
        "ready",
        "reports",
        "salt",
        "scopes_cancelled",
        "settlements",
        "stepping",
        "sweeping",
        "task",
        "turn",
        "units",
        "violation",
    )

    def __init__(self, host: Host, run_id: str) -> None:
        self.host = host
        self.salt = int.from_bytes(hashlib.blake2b(run_id.encode(), digest_size=7).digest(), "big")
        self.turn = 0
        self.futures_hashed = 0
        self.gathers_hashed = 0
        self.scopes_cancelled = 0
        self.sweeping: Scope | None = None  # the scope whose units are being interrupted
        self.settlements = 0  # answers that came, tasks that ended: which of two was first (K13)
        self.ready: list[Unit] = []
        self.units: dict[Unit, None] = {}  # those with a live task, in the order of creation
        self.stepping: Unit | None = None
        self.task: UnitTask | None = None
        self.closing = False
        self.violation: PerdureError | None = None
        self.own_code: frozenset[str] = frozenset()
        self.reports: list[str] = []
        self._cancels: list[tuple[UnitTask, Any]] = []
        self._yielded: list[UnitTask] = []
        self.generators: dict[int, AsyncGenerator[Any, Any]] = {}
        self._outside: tuple[Any, Any, Any] = (None, None, None)
        self.handled_outside: BaseException | None = None  # what whoever runs this turn is handling meanwhile

    # --- a turn ---------------------------------------------------------------------------------

    def enter(self) -> None:
        """Become this thread's running loop."""
        outer = events._get_running_loop()
        self._outside = (outer, sys.get_asyncgen_hooks(), take_current_task(outer))
        self.handled_outside = sys.exception()
        events._set_running_loop(self)
        sys.set_asyncgen_hooks(firstiter=self._keep_generator, finalizer=_leave_generator)

    def leave(self) -> None:
        """Give the thread back to whatever loop ran before."""
        outer, hooks, task = self._outside
        sys.set_asyncgen_hooks(*hooks)
        events._set_running_loop(outer)
        give_current_task(outer, task)
        self._outside = (None, None, None)
        self.handled_outside = None

    def step(self, unit: Unit) -> None:
        """Run everything that the unit has ready, and what it queues for itself meanwhile."""
        self.stepping = unit
        queue = unit.queue or []
        try:
            for done, entry in enumerate(queue, 1):  # with what is queued meanwhile
                if type(entry) is UnitTask:
                    entry.context.run(entry.advance)
                elif type(entry) is DelayHandle and any(type(other) is not DelayHandle for other in queue[done:]):
                    queue.append(entry)  # an answer of the same turn goes before a time-out, however it is awaited
                else:
                    try:
                        entry.run()
                    except (PerdureError, KeyboardInterrupt):
                        raise
                    except BaseException as error:  # asyncio's rule: it is reported, and everything else goes on
                        if type(entry) is Endings:
                            queue.insert(done, entry)  # the other branches have ended all the same
                        if not isinstance(error, RunEnds):  # the run is decided: a callback has nothing to unwind
                            self.call_exception_handler({"message": f"a callback of {unit} failed", "exception": error})
        finally:
            unit.queue = None
            self.stepping = None
        if self._yielded or self._cancels:
            self._after_step()
        if not unit.tasks and unit.queue is None:
            self.units.pop(unit, None)

    def violate(self, error: PerdureError) -> None:
        """Remember the first violation of a turn, so that it fails even where workflow code swallows the error."""
        if self.violation is None and not self.closing and running_loop() is self:
            self.violation = error

    def next_settlement(self) -> int:
        """The how-many-th answer of the run this is."""
        self.settlements += 1
        return self.settlements

    # --- units and tasks ------------------------------------------------------------------------

    def spawn(self, coroutine: Coroutine[Any, Any, Any], unit: Unit, scope: Scope) -> UnitTask:
        """A task in a unit of its own, ready for its first step. What no unit asked for sees no context of the host."""
        if self.stepping is None:
            task = Context().run(UnitTask, self, coroutine, unit, scope)
        else:
            task = UnitTask(self, coroutine, unit, scope)
        self.units[unit] = None
        self._queue(unit, task)
        return task

    def spawn_now(self, coroutine: Coroutine[Any, Any, Any], unit: Unit, scope: Scope) -> UnitTask:
        """A task in a unit of its own that takes its first step at once. Only between steps."""
        task = Context().run(UnitTask, self, coroutine, unit, scope)
        self.units[unit] = None
        unit.queue = [task]
        self.step(unit)
        return task

    def create_task(self, coro: Any, *, name: object = None, context: Context | None = None, **options: Any) -> Any:
        """A task for workflow code: the next `t` unit of the unit that has the step (K2)."""
        if options.get("eager_start"):
            coro.close()
            raise self._violation("eager tasks are not possible in a workflow: their order is not that of the units")
        unit = self.stepping
        if unit is None or self.closing or running_loop() is not self:
            coro.close()
            raise self._violation("a task was made outside a step of the workflow")
        if self.host.reading is not None:
            coro.close()
            raise self._violation(f"a task was made in {self.host.reading}, which may only read")
        if runs_eagerly(self, self.task):
            coro.close()
            raise self._violation(FOREIGN_TASK)
        if not called_by_wait_for():
            unit.tasks_made += 1
            unit = unit.child(TASK, unit.tasks_made - 1)
            unit.where = caller(self.own_code)
        task = UnitTask(self, coro, unit, self.host.scope(), context)
        if name is not None:
            task.set_name(name)
        self.units[unit] = None
        self.queue_wake(task)
        return task

    def queue_wake(self, task: UnitTask) -> None:
        """The task goes on in its unit's next step, or in this one if it has it."""
        self._queue(task.unit, task)

    def queue_ending(self, fork: Forked, number: int) -> None:
        """A branch has ended: the unit of its fork is told in its next step."""
        queue = fork.parent.queue
        last = queue[-1] if queue else None
        if type(last) is Endings and last.fork is fork:
            last.numbers.append(number)
        else:
            self._queue(fork.parent, Endings(fork, number))

    def queue_yield(self, task: UnitTask) -> None:
        """The task has yielded: it goes on in its unit's next step, not in this one."""
        self._yielded.append(task)

    def defers_cancel(self, task: UnitTask, message: Any) -> bool:
        """Keep a cancellation until after the step, in unit order. False: in its own unit it is delivered at once."""
        if self.stepping is None or self.stepping is task.unit:
            return False
        self._cancels.append((task, message))
        return True

    # --- what asyncio asks of a loop --------------------------------------------------------------

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> Any:
        """Queue a callback for the unit that it belongs to."""
        if events._get_running_loop() is not self:
            raise SchedulerViolation(OUTSIDE)
        if type(callback) is MethodType and callback.__func__ is WAKE:
            task: Any = callback.__self__
            self._queue(task.unit, task)
            return None
        owner: Any = getattr(callback, "__self__", None)
        if isinstance(owner, asyncio.Task) and not self.closing:
            raise self._foreign(owner)
        if context is None:
            context = copy_context()
        entry = Callback(callback, args, context)
        unit = self._unit_of(context)
        if unit is not None and not self.closing:
            self._queue(unit, entry)
        return entry

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Any:
        """Queue a callback behind a durable timer."""
        if delay <= 0:
            return self.call_soon(callback, *args, context=context)
        if not delay <= SECONDS_MAX:
            _refuse_delay(delay)
        if self.stepping is None or self.closing or running_loop() is not self:
            raise self._violation("a timer was started outside a step of the workflow")
        handle = DelayHandle(self, self.time() + delay, callback, args, context or copy_context())
        if args and isinstance(args[0], PlainFuture) and callback is SET_RESULT:
            args[0].delay = handle  # `asyncio.sleep`: to cancel the future is to cancel the timer
        self.host.start_delay(handle, delay)
        return handle

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        """Queue a callback behind a durable timer that is due at `when`."""
        return self.call_later(when - self.time(), callback, *args, context=context)

    def release(self, handle: DelayHandle) -> None:
        """The durable timer of a callback has fired."""
        handle.fired = True
        if handle.call is SET_RESULT:  # `asyncio.sleep`: the future is answered at once, as any other answer is
            handle.run()
            return
        unit = self._unit_of(handle.context)
        if unit is not None:
            self._queue(unit, handle)

    def cancel_delay(self, handle: DelayHandle) -> None:
        """The callback is not wanted any more, nor is its timer."""
        if not self.closing:
            self.host.cancel_delay(handle)

    def time(self) -> float:
        """Seconds since the run began: constant within a turn, exact where a timestamp would be rounded."""
        return self.host.seconds()

    def create_future(self) -> Any:
        """A future of this run."""
        return PlainFuture(self)

    def get_debug(self) -> bool:
        """Never: asyncio's debug mode reads the clock."""
        return False

    def is_running(self) -> bool:
        """Always, as far as workflow code can ask."""
        return True

    def is_closed(self) -> bool:
        """Whether the run was evicted or has ended."""
        return self.closing

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what asyncio would log; the host logs it, once."""
        error = context.get("exception")
        self.reports.append(f"{context.get('message')}: {error!r}" if error else str(context.get("message")))

    default_exception_handler = call_exception_handler

    def _timer_handle_cancelled(self, handle: object) -> None:
        """Part of asyncio's protocol; nothing to do here."""

    # --- leaves -----------------------------------------------------------------------------------

    def _unit_of(self, context: Context) -> Unit | None:
        """The unit that a callback belongs to; where its context was made empty: the one that runs, else the root."""
        unit = context.get(UNIT)
        if unit is None:
            unit = self.stepping or next(iter(self.units), None)
            if unit is not None:
                context.run(UNIT.set, unit)
        return unit

    def _queue(self, unit: Unit, entry: Any) -> None:
        if unit.queue is None:
            unit.queue = [entry]
            self.ready.append(unit)
        else:
            unit.queue.append(entry)

    def _after_step(self) -> None:
        for task in self._yielded:
            self._queue(task.unit, task)
        self._yielded.clear()
        if self._cancels:
            cancels, self._cancels = self._cancels, []
            for task, message in sorted(cancels, key=_task_key):
                task.deliver_cancel(message)

    def _violation(self, text: str) -> SchedulerViolation:
        error = SchedulerViolation(text)
        self.violate(error)
        return error

    def _foreign(self, task: Any) -> SchedulerViolation:
        """The violation for a task that asyncio made for itself, and that is no unit of the run."""
        task._log_destroy_pending = False
        task.get_coro().close()
        return self._violation(FOREIGN_TASK)

    def _keep_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        if len(self.generators) > GENERATORS_KEPT:
            self.generators = {key: one for key, one in self.generators.items() if _is_alive(one)}
        self.generators[id(generator)] = generator


def running_loop() -> WorkflowLoop | None:
    """The workflow loop that drives this thread now: None outside a turn, and in every other thread."""
    loop = events._get_running_loop()
    return loop if type(loop) is WorkflowLoop else None


def _refusing(method: str) -> Callable[..., Any]:
    def refused(self: WorkflowLoop, *_args: object, **_options: object) -> NoReturn:
        error = refuse(method, self.own_code)
        self.violate(error)
        raise error

    refused.__name__ = method
    return refused


def _none_is_set(_loop: WorkflowLoop) -> None:
    """None can be: the setters are refused."""


for _method in LOOP_METHODS:
    setattr(WorkflowLoop, _method, _refusing(_method))
for _method in ("get_exception_handler", "get_task_factory"):
    setattr(WorkflowLoop, _method, _none_is_set)
setattr(WorkflowLoop, "__abstractmethods__", frozenset[str]())  # noqa: B010  # a method that asyncio adds is no obstacle


def _refuse_delay(delay: float) -> None:
    """No timer can be that long. NaN is refused as Python does it from 3.13 on, because a failure's text counts."""
    if isnan(delay):
        raise ValueError("Invalid delay: NaN (not a number)")
    duration_seconds(delay, "the delay")


def _task_key(entry: tuple[UnitTask, Any]) -> Any:
    return entry[0].unit.key


def _is_alive(generator: Any) -> bool:
    return generator.ag_frame is not None


def _leave_generator(_generator: AsyncGenerator[Any, Any]) -> None:
    """Nothing: the loop holds every generator of a run until the run is closed."""
