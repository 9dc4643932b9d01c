"""Running: one run of a handler, carried through its stages to its commit or its failure (L3, L4, L7, L8).

In:  a run that has just begun, from pipelines.owned; where it takes the place of another one, at the stage of that.
Out: `Ended`: committed, or failed with the record as the store has it now. `LeaseLost` comes out as it is.

An outcome that is not known is asked for at once, within the run (pipelines.reconciling).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from perdure import codec
from perdure.clock import micros, moment_of
from perdure.engine.calling import storable
from perdure.errors import AlreadyExists, Failure, InvalidValue, LeaseLost, UsageError
from perdure.model.failures import failure_of
from perdure.pipelines.contexts import Doings, HandlerContext, HandlerStage, Place, read_result
from perdure.pipelines.declare import DeclaredConsumer, DeclaredProducer
from perdure.pipelines.desk import RunDesk
from perdure.pipelines.failing import Attempted, Failing, Verdict, judge
from perdure.pipelines.means import Means, error_of, within
from perdure.pipelines.reconciling import answered, ask, not_known
from perdure.pipelines.scheduling import clamp_wake_at
from perdure.pipelines.shapes import shape_of, type_of
from perdure.pipelines.stages import Outcome, Prepared
from perdure.stores.pipeline_records import Finished, HandlerRun, Preparation, RunCommit, RunFailure, Times
from perdure.stores.pipeline_rules import without_dropped

Reckon = Callable[[bool, datetime | None], Times]  # from whether it reserved anything, and its `wake_at`


class PreparedRecord(msgspec.Struct, frozen=True):
    """What is kept of `Prepared`."""

    reserve: dict[str, list[str]]
    data: msgspec.Raw
    shape: Any = None


@dataclass(frozen=True)
class Ended:
    """What a run came to; `failed` where it was not committed."""

    failed: HandlerRun | None = None
    finished: Finished = field(default_factory=lambda: Finished({}))
    reserved: bool = False
    wake_at: datetime | None = None
    state: bytes | None = None


@dataclass(frozen=True)
class Beginning:
    """What a run begins with. `transients` is how often its chain has failed for a while, `denials` how often its
    mutation turned out not to have happened."""

    run: HandlerRun
    owner: int
    state: bytes | None
    reckon: Reckon
    transients: int = 0
    denials: int = 0


class Failed(Exception):
    """A stage that cannot go on."""

    def __init__(self, error: BaseException, where: Failing) -> None:
        super().__init__(str(error))
        self.error = error
        self.where: Failing = where


class Paused(Exception):
    """The run has been written down as one that cannot go on."""

    def __init__(self, run: HandlerRun) -> None:
        super().__init__(run.id)
        self.run = run


class Running:
    """One run."""

    def __init__(self, means: Means, declared: DeclaredProducer | DeclaredConsumer, begun: Beginning) -> None:
        self._means = means
        self._declared = declared
        self._begun = begun
        self._run = begun.run
        self._desk = RunDesk(means, begun.owner, begun.run)
        self._causes: tuple[str, ...] = ()

    async def to_end(self) -> Ended:
        """Carry it out."""
        try:
            if isinstance(self._declared, DeclaredProducer):
                return await self._produce(self._declared)
            return await self._consume(self._declared)
        except Paused as paused:
            return Ended(failed=paused.run)
        except Failed as failed:
            return Ended(failed=await self._fail(failed))

    # --- producers --------------------------------------------------------------------------

    async def _produce(self, declared: DeclaredProducer) -> Ended:
        ctx = self._context("producer")
        state = self._state(declared.state_type)
        given, doings = await self._call(lambda: declared.fn(ctx, state), ctx)
        return await self._commit(self._encoded(given, "its new state"), doings, reserved=False, wake_at=None)

    # --- consumers --------------------------------------------------------------------------

    async def _consume(self, declared: DeclaredConsumer) -> Ended:
        run = self._run
        try:
            handler: Any = declared.handler()
        except Exception as error:
            raise Failed(error, "handler") from error
        if run.stage == "preparing":
            prepared, reserved, wake_at = await self._prepare(handler, declared)
        else:
            prepared, reserved = self._caused(read_prepared(run.prepared, declared)), has_reserved(run.prepared)
            wake_at = None if run.wake_us is None else moment_of(run.wake_us)
        if self._desk.mutation == "uncertain":
            await self._reconcile(handler, prepared, Failed(Interrupted(), "mutation"))
        elif self._desk.stage == "prepared" and reserved and declared.has("mutate"):
            await self._mutate(handler, prepared)
        outcome = self._outcome(declared)
        self._desk.stage = "emitting"
        state, doings = None, Doings()
        if declared.has("next"):
            ctx = self._context("next")
            given, doings = await self._call(lambda: handler.next(ctx, prepared, outcome), ctx)
            state = None if given is None and not reserved else self._encoded(given, "its new state")
        return await self._commit(state, doings, reserved=reserved, wake_at=wake_at)

    async def _prepare(self, handler: Any, declared: DeclaredConsumer) -> tuple[Prepared, bool, datetime | None]:
        ctx = self._context("prepare")
        state = self._state(declared.state_type)
        given, doings = await self._call(lambda: handler.prepare(ctx, state), ctx)
        now = self._means.now
        try:
            record = _record_of(given, declared)
        except UsageError as error:
            raise Failed(error, "handler") from error
        wake_at = clamp_wake_at(given.wake_at, now, self._means.policy)
        encoded = msgspec.json.encode(record)
        preparation = Preparation(
            run=self._run.id,
            prepared=encoded,
            reserve={topic: tuple(ids) for topic, ids in record.reserve.items()},
            peeked={topic: frozenset(ids) for topic, ids in doings.peeked.items()},
            wake_us=None if wake_at is None else micros(wake_at),
        )
        store, begun = self._means.store, self._begun
        reservation = await self._written(lambda: store.save_prepared(begun.owner, self._run.pipeline, preparation))
        if reservation.refused:
            named = ", ".join(f"{id!r} of topic {topic!r}" for topic, id in reservation.refused)
            text = f"prepare reserved what is not pending: {named}. Reserve what peek has given; nothing was reserved"
            raise Failed(UsageError(text), "handler")
        self._desk.stage = "prepared"
        encoded = without_dropped(encoded, reservation.dropped)
        return self._caused(read_prepared(encoded, declared)), reservation.reserved > 0, wake_at

    async def _mutate(self, handler: Any, prepared: Prepared) -> None:
        ctx = self._context("mutate")
        try:
            await self._call(lambda: handler.mutate(ctx, prepared), ctx)
        except Failed as failed:
            if self._judged(failed).status != "paused:reconciliation":
                raise
            await self._reconcile(handler, prepared, failed)
            return
        if self._desk.mutation == "none":
            await self._written(lambda: self._desk.end_mutation(None, "none"))

    async def _reconcile(self, handler: Any, prepared: Prepared, failed: Failed) -> None:
        """Ask once, within the run. `Paused` unless it happened."""
        run = self._run
        if getattr(handler, "reconcile", None) is None:
            raise Paused(await self._write(not_known(run, _failure(failed.error), 0, None)))
        ctx = self._context("reconcile")
        answer = await ask(handler, ctx, prepared, self._means)
        failure = answered(run, answer, _failure(failed.error), self._begun.denials, self._means)
        if isinstance(failure, RunFailure):
            raise Paused(await self._write(failure))
        await self._written(lambda: self._desk.end_mutation(failure.result, "success"))

    def _outcome(self, declared: DeclaredConsumer) -> Outcome:
        known, result = self._desk.mutation, self._desk.result
        if known == "skipped":
            return Outcome("skipped")
        if known != "success":
            return Outcome()
        return Outcome("success", None if result is None else read_result(result, declared.result_type))

    # --- the end ----------------------------------------------------------------------------

    async def _commit(self, state: bytes | None, doings: Doings, *, reserved: bool, wake_at: datetime | None) -> Ended:
        begun, run = self._begun, self._run
        commit = RunCommit(
            run=run.id,
            state=state,
            times=begun.reckon(reserved, wake_at),
            events=tuple(doings.published),
            starts=tuple(doings.started),
        )
        try:
            finished = await self._desk.ask(lambda: self._means.store.commit_run(begun.owner, run.pipeline, commit))
        except AlreadyExists as error:
            raise Failed(error, "handler") from error
        except LeaseLost:
            raise
        except Exception as error:
            raise Failed(error, "host") from error
        if doings.started:
            self._means.runs_started()
        return Ended(None, finished, reserved, wake_at, state)

    async def _fail(self, failed: Failed) -> HandlerRun:
        verdict = self._judged(failed)
        return await self._write(
            RunFailure(
                run=self._run.id,
                status=verdict.status,
                stage=self._desk.stage,
                mutation=verdict.mutation,
                error=_failure(failed.error),
                retry_us=None if verdict.retry_at is None else micros(verdict.retry_at),
                release=verdict.release,
            )
        )

    def _judged(self, failed: Failed) -> Verdict:
        attempted = Attempted(self._desk.mutation, self._begun.transients + 1)
        return judge(failed.error, failed.where, attempted, self._means.now, self._means.policy)

    async def _write(self, failure: RunFailure) -> HandlerRun:
        owner, pipeline = self._begun.owner, self._run.pipeline
        return await self._desk.ask(lambda: self._means.store.fail_run(owner, pipeline, failure))

    async def _written(self, call: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """What the store answers; where it refuses, that is a failure of the host."""
        try:
            return await self._desk.ask(call)
        except LeaseLost:
            raise
        except Exception as error:
            raise Failed(error, "host") from error

    # --- calls ------------------------------------------------------------------------------

    async def _call(self, call: Callable[[], Coroutine[Any, Any, Any]], ctx: HandlerContext) -> tuple[Any, Doings]:
        """Run one stage of the handler. `Failed`, whatever the handler itself makes of what has failed in it."""
        seconds = None if self._declared.timeout is None else codec.duration_seconds(self._declared.timeout)
        task, timed_out = await within(seconds, call())
        doings, error = ctx.close(), error_of(task)
        refused = self._desk.error
        if isinstance(refused, LeaseLost):
            raise refused
        if timed_out:
            raise Failed(TimeoutError(f"it took longer than its timeout of {seconds:g} s"), "timeout")
        if refused is not None:
            raise Failed(refused, "host")
        if doings.mutation_error is not None:
            raise Failed(doings.mutation_error, "mutation")
        if doings.violation is not None:
            raise Failed(doings.violation, "handler")
        if error is not None:
            raise Failed(error, "handler")
        return task.result(), doings

    def _caused(self, prepared: Prepared) -> Prepared:
        """What is published from now on goes back to what was reserved."""
        self._causes = tuple(f"{topic.name}/{id}" for topic, ids in prepared.reserve.items() for id in ids)
        return prepared

    def _context(self, stage: HandlerStage) -> HandlerContext:
        declared, topics, result = self._declared, (), Any
        if isinstance(declared, DeclaredConsumer):
            topics, result = declared.topics, declared.result_type
        place = Place(
            stage, declared.name, self._run.key, topics, declared.publishes, causes=self._causes, result_type=result
        )
        return HandlerContext(place, self._desk)

    def _state(self, type: Any) -> Any:
        if self._begun.state in (None, b"null"):
            return None
        try:
            return codec.decode(self._begun.state or b"", type, f"the state of {self._declared.name!r}")
        except InvalidValue as error:
            raise Failed(error, "handler") from error

    def _encoded(self, value: Any, what: str) -> bytes:
        try:
            return bytes(codec.encode(value, what))
        except InvalidValue as error:
            raise Failed(error, "handler") from error


def read_prepared(encoded: bytes | None, declared: DeclaredConsumer) -> Prepared:
    """As the later stages are given it, whether they run at once or in another process."""
    record = msgspec.json.decode(encoded or b"", type=PreparedRecord)
    topics = {topic.name: topic for topic in declared.topics}
    reserve = {topics[name]: ids for name, ids in record.reserve.items() if name in topics}
    return Prepared(reserve, codec.decode(record.data, type_of(record.shape), "data"))


def has_reserved(encoded: bytes | None) -> bool:
    """Whether what was prepared reserves anything."""
    return bool(msgspec.json.decode(encoded or b"", type=PreparedRecord).reserve)


class Interrupted(Exception):
    """The worker ended while a mutation was in flight."""

    def __init__(self) -> None:
        super().__init__("its worker ended while it was in flight")


def _record_of(given: Any, declared: DeclaredConsumer) -> PreparedRecord:
    if not isinstance(given, Prepared):
        raise UsageError(f"{declared.name}: prepare returns Prepared(…), not {type(given).__name__} {given!r:.80}")
    reserve: dict[str, list[str]] = {}
    known = {topic.name: topic for topic in declared.topics}
    for topic, ids in given.reserve.items():
        name = str(getattr(topic, "name", topic))
        if name not in known:
            raise UsageError(f"{declared.name}: prepare reserved from {name!r}, which it does not subscribe to")
        if isinstance(ids, str):
            raise UsageError(f"{declared.name}: reserve names a list of ids for each topic, not the text {ids!r}")
        reserve[name] = [_id_of(id, declared) for id in ids]
    data = codec.encode(given.data, "data of Prepared")
    return PreparedRecord({name: ids for name, ids in reserve.items() if ids}, data, shape_of(given.data))


def _id_of(given: Any, declared: DeclaredConsumer) -> str:
    id = getattr(given, "id", given)  # an event will do
    if not isinstance(id, str):
        raise UsageError(f"{declared.name}: reserve names ids of events, not {given!r:.80}")
    return id


def _failure(error: BaseException) -> Failure:
    return storable(failure_of(error))
