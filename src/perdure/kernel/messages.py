"""Messages: signals, from their arrival to whoever takes them, or gives them back (M1).

kernel.executor queues the messages of a turn behind all units; `dispatch` looks each up when its turn comes: the open
phase (kernel.phases), else the class handler, else the oldest receiver, else the buffer. Updates and queries are
kernel.updates'.
"""

from __future__ import annotations

import inspect
from bisect import insort
from collections.abc import Callable, Generator, Mapping
from contextvars import Context
from typing import Any

import msgspec

from perdure import codec
from perdure.errors import InvalidValue
from perdure.kernel.callsite import defined_at
from perdure.kernel.desk import Desk
from perdure.kernel.endings import decide, of_error
from perdure.kernel.futures import AnsweredFuture, CancelledError, is_outcome
from perdure.kernel.operations import NO_DEFAULT, Deadline
from perdure.kernel.program import Handler, read_arguments
from perdure.kernel.scopes import Scope
from perdure.kernel.units import HANDLER, Unit
from perdure.model import jobs


class Letter(msgspec.Struct, frozen=True):
    """A signal on its way: `arrival` counts all signals of the run."""

    name: str
    encoded: msgspec.Raw
    arrival: int
    message_id: str | None = None


class Receiver(AnsweredFuture):
    """What `receive` and `receive_any` return: the next signal of one of these names."""

    __slots__ = (
        "_abandoned",
        "_desk",
        "_letter",
        "_names_only_one",
        "_read",
        "_reads",
        "_watched",
        "deadline",
        "default",
        "scope",
        "seq",
        "settled_as",
        "since_turn",
        "unit",
        "where",
    )

    def __init__(self, desk: Desk, unit: Unit, reads: Mapping[str, Any], *, single: bool, default: Any) -> None:
        super().__init__(loop=desk.loop)
        self._desk = desk
        self._reads = reads
        self._names_only_one = single
        self._letter: Letter | None = None
        self._read = False
        self._watched = False
        self._abandoned = False
        self.settled_as = 0
        self.seq = -1
        self.unit = unit
        self.scope = desk.scope()
        self.since_turn = desk.loop.turn
        self.where: tuple[str, int] | None = None
        self.default = default
        self.deadline: Deadline | None = None

    @property
    def what(self) -> str:
        """What it waits for, in words."""
        names = ", ".join(f"`{name}`" for name in self._reads)
        return f"signal {names}" if self._names_only_one else f"one of the signals {names}"

    @property
    def unread(self) -> bool:
        """Whether a signal was served and nobody has read it."""
        return self._letter is not None and not self._read

    def takes(self, name: str) -> bool:
        """Whether it waits for a signal of that name."""
        return name in self._reads and not self.done()

    def serve(self, letter: Letter) -> None:
        """Its signal has come."""
        value = read_signal(letter, self._reads[letter.name])
        self._letter = letter
        self._desk.close_operation(self)
        self.settled_as = self._desk.loop.next_settlement()
        if self.deadline is not None:
            self.deadline.cancel()
        self.answer(value if self._names_only_one else (letter.name, value))

    def expire(self) -> None:
        """Its time has run out."""
        self._desk.close_operation(self)
        self._desk.mailbox.forget(self)
        self.settled_as = self._desk.loop.next_settlement()
        if self.default is NO_DEFAULT:
            self.refuse(TimeoutError(f"no {self.what} came in time"))
        else:
            self.answer(self.default)

    def cancel(self, msg: Any | None = None) -> bool:
        """Stop waiting. A signal that was served and not read goes back to the head of its queue (M1)."""
        self.refuse_outsiders()
        if self.done():
            self.give_back()
            return False
        self._desk.close_operation(self)
        self._desk.mailbox.forget(self)
        if self.deadline is not None:
            self.deadline.cancel()
        return super().cancel(msg)

    def give_back(self) -> Letter | None:
        """Return a signal that was served and never read."""
        letter, self._letter = self._letter, None
        if letter is None or self._read:
            return None
        self._desk.mailbox.put_back(letter)
        return letter

    def abandon(self) -> None:
        """Its scope was cancelled: a signal that nobody has read or is about to read goes back (M1, M6)."""
        if self.unread and not self._watched:
            self.give_back()
            self._abandoned = True

    def add_done_callback(self, fn: Callable[[Any], object], /, *, context: Context | None = None) -> None:
        """Tell somebody when the signal comes, who then reads it."""
        self._watched = True
        super().add_done_callback(fn, context=context)

    def result(self) -> Any:
        """The signal's value; from now on it counts as read."""
        if self._abandoned:
            raise CancelledError
        value = super().result()
        self._read = True
        return value

    def __await__(self) -> Generator[Any, None, Any]:
        if self._abandoned:
            raise CancelledError
        value = yield from super().__await__()
        self._read = True
        return value

    __iter__ = __await__


class Mailbox:
    """A run's signals: what is buffered, and who waits."""

    __slots__ = ("_arrivals", "_buffered", "_desk", "_handlers", "_receivers", "_seen", "_served")

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._buffered: dict[str, list[Letter]] = {}
        self._receivers: list[Receiver] = []
        self._served: list[Receiver] = []
        self._seen: dict[str, None] = {}  # a set that is empty takes three times as much
        self._arrivals = 0
        self._handlers = 0

    def dispatch(self, job: jobs.Signalled) -> bool:
        """Give a signal to whoever takes it. False if nothing can have changed for anybody who waits."""
        if job.message_id is not None:
            if job.message_id in self._seen:
                self._desk.dropped += 1
                return False
            self._seen[job.message_id] = None
        self._arrivals += 1
        self.deliver(Letter(job.name, job.encoded, self._arrivals, job.message_id))
        return True

    def deliver(self, letter: Letter) -> None:
        """To the open phase, else the class handler, else the oldest receiver, else the buffer."""
        phase = self._desk.phase
        if phase is not None and phase.takes_signal(letter.name):
            phase.take_signal(letter)
        elif (handler := self._desk.program.signals.get(letter.name)) is not None:
            arguments = read_arguments(handler, letter.encoded, f"signal `{letter.name}`")
            self._desk.loop.spawn_now(
                self._serve_signal(handler, arguments), self.next_handler(handler), self._desk.root_scope
            )
        elif (receiver := self._oldest_receiver(letter.name)) is not None:
            self._serve(receiver, letter)
        else:
            self._buffered.setdefault(letter.name, []).append(letter)

    def receive(self, receiver: Receiver, names: Mapping[str, Any]) -> bool:
        """Serve a receiver from the buffer, the earliest arrival first; else let it wait. True if it was served."""
        waiting = [queue[0] for name in names if (queue := self._buffered.get(name))]
        if waiting:
            first = min(waiting, key=lambda letter: letter.arrival)
            self.take(first)
            try:
                self._serve(receiver, first)
            except InvalidValue as error:  # fails the turn, as it does where the receiver was there first
                self._desk.loop.violate(error)
                raise
            return True
        self._receivers.append(receiver)
        return False

    def take(self, letter: Letter) -> bool:
        """Take a letter out of the buffer; False if it is not there any more."""
        queue = self._buffered.get(letter.name, [])
        if letter not in queue:
            return False
        queue.remove(letter)
        return True

    def buffered(self, names: Any) -> list[Letter]:
        """The buffered letters of these names, in the order of their arrival."""
        return sorted((letter for name in names for letter in self._buffered.get(name, ())), key=_arrival)

    def pending(self, name: str) -> int:
        """How many signals of that name wait."""
        return len(self._buffered.get(name, ()))

    def put_back(self, letter: Letter) -> None:
        """Undo a delivery: to whoever waits now, else back to the head of the queue, before all that came later."""
        receiver = self._oldest_receiver(letter.name)
        if receiver is not None:
            self._serve(receiver, letter)
        else:
            insort(self._buffered.setdefault(letter.name, []), letter, key=_arrival)

    def next_handler(self, handler: Handler) -> Unit:
        """The unit of the next class handler, of a signal or of an update: numbered over the run (K2)."""
        self._handlers += 1
        unit = self._desk.root.child(HANDLER, self._handlers - 1)
        unit.where = defined_at(handler.call)
        return unit

    def unread(self) -> list[jobs.Signalled]:
        """What the next generation takes over: all that is buffered, or was served and not read (M8)."""
        for receiver in self._served:
            receiver.give_back()
        self._served.clear()
        letters = self.buffered(self._buffered)
        return [jobs.Signalled(letter.name, letter.encoded, letter.message_id) for letter in letters]

    def abandon(self, cancelled: Scope) -> None:
        """Take back what was served in a scope that is cancelled now, and not read."""
        for receiver in self._served:
            if receiver.scope.is_reached_by(cancelled):
                receiver.abandon()

    def forget(self, receiver: Receiver) -> None:
        """It waits no more."""
        if receiver in self._receivers:
            self._receivers.remove(receiver)

    def _serve(self, receiver: Receiver, letter: Letter) -> None:
        self.forget(receiver)
        receiver.serve(letter)
        self._served = [one for one in self._served if one.unread]
        self._served.append(receiver)

    def _oldest_receiver(self, name: str) -> Receiver | None:
        return next((receiver for receiver in self._receivers if receiver.takes(name)), None)

    async def _serve_signal(self, handler: Handler, arguments: list[Any]) -> None:
        try:
            outcome = handler.call(self._desk.instance, *arguments)
            if inspect.isawaitable(outcome):
                await outcome
        except CancelledError:
            raise
        except BaseException as error:
            if not is_outcome(self._desk.loop, error):
                raise
            decide(self._desk, of_error(error))


def read_signal(letter: Letter, reads: Any) -> Any:
    """The value of a signal: its one argument, or all of them where there are more."""
    parts = msgspec.json.decode(letter.encoded, type=list[msgspec.Raw])
    raw = codec.NULL if not parts else parts[0] if len(parts) == 1 else letter.encoded
    return codec.decode(raw, reads, f"signal `{letter.name}`")


def _arrival(letter: Letter) -> int:
    return letter.arrival
