"""The watchdog: stops a turn that does not give control back within its limit, and says where it stands (K14).

Beside codec and clock: it knows nothing of runs. Whoever runs a turn runs it in `Watchdog.run`.

One daemon thread per process watches the turns of all threads. Nothing reads a clock but that thread: it looks at
the open turns a few times per limit, times each from the first look at it, and sleeps while no turns are run.

An interrupt is an exception raised in the turn's thread from outside, and must never come out after the turn. Such an
exception is delivered only at calls, function entries and backward jumps. So `run` closes the turn first thing after
its function, where nothing can be delivered in between; from then on the watchdog sends nothing, and at most one
interrupt is still under way, which `run` meets before it goes on. A lock orders the two, but only for turns that the
watchdog has seen. An interrupt is never taken back: CPython 3.11 can do that, but then checks for it at every call.
"""

from __future__ import annotations

import ctypes
import linecache
import math
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final, TypeVar

from perdure.errors import TurnTimeout, UsageError

T = TypeVar("T")
Place = tuple[str, int, str]  # file, line, function

LOOKS_PER_LIMIT: Final = 8
SECONDS_BETWEEN_LOOKS: Final = (0.001, 0.25)
IDLE_LOOKS_MAX: Final = 8
STUCK_SECONDS_MIN: Final = 0.1  # an interrupt lands within that, unless the thread is in C
FRAMES_SHOWN_MAX: Final = 20

DEBUGGERS: Final = frozenset(
    {"bdb", "pdb", "ipdb", "pudb", "wdb", "trepan", "debugpy", "pydevd", "_pydevd_bundle", "_pydevd_frame_eval"}
    | {"_pydevd_sys_monitoring", "_pydev_bundle"}
)


class TurnInterrupt(KeyboardInterrupt):
    """Raised within a turn by the watchdog; it never leaves `Watchdog.run`.

    A KeyboardInterrupt, because that is what `except Exception` lets pass and what asyncio's tasks do not keep.
    """

    def __init__(self) -> None:
        super().__init__("the turn is over its limit")
        _watch.has_landed(threading.get_ident())


class Watchdog:
    """A limit in seconds for each of the turns that are run in it; None or 0 is no limit.

    `on_stuck` is told, in words and from another thread, of a turn that cannot be interrupted because it stands in a
    call into C; by default it is a RuntimeWarning. `is_workflow_code` says of a file whether to show its frames; what
    runs without any such frame is interrupted only after twice the limit.
    """

    def __init__(
        self,
        limit_seconds: float | None,
        *,
        on_stuck: Callable[[str], object] | None = None,
        is_workflow_code: Callable[[str], bool] | None = None,
    ) -> None:
        if not _is_limit(limit_seconds):
            raise UsageError(f"the limit of a turn is a number of seconds, or None for no limit, not {limit_seconds!r}")
        self.limit_seconds = limit_seconds or None
        self.on_stuck = on_stuck or _warn
        self.shows = is_workflow_code or _any_file

    def run(self, turn: Callable[[], T], name: object = "the turn", *, abandons: bool = False) -> T:
        """Run a turn and return its value; `name`, as text, begins the message if it fails.

        Raises `TurnTimeout` with the turn's stack if it was interrupted, whatever it did about that; with `abandons`
        only if it does not return after all: an eviction abandons what is interrupted, and goes on (K18). Turns may
        be nested, and run in any number of threads at once. Off under a debugger.
        """
        limit = self.limit_seconds
        if limit is None or ((trace := sys.gettrace()) is not None and is_debugger(trace)):
            return turn()
        watched = _Turn(self, limit)
        try:
            try:
                _watch.turns[watched] = None
                _watch.busy = True
                if limit < _watch.pace:
                    _watch.wake(limit)
                value = turn()
            finally:
                watched.open = False  # straight after the call: no interrupt can come in between
                if watched.lock is not None:
                    try:
                        watched.lock.acquire()  # never given back: this turn is over
                        _give_chance()
                    except TurnInterrupt:
                        pass  # the last one
                _watch.turns.pop(watched, None)
        except BaseException as error:
            if not watched.interrupted or _is_somebody_elses(error):
                raise
            raise _timeout(watched, name) from (None if isinstance(error, TurnInterrupt) else error)
        if watched.interrupted and not abandons:
            raise _timeout(watched, name)
        return value


def is_debugger(trace: object) -> bool:
    """Whether a trace function is a debugger's: coverage tools have one as well."""
    owner = getattr(trace, "__self__", trace)
    classes: tuple[type, ...] = type(owner).__mro__
    modules = [getattr(trace, "__module__", None), *(kind.__module__ for kind in classes)]
    return any(isinstance(module, str) and module.partition(".")[0] in DEBUGGERS for module in modules)


class _Turn:
    """A turn that is being run: its thread opens and closes it, everything else is the watching thread's."""

    __slots__ = ("interrupted", "landed", "limit", "lock", "open", "since", "stack", "thread", "told", "watchdog")

    def __init__(self, watchdog: Watchdog, limit: float) -> None:
        self.watchdog = watchdog
        self.limit = limit
        self.thread = threading.get_ident()
        self.open = True
        self.lock: threading.Lock | None = None  # None until the turn has been seen
        self.interrupted = False

    def see(self, now: float) -> None:
        """The first look at it."""
        self.since = now
        self.stack: list[Place] = []
        self.landed = False
        self.told = False
        self.lock = threading.Lock()


class _Watch:
    """All open turns of the process, and the one thread that looks at them."""

    def __init__(self) -> None:
        self.turns: dict[_Turn, None] = {}
        self.busy = False
        self.pace = math.inf  # the smallest limit that the thread is awake for; infinite while it sleeps
        self._awake = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._unable = False

    def wake(self, limit: float) -> None:
        """See to it that the thread looks often enough for a turn with this limit."""
        self.pace = limit
        if self._unable:
            return
        with self._starting:
            if self._thread is None:
                thread = threading.Thread(target=self._watch, name="perdure-watchdog", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:
                    self._unable = True
                    _warn(f"turns have no time limit here: the watchdog cannot start its thread ({error})")
                    return
                self._thread = thread
        self._awake.set()

    def has_landed(self, thread: int) -> None:
        """An interrupt has been raised in this thread."""
        for turn in list(self.turns):
            if turn.thread == thread and turn.lock is not None:
                turn.landed = True

    def after_fork(self) -> None:
        """A child process has no watching thread: it begins anew, and leaves alone the turn that has forked."""
        for turn in self.turns:
            turn.lock = None
        self.__init__()

    def _watch(self) -> None:
        idle = 0
        while True:
            limits = [turn.limit for turn in list(self.turns)]
            self.pace = min(self.pace, *limits) if limits else self.pace
            self._awake.wait(_seconds_between_looks(self.pace))
            self._awake.clear()
            idle = 0 if self.busy or self.turns else idle + 1
            self.busy = False
            if idle > IDLE_LOOKS_MAX:
                self.pace = math.inf
                # A turn puts itself into `turns` and then reads `pace`: one of the two sees the other.
                if not self.turns:
                    self._awake.wait()
                idle = 0
            self._look()

    def _look(self) -> None:
        now = time.monotonic()  # noqa: TID251 - the limit is one of real time
        for turn in list(self.turns):
            if not turn.open:
                self.turns.pop(turn, None)
            elif turn.lock is None:
                turn.see(now)
            elif now - turn.since >= turn.limit:
                self._stop(turn, turn.lock, now)

    def _stop(self, turn: _Turn, lock: threading.Lock, now: float) -> None:
        frame = sys._current_frames().get(turn.thread)  # pyright: ignore[reportPrivateUsage]
        if frame is None or _is_debugged(frame):
            turn.since = math.inf  # a person is looking at it, for as long as they like
            return
        places = _places(frame)
        del frame
        stack = [place for place in places if turn.watchdog.shows(place[0])]
        if not stack and now - turn.since < turn.limit * 2:
            return  # whoever runs the turn is busy, perhaps tidying up: better not there
        stack = stack or places
        if lock.acquire(blocking=False):
            try:
                if turn.open:
                    turn.interrupted = True
                    turn.stack = turn.stack or stack
                    _raise_in_thread(turn.thread, TurnInterrupt)
            finally:
                lock.release()
        if (
            not turn.landed
            and not turn.told
            and now - turn.since >= turn.limit + max(turn.limit / 2, STUCK_SECONDS_MIN)
        ):
            turn.told = True
            self._tell(turn, stack)

    def _tell(self, turn: _Turn, stack: list[Place]) -> None:
        try:
            turn.watchdog.on_stuck(
                f"a turn has not given control back within {turn.limit:g} s and cannot be interrupted, because it "
                f"stands in a call into C{_shown(stack)}"
            )
        except Exception:
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]


_watch = _Watch()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_watch.after_fork)

# A prototype of our own: `argtypes` set on the shared function would be seen by everybody.
_raise_in_thread: Final = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.py_object)(
    ("PyThreadState_SetAsyncExc", ctypes.pythonapi)
)


def _give_chance() -> None:
    """What was sent to this thread is raised at the latest when this function is entered."""


def _seconds_between_looks(limit: float) -> float:
    least, most = SECONDS_BETWEEN_LOOKS
    return min(max(limit / LOOKS_PER_LIMIT, least), most)


def _is_somebody_elses(error: BaseException) -> bool:
    return isinstance(error, KeyboardInterrupt | SystemExit) and not isinstance(error, TurnInterrupt)


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """From the innermost out to the turn's own `run`."""
    while frame is not None and frame.f_code is not _RUN:
        yield frame
        frame = frame.f_back


_RUN: Final = Watchdog.run.__code__


def _is_debugged(frame: FrameType) -> bool:
    """Whether a debugger holds the thread, or follows it."""
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is not None and monitoring.get_tool(monitoring.DEBUGGER_ID) is not None:
        return True
    return any(
        str(one.f_globals.get("__name__")).partition(".")[0] in DEBUGGERS
        or (one.f_trace is not None and is_debugger(one.f_trace))
        for one in _frames(frame)
    )


def _places(frame: FrameType) -> list[Place]:
    """Where it stands, innermost first."""
    return [(one.f_code.co_filename, one.f_lineno, one.f_code.co_qualname) for one in _frames(frame)]


def _timeout(turn: _Turn, name: object) -> TurnTimeout:
    return TurnTimeout(
        f"{name} did not give control back within {turn.limit:g} s{_shown(turn.stack)}\n"
        "Nothing was committed. Move long work into an activity, or give turns a longer limit."
    )


def _shown(stack: list[Place]) -> str:
    if not stack:
        return "."
    file, line, function = stack[0]
    lines = [f"; it stands at {file}:{line} in {function}:"]
    for file, line, function in stack[:FRAMES_SHOWN_MAX]:
        source = linecache.getline(file, line).strip()
        lines.append(f"  {file}:{line} in {function}" + (f": {source}" if source else ""))
    return "\n".join(lines)


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=2)


def _any_file(_filename: str) -> bool:
    return True


def _is_limit(seconds: object) -> bool:
    if isinstance(seconds, int | float) and not isinstance(seconds, bool):
        return 0 <= seconds < math.inf
    return seconds is None
