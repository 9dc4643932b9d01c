"""Messages: signals, updates and queries, from their arrival to whoever takes them (M1, M2, M3).

kernel.executor queues the messages of a turn behind all units; `dispatch` looks each up when its turn comes: the open
phase (kernel.phases), else the class handler, else the oldest receiver, else the buffer.
"""

from __future__ import annotations

import inspect
from bisect import insort
from collections.abc import Generator, Mapping
from typing import Any

import msgspec

from perdure import codec
from perdure.errors import Failure, InvalidValue
from perdure.kernel.desk import Desk
from perdure.kernel.endings import encode_failure, failure_from, of_error, one
from perdure.kernel.futures import CancelledError, LoopFuture
from perdure.kernel.operations import NO_DEFAULT, Deadline
from perdure.kernel.program import Handler, read_arguments
from perdure.kernel.units import HANDLER, Unit
from perdure.model import jobs
from perdure.model.commands import Command
from perdure.model.turns import Answered


class Letter(msgspec.Struct, frozen=True):
    """A signal on its way: `arrival` counts all signals of the run."""

    name: str
    encoded: msgspec.Raw
    arrival: int
    message_id: str | None = None


class Update(msgspec.Struct, eq=False):
    """An update that was accepted, and its answer once there is one."""

    job: jobs.UpdateRequested
    unit: Unit
    answer: Answered | None = None

    @property
    def id(self) -> str:
        """The id that the sender gave it."""
        return self.job.id

    @property
    def name(self) -> str:
        """What it is called."""
        return self.job.name


class Receiver(LoopFuture):
    """What `receive` and `receive_any` return: the next signal of one of these names."""

    __slots__ = (
        "_desk",
        "_letter",
        "_names_only_one",
        "_read",
        "_reads",
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
        super().__init__(desk.loop)
        self._desk = desk
        self._reads = reads
        self._names_only_one = single
        self._letter: Letter | None = None
        self._read = False
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
        self.settled_as = self._desk.next_settlement()
        if self.deadline is not None:
            self.deadline.cancel()
        self.set_result(value if self._names_only_one else (letter.name, value))

    def expire(self) -> None:
        """Its time has run out."""
        self._desk.close_operation(self)
        self._desk.mailbox.forget(self)
        self.settled_as = self._desk.next_settlement()
        if self.default is NO_DEFAULT:
            self.set_exception(TimeoutError(f"no {self.what} came in time"))
        else:
            self.set_result(self.default)

    def cancel(self, msg: Any | None = None) -> bool:
        """Stop waiting. A signal that was served and not read goes back to the head of its queue (M1)."""
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

    def result(self) -> Any:
        """The signal's value; from now on it counts as read."""
        value = super().result()
        self._read = True
        return value

    def __await__(self) -> Generator[Any, None, Any]:
        value = yield from super().__await__()
        self._read = True
        return value

    __iter__ = __await__


class Mailbox:
    """A run's messages: what is buffered, who waits, which updates are open."""

    __slots__ = ("_arrivals", "_buffered", "_desk", "_handlers", "_receivers", "_seen", "_served", "_updates")

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._buffered: dict[str, list[Letter]] = {}
        self._receivers: list[Receiver] = []
        self._served: list[Receiver] = []
        self._seen: set[str] = set()
        self._updates: dict[str, Update] = {}
        self._arrivals = 0
        self._handlers = 0

    # --- signals --------------------------------------------------------------------------------

    def dispatch(self, job: jobs.Message) -> bool:
        """Give a message to whoever takes it. False if nothing can have changed for anybody who waits."""
        if isinstance(job, jobs.UpdateRequested):
            return self._dispatch_update(job)
        if job.message_id is not None:
            if job.message_id in self._seen:
                self._desk.dropped += 1
                return False
            self._seen.add(job.message_id)
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
                self._serve_signal(handler, arguments), self._next_handler(), self._desk.root_scope
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

    def _next_handler(self) -> Unit:
        self._handlers += 1
        return self._desk.root.child(HANDLER, self._handlers - 1)

    async def _serve_signal(self, handler: Handler, arguments: list[Any]) -> None:
        try:
            outcome = handler.call(self._desk.instance, *arguments)
            if inspect.isawaitable(outcome):
                await outcome
        except Exception as error:
            self._desk.decide(of_error(error))

    # --- updates --------------------------------------------------------------------------------

    def _dispatch_update(self, job: jobs.UpdateRequested) -> bool:
        known = self._updates.get(job.id)
        if known is not None:
            self._desk.dropped += 1
            if known.answer is not None:
                self._desk.answers.append(known.answer)
            return False
        recorded = self._desk.matcher.rejected_update(job.id)
        if recorded is not None:
            return self._reject(job, msgspec.convert(recorded.input[0], Failure), recorded)
        phase = self._desk.phase if self._desk.phase is not None and self._desk.phase.takes_update(job.name) else None
        handler = self._desk.program.updates.get(job.name) if phase is None else phase.updates[job.name]
        if handler is None:
            return self._reject(job, Failure("Rejected", self._nobody_handles(job.name)))
        try:
            arguments = read_arguments(handler, job.encoded, f"update `{job.name}`")
            if job.validate and handler.validate is not None and not self._desk.matcher.replaying:
                target = self._desk.instance if phase is None else phase.state
                self._desk.read_only("a validator", handler.validate, target, *arguments)
        except Exception as error:  # a violation fails the turn all the same
            return self._reject(job, failure_from(error))
        if phase is not None:
            phase.take_update(job, arguments)
        else:
            unit = self._next_handler()
            self._desk.loop.spawn_now(self._serve_update(job, handler, arguments), unit, self._desk.root_scope)
        return True

    def accept(self, job: jobs.UpdateRequested, unit: Unit) -> Update:
        """Say yes, before anything that the handler does."""
        update = Update(job, unit)
        self._updates[job.id] = update
        self._desk.emit(Command("accept_update", unit.text, name=job.name, options={"id": job.id}))
        self._desk.answers.append(Answered(job.id, "update_accepted"))
        return update

    def complete(self, update: Update, value: Any) -> None:
        """Answer an update with a value."""
        try:
            encoded = codec.encode(value, f"the answer of update `{update.name}`")
        except InvalidValue as error:
            self.fail(update, failure_from(error))
        else:
            self._answer(update, "complete_update", one(encoded), Answered(update.id, "update", codec.plain(encoded)))

    def fail(self, update: Update, failure: Failure) -> None:
        """Answer an update with an error."""
        answer = Answered(update.id, "update", error=failure)
        self._answer(update, "fail_update", one(encode_failure(failure)), answer)

    def fail_open_updates(self, why: str) -> None:
        """The run ends: nobody is left waiting (M2)."""
        for update in sorted(self._updates.values(), key=lambda update: update.unit.key):
            if update.answer is None:
                self.fail(update, Failure("RunClosed", why, retryable=False))

    def unread(self) -> list[jobs.Message]:
        """What the next generation takes over: buffered signals and unanswered updates (M8)."""
        for receiver in self._served:
            receiver.give_back()
        self._served.clear()
        letters = self.buffered(self._buffered)
        signals = [jobs.Signalled(letter.name, letter.encoded, letter.message_id) for letter in letters]
        updates = [
            msgspec.structs.replace(update.job, validate=False)
            for update in self._updates.values()
            if update.answer is None
        ]
        return [*signals, *updates]

    def _answer(self, update: Update, kind: str, encoded: msgspec.Raw, answer: Answered) -> None:
        if update.answer is not None:
            return
        update.answer = answer
        self._desk.emit(Command(kind, update.unit.text, name=update.name, encoded=encoded, options={"id": update.id}))
        self._desk.answers.append(answer)

    def _reject(self, job: jobs.UpdateRequested, failure: Failure, recorded: Command | None = None) -> bool:
        encoded = recorded.encoded if recorded else one(encode_failure(failure))
        self._desk.emit(Command("reject_update", "/", name=job.name, encoded=encoded, options={"id": job.id}))
        answer = Answered(job.id, "update_rejected", error=failure)
        self._updates[job.id] = Update(job, self._desk.root, answer)
        self._desk.answers.append(answer)
        return False

    def _nobody_handles(self, name: str) -> str:
        known = sorted(self._desk.program.updates)
        return f"nothing handles update `{name}` now; known: {', '.join(known) or 'none'}"

    async def _serve_update(self, job: jobs.UpdateRequested, handler: Handler, arguments: list[Any]) -> None:
        unit = self._desk.acting("update")
        update = self.accept(job, unit)
        try:
            outcome = handler.call(self._desk.instance, *arguments)
            if inspect.isawaitable(outcome):
                outcome = await outcome
        except (Exception, CancelledError) as error:
            self.fail(update, failure_from(error))
        else:
            self.complete(update, outcome)

    # --- queries --------------------------------------------------------------------------------

    def answer_query(self, job: jobs.Queried) -> Answered:
        """Answer a query; what goes wrong in it fails only itself (M3)."""
        handler = self._desk.program.queries.get(job.name)
        if handler is None:
            known = ", ".join(sorted(self._desk.program.queries)) or "none"
            return Answered(job.id, "query", error=Failure("NotFound", f"no query `{job.name}`; known: {known}"))
        try:
            arguments = read_arguments(handler, job.encoded, f"query `{job.name}`")
            value = self._desk.read_only("a query", handler.call, self._desk.instance, *arguments)
            return Answered(job.id, "query", codec.plain(codec.encode(value, f"the answer of query `{job.name}`")))
        except Exception as error:
            return Answered(job.id, "query", error=failure_from(error))
        finally:
            self._desk.loop.violation = None


def read_signal(letter: Letter, reads: Any) -> Any:
    """The value of a signal: its one argument, or all of them where there are more."""
    parts = msgspec.json.decode(letter.encoded, type=list[msgspec.Raw])
    raw = codec.NULL if not parts else parts[0] if len(parts) == 1 else letter.encoded
    return codec.decode(raw, reads, f"signal `{letter.name}`")


def _arrival(letter: Letter) -> int:
    return letter.arrival
