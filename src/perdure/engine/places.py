"""Places: where the functions of activities run: on the event loop, in threads, or inline where there are none.

In:  attempts from engine.tasks.
Out: engine.calling calls the function; what it came to goes back to the attempt's host, on the event loop.
Processes are engine.processes.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import copy_context

from perdure.define.performing import CURRENT
from perdure.engine.attempts import Attempt, call_on, running_loop_or_none
from perdure.engine.calling import Outcome, outcome_of_error

IDLE_THREADS_MAX = 32
CLOSE_SECONDS = 0.1

Hold = Callable[[], AbstractContextManager[object]]  # virtual time stands still while something is held


class OnLoop:
    """`async def` activities, as tasks of the worker's event loop."""

    def __init__(self) -> None:
        self._context = copy_context()
        self._tasks: dict[Attempt, asyncio.Task[None]] = {}

    def perform(self, attempt: Attempt) -> bool:
        """Make a task of it. What it does to context variables stays its own."""
        self._tasks[attempt] = attempt.loop.create_task(
            self._run(attempt), name=f"activity {attempt.task.name}", context=self._context.copy()
        )
        return True

    def stop(self, attempt: Attempt) -> None:
        """Cancel its task; of one that has not begun, nothing is left then."""
        task = self._tasks.get(attempt)
        if task is not None:
            task.cancel()
            if not attempt.begun:
                del self._tasks[attempt]
                attempt.host.ended(attempt, attempt.outcome_of_stop())

    def abandon(self, attempt: Attempt) -> str:
        """Cancel it once more; it is kept from being collected."""
        self.stop(attempt)
        return "its task goes on on the event loop"

    async def close(self) -> None:
        """Cancel what still runs."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_SECONDS)

    async def _run(self, attempt: Attempt) -> None:
        attempt.begun = True
        CURRENT.set(attempt)
        task = attempt.task
        try:
            outcome = await attempt.callee.call_async(task.input, task.keywords, attempt.is_stopped)
        except GeneratorExit as error:
            if running_loop_or_none() is None or asyncio.current_task() is not self._tasks.get(attempt):
                raise  # the loop is gone, and what it left behind is being collected
            outcome = outcome_of_error(task.name, error, attempt.is_stopped())
        CURRENT.set(None)  # what follows is the worker's, and runs in this context
        running = self._tasks.pop(attempt, None)
        if attempt.why is None and running is not None and running.cancelling():
            attempt.why = "stop"  # somebody cancels all tasks of the loop: the activity did not fail
        attempt.host.ended(attempt, outcome)


class Inline:
    """`def` activities on the event loop itself, for engines without threads: on virtual time, in simulations."""

    def __init__(self) -> None:
        self._context = copy_context()

    def perform(self, attempt: Attempt) -> bool:
        """Call it in the next go of the loop."""
        attempt.loop.call_soon(self._run, attempt)
        return True

    def stop(self, attempt: Attempt) -> None:
        """Either it has not begun, and never will, or it is what asks: then it learns of it by itself."""
        if not attempt.begun:
            attempt.begun = True
            attempt.host.ended(attempt, attempt.outcome_of_stop())

    def abandon(self, attempt: Attempt) -> str:
        """Nothing else happens on the loop while it runs."""
        return "it holds the event loop"

    async def close(self) -> None:
        """Nothing is left."""

    def _run(self, attempt: Attempt) -> None:
        if not attempt.begun:
            attempt.begun = True
            attempt.host.ended(attempt, self._context.copy().run(_called, attempt))


class InThreads:
    """`def` activities, each in a thread of its own; some threads are kept for the next.

    There are never more than attempts that run, which the queues' limits bound. They are daemons: one that hangs
    holds up no exit.
    """

    def __init__(self, hold: Hold | None = None) -> None:
        self._context = copy_context()
        self._hold = hold
        self._held: dict[Attempt, AbstractContextManager[object]] = {}
        self._work: queue.SimpleQueue[Attempt | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._made = 0
        self._closed = False

    def perform(self, attempt: Attempt) -> bool:
        """Give it to an idle thread, or to a new one."""
        if self._hold is not None:
            self._held[attempt] = held = self._hold()
            held.__enter__()
        with self._lock:
            needed = not self._idle
            if needed:
                self._made += 1
            else:
                self._idle -= 1
        self._work.put(attempt)
        if needed:
            name = f"perdure-{self._made}"
            threading.Thread(target=self._serve, args=(name,), name=name, daemon=True).start()
        return True

    def stop(self, attempt: Attempt) -> None:
        """It learns of it from `heartbeat()`, and from `activity_info().cancelled`."""

    def abandon(self, attempt: Attempt) -> str:
        """No thread can be ended from outside. Another takes its place."""
        self._let_go(attempt)
        return "its thread goes on in the background"

    async def close(self) -> None:
        """Let idle threads end, and the others after what they do."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, 0
        for _ in range(idle):
            self._work.put(None)

    def _serve(self, name: str) -> None:
        thread = threading.current_thread()
        while (attempt := self._work.get()) is not None:
            thread.name = f"{name} {attempt.task.name} of {attempt.task.workflow_id}"
            outcome = self._context.copy().run(_called, attempt)
            thread.name = name
            with self._lock:
                stays = self._idle < IDLE_THREADS_MAX and not self._closed
                self._idle += stays
            call_on(attempt.loop, self._ended, attempt, outcome)
            if not stays:
                break

    def _ended(self, attempt: Attempt, outcome: Outcome) -> None:
        self._let_go(attempt)
        attempt.host.ended(attempt, outcome)

    def _let_go(self, attempt: Attempt) -> None:
        held = self._held.pop(attempt, None)
        if held is not None:
            held.__exit__(None, None, None)


def _called(attempt: Attempt) -> Outcome:
    if attempt.why is not None:
        return attempt.outcome_of_stop()
    attempt.begun = True
    CURRENT.set(attempt)
    return attempt.callee.call(attempt.task.input, attempt.task.keywords, attempt.is_stopped)
