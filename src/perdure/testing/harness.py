"""The harness: a workflow run turn by turn on the pure kernel; no store, no clock, no network.

It keeps the transcript, moves a virtual time, guards every turn (K14, K16), and rebuilds the run from the transcript
after a failed turn or an eviction. perdure.testing.jobs makes what it is told.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar, Unpack, cast, overload

import msgspec

from perdure import codec, policies
from perdure.define.starting import Start0, Start1, Start2, Start3, Start4
from perdure.define.workflow import Workflow, definition_of
from perdure.errors import AlreadyExists, Failure, InvalidValue, NotFound, TurnTimeout, UsageError
from perdure.kernel.callsite import is_workflow_code
from perdure.kernel.executor import Completion, Executor, RunIdentity
from perdure.kernel.guards import Profile, install_audit_hook
from perdure.kernel.matching import Names, Story, Strict
from perdure.kernel.waiting import waits
from perdure.model import jobs
from perdure.model.commands import NOTHING, TERMINAL, Command
from perdure.model.failures import failure_of
from perdure.model.ids import operation_id, run_uuid
from perdure.model.turns import Answered, ChoiceRecord, TurnRecord, Waiting
from perdure.policies.choices import in_full
from perdure.testing.dropped import close_dropped, close_when_dropped
from perdure.testing.jobs import UNNAMED_ID
from perdure.testing.options import (
    NOW,
    RUN_ID,
    TURN_LIMIT,
    HarnessOptions,
    Match,
    fresh_policy,
    in_utc,
    one_of,
    whole,
)
from perdure.testing.transcript import Transcript
from perdure.watchdog import Watchdog

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
E = TypeVar("E")
R = TypeVar("R")


class Turn(msgspec.Struct, frozen=True):
    """What one activation came to."""

    number: int
    now: datetime
    commands: list[Command]
    answers: list[Answered]
    choices: list[ChoiceRecord] = []


class Harness(Generic[R]):
    """One run of a workflow, driven by a test."""

    @overload
    def __init__(self, workflow: Start0[R], /, **options: Unpack[HarnessOptions]) -> None: ...
    @overload
    def __init__(self, workflow: Start1[A, R], a: A, /, **options: Unpack[HarnessOptions]) -> None: ...
    @overload
    def __init__(self, workflow: Start2[A, B, R], a: A, b: B, /, **options: Unpack[HarnessOptions]) -> None: ...
    @overload
    def __init__(
        self, workflow: Start3[A, B, C, R], a: A, b: B, c: C, /, **options: Unpack[HarnessOptions]
    ) -> None: ...
    @overload
    def __init__(
        self, workflow: Start4[A, B, C, E, R], a: A, b: B, c: C, e: E, /, **options: Unpack[HarnessOptions]
    ) -> None: ...
    def __init__(self, workflow: Any, /, *args: Any, **options: Any) -> None:
        unknown = sorted(set(options) - set(HarnessOptions.__annotations__))
        if unknown:
            raise UsageError(f"Harness has no option {', '.join(unknown)}")
        definition = definition_of(workflow)
        encoded, keywords = definition.signature.bind(args, {})
        identity = RunIdentity(
            run_uuid(options.get("run_id", RUN_ID)), whole(options.get("seed", 0)), encoded, keywords
        )
        self._set_up(definition, identity, cast(HarnessOptions, options))

    def _set_up(self, definition: Workflow[..., Any], identity: RunIdentity, options: HarnessOptions) -> None:
        install_audit_hook()
        self._definition = definition
        self._identity = identity
        self._options = options
        self._now = in_utc(options.get("now", NOW))
        self._policy = fresh_policy(options.get("policy"))
        self._match: Match = one_of(options.get("match", "strict"))
        self._watchdog = Watchdog(options.get("turn_limit", TURN_LIMIT), is_workflow_code=is_workflow_code)
        self._records: list[TurnRecord] = []
        self._due: dict[int, datetime] = {}
        self._promised: dict[str, object] = {}
        self._unnamed = 0
        self._handed_over: tuple[jobs.AnyJob, ...] = (jobs.Started(),)
        self._executor: Executor | None = None
        self._closing: weakref.finalize[..., object] | None = None
        self.turns: list[Turn] = []
        self.reports: list[str] = []

    # --- driving ----------------------------------------------------------------------------------

    def start(self, *given: jobs.AnyJob) -> Turn:
        """The first turn: the run begins, and is told whatever else is given."""
        if self._records:
            raise UsageError("this run has been started already")
        return self._activate((*self._handed_over, *given))

    def activate(self, *given: jobs.AnyJob, advance: float = 0) -> Turn:
        """One turn with any number of jobs, `advance` seconds later. If it raises, nothing of it counts."""
        if not self._records:
            raise UsageError("this run has not been started: call start() first")
        if any(isinstance(job, jobs.Started) for job in given):
            raise UsageError("this run has been started already")
        before = self._now
        self._now += _forward(advance)
        try:
            return self._activate(given)
        except BaseException:
            self._now = before
            raise

    def replay(self) -> Harness[R]:
        """Replay the whole record against the code as it is; a harness that stands at its end, with this policy."""
        limit = self._options.get("turn_limit", TURN_LIMIT)
        made = Harness.replay_transcript(cast(Any, self._definition), self.transcript, turn_limit=limit)
        made._policy = made._live().rounds.policy = self._policy
        return made

    @staticmethod
    def replay_transcript(
        workflow: Any, transcript: Transcript, match: Match | None = None, *, turn_limit: float | None = TURN_LIMIT
    ) -> Harness[Any]:
        """Replay a transcript against a workflow; a harness at its end; else `NondeterminismError`."""
        definition = definition_of(workflow)
        if not isinstance(cast(object, transcript), Transcript):
            raise InvalidValue(f"replay_transcript() takes a Transcript, not {type(transcript).__name__}")
        identity = RunIdentity(run_uuid(transcript.run_id), transcript.seed, transcript.encoded, transcript.keywords)
        made = cast(Harness[Any], Harness.__new__(Harness))
        made._set_up(definition, identity, {"match": match or transcript.match, "turn_limit": turn_limit})
        made._records = list(transcript.turns)
        made._executor = made._rebuilt(made.turns)
        made._policy = made._executor.rounds.policy
        for record in transcript.turns:
            made._remember(record, record.jobs)
        return made

    def next_generation(self) -> Harness[R]:
        """After `continue_as_new`: the next run, not yet started, with all that is handed over to it (M8)."""
        last = self._records[-1].commands[-1] if self._records and self._records[-1].commands else None
        if last is None or last.kind != "continue_as_new":
            raise UsageError("this run has not continued as new")
        executor = self._live()
        generation = executor.started.generation + 1
        run_id = run_uuid(operation_id(self._identity.run_id, -generation))
        made = cast(Harness[R], Harness.__new__(Harness))
        identity = RunIdentity(run_id, self._identity.seed, last.encoded, last.encoded_kwargs)
        made._set_up(self._definition, identity, {**self._options, "now": self._now})
        started = jobs.Started(
            workflow_id=executor.started.workflow_id or str(self._identity.run_id),
            generation=generation,
            memo=executor.started.memo,
            attributes=executor.attributes,
            state=executor.state,
        )
        made._handed_over = (started, *executor.mailbox.unread(), *executor.updates.unanswered())
        return made

    # --- looking ----------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether the run has ended."""
        return self._end() is not None

    @property
    def result(self) -> R | None:
        """The value that the run returned; None while it has returned none."""
        end = self._end()
        if end is None or end.kind != "complete":
            return None
        value = msgspec.json.decode(end.encoded, type=list[msgspec.Raw])[0]
        return codec.decode(value, self._definition.signature.returns(), "result")

    @property
    def failure(self) -> Failure | None:
        """How the run failed; None if it has not."""
        end = self._end()
        if end is None or end.kind != "fail":
            return None
        return msgspec.json.decode(end.encoded, type=list[Failure])[0]

    @property
    def status(self) -> str:
        """running, completed, failed, cancelled or continued."""
        end = self._end()
        return "running" if end is None else ENDINGS[end.kind]

    @property
    def dropped(self) -> int:
        """How many answers and messages came too late, or twice."""
        return self._live().dropped

    @property
    def policy_state(self) -> Any:
        """The state of the policy after the last turn."""
        return policies.new("deterministic") if self._policy is None else self._policy

    @property
    def transcript(self) -> Transcript:
        """Everything that the run was told and decided so far."""
        return Transcript(
            workflow=self._definition.name,
            run_id=str(self._identity.run_id),
            seed=self._identity.seed,
            encoded=self._identity.input,
            keywords=self._identity.keywords or NOTHING,
            match=self._match,
            turns=tuple(self._records),
        )

    def waiting(self) -> list[Waiting]:
        """For every unit: what it waits for, since which turn, and on which line (K19)."""
        return waits(self._live())

    # --- one turn ---------------------------------------------------------------------------------

    def _activate(self, given: Sequence[jobs.AnyJob]) -> Turn:
        settled: dict[str, object] = {}
        told = [self._prepared(job, settled) for job in given]
        told = [job for job in told if job is not None]
        for job in told:
            if isinstance(job, jobs.Fired) and job.seq in self._due:
                self._now = max(self._now, self._due[job.seq])
        try:
            completion = self._run_and_keep(told)
        except TurnTimeout:
            if not any(isinstance(job, jobs.Queried) for job in told):
                raise
            completion = self._run_apart(told)
        turn = _turn_of(len(self._records) - (completion.record is not None), self._now, completion)
        self.turns.append(turn)
        if any(isinstance(job, jobs.Evicted) for job in told):
            self._executor = None
        return turn

    def _run_and_keep(self, told: Sequence[jobs.AnyJob]) -> Completion:
        executor = self._live()
        completion = self._run(executor, self._now, told)
        self._policy = executor.rounds.policy if self._policy is not None else None
        if completion.record is not None:
            self._now = completion.record.now
            self._records.append(completion.record)
            self._remember(completion.record, told)
        return completion

    def _run_apart(self, told: Sequence[jobs.AnyJob]) -> Completion:
        """The same turn, with each query by itself: one that does not end fails only itself (M3)."""
        rest = [job for job in told if not isinstance(job, jobs.Queried | jobs.Evicted)]
        turn = self._run_and_keep(rest) if rest else Completion(None)
        answers = list(turn.answers)
        for job in told:
            if isinstance(job, jobs.Queried):
                try:
                    answers += self._run(self._live(), self._now, [job]).answers
                except TurnTimeout as error:
                    answers.append(Answered(job.id, "query", error=failure_of(error)))
        evictions = [job for job in told if isinstance(job, jobs.Evicted)]
        if evictions and self._executor is not None:
            self._run(self._executor, self._now, evictions)
        return msgspec.structs.replace(turn, answers=tuple(answers))

    def _run(
        self, executor: Executor, now: datetime, told: Sequence[jobs.AnyJob], record: TurnRecord | None = None
    ) -> Completion:
        profile = Profile(executor.loop)

        def turn() -> Completion:
            profile.enter()
            try:
                return executor.activate(now, told, record)
            finally:
                profile.leave()

        try:
            close_dropped()
            only_evicts = all(isinstance(job, jobs.Evicted) for job in told) and bool(told)
            name = f"turn {executor.turn} of `{self._definition.name}`"
            completion = self._watchdog.run(turn, name, abandons=only_evicts)
        except BaseException:
            self._executor = None
            raise
        self.reports += completion.reports
        if completion.spoiled:
            self._executor = None
        return completion

    def _live(self) -> Executor:
        if self._executor is None:
            self._executor = self._rebuilt([])
            self._executor.rounds.policy = self._policy
        return self._executor

    def _rebuilt(self, turns: list[Turn]) -> Executor:
        """A live copy that has been through everything on record."""
        story = Story(self._definition.name, str(self._identity.run_id), os.environ)
        matcher = Names(story, self._records) if self._match == "names" else Strict(story, self._records)
        replay = policies.from_log([choice for record in self._records for choice in record.choices])
        executor = Executor(self._definition.program, self._identity, matcher=matcher)
        if self._closing is not None:
            self._closing.detach()
        self._closing = close_when_dropped(self, executor, self._watchdog)
        for record in self._records:
            if executor.ended and self._match == "names":
                break  # it stops short, which this rule lets pass
            executor.rounds.policy = replay if record.choices else None
            turns.append(_turn_of(record.turn, record.now, self._run(executor, record.now, record.jobs, record)))
            replay = executor.rounds.policy or replay
        executor.rounds.policy = replay.go_on() if replay.step else None
        return executor

    def _prepared(self, job: Any, settled: dict[str, object]) -> Any:
        if not isinstance(job, jobs.Job):
            raise InvalidValue(f"{job!r} is no job: make one with resolve(), fire(), signal() … of perdure.testing")
        if isinstance(job, jobs.UpdateRequested | jobs.Queried) and job.id == UNNAMED_ID:
            self._unnamed += 1
            word = "query" if isinstance(job, jobs.Queried) else "update"
            return msgspec.structs.replace(job, id=f"{word}-{self._unnamed}")
        if isinstance(job, jobs.PromiseResolved | jobs.PromiseRejected):
            return self._prepared_promise(job, settled)
        return job

    def _prepared_promise(
        self, job: jobs.PromiseResolved | jobs.PromiseRejected, settled: dict[str, object]
    ) -> jobs.AnyJob | None:
        """M4: an unknown promise is an error; the same resolution again is dropped, another one is an error."""
        said = _said(job)
        promise = self._live().promises.get(job.name)
        if promise is None:
            raise NotFound(f"run {self._identity.run_id} has no promise `{job.name}`")
        if not promise.done() and job.name not in settled:
            settled[job.name] = said
            return job
        if settled.get(job.name, self._promised.get(job.name)) == said:
            return None
        raise AlreadyExists(f"promise `{job.name}` was settled already, in another way")

    def _remember(self, record: TurnRecord, told: Sequence[jobs.AnyJob]) -> None:
        self._now = max(self._now, record.now)
        for job in told:
            if isinstance(job, jobs.PromiseResolved | jobs.PromiseRejected):
                self._promised[job.name] = _said(job)
        for command in record.commands:
            if command.kind == "start_timer" and command.seq is not None:
                self._due[command.seq] = record.now + timedelta(seconds=command.input[0])

    def _end(self) -> Command | None:
        commands = self.turns[-1].commands if self.turns else ()
        for turn in reversed(self.turns):
            if turn.commands:
                commands = turn.commands
                break
        return commands[-1] if commands and commands[-1].kind in TERMINAL else None


ENDINGS = {"complete": "completed", "fail": "failed", "cancel": "cancelled", "continue_as_new": "continued"}


def _turn_of(number: int, now: datetime, completion: Completion) -> Turn:
    record = completion.record
    if record is None:
        return Turn(number, now, [], list(completion.answers))
    return Turn(record.turn, record.now, list(record.commands), list(completion.answers), in_full(record.choices))


def _said(job: jobs.PromiseResolved | jobs.PromiseRejected) -> object:
    return bytes(job.value) if isinstance(job, jobs.PromiseResolved) else ("rejected", job.message)


def _forward(advance: float) -> timedelta:
    return timedelta(seconds=codec.duration_seconds(advance, "advance"))
