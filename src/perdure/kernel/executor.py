"""START HERE: the executor of one run, jobs in and commands out, one turn at a time (K6).

`activate` applies the answers, drains rounds (kernel.rounds), applies the messages (kernel.messages), drains again,
answers queries, and gives back exactly one completion. It does no I/O and reads no clock: the turn's time, the run's
seed and the policy are arguments. Against a recorded turn the same code is a replay: kernel.matching compares what is
emitted with what is recorded.

It is the desk (kernel.desk) at which the other parts of the kernel ask; workflow code reaches it through define.api.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec

from perdure import codec
from perdure.errors import InternalError, NondeterminismError, RunClosed, SchedulerViolation
from perdure.kernel import endings, primitives
from perdure.kernel.callsite import defined_at
from perdure.kernel.cancellation import cancel_scope
from perdure.kernel.closing import close_units
from perdure.kernel.desk import Desk, Open
from perdure.kernel.entries import DelayHandle
from perdure.kernel.loop import WorkflowLoop
from perdure.kernel.matching import Strict
from perdure.kernel.messages import Mailbox
from perdure.kernel.operations import Deadline, Operation, start_deadline
from perdure.kernel.program import Program, read_keywords
from perdure.kernel.updates import Updates, answer_query
from perdure.model import jobs
from perdure.model.ids import operation_id
from perdure.model.turns import Answered, TurnRecord

primitives.install()


class RunIdentity(msgspec.Struct, frozen=True):
    """What a run is, from its first turn to its last."""

    run_id: uuid.UUID
    seed: int
    input: msgspec.Raw
    keywords: msgspec.Raw | None = None


# Whether a host can do what is asked of it: kind, name, options. It raises where it cannot (K14).
Vet = Callable[[str, str, Mapping[str, Any]], None]


class Completion(msgspec.Struct, frozen=True):
    """What one turn came to. `record` is None where nothing is recorded: queries, evictions."""

    record: TurnRecord | None
    answers: tuple[Answered, ...] = ()
    reports: tuple[str, ...] = ()
    spoiled: bool = False  # a query has changed the live copy, which is not the run any more: build a new one


class Executor(Desk):
    """One run's live copy."""

    __slots__ = (
        "_evicted",
        "_held",
        "attributes",
        "began",
        "defaults",
        "ended",
        "patches",
        "promises",
        "started",
        "vet",
    )

    def __init__(self, program: Program, identity: RunIdentity, *, matcher: Strict) -> None:
        loop = WorkflowLoop(self, str(identity.run_id))
        loop.own_code = program.own_code
        super().__init__(program, identity, matcher, loop)
        self.mailbox = Mailbox(self)
        self.updates = Updates(self)
        self.started = jobs.Started()
        self.began = self.now
        self.attributes: dict[str, Any] = {}
        self.patches: dict[str, bool] = {}
        self.promises: dict[str, Operation] = {}
        self.ended = False
        self.vet: Vet | None = None
        self.defaults: dict[int, Mapping[str, Any]] | None = None  # what definitions set, by seq, for a host that asks
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
                self._meet_nothing(record)
            for query in queries:
                self.answers.append(answer_query(self, query))
            if evict:
                self.close()
            return Completion(completed, tuple(self.answers), self._take_reports(), self.spoiled)
        except Exception as error:
            self.close()
            if self.matcher.doomed and type(error) is not NondeterminismError:
                raise self.matcher.mismatch(self.commands) from error
            raise
        except KeyboardInterrupt:
            self.close()
            raise
        except BaseException as error:  # of a policy, or of a class that is being read: never the end of a worker
            self.close()
            raise SchedulerViolation(_left_the_turn(error)) from error
        finally:
            self.loop.leave()

    def close(self) -> None:
        """Close every coroutine of the run; nothing that they do meanwhile counts (K18)."""
        self._evicted = True
        close_units(self.loop)
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
        if self.lapsed:
            self.lapsed = []
        self.rounds.begin_turn()
        self.matcher.begin(self.turn, record)
        for job in answers:
            self._apply(job)
        cancels, self._cancels = self._cancels, []
        for scope, reason in cancels:
            cancel_scope(self, scope, reason)
        if answers and not self.loop.ready:
            self._look_at_conditions()  # what no unit waits for can make a condition true all the same
        self.rounds.drain()
        for message in messages:
            take = self.updates.dispatch if isinstance(message, jobs.UpdateRequested) else self.mailbox.dispatch
            self.rounds.messages.append(partial(take, message))
        if messages:
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
            close_units(self.loop)
            self._open.clear()
            self._waiting.clear()

    def _meet_nothing(self, record: TurnRecord | None) -> None:
        """The run has ended, so that nothing can meet what a later turn's record holds (K11)."""
        if record is not None:
            self.matcher.begin(record.turn, record)
            self.matcher.end(())

    # --- jobs that answer -------------------------------------------------------------------------

    def _apply(self, job: jobs.AnyJob) -> None:
        if type(job) is jobs.Resolved:  # by far the most frequent one
            if (operation := self._asked(job, job.seq)) is not None:
                operation.resolve(job.value)
            return
        match job:
            case jobs.Started():
                self._start(job)
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
        arguments = codec.decode_arguments(self.identity.input, run.reads, what, rest=run.rest)
        keywords = read_keywords(run, self.identity.keywords, what)
        self.root.where = defined_at(run.call)
        if self.program.begin is None:
            coroutine = run.call(*arguments, **keywords)
        else:
            coroutine = self._begin_instance(arguments, keywords)
        self.root_task = self.loop.spawn(coroutine, self.root, self.root_scope)

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

    # --- the desk ---------------------------------------------------------------------------------

    def open(self, operation: Open) -> None:
        """Something waits for an answer from now on; replaying by names, that may have come already."""
        super().open(operation)
        if self._held:
            held, self._held = self._held, []
            for job in held:
                self._apply(job)

    # --- the loop's host --------------------------------------------------------------------------

    def start_delay(self, handle: DelayHandle, seconds: float) -> None:
        """A durable timer behind `call_later`."""
        handle.seq = start_deadline(self, seconds, lambda: self.loop.release(handle)).seq

    def cancel_delay(self, handle: DelayHandle) -> None:
        """That timer is not needed any more."""
        deadline = self._open.get(handle.seq)
        if deadline is not None:
            deadline.cancel()

    def operation_id(self, seq: int) -> str:
        """The id under which the outside knows an activity or child (K8)."""
        return operation_id(self.identity.run_id, seq)

    def seconds(self) -> float:
        """Seconds since the run began."""
        return (self.now - self.began) / timedelta(seconds=1)

    # --- leaves -----------------------------------------------------------------------------------

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


def _left_the_turn(error: BaseException) -> str:
    return (
        f"{type(error).__name__} was raised where no unit of the workflow could take it: {error}. Nothing was "
        "committed. Let what the kernel calls (a policy, the constructor of a class) raise an Exception instead"
    )


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
        elif isinstance(job, jobs.MESSAGES):
            messages.append(job)
        else:
            answers.append(job)
    return answers, messages, queries, evict
