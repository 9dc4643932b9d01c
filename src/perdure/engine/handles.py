"""Handles: one run, from the outside: its result, what it is told and asked, how it stands.

Made by engine.client. What a handle does is durable when its call returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, overload

import msgspec

from perdure import codec
from perdure.define.handlers import Method, Query, Signal, Update
from perdure.define.retry import Duration
from perdure.engine.descriptions import Description, HistoryTurn, description_of, failure_of_closing, history_turn
from perdure.engine.published import published, state_of
from perdure.errors import (
    Failure,
    InvalidValue,
    NotFound,
    QueryFailed,
    Rejected,
    RunCancelled,
    RunClosed,
    RunEnded,
    RunFailed,
    RunTerminated,
    RunTimedOut,
    UpdateFailed,
)
from perdure.model import jobs
from perdure.model.ids import check_id
from perdure.model.turns import Answered
from perdure.stores.records import Closing, Run, Settlement

if TYPE_CHECKING:
    from perdure.define.workflow import Workflow
    from perdure.engine.runs import Runs

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
E = TypeVar("E")
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
write = msgspec.json.Encoder().encode
ENDINGS: dict[str, type[RunEnded]] = {
    "failed": RunFailed,
    "cancelled": RunCancelled,
    "terminated": RunTerminated,
    "timed_out": RunTimedOut,
}
REFUSALS = {"NotFound": NotFound, "InvalidValue": InvalidValue}  # what a query was wrong in, by the failure's type


class Handle(Generic[R_co]):
    """A run. With a run id of the caller's it stands for that generation, else for the newest of its workflow id.

    What `start` gave back reads what it has started (`result`, `describe`, `state`, `history`), also when the same
    workflow id stands for another run meanwhile; what it sends goes to the newest.
    """

    def __init__(
        self,
        runs: Runs,
        workflow_id: str,
        run_id: str | None,
        *,
        fixed: bool,
        definition: Workflow[..., Any] | None = None,
        begun: Run | None = None,
    ) -> None:
        self._runs = runs
        self._definition = definition  # what was started, which this process need not have been given
        self._id = workflow_id
        self._run_id = run_id
        self._fixed = run_id if fixed else None
        self._begun = begun  # as it stood when it was started, which need not be read again

    def __repr__(self) -> str:
        return f"<run {self._id}>"

    def __await__(self) -> Generator[Any, None, Handle[R_co]]:
        """A handle is there at once; awaiting it gives it back."""
        yield from ()
        return self

    @property
    def id(self) -> str:
        """The workflow id."""
        return self._id

    @property
    def run_id(self) -> str | None:
        """The generation that was started, or asked for; None where a handle was made by its workflow id alone."""
        return self._run_id

    async def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the end, through all generations, and give its value.

        `RunFailed`, `RunCancelled`, `RunTerminated`, `RunTimedOut` where it ended otherwise; `TimeoutError`.
        """
        if timeout is None:
            return await self._result()
        seconds = codec.duration_seconds(timeout, "timeout")
        try:
            async with asyncio.timeout(seconds):
                return await self._result()
        except TimeoutError:
            raise TimeoutError(f"run {self._id} has not ended within {seconds:g} s; it goes on") from None

    @overload
    async def signal(self, method: Signal[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> None: ...
    @overload
    async def signal(self, method: Signal[[], Any], /, *, message_id: str | None) -> None: ...
    @overload
    async def signal(self, method: Signal[Concatenate[A, ...], Any], a: A, /, *, message_id: str | None) -> None: ...
    @overload
    async def signal(
        self, method: Signal[Concatenate[A, B, ...], Any], a: A, b: B, /, *, message_id: str | None
    ) -> None: ...
    @overload
    async def signal(
        self, method: Signal[Concatenate[A, B, C, ...], Any], a: A, b: B, c: C, /, *, message_id: str | None
    ) -> None: ...
    @overload
    async def signal(
        self, method: Signal[Concatenate[A, B, C, E, ...], Any], a: A, b: B, c: C, e: E, /, *, message_id: str | None
    ) -> None: ...
    @overload
    async def signal(self, method: str, /, *args: Any, message_id: str | None = None) -> None: ...
    async def signal(self, method: Any, /, *args: Any, message_id: str | None = None, **kwargs: Any) -> None:
        """Send it a signal (M1); the same `message_id` again changes nothing. `NotFound`, `RunClosed`."""
        job = signal_job(method, args, kwargs, message_id)
        self._runs.check_sent(job.encoded, f"signal `{job.name}`")
        await self._runs.tell(self._id, self._fixed, write(job), message_id)

    @overload
    async def query(self, method: Query[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def query(self, method: str, /, *args: Any) -> Any: ...
    async def query(self, method: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Ask it, also after its end (M3). `NotFound`, `InvalidValue`; `QueryFailed` where the handler raised."""
        name, encoded = message_of(method, args, kwargs, Query)
        self._runs.check_sent(encoded, f"query `{name}`")
        answered = await self._runs.ask(self._id, self._fixed, name, bytes(encoded))
        if answered.error is not None:
            raise _query_error(self._id, name, answered.error)
        returns = method.signature.returns() if isinstance(method, Query) else Any
        return codec.decode(msgspec.Raw(write(answered.value)), returns, f"the answer of query `{name}`")

    @overload
    async def update(self, method: Update[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def update(self, method: Update[[], R], /, *, id: str | None) -> R: ...
    @overload
    async def update(self, method: Update[Concatenate[A, ...], R], a: A, /, *, id: str | None) -> R: ...
    @overload
    async def update(self, method: Update[Concatenate[A, B, ...], R], a: A, b: B, /, *, id: str | None) -> R: ...
    @overload
    async def update(
        self, method: Update[Concatenate[A, B, C, ...], R], a: A, b: B, c: C, /, *, id: str | None
    ) -> R: ...
    @overload
    async def update(
        self, method: Update[Concatenate[A, B, C, E, ...], R], a: A, b: B, c: C, e: E, /, *, id: str | None
    ) -> R: ...
    @overload
    async def update(self, method: str, /, *args: Any, id: str | None = None) -> Any: ...
    async def update(self, method: Any, /, *args: Any, id: str | None = None, **kwargs: Any) -> Any:
        """Send it an update, and wait for its answer; the same `id` again gets the first answer (M2).

        `Rejected` by its validator, or because nothing handles it; `UpdateFailed`; `NotFound`, `RunClosed`.
        """
        update_id = self._runs.new_id() if id is None else check_id(id, "the id of an update")
        name, encoded = message_of(method, args, kwargs, Update)
        self._runs.check_sent(encoded, f"update `{name}`")
        job = write(jobs.UpdateRequested(name, update_id, encoded))
        answered = await self._runs.update(self._id, self._fixed, update_id, job)
        if answered.error is not None:
            raise _update_error(self._id, name, answered)
        returns = method.signature.returns() if isinstance(method, Update) else Any
        return codec.decode(msgspec.Raw(write(answered.value)), returns, f"the answer of update `{name}`")

    async def resolve(self, promise_name: str, value: object = None) -> None:
        """Resolve a promise of its (M4). `NotFound`, `RunClosed`; `AlreadyExists` if settled otherwise, or lapsed."""
        settlement = Settlement(
            self._runs.sized(codec.encode(value, "the value of a promise"), "the value of a promise")
        )
        name = check_id(promise_name, "the name of a promise")
        await self._runs.settle(self._id, self._fixed, name, settlement)

    async def reject(self, promise_name: str, message: str = "") -> None:
        """Reject a promise of its (M4). `NotFound`, `RunClosed`; `AlreadyExists` if settled otherwise, or lapsed."""
        settlement = Settlement(rejected=check_text(message, "message"))
        name = check_id(promise_name, "the name of a promise")
        await self._runs.settle(self._id, self._fixed, name, settlement)

    async def state(self) -> dict[str, Any]:
        """What it has set as its state (M10), as plain values; none of its code is run. `NotFound`."""
        run = await self._seen()
        return state_of(run, await self._runs.store.list_turns(run.number))

    def watch(self) -> AsyncIterator[Any]:
        """The values that it publishes (M10): the current one first, then each new one, until it ends. `NotFound`."""
        return published(self._runs, self._id, self._fixed)

    async def cancel(self, reason: str = "") -> None:
        """Ask it to cancel (M6). `NotFound`, `RunClosed`."""
        await self._runs.tell(self._id, self._fixed, write(jobs.CancelRequested(check_text(reason, "a reason"))))

    async def terminate(self, reason: str = "") -> None:
        """End it at once, without asking it. `NotFound`, `RunClosed`."""
        failure = Failure("Terminated", check_text(reason, "a reason") or "terminated from outside", retryable=False)
        await self._runs.end(self._id, self._fixed, Closing("terminated", write(failure)))

    async def resolve_activity(
        self, key: str, answer: Literal["happened", "did_not_happen", "fail"], value: object = None
    ) -> None:
        """A person's word on an `ask` activity of which nobody knows whether it happened (E5).

        With `happened` the value is its result, with `fail` the text of its failure; one that did not happen runs
        again. `NotFound`, `RunClosed`; `AlreadyExists` where it has ended otherwise; `UsageError` where nobody asks;
        `InvalidValue` where its workflow could not read the value.
        """
        run = await self._runs.store.get_run(self._id, self._fixed)
        await self._runs.outside.resolve_activity(run, key, answer, value)

    async def describe(self) -> Description:
        """How it stands: what it waits for, attempts, who holds it. `NotFound`."""
        store = self._runs.store
        run = await self._seen()
        turns = await store.list_turns(run.number)
        tasks, leases = await store.list_tasks(run.number), await store.list_leases()
        return description_of(run, turns, tasks, leases, await store.list_children(run.number))

    async def history(self) -> list[HistoryTurn]:
        """Its turns, in order. `NotFound`, `StoreCorrupt`."""
        run = await self._seen()
        return [history_turn(turn) for turn in await self._runs.store.list_turns(run.number)]

    async def _seen(self) -> Run:
        """The newest run of its workflow id; but the one that was started, where that has ended and another began."""
        run = await self._runs.store.get_run(self._id, self._fixed)
        if self._run_id not in (None, run.facts.run_id):
            started = await self._runs.store.get_run(self._id, self._run_id)
            if started.status not in ("running", "continued"):
                return started
        return run

    async def _result(self) -> Any:
        run, self._begun = self._begun, None
        if run is None:
            run = await self._runs.store.get_run(self._id, self._fixed or self._run_id)
        while True:
            closing = await self._runs.news.closings.wait(run, told_here=self._runs.has_here(run))
            if closing.status != "continued" or self._fixed is not None:
                break
            run = await self._runs.next_generation(run, closing)
        if closing.status == "completed":
            returns = self._runs.returns_of(run.facts, self._definition)
            return codec.decode(msgspec.Raw(closing.result or b"null"), returns, f"the result of run {self._id}")
        failure = failure_of_closing(closing) or Failure("Continued", "it went on as another generation")
        ending = ENDINGS.get(closing.status, RunEnded)
        raise ending(f"run {self._id} {closing.status.replace('_', ' ')}: {failure}", failure)


def signal_job(method: Any, args: tuple[Any, ...], kwargs: dict[str, Any], message_id: str | None) -> jobs.Signalled:
    """A signal as its run is told it."""
    if message_id is not None:
        check_id(message_id, "message_id")
    name, encoded = message_of(method, args, kwargs, Signal)
    return jobs.Signalled(name, encoded, message_id)


def message_of(
    method: Any, args: tuple[Any, ...], kwargs: dict[str, Any], kind: type[Method[..., Any]]
) -> tuple[str, msgspec.Raw]:
    """The name and the encoded arguments of a signal, an update or a query. `InvalidValue` if they do not fit."""
    if isinstance(method, kind):
        encoded, keywords = method.signature.bind(args, kwargs)
        if bytes(keywords):
            raise InvalidValue(f"{kind.kind} `{method.name}` has arguments by keyword only: make them positional")
        return method.name, encoded
    if not isinstance(method, str):
        found = method.kind if isinstance(method, Method) else type(method).__name__
        raise InvalidValue(f"the {kind.kind} is named by text or by its method, not by {found}")
    if kwargs:
        raise InvalidValue(f"the {kind.kind} is named by text, and then takes positional arguments only")
    article = "an" if kind is Update else "a"
    return check_id(method, f"the name of {article} {kind.kind}"), codec.encode_arguments(args)


def _query_error(workflow_id: str, name: str, failure: Failure) -> Exception:
    refusal = REFUSALS.get(failure.type)
    if refusal is not None:
        return refusal(failure.message)
    return QueryFailed(f"query `{name}` of run {workflow_id} failed: {failure}", failure)


def _update_error(workflow_id: str, name: str, answered: Answered) -> Exception:
    failure = answered.error or Failure("Unknown")
    if answered.kind == "update_rejected":
        return Rejected(f"update `{name}` of run {workflow_id} was rejected: {failure}")
    if failure.type == "RunClosed":
        return RunClosed(f"update `{name}` of run {workflow_id} was not done: {failure.message}")
    return UpdateFailed(f"update `{name}` of run {workflow_id} failed: {failure}", failure)


def check_text(text: object, what: str) -> str:
    """`InvalidValue` for what is no text, or cannot be stored as such."""
    if not isinstance(text, str):
        raise InvalidValue(f"{what} is text, not {type(text).__name__}")
    codec.encode(text, what)
    return text
