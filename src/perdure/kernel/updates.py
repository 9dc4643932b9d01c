"""Updates and queries: what somebody outside asks, and waits for the answer of (M2, M3).

kernel.executor queues updates behind all units, with the signals (kernel.messages); the open phase (kernel.phases) or
a class handler takes them. Queries are answered between turns, and change nothing.
"""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from perdure import codec
from perdure.errors import Failure, InvalidValue
from perdure.kernel.desk import Desk
from perdure.kernel.endings import encode_failure, failure_from, one
from perdure.kernel.fingerprints import changed, fingerprint
from perdure.kernel.futures import is_outcome
from perdure.kernel.program import Handler, read_arguments
from perdure.kernel.units import Unit
from perdure.model import jobs
from perdure.model.commands import Command
from perdure.model.turns import Answered


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


class Updates:
    """A run's updates by id: each is answered once, and a repeated id with the first answer."""

    __slots__ = ("_desk", "_known")

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._known: dict[str, Update] = {}

    def dispatch(self, job: jobs.UpdateRequested) -> bool:
        """Give an update to whoever takes it, or reject it. False if nothing can have changed for anybody who waits."""
        known = self._known.get(job.id)
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
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a violation fails the turn all the same
            return self._reject(job, failure_from(error))
        if phase is not None:
            phase.take_update(job, arguments)
        else:
            unit = self._desk.mailbox.next_handler(handler)
            self._desk.loop.spawn_now(self._serve_update(job, handler, arguments), unit, self._desk.root_scope)
        return True

    def accept(self, job: jobs.UpdateRequested, unit: Unit) -> Update:
        """Say yes, before anything that the handler does."""
        update = Update(job, unit)
        self._known[job.id] = update
        self._desk.emit(Command("accept_update", unit.text, name=job.name, options={"id": job.id}, where=unit.where))
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

    def fail_open(self, why: str) -> None:
        """The run ends: nobody is left waiting (M2)."""
        for update in sorted(self._known.values(), key=lambda update: update.unit.key):
            if update.answer is None:
                self.fail(update, Failure("RunClosed", why, retryable=False))

    def unanswered(self) -> list[jobs.UpdateRequested]:
        """What the next generation takes over: those that were accepted, and not answered yet (M8)."""
        return [
            msgspec.structs.replace(update.job, validate=False)
            for update in self._known.values()
            if update.answer is None
        ]

    def _answer(self, update: Update, kind: str, encoded: msgspec.Raw, answer: Answered) -> None:
        if update.answer is not None:
            return
        update.answer = answer
        self._desk.emit(
            Command(
                kind, update.unit.text, None, update.name, encoded, options={"id": update.id}, where=update.unit.where
            )
        )
        self._desk.answers.append(answer)

    def _reject(self, job: jobs.UpdateRequested, failure: Failure, recorded: Command | None = None) -> bool:
        encoded = recorded.encoded if recorded else one(encode_failure(failure))
        self._desk.emit(
            Command("reject_update", "/", None, job.name, encoded, options={"id": job.id}, where=self._desk.root.where)
        )
        answer = Answered(job.id, "update_rejected", error=failure)
        self._known[job.id] = Update(job, self._desk.root, answer)
        self._desk.answers.append(answer)
        return False

    def _nobody_handles(self, name: str) -> str:
        phase = self._desk.phase
        known = sorted({*self._desk.program.updates, *(() if phase is None or phase.verdict else phase.updates)})
        return f"nothing handles update `{name}` now; known: {', '.join(known) or 'none'}"

    async def _serve_update(self, job: jobs.UpdateRequested, handler: Handler, arguments: list[Any]) -> None:
        unit = self._desk.acting("update")
        update = self.accept(job, unit)
        try:
            outcome = handler.call(self._desk.instance, *arguments)
            if inspect.isawaitable(outcome):
                outcome = await outcome
        except BaseException as error:
            if not is_outcome(self._desk.loop, error):
                raise
            self.fail(update, failure_from(error))
        else:
            self.complete(update, outcome)


def answer_query(desk: Desk, job: jobs.Queried) -> Answered:
    """Answer a query; what goes wrong in it fails only itself (M3)."""
    handler = desk.program.queries.get(job.name)
    if handler is None:
        known = ", ".join(sorted(desk.program.queries)) or "none"
        return Answered(job.id, "query", error=Failure("NotFound", f"no query `{job.name}`; known: {known}"))
    before = fingerprint(desk.instance)
    try:
        arguments = read_arguments(handler, job.encoded, f"query `{job.name}`")
        value = desk.read_only("a query", handler.call, desk.instance, *arguments)
        answer = Answered(job.id, "query", codec.plain(codec.encode(value, f"the answer of query `{job.name}`")))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        answer = Answered(job.id, "query", error=failure_from(error))
    finally:
        desk.loop.violation = None
    names = changed(before, fingerprint(desk.instance))
    if not names:
        return answer
    desk.spoiled = True
    what = ", ".join(f"self.{name}" for name in names)
    text = f"query `{job.name}` changed {what}, and may only read. The run is as it was; an update can change it"
    return Answered(job.id, "query", error=Failure("SchedulerViolation", text))
