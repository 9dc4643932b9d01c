"""Processes: the place of activities with executor="process", each in an interpreter of its own that is used again.

In:  attempts from engine.tasks.
Out: engine.performer, the program at the other end of each process's socket.
An activity is named there by module and qualified name, never pickled, so it must be importable.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from operator import attrgetter
from typing import Any

import msgspec

from perdure.clock import micros
from perdure.define.activity import Activity
from perdure.engine.attempts import Attempt, call_on
from perdure.engine.calling import Outcome
from perdure.engine.performer import (
    CHUNK_BYTES,
    Beaten,
    Begun,
    Cancel,
    Perform,
    Unpacker,
    Where,
    Word,
    is_performer,
    packed,
)
from perdure.engine.places import Hold
from perdure.errors import Failure, UsageError
from perdure.model.commands import NOTHING

logger = logging.getLogger("perdure.engine")
BEGIN_SECONDS = 60  # an interpreter that has not called the function by then is broken
KILL_SECONDS = 1  # between SIGTERM and SIGKILL
PROGRAM = (
    "import json, sys; sys.path[:], sys.argv[:] = json.loads(sys.argv[1]); "
    "from perdure.engine.performer import main; main()"
)
_read_word = msgspec.json.Decoder(Word).decode


class InProcesses:
    """`def` activities in processes, at most as many at a time as there are processors, or as `limit` says."""

    def __init__(self, hold: Hold | None = None, limit: int | None = None) -> None:
        self._hold = hold
        self._limit = limit or os.cpu_count() or 1
        self._held: dict[Attempt, AbstractContextManager[object]] = {}
        self._waiting: deque[Attempt] = deque()
        self._children: set[Child] = set()
        self._idle: list[Child] = []
        self._at: dict[Attempt, Child] = {}
        self._closed = False

    def perform(self, attempt: Attempt) -> bool:
        """Give it to an idle process, to a new one, or have it wait for one. It begins when its function is called."""
        if self._hold is not None:
            self._held[attempt] = held = self._hold()
            held.__enter__()
        self._waiting.append(attempt)
        self._assign()
        return False

    def stop(self, attempt: Attempt) -> None:
        """It learns of it from `heartbeat()`, and from `activity_info().cancelled`."""
        child = self._at.get(attempt)
        if child is not None:
            child.send(packed(Cancel()))
        elif attempt in self._waiting:
            self._waiting.remove(attempt)
            self._over(attempt, attempt.outcome_of_stop())

    def abandon(self, attempt: Attempt) -> str:
        """Interrupt it, and soon end its process."""
        child = self._at.get(attempt)
        if child is not None:
            child.end()
        return f"its process gets SIGTERM, and SIGKILL {KILL_SECONDS:g} s later"

    async def close(self) -> None:
        """End all processes. They are gone when this returns."""
        self._closed = True
        with nullcontext() if self._hold is None else self._hold():
            for child in self._children:
                child.leave()
            await self._until_gone()
            for child in self._children:
                child.kill()
            await self._until_gone()

    async def _until_gone(self) -> None:
        if self._children:
            await asyncio.wait([child.ended for child in self._children], timeout=KILL_SECONDS)

    def _assign(self) -> None:
        while not self._closed and self._waiting and (self._idle or len(self._children) < self._limit):
            attempt = self._waiting.popleft()
            try:
                child = self._idle.pop() if self._idle else self._new_child(attempt.loop)
            except OSError as error:  # no more files or processes
                self._over(attempt, _died(attempt, f"none could be started: {error}"))
                continue
            self._at[attempt] = child
            child.take(attempt)

    def _new_child(self, loop: asyncio.AbstractEventLoop) -> Child:
        child = Child(loop, self._is_done, self._is_gone)
        self._children.add(child)
        return child

    def _is_done(self, child: Child, attempt: Attempt, outcome: Outcome) -> None:
        self._at.pop(attempt, None)
        if child.serves():
            self._idle.append(child)
        self._over(attempt, outcome)
        self._assign()

    def _is_gone(self, child: Child, attempt: Attempt | None, how: str) -> None:
        self._children.discard(child)
        with suppress(ValueError):
            self._idle.remove(child)
        if attempt is not None:
            self._at.pop(attempt, None)
            if attempt.why is not None:
                self._over(attempt, attempt.outcome_of_stop())
            elif child.has_served and not attempt.begun:  # what went before ended it: this one was never called
                self._waiting.appendleft(attempt)
            else:
                self._over(attempt, _died(attempt, how))
        self._assign()

    def _over(self, attempt: Attempt, outcome: Outcome) -> None:
        held = self._held.pop(attempt, None)
        if held is not None:
            held.__exit__(None, None, None)
        attempt.host.ended(attempt, outcome)


class Child:
    """One process with its socket, on the worker's side."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        done: Callable[[Child, Attempt, Outcome], None],
        gone: Callable[[Child, Attempt | None, str], None],
    ) -> None:
        self._loop = loop
        self._done = done
        self._gone = gone
        self._attempt: Attempt | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._unpacker = Unpacker()
        self._unsent = bytearray()
        self._signal: signal.Signals | None = None  # what it got, or gets as soon as it is there
        self._timer: asyncio.TimerHandle | None = None
        self._is_dead = False
        self.has_served = False
        self.ended: asyncio.Future[None] = loop.create_future()
        self._line, theirs = socket.socketpair()
        self._line.setblocking(False)
        threading.Thread(target=self._live, args=(theirs,), name="perdure process", daemon=True).start()

    def take(self, attempt: Attempt) -> None:
        """Run this."""
        self._attempt = attempt
        self._loop.add_reader(self._line, self._read)  # not while it is idle: nothing is expected then
        self._timer = self._loop.call_later(BEGIN_SECONDS, self.kill)
        self.send(packed(order_of(attempt)))

    def serves(self) -> bool:
        """Whether it can have another attempt."""
        return self._signal is None and not self._is_dead

    def send(self, frame: bytes) -> None:
        """Send as much as goes now, and the rest when there is room."""
        if not self._unsent:
            self._loop.add_writer(self._line, self._write)
        self._unsent += frame
        self._write()

    def end(self) -> None:
        """Have it interrupt itself, and kill it if that does not help."""
        self._signal = self._signal or signal.SIGTERM
        self.send(packed(Cancel(now=True)))
        self._watch(KILL_SECONDS)

    def kill(self) -> None:
        """End it at once."""
        self._send_signal(signal.SIGKILL)

    def leave(self) -> None:
        """Let it end by itself: its socket ends."""
        self._loop.remove_reader(self._line)
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_WR)

    # --- the other end --------------------------------------------------------------------------

    def _live(self, theirs: socket.socket) -> None:
        """In a thread of its own: start the process, and wait for its end."""
        try:
            with theirs:
                self._process = process = subprocess.Popen(_command(), stdin=theirs.fileno())
        except OSError as error:
            call_on(self._loop, self._is_gone, f"it could not be started: {error}")
            return
        if self._signal is not None:
            process.send_signal(self._signal)
        call_on(self._loop, self._is_gone, _words_of(process.wait()))

    def _send_signal(self, which: signal.Signals) -> None:
        self._signal = which
        if self._process is not None:
            self._process.send_signal(which)

    def _watch(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self.kill)

    def _write(self) -> None:
        try:
            sent = self._line.send(self._unsent)
        except BlockingIOError:
            return
        except OSError:  # it is gone, and `_is_gone` comes
            sent = len(self._unsent)
        del self._unsent[:sent]
        if not self._unsent:
            self._loop.remove_writer(self._line)

    def _read(self) -> None:
        try:
            received = self._line.recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received:
            self._loop.remove_reader(self._line)
        try:
            for frame in self._unpacker.frames(received):
                self._hear(_read_word(frame))
        except msgspec.MsgspecError:
            logger.exception("a process for activities said something that is no word of ours: it is ended")
            self.kill()

    def _hear(self, word: Word) -> None:
        attempt = self._attempt
        if attempt is None:
            return
        if isinstance(word, Beaten):
            attempt.host.beat(attempt, bytes(word.details) or None)
            return
        if self._timer is not None and (isinstance(word, Begun) or self._signal is None):
            self._timer.cancel()
        if isinstance(word, Begun):
            attempt.begun = True
            attempt.host.began(attempt)
        else:
            self._attempt = None
            self.has_served = True
            self._loop.remove_reader(self._line)
            if self._signal is not None:
                self.kill()  # what an interruption leaves behind is not used again
            value = word.value if word.value != NOTHING else None
            self._done(self, attempt, Outcome(value, word.failure, word.kinds, word.word))

    def _is_gone(self, how: str) -> None:
        self._is_dead = True
        while self._has_more():
            self._read()
        self._loop.remove_reader(self._line)
        self._loop.remove_writer(self._line)
        self._line.close()
        if self._timer is not None:
            self._timer.cancel()
        attempt, self._attempt = self._attempt, None
        self.ended.set_result(None)
        self._gone(self, attempt, how)

    def _has_more(self) -> bool:
        try:
            return bool(self._line.recv(1, socket.MSG_PEEK))
        except OSError:
            return False


def order_of(attempt: Attempt) -> Perform:
    """What its process is told."""
    task = attempt.task
    deadline = attempt.info().deadline
    return Perform(
        where=where_is(attempt.callee.activity),
        attempt=attempt.go,
        key=task.id,
        run=(task.workflow_id, task.run_id),
        input=msgspec.Raw(task.input),
        keywords=msgspec.Raw(task.keywords) if task.keywords else NOTHING,
        details=NOTHING if attempt.details is None else msgspec.Raw(attempt.details),
        deadline_us=None if deadline is None else micros(deadline),
    )


def check_importable(activity: Activity[..., Any]) -> None:
    """`UsageError` if another interpreter cannot find this activity by name."""
    if sys.platform == "win32":
        raise UsageError(f'activity `{activity.name}`: executor="process" needs a Unix-like system')
    if is_performer():
        raise UsageError(
            "an engine was made while a process for activities loads the program: "
            'put what starts it under `if __name__ == "__main__":`'
        )
    where = where_is(activity)
    if where.path is not None and not os.path.isfile(where.path):
        raise _not_importable(activity, f"the main program has no file ({where.path})")
    module = sys.modules.get(activity.fn.__module__)
    try:
        given: object = attrgetter(where.qualname)(module)
    except AttributeError:
        given = None
    if getattr(given, "fn", given) is not activity.fn:
        raise _not_importable(activity, f"`{where.qualname}` of module `{activity.fn.__module__}` is something else")


def where_is(activity: Activity[..., Any]) -> Where:
    """Under which name another interpreter finds it. `UsageError` where there is none."""
    qualname: str = getattr(activity.fn, "__qualname__", "<unnamed>")
    module: str | None = getattr(activity.fn, "__module__", None)
    if "<" in qualname or module is None:
        raise _not_importable(activity, "it is defined inside a function, or is a lambda")
    if module != "__main__":
        return Where(activity.name, qualname, module=module)
    program = sys.modules["__main__"]
    spec = getattr(program, "__spec__", None)
    if spec is not None:
        return Where(activity.name, qualname, module=spec.name)  # python -m …
    path = getattr(program, "__file__", None)
    if path is None:
        raise _not_importable(activity, "the main program has no file")
    return Where(activity.name, qualname, path=os.path.abspath(path))


def _not_importable(activity: Activity[..., Any], why: str) -> UsageError:
    return UsageError(
        f'activity `{activity.name}` has executor="process", and another process cannot import it: {why}. '
        "Define it at the top of a module, or leave the option out"
    )


def _died(attempt: Attempt, how: str) -> Outcome:
    text = f"the process that ran activity `{attempt.task.name}` died: {how}"
    return Outcome(failure=Failure("ProcessDied", text), kinds=("ProcessDied",))


def _command() -> list[str]:
    given = json.dumps([sys.path, sys.argv])
    optimized = ["-" + "O" * sys.flags.optimize] if sys.flags.optimize else []
    return [sys.executable, *optimized, *(f"-W{option}" for option in sys.warnoptions), "-c", PROGRAM, given]


def _words_of(status: int) -> str:
    if status >= 0:
        return f"it exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"it was ended by {name}" + (", as happens when memory runs out" if name == "SIGKILL" else "")
