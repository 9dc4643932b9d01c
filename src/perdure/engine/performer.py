"""The performer: the program of a process that runs plain activities for a worker, one after the other.

Started by engine.processes, which is at the other end of the socket that this process gets as its standard input.
Frames of JSON go both ways, each after its length; nothing is pickled. One thread reads; the activity has the main
thread, so that SIGTERM can interrupt it. Whatever happens to the worker, its end closes the socket, and that ends this
process.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import queue
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from importlib.machinery import SourceFileLoader
from operator import attrgetter
from typing import Any, ClassVar, cast

import msgspec

from perdure.clock import moment_of
from perdure.define.activity import Activity
from perdure.define.performing import CURRENT, ActivityInfo
from perdure.define.transacting import Transaction, not_transactional
from perdure.engine.calling import Callee, Outcome, outcome_of_error
from perdure.engine.calling import Word as Sure
from perdure.errors import Failure
from perdure.model.commands import NOTHING

MAIN = "__perdure_main__"  # the name of the worker's main file in here: `if __name__ == "__main__"` is not for us
LENGTH = struct.Struct(">Q")
CHUNK_BYTES = 256 * 1024


class Where(msgspec.Struct, frozen=True):
    """Where an activity is found: in a module, or in the file of the worker's main program."""

    name: str
    qualname: str
    module: str | None = None
    path: str | None = None


class Perform(msgspec.Struct, frozen=True, omit_defaults=True, tag="perform"):
    """Run this."""

    where: Where
    attempt: int
    key: str
    run: tuple[str, str]
    input: msgspec.Raw
    keywords: msgspec.Raw = NOTHING
    details: msgspec.Raw = NOTHING
    deadline_us: int | None = None


class Cancel(msgspec.Struct, frozen=True, omit_defaults=True, tag="cancel"):
    """What runs shall stop; `now`: it had its grace, and is interrupted."""

    now: bool = False


class Begun(msgspec.Struct, frozen=True, omit_defaults=True, tag="begun"):
    """The function was found, and is called now."""


class Beaten(msgspec.Struct, frozen=True, omit_defaults=True, tag="beaten"):
    """A heartbeat."""

    details: msgspec.Raw = NOTHING


class Done(msgspec.Struct, frozen=True, omit_defaults=True, tag="done"):
    """What it came to."""

    value: msgspec.Raw = NOTHING
    failure: Failure | None = None
    kinds: tuple[str, ...] = ()
    word: Sure | None = None


Order = Perform | Cancel
Word = Begun | Beaten | Done
_write = msgspec.json.Encoder().encode
_read_order = msgspec.json.Decoder(Order).decode


def packed(frame: Order | Word) -> bytes:
    """A frame as it is sent."""
    content = _write(frame)
    return LENGTH.pack(len(content)) + content


class Unpacker:
    """Takes bytes as they come, and gives whole frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def frames(self, received: bytes) -> Iterator[bytes]:
        """The frames that are complete now."""
        self._buffer += received
        while len(self._buffer) >= LENGTH.size:
            end = LENGTH.size + LENGTH.unpack_from(self._buffer)[0]
            if len(self._buffer) < end:
                return
            content = bytes(self._buffer[LENGTH.size : end])
            del self._buffer[:end]
            yield content


class Running:
    """The attempt that runs here: `performing.Performance`."""

    def __init__(self, order: Perform, performer: Performer) -> None:
        self._order = order
        self._performer = performer
        self.details = bytes(order.details) or None
        self.why_not_later: str | None = None
        self.is_transactional = False
        self.stops = False
        self.is_interrupted = False

    @property
    def cancelled(self) -> bool:
        """Whether it shall stop."""
        return self.stops

    def is_stopped(self) -> bool:
        """The same, to be passed on."""
        return self.stops

    def info(self) -> ActivityInfo:
        """What `activity_info()` gives."""
        order = self._order
        return ActivityInfo(
            self,
            name=order.where.name,
            attempt=order.attempt,
            key=order.key,
            run=order.run,
            deadline=None if order.deadline_us is None else moment_of(order.deadline_us),
        )

    def transaction(self) -> Transaction:
        """There is none in here."""
        raise not_transactional(self._order.where.name)

    def beat(self, details: bytes | None) -> None:
        """A heartbeat, to the worker. `CancelledError` if it shall stop."""
        if self.stops:
            raise asyncio.CancelledError(f"activity `{self._order.where.name}` was asked to stop")
        self._performer.say(Beaten(NOTHING if details is None else msgspec.Raw(details)))


class Performer:
    """This process."""

    serving: ClassVar[bool] = False

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._saying = threading.Lock()
        self._orders: queue.SimpleQueue[Perform | None] = queue.SimpleQueue()
        self._callees: dict[Where, Callee] = {}
        self._running: Running | None = None
        self._interruptible = False
        self._orphaned = False
        self._main = threading.get_ident()

    def serve(self) -> None:
        """Do what is ordered until the worker is gone."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # for the worker, which says what becomes of us
        signal.signal(signal.SIGTERM, self._on_terminate)  # from anybody else it is for the worker as well
        threading.Thread(target=self._listen, name="perdure orders", daemon=True).start()
        while (order := self._orders.get()) is not None:
            self._running = Running(order, self)
            if self._orphaned:
                return
            outcome = self._perform(order, self._running)
            self._running = None
            value = NOTHING if outcome.value is None else outcome.value
            self.say(Done(value, outcome.failure, tuple(sorted(outcome.kinds)), outcome.word))

    def say(self, word: Word) -> None:
        """Tell the worker; one that is gone is not told."""
        try:
            with self._saying:
                self._line.sendall(packed(word))
        except OSError:
            os._exit(1)

    def _perform(self, order: Perform, running: Running) -> Outcome:
        try:
            try:
                callee = self._callee(order.where)
            except BaseException as error:
                return outcome_of_error(order.where.name, error, is_stopped=False)
            self.say(Begun())
            self._interruptible = True
            try:
                return copy_context().run(_call, callee, order, running)
            finally:
                self._interruptible = False
        except asyncio.CancelledError as error:  # an interruption that came late
            return outcome_of_error(order.where.name, error, running.stops)

    def _callee(self, where: Where) -> Callee:
        callee = self._callees.get(where)
        if callee is None:
            callee = self._callees[where] = Callee(found(where))
        return callee

    def _on_terminate(self, _signal: int, _frame: object) -> None:
        if self._interruptible and self._running is not None and self._running.is_interrupted:
            raise asyncio.CancelledError("it was asked to stop, and its grace is over")

    def _listen(self) -> None:
        unpacker = Unpacker()
        while received := self._receive():
            for frame in unpacker.frames(received):
                order = _read_order(frame)
                if isinstance(order, Perform):
                    self._orders.put(order)
                elif (running := self._running) is not None:
                    running.stops = True
                    if order.now:
                        running.is_interrupted = True
                        signal.pthread_kill(self._main, signal.SIGTERM)  # ends a call in which it waits, too
        self._orphaned = True
        self._orders.put(None)
        if self._running is not None:  # somebody else does its work now
            os._exit(1)

    def _receive(self) -> bytes:
        try:
            return self._line.recv(CHUNK_BYTES)
        except OSError:
            return b""


def found(where: Where) -> Activity[..., Any]:
    """The activity, imported. `ImportError`, `AttributeError`, and whatever its module raises."""
    module = _main_file(where.path) if where.path is not None else importlib.import_module(where.module or "__main__")
    given: object = attrgetter(where.qualname)(module)
    if isinstance(given, Activity):
        return cast("Activity[..., Any]", given)
    return Activity(cast("Callable[..., Any]", given), {"name": where.name})


def is_performer() -> bool:
    """Whether this process is one that runs activities for a worker."""
    return Performer.serving


def main() -> None:
    """Take the socket from where standard input was, and serve. What activities print goes where the worker's does."""
    Performer.serving = True
    line = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    Performer(line).serve()


def _main_file(path: str) -> Any:
    module = sys.modules.get(MAIN)
    if module is None:
        loader = SourceFileLoader(MAIN, path)
        spec = importlib.util.spec_from_file_location(MAIN, path, loader=loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[MAIN] = sys.modules["__main__"] = module
        try:
            loader.exec_module(module)
        except BaseException:
            del sys.modules[MAIN]
            raise
    return module


def _call(callee: Callee, order: Perform, running: Running) -> Outcome:
    CURRENT.set(running)
    return callee.call(bytes(order.input), bytes(order.keywords), running.is_stopped)
