"""Virtual time: an event loop whose clock jumps to the next timer as soon as nothing else is left to do.

`run_virtual` runs a coroutine on a loop made for it; `virtual_time` makes a loop virtual that runs already, such as
the one of pytest-asyncio or anyio, and gives it back as it was. Both put perdure.testing.jumping before the loop's
selector and let `loop.time` read the clock; nothing else of asyncio's is touched. A day that many tasks sleep through
passes in as many steps as there are timers in it, and in their order.

The loop sees its sockets, pipes, child processes, and `run_in_executor`, and waits for them really. What goes on in a
thread of somebody's own it cannot see: that takes a `VirtualClock.hold`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from perdure.errors import UsageError
from perdure.testing.clock import VirtualClock
from perdure.testing.deadlock import Deadlock, deadlock
from perdure.testing.jumping import PATIENCE_SECONDS, JumpingSelector

T = TypeVar("T")
RESOLUTION_SECONDS = 1e-6  # the clock's own; asyncio's nanosecond is lost in a float of half a year
EXACT_PER_SECOND = 64  # parts of a second that are whole microseconds, and exact in a float


def run_virtual(
    main: Coroutine[Any, Any, T], *, clock: VirtualClock | None = None, patience: float = PATIENCE_SECONDS
) -> T:
    """Run a coroutine to its end on an event loop with virtual time, as `asyncio.run` does on real time.

    `Deadlock` once nothing is scheduled and nothing can come from outside. `patience`: see `virtual_time`.
    """

    async def guarded() -> T:
        with virtual_time(patience=patience):
            return await main

    with asyncio.Runner(loop_factory=partial(VirtualLoop, clock)) as runner:
        return runner.run(guarded())


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time, for `asyncio.Runner(loop_factory=VirtualLoop)`."""

    def __init__(self, clock: VirtualClock | None = None) -> None:
        super().__init__()
        _Virtual(self, clock or VirtualClock(), PATIENCE_SECONDS)


# What is set on a loop that is on virtual time.
PLACES = (
    *("_selector", "_clock_resolution", "time"),
    *("run_in_executor", "shutdown_default_executor", "subprocess_exec", "subprocess_shell"),
)


class virtual_time:  # noqa: N801 - reads as what it does
    """`with virtual_time() as clock:` puts the running event loop on virtual time until the block ends.

    The loop's timers, those set before included, then follow the clock, and what is left of them afterwards goes on
    in real time. A loop on virtual time already keeps its clock; to bring another one is a `UsageError`, and so is a
    loop that is not a selector loop of asyncio's. A deadlock is raised in the block, as `Deadlock`.

    `start`: what the wall clock is set to. `patience`: how many real seconds an open connection or a child process may
    be silent before virtual time goes on without it.
    """

    def __init__(
        self, clock: VirtualClock | None = None, *, start: datetime | None = None, patience: float | None = None
    ) -> None:
        self.deadlock: Deadlock | None = None  # what interrupts the block
        self.notes: Callable[[], list[str]] = list  # lines that a deadlock of its loop tells too
        self.number = 0  # how many blocks its loop has had before
        self.start = start
        self._clock = clock
        self._patience = patience
        self._virtual: _Virtual | None = None
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0

    def __enter__(self) -> VirtualClock:
        loop = _running_loop()
        virtual = _virtual_of(loop)
        if virtual is None:
            patience = PATIENCE_SECONDS if self._patience is None else self._patience
            virtual = _Virtual(_selector_loop(loop), self._clock or VirtualClock(), patience, restores=True)
        elif self._clock is not None and self._clock is not virtual.clock:
            raise UsageError(
                "this event loop is on virtual time already, with another clock. Take that one: "
                "`with virtual_time() as clock`"
            )
        elif self._patience is not None:
            virtual.selector.patience = self._patience
        if self.start is not None:
            if any(block.start is not None for block in virtual.blocks):
                raise UsageError(
                    f"the clock of this event loop was started elsewhere, and does not start anew at {self.start}: "
                    "leave out `start`"
                )
            virtual.clock.set_wall(self.start)
        self.number = virtual.entered
        virtual.entered += 1
        virtual.blocks.append(self)
        self._virtual = virtual
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task is not None else 0
        return virtual.clock

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        virtual, task = self._virtual, self._task
        assert virtual is not None
        virtual.left(self)
        if self.deadlock is not None and task is not None and task.uncancel() <= self._cancelling:
            if error is None or isinstance(error, asyncio.CancelledError):
                raise self.deadlock from error
            error.add_note(str(self.deadlock))

    def interrupt(self) -> bool:
        """Raise a deadlock in this block; whether its task can still be told."""
        if self._task is None or self._task.done() or self.deadlock is not None:
            return False
        assert self._virtual is not None
        self.deadlock = self._virtual.deadlock()
        return self._task.cancel(str(self.deadlock))


def running_clock() -> VirtualClock | None:
    """The clock of the running event loop, if that is on virtual time."""
    virtual = _virtual_of(_running_loop())
    return virtual.clock if virtual is not None else None


class _Virtual:
    """One loop on virtual time: what was put into it, and how to take that out again."""

    def __init__(
        self, loop: asyncio.SelectorEventLoop, clock: VirtualClock, patience: float, *, restores: bool = False
    ) -> None:
        self.loop: Any = loop
        self.clock = clock
        self.restores = restores
        self.blocks: list[virtual_time] = []
        self.entered = 0
        self.selector = JumpingSelector(self.loop._selector, clock, own=self.loop._ssock.fileno(), patience=patience)
        self.selector.signals = lambda: bool(getattr(loop, "_signal_handlers", None))
        self.selector.deadlocked = self._on_deadlock
        self.selector.next_timer = self._next_timer
        self.selector.virtual = self
        self._attributes: dict[str, Any] = vars(loop)
        self._before = {name: self._attributes[name] for name in PLACES if name in self._attributes}
        self._forget = clock.on_release(self._wake)
        real_now = loop.time()
        if restores:
            clock.start_at(math.ceil(real_now * EXACT_PER_SECOND) / EXACT_PER_SECOND)  # time does not go back
        self._put_in()
        self._shift_timers(clock.monotonic() - real_now)

    def deadlock(self) -> Deadlock:
        """What a deadlock of this loop says now."""
        return deadlock(self.loop, [note for block in self.blocks for note in block.notes()])

    def left(self, block: virtual_time) -> None:
        """A block has ended; with the last one the loop is as it was."""
        self.blocks.remove(block)
        if self.restores and not self.blocks:
            self._take_out()

    def _put_in(self) -> None:
        loop = self.loop
        loop.time = self.clock.monotonic
        loop.run_in_executor = partial(self._run_in_executor, loop.run_in_executor)
        loop.shutdown_default_executor = partial(self._shut_down, loop.shutdown_default_executor)
        loop.subprocess_exec = partial(self._spawn, loop.subprocess_exec)
        loop.subprocess_shell = partial(self._spawn, loop.subprocess_shell)
        loop._clock_resolution = RESOLUTION_SECONDS
        loop._selector = self.selector

    def _take_out(self) -> None:
        loop = self.loop
        virtual_now = loop.time()
        for name in PLACES:
            del self._attributes[name]
        self._attributes.update(self._before)
        self._shift_timers(loop.time() - virtual_now)
        self._forget()

    def _next_timer(self) -> float:
        return self.loop._scheduled[0].when()

    def _shift_timers(self, seconds: float) -> None:
        for timer in self.loop._scheduled:  # all by as much: they stay a heap
            timer._when += seconds

    def _on_deadlock(self) -> None:
        if not any(block.interrupt() for block in reversed(self.blocks)):
            raise self.deadlock()

    def _wake(self) -> None:
        try:
            if asyncio.get_running_loop() is self.loop:
                return
        except RuntimeError:  # another thread
            pass
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(lambda: None)

    def _run_in_executor(
        self, real: Callable[..., asyncio.Future[Any]], *arguments: Any, **named: Any
    ) -> asyncio.Future[Any]:
        future = real(*arguments, **named)
        hold = self.clock.hold()
        hold.__enter__()
        future.add_done_callback(lambda _: hold.__exit__(None, None, None))
        return future

    async def _shut_down(self, real: Callable[..., Coroutine[Any, Any, None]], *arguments: Any, **named: Any) -> None:
        with self.clock.hold():
            await real(*arguments, **named)

    async def _spawn(
        self, real: Callable[..., Any], factory: Callable[[], Any], *arguments: Any, **options: Any
    ) -> Any:
        child = object()

        def protocol() -> Any:
            made = factory()
            tell = made.process_exited

            def process_exited() -> None:
                self.selector.child_ended(child)
                tell()

            made.process_exited = process_exited
            self.selector.child_started(child)
            return made

        try:
            return await real(protocol, *arguments, **options)
        except BaseException:
            self.selector.child_ended(child)
            raise


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise UsageError(
            "virtual time needs a running event loop of asyncio's, and there is none: call this in a coroutine that "
            "`perdure.testing.run_virtual` or `asyncio.run` runs"
        ) from None


def _virtual_of(loop: asyncio.AbstractEventLoop) -> _Virtual | None:
    virtual = getattr(getattr(loop, "_selector", None), "virtual", None)
    return virtual if isinstance(virtual, _Virtual) else None


def _selector_loop(loop: asyncio.AbstractEventLoop) -> asyncio.SelectorEventLoop:
    if not isinstance(loop, asyncio.SelectorEventLoop):
        raise UsageError(
            f"virtual time needs a selector event loop of asyncio's, and this is {type(loop).__qualname__}. Run the "
            "program with `perdure.testing.run_virtual`, or have your test plugin use asyncio's own loop"
        )
    return loop
