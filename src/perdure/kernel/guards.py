"""Guards: what replay cannot repeat is refused at the very call, while workflow code has the step (K16).

Two nets, over the tables of kernel.forbidden; the methods of the loop itself are refused by kernel.loop.

`install_audit_hook` is for every process that runs workflows: files, sockets, processes, threads. `Profile` is for
tests and development: it also sees clocks, randomness and ids, by whatever name they were imported.

A call counts only if workflow code makes it: the frame of the call is workflow code (kernel.callsite), or only thin
wrappers such as pathlib stand between. So logging, zone data, imports and tracebacks pass, and nothing outside a step
is looked at.
"""

from __future__ import annotations

import _thread
import asyncio
import concurrent.futures
import opcode
import os
import random
import secrets
import signal
import sys
import threading
import time
import uuid
import zoneinfo
from collections.abc import Callable, Collection
from datetime import date, datetime
from functools import cache
from types import CodeType, FrameType
from typing import Any, Final

from perdure.errors import GuardViolation
from perdure.kernel import callsite
from perdure.kernel.callsite import PERDURE
from perdure.kernel.forbidden import (
    CLOCK,
    EVENT_NAMES,
    EVENTS,
    FILES,
    LOOPS,
    RANDOM,
    SIGNALS,
    SLEEP,
    THIN,
    THREADS,
    UUIDS,
    Ban,
    violation,
)
from perdure.kernel.loop import WorkflowLoop, running_loop

# Below these frames other code runs than the workflow's own: a module that is being imported, a finalizer that the
# garbage collector happened to run now, and what `side_effect` records (M11).
_IMPORT: Final = "importlib"
_FINALIZER: Final = "__del__"
_RECORDED: Final = "side_effect"

_installed: list[bool] = []


def install_audit_hook() -> None:
    """Watch this process for files, sockets, processes and threads that workflow code reaches for.

    Once per process is enough, and more does nothing; an audit hook cannot be taken out again. What is not done by a
    workflow that has the step passes at the cost of one look-up.
    """
    if not _installed:
        _installed.append(True)
        sys.addaudithook(_audit_hook())


class Profile:
    """Watches the calls of this thread between `enter` and `leave`: those of one turn of one run.

    Where another profiler is at work, it stays off. It does not come back within a turn in which it has raised.
    """

    def __init__(self, loop: WorkflowLoop) -> None:
        self._hook = _profile_hook(loop)

    def enter(self) -> None:
        """Begin to watch."""
        if sys.getprofile() is None:
            sys.setprofile(self._hook)

    def leave(self) -> None:
        """Stop watching, unless somebody else has taken over."""
        if sys.getprofile() is self._hook:
            sys.setprofile(None)


# --- the first net: audit events --------------------------------------------------------------


def _audit_hook() -> Callable[[str, tuple[Any, ...]], None]:
    # Everything the hook needs on its way is in its closure: it is called until the interpreter has shut down.
    watched = EVENTS.get
    is_finalizing = sys.is_finalizing

    def hook(event: str, args: tuple[Any, ...]) -> None:
        ban = watched(event)
        if ban is None or is_finalizing():
            return
        loop = running_loop()
        if loop is None or (loop.stepping is None and not loop.closing) or _harmless(event, args):
            return
        made_by = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        name = "os.open" if event == "open" and args[1] is None else EVENT_NAMES.get(event, event)
        found = _refused(made_by, ban, name, loop)
        if found is not None:
            raise found

    return hook


def _harmless(event: str, args: tuple[Any, ...]) -> bool:
    """Whether C code opens the file on its own account: zone data, or the source line of a traceback."""
    if event != "open" or not isinstance(args[0], str) or args[1] != "r":
        return False
    return args[0].endswith(".py") or args[0].startswith(tuple(zoneinfo.TZPATH))


# --- the second net: calls ----------------------------------------------------------------------


def _profile_hook(loop: WorkflowLoop) -> Callable[[FrameType, str, Any], None]:
    functions = _functions()
    code = _code()

    def hook(frame: FrameType, event: str, arg: Any) -> None:
        if event == "c_call":
            entry = functions.get(arg)
            if entry is None:
                return
            made_by = frame
        elif event == "call":
            entry = code.get(id(frame.f_code))
            if entry is None or frame.f_back is None:
                return
            made_by = frame.f_back
        else:
            return
        name, ban, applies = entry
        if (loop.stepping is not None or loop.closing) and applies(frame):
            found = _refused(made_by, ban, name, loop)
            if found is not None:
                raise found

    return hook


# A banned function: its name, its ban, and whether the call in this frame (the caller's, for a function in C) counts.
_Entry = tuple[str, Ban, Callable[[FrameType], bool]]


@cache
def _functions() -> dict[object, _Entry]:
    """The functions in C. Two bound methods are equal if they are the same method of the same object."""
    table: dict[object, _Entry] = {}

    def add(owner: Any, ban: Ban, *names: str, prefix: str, applies: Callable[[FrameType], bool] = _always) -> None:
        for name in names:
            function = getattr(owner, name, None)
            if function is not None and not hasattr(function, "__code__"):
                table[function] = (f"{prefix}.{name}", ban, applies)

    add(time, CLOCK, "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", prefix="time")
    add(time, CLOCK, "process_time", "process_time_ns", "thread_time", "thread_time_ns", prefix="time")
    add(time, CLOCK, "clock_gettime", "clock_gettime_ns", prefix="time")
    add(time, CLOCK, "localtime", "gmtime", "ctime", "asctime", prefix="time", applies=_at_most(0))
    add(time, CLOCK, "strftime", prefix="time", applies=_at_most(1))
    add(time, SLEEP, "sleep", prefix="time")
    add(datetime, CLOCK, "now", "utcnow", "today", prefix="datetime")
    add(date, CLOCK, "today", prefix="date")
    add(random, RANDOM, "random", "getrandbits", prefix="random")
    add(_thread, THREADS, "start_new_thread", prefix="_thread")  # no audit event before Python 3.12
    add(os, RANDOM, "urandom", "getrandom", prefix="os")
    add(os, CLOCK, "times", prefix="os")
    add(signal, SIGNALS, "alarm", "setitimer", "raise_signal", "pause", prefix="signal")
    add(os, FILES, "stat", "lstat", "access", "getcwd", "readlink", "statvfs", prefix="os")
    add(os.path, FILES, "exists", "lexists", "isfile", "isdir", "islink", prefix="os.path")
    return table


@cache
def _code() -> dict[int, _Entry]:
    """The functions in Python, by the identity of their code: a code object's own hash is slow."""
    table: dict[int, _Entry] = {}

    def add(owner: Any, ban: Ban, *names: str, prefix: str, applies: Callable[[FrameType], bool] = _always) -> None:
        for name in names:
            code = getattr(getattr(owner, name, None), "__code__", None)
            if isinstance(code, CodeType):
                table[id(code)] = (f"{prefix}.{name}", ban, applies)

    shared = [name for name in dir(random.Random) if not name.startswith("_")]
    add(random.SystemRandom, RANDOM, *shared, prefix="random.SystemRandom")
    add(random.Random, RANDOM, *shared, prefix="random", applies=_draws_for_everybody)
    add(random.Random, RANDOM, "__init__", prefix="random.Random", applies=_is_unseeded)
    add(secrets, RANDOM, "token_bytes", "token_hex", "token_urlsafe", "randbelow", prefix="secrets")
    add(uuid, UUIDS, "uuid1", "uuid4", "uuid6", "uuid7", "getnode", prefix="uuid")
    add(threading.Thread, THREADS, "start", prefix="threading.Thread")
    add(concurrent.futures.ThreadPoolExecutor, THREADS, "submit", prefix="ThreadPoolExecutor")
    add(concurrent.futures.ProcessPoolExecutor, THREADS, "submit", prefix="ProcessPoolExecutor")
    add(asyncio, LOOPS, "run", "new_event_loop", "run_coroutine_threadsafe", prefix="asyncio")
    add(asyncio.Runner, LOOPS, "__init__", prefix="asyncio.Runner")
    add(signal, SIGNALS, "signal", prefix="signal")
    return table


def _always(_frame: FrameType) -> bool:
    return True


def _at_most(arguments: int) -> Callable[[FrameType], bool]:
    """For functions that read the clock only where the time is not given: the profiler tells nothing of arguments.

    The caller's frame stands at its call, whose instruction holds their number. A call that spreads `*args` passes.
    """
    calls = {opcode.opmap[name] for name in ("CALL", "CALL_KW") if name in opcode.opmap}

    def applies(frame: FrameType) -> bool:
        instructions = frame.f_code.co_code
        at = frame.f_lasti
        return instructions[at] in calls and instructions[at + 1] <= arguments

    return applies


def _draws_for_everybody(frame: FrameType) -> bool:
    """Whether a method of Random draws from the process's own generator, or from the machine's."""
    drawn_from = frame.f_locals.get("self")
    return drawn_from is _GLOBAL_RANDOM or isinstance(drawn_from, random.SystemRandom)


def _is_unseeded(frame: FrameType) -> bool:
    return frame.f_locals.get("x") is None or isinstance(frame.f_locals.get("self"), random.SystemRandom)


_GLOBAL_RANDOM: Final[Any] = getattr(random.random, "__self__", None)


# --- whose call it is -----------------------------------------------------------------------------


def _refused(frame: FrameType, ban: Ban, function: str, loop: WorkflowLoop) -> GuardViolation | None:
    """The violation, recorded, if the call in this frame is the workflow's; None if it is to pass."""
    found = _workflow_frame(frame, loop.own_code, thin=ban.thin)
    if found is None or _runs_for_others(found):
        return None
    wrapper = _outermost_wrapper(frame, loop.own_code)
    if wrapper is not None:
        name = wrapper.f_globals.get("__name__", "").partition("._")[0]
        module = "os.path" if name.endswith("path") else name
        function = f"{module}.{wrapper.f_code.co_qualname}"
        ban = THIN[callsite.origin(wrapper.f_code.co_filename)] or ban
    unit = loop.stepping or (loop.task.unit if loop.task is not None else None)
    error = violation(
        f"{function.removesuffix('.__init__')}()",
        (found.f_code.co_filename, found.f_lineno),
        unit.text if unit is not None else None,
        ban,
    )
    loop.violate(error)
    return error


def _workflow_frame(frame: FrameType | None, own_code: Collection[str], *, thin: bool) -> FrameType | None:
    """The frame of the workflow that makes the call, straight or through thin wrappers."""
    generated: FrameType | None = None
    while frame is not None:
        filename = frame.f_code.co_filename
        if callsite.is_workflow_code(filename, own_code):
            if filename[0] != "<" or not callsite.is_generated(frame):
                return frame
            if callsite.origin(frame.f_globals.get("__file__") or ""):
                return None  # a dataclass of a library
            if filename == "<string>":
                generated = generated or frame
        elif generated is not None or not thin or callsite.origin(filename) not in THIN:
            return generated
        frame = frame.f_back
    return generated


def _outermost_wrapper(frame: FrameType, own_code: Collection[str]) -> FrameType | None:
    """The function that the workflow called, if it is not the forbidden one itself."""
    wrapper: FrameType | None = None
    step: FrameType | None = frame
    while step is not None and not callsite.is_workflow_code(step.f_code.co_filename, own_code):
        wrapper = step
        step = step.f_back
    return wrapper


def _runs_for_others(frame: FrameType | None) -> bool:
    """Whether something stands between the frame and the kernel that makes the call no part of the workflow."""
    below = False
    while frame is not None:
        code = frame.f_code
        where = callsite.origin(code.co_filename)
        if where == PERDURE:
            below = True
            if code.co_name == _RECORDED:
                return True
        elif below or where == _IMPORT or code.co_name == _FINALIZER:
            return not below
        frame = frame.f_back
    return False
