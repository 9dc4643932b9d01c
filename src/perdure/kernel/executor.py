"""The executor of one run: jobs in, commands out, one turn at a time (K6). START HERE.

`activate` applies the answers, drains rounds (kernel.rounds), applies the messages (kernel.messages), drains again,
answers queries, and gives back exactly one completion. It does no I/O and reads no clock: the turn's time, the run's
seed and the policy are arguments. Against a recorded turn the same code is a replay: kernel.matching compares what is
emitted with what is recorded.

Workflow code reaches it through define.api; the other parts of the kernel through kernel.desk.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from perdure import codec
from perdure.errors import InternalError, NondeterminismError, RunClosed, SchedulerViolation
from perdure.kernel import endings, primitives
from perdure.kernel.callsite import caller
from perdure.kernel.cancellation import cancel_scope
from perdure.kernel.desk import Open
from perdure.kernel.futures import DelayHandle, UnitTask
from perdure.kernel.innards import REGISTER_TASK
from perdure.kernel.loop import WorkflowLoop
from perdure.kernel.matching import Strict
from perdure.kernel.messages import Mailbox
from perdure.kernel.operations import Deadline, Operation
from perdure.kernel.phases import Phase
from perdure.kernel.program import Program, read_keywords
from perdure.kernel.rounds import Rounds
from perdure.kernel.scopes import Scope
from perdure.kernel.units import UNIT, Unit, root_unit
from perdure.model import jobs
from perdure.model.commands import Command
from perdure.model.ids import operation_id
from perdure.model.turns import Answered, TurnRecord

primitives.install()

BEFORE_ALL = datetime.min.replace(tzinfo=UTC)


class RunIdentity(msgspec.Struct, frozen=True):
    """What a run is, from its first turn to its last."""

    run_id: uuid.UUID
    seed: int
    input: msgspec.Raw
    keywords: msgspec.Raw | None = None


class Completion(msgspec.Struct, frozen=True):
    """What one turn came to. `record` is None where nothing is recorded: queries, evictions."""

    record: TurnRecord | None
    answers: tuple[Answered, ...] = ()
    reports: tuple[str, ...] = ()


class Executor:
    """One run's live copy."""

    __slots__ = (
        "_cancels",
        "_evicted",
        "_held",
        "_next_seq",
        "_open",
        "_waiting",
        "answers",
        "attributes",
        "began",
        "commands",
        "conditions",
        "decision",
        "dropped",
        "ended",
        "identity",
        "instance",
        "loop",
        "mailbox",
        "matcher",
        "now",
        "patches",
        "phase",
        "program",
        "promises",
        "reading",
        "root",
        "root_scope",
        "root_task",
        "rounds",
        "started",
        "state",
        "turn",
    )

    def __init__(self, program: Program, identity: RunIdentity, *, matcher: Strict, policy: Any = None) -> None:
        self.program = program
        self.identity = identity
        self.loop = WorkflowLoop(self, str(identity.run_id))
        self.loop.own_code = program.own_code
        self.rounds = Rounds(self.loop, policy)
        self.mailbox = Mailbox(self)
        self.matcher = matcher
        self.root_scope = Scope(None)
        self.root = root_unit()
        self.root_task: UnitTask | None = None
        self.instance: object = None
        self.started = jobs.Started()
        self.phase: Phase | None = None
        self.state: dict[str, msgspec.Raw] = {}
        self.attributes: dict[str, Any] = {}
        self.patches: dict[str, bool] = {}
        self.promises: dict[str, Operation] = {}
        self.conditions: list[Any] = []
        self.now = self.began = BEFORE_ALL
        self.turn = 0
        self.dropped = 0
        self.decision: endings.Decision | None = None
        self.ended = False
        self.commands: list[Command] = []
        self.answers: list[Answered] = []
        self.reading: str | None = None
        self._next_seq = 0
        self._open: dict[int, Operation | Deadline] = {}
        self._waiting: dict[int, Open] = {}
        self._cancels: list[tuple[Scope, str]] = []
        self._held: list[jobs.AnyJob] = []
        self._evicted = False
        self.rounds.look = self._look_at_conditions

    # --- one turn -------------------------------------------------------------------------------

    def activate(self, now: datetime, given: Sequence[jobs.AnyJob], record: TurnRecord | None = None) -> Completion:
        """Run one turn: live, or against its record. If it raises, nothing counts and the executor is spent."""
        answers, messages, queries, evict = _sorted_jobs(given)
        advances = bool(answers or messages) or not (queries or evict)
        if self._evicted:
            raise InternalError("this executor was closed; build a new one from the history")
        if self.ended and messages:
            raise RunClosed(f"run {self.identity.run_id} of `{self.program.name}` has ended: it takes no more messages")
        self.answers = []
        self.loop.enter()
        try:
            completed = self._advance(now, answers, messages, record) if advances and not self.ended else None
            if self.ended and advances and completed is None:
                self.dropped += len(answers)
            for query in queries:
                self.answers.append(self.mailbox.answer_query(query))
            if evict:
                self.close()
            return Completion(completed, tuple(self.answers), self._take_reports())
        except Exception as error:
            self.close()
            if self.matcher.doomed and type(error) is not NondeterminismError:
                raise self.matcher.mismatch(self.commands) from error
            raise
        except BaseException:
            self.close()
            raise
        finally:
            self.loop.leave()

    def close(self) -> None:
        """Close every coroutine of the run; nothing that they do meanwhile counts (K18)."""
        self._evicted = True
        self.loop.close_units()
        self._open.clear()
        self._waiting.clear()

    def discard(self) -> None:
        """Close it outside a turn, because nobody drives it any more: else the garbage collector would (K18)."""
        self.loop.enter()
        try:
            self.close()
        finally:
            self.loop.leave()

    def _advance(
        self,
        now: datetime,
        answers: Sequence[jobs.Answer],
        messages: Sequence[jobs.Message],
        record: TurnRecord | None,
    ) -> TurnRecord:
        self.now = max(now, self.now) if self.turn else now
        self.loop.turn = self.turn
        self.commands = []
        self.rounds.begin_turn()
        self.matcher.begin(self.turn, record)
        for job in answers:
            self._apply(job)
        cancels, self._cancels = self._cancels, []
        for scope, reason in cancels:
            cancel_scope(self, scope, reason)
        self.rounds.drain()
        for message in messages:
            self.rounds.messages.append(lambda message=message: self.mailbox.dispatch(message))
        self.rounds.drain()
        self._end_turn()
        choices = self.rounds.choices(self.matcher.choices)
        made = TurnRecord(self.turn, self.now, (*answers, *messages), tuple(self.commands), choices)
        self.turn += 1
        return made

    def _end_turn(self) -> None:
        if self.decision is None and self.root_task is not None and self.root_task.done():
            self.decision = endings.of_root(self, self.root_task)
        if self.decision is not None:
            endings.carry_out(self, self.decision)
        self._check()
        self.matcher.end(self.commands)
        if self.decision is not None:
            self.ended = True
            self.loop.close_units()
            self._open.clear()
            self._waiting.clear()

    # --- jobs that answer -------------------------------------------------------------------------

    def _apply(self, job: jobs.AnyJob) -> None:
        match job:
            case jobs.Started():
                self._start(job)
            case jobs.Resolved(seq, value):
                if (operation := self._asked(job, seq)) is not None:
                    operation.resolve(value)
            case jobs.Failed(seq, failure):
                if (operation := self._asked(job, seq)) is not None:
                    operation.fail(failure)
            case jobs.Cancelled(seq):
                if (operation := self._asked(job, seq)) is not None:
                    operation.cancelled_outside()
            case jobs.Fired(seq):
                if (operation := self._asked(job, seq)) is not None:
                    operation.fire()
            case jobs.PromiseResolved(name) | jobs.PromiseRejected(name):
                self._settle_promise(job, name)
            case jobs.CancelRequested(reason):
                self.cancel_later(self.root_scope, reason)
            case jobs.Patched(patch):
                self.patches.setdefault(patch, False)
            case _:
                raise InternalError(f"{job!r} is no answer")

    def _start(self, job: jobs.Started) -> None:
        self.started = job
        self.began = self.now
        self.state = dict(job.state)
        self.attributes = dict(job.attributes)
        run = self.program.run
        what = f"the input of `{self.program.name}`"
        arguments = codec.decode_arguments(self.identity.input, run.reads, what)
        keywords = read_keywords(run, self.identity.keywords, what)
        if self.program.begin is None:
            coroutine = run.call(*arguments, **keywords)
        else:
            coroutine = self._begin_instance(arguments, keywords)
        self.root_task = self.loop.spawn(coroutine, self.root, self.root_scope)
        REGISTER_TASK(self.root_task)

    async def _begin_instance(self, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        begin = self.program.begin
        self.instance = None if begin is None else begin()
        return await self.program.run.call(self.instance, *arguments, **keywords)

    def _asked(self, job: Any, seq: int) -> Any:
        """The open operation that an answer is for; None if it is late; an error if nobody asked."""
        live = self.matcher.live_seq(seq) if self.matcher.replaying else seq
        operation = self._open.get(live)
        timed = isinstance(operation, Deadline) or (operation is not None and operation.kind == "start_timer")
        if operation is not None and timed == isinstance(job, jobs.Fired):
            return operation
        if live < 0 <= seq:  # replaying by names: the run asks for it later, or never
            self._held.append(job)
            return None
        if operation is None and 0 <= live < self._next_seq:
            self.dropped += 1
            return None
        asked = None if operation is None else operation.asked()
        error = self.matcher.unknown(type(job).__name__, seq, self.commands, asked)
        self.loop.violate(error)
        raise error

    def _settle_promise(self, job: jobs.PromiseResolved | jobs.PromiseRejected, name: str) -> None:
        promise = self.promises.get(name)
        if promise is None:
            raise self.matcher.unknown(f"{type(job).__name__} `{name}`", -1, self.commands)
        if promise.done():
            self.dropped += 1
        elif isinstance(job, jobs.PromiseResolved):
            promise.resolve(job.value)
        else:
            promise.reject(job.message)

    # --- the desk: what the parts of the kernel ask for ------------------------------------------

    def acting(self, call: str, *, emits: bool = True) -> Unit:
        """The unit that has the step. A violation if none has, or if this call may not be made from here (K14)."""
        unit = self.loop.stepping
        if self.loop.closing:
            raise SchedulerViolation(f"{call}() was refused: the run is being closed, and what it does now is lost")
        if self.reading is not None:
            if not emits and self.reading != "an update_state function":
                return unit or self.root
            raise self.violation(
                f"{call}() was called from {self.reading}, which may only read. Nothing was emitted. "
                "Make the call in the workflow's own code"
            )
        if unit is None:
            raise self.violation(f"{call}() was called while no unit has the step")
        if UNIT.get(None) is not unit:
            raise self.violation(
                f"{call}() was called out of turn: it belongs to unit {UNIT.get(None)}, and unit {unit} has the step"
            )
        return unit

    def where(self) -> tuple[str, int] | None:
        """The line of workflow code that runs now; where there is none, the line that made its unit."""
        line = caller(self.loop.own_code)
        unit = self.loop.stepping
        return line if line is not None or unit is None else unit.where

    def violation(self, text: str) -> SchedulerViolation:
        """A violation that fails the turn even if workflow code swallows it; in a query it fails the query only."""
        where = self.where()
        error = SchedulerViolation(f"{text} (at {where[0]}:{where[1]})" if where else text)
        if self.reading != "a query":
            self.loop.violate(error)
        return error

    def emit(self, command: Command) -> None:
        """Add a command to the turn; against a record, it must be the recorded one."""
        if self.matcher.replaying:
            self.matcher.meet(command, self.commands, self.decision.error if self.decision else None)
        self.commands.append(command)

    def take_seq(self) -> int:
        """The next number of the run's one counter (K7)."""
        seq = self._next_seq
        self._next_seq = seq + 1
        return seq

    def open(self, operation: Open) -> None:
        """Something waits for an answer from now on."""
        if operation.seq >= 0:
            self._open[operation.seq] = operation  # type: ignore[assignment]
        else:
            self._waiting[id(operation)] = operation
        if self._held:
            held, self._held = self._held, []
            for job in held:
                self._apply(job)

    def close_operation(self, operation: Open) -> None:
        """It does not wait any more."""
        if operation.seq >= 0:
            self._open.pop(operation.seq, None)
        else:
            self._waiting.pop(id(operation), None)

    def open_operations(self) -> Iterable[Open]:
        """All that waits, in the order in which it began to."""
        return [*self._open.values(), *self._waiting.values()]

    def send_cancel(self, operation: Open, kind: str) -> None:
        """Emit the command that cancels an operation, for the unit that asked for it."""
        if not self.loop.closing:
            self.emit(Command(kind, operation.unit.text, operation.seq, where=self.where() or operation.where))

    def next_settlement(self) -> int:
        """The how-many-th answer of the run this is."""
        self.loop.settlements += 1
        return self.loop.settlements

    def scope(self) -> Scope:
        """The scope of the code that runs now."""
        return self.root_scope if self.loop.task is None else self.loop.task.scope

    def start_deadline(self, seconds: float, call: Callable[[], object], owner: object = None) -> Deadline:
        """Start a durable timer that calls `call` when it fires."""
        unit = self.acting("a timer")
        command = Command(
            "start_timer", unit.text, self.take_seq(), None, codec.encode([rounded(seconds)]), where=self.where()
        )
        self.emit(command)
        deadline = Deadline(self, command, unit, self.scope(), call, owner)
        self.open(deadline)
        return deadline

    def cancel_later(self, scope: Scope, reason: str) -> None:
        """Cancel a scope once all answers of this turn are applied, so that they are delivered first (K17)."""
        self._cancels.append((scope, reason))

    # --- the loop's host --------------------------------------------------------------------------

    def start_delay(self, handle: DelayHandle, seconds: float) -> None:
        """A durable timer behind `call_later`."""
        deadline = self.start_deadline(seconds, lambda: self.loop.release(handle))
        handle.seq = deadline.seq

    def cancel_delay(self, handle: DelayHandle) -> None:
        """That timer is not needed any more."""
        deadline = self._open.get(handle.seq)
        if deadline is not None:
            deadline.cancel()

    def seconds(self) -> float:
        """Seconds since the run began."""
        return (self.now - self.began) / timedelta(seconds=1)

    # --- leaves -----------------------------------------------------------------------------------

    def operation_id(self, seq: int) -> str:
        """How the outside knows an activity or a child (K8)."""
        return operation_id(self.identity.run_id, seq)

    def read_only(self, role: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call a predicate, a validator, a query or an `update_state` function: it may look and not act."""
        outer, self.reading = self.reading, role
        try:
            return call(*arguments)
        finally:
            self.reading = outer

    def decide(self, decision: endings.Decision) -> None:
        """End the run with this turn. The first decision wins, and a root that has returned has decided (K17)."""
        if self.decision is None and self.root_task is not None:
            self.decision = endings.of_root(self, self.root_task) if self.root_task.done() else decision

    def _look_at_conditions(self) -> None:
        for condition in sorted(self.conditions, key=lambda condition: condition.unit.key):
            condition.look()
        self._check()

    def _check(self) -> None:
        if self.loop.violation is not None:
            raise self.loop.violation

    def _take_reports(self) -> tuple[str, ...]:
        reports = tuple(self.loop.reports)
        self.loop.reports.clear()
        return reports


def rounded(seconds: float) -> float:
    """To the microsecond (K20); a whole number of seconds as an integer."""
    exact = round(seconds, 6)
    return int(exact) if exact == int(exact) else exact


def _sorted_jobs(
    given: Sequence[jobs.AnyJob],
) -> tuple[list[jobs.Answer], list[jobs.Message], list[jobs.Queried], bool]:
    answers: list[jobs.Answer] = []
    messages: list[jobs.Message] = []
    queries: list[jobs.Queried] = []
    evict = False
    for job in given:
        if isinstance(job, jobs.Queried):
            queries.append(job)
        elif isinstance(job, jobs.Evicted):
            evict = True
        elif isinstance(job, jobs.Signalled | jobs.UpdateRequested):
            messages.append(job)
        else:
            answers.append(job)
    return answers, messages, queries, evict
