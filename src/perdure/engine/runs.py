"""Runs: what handles do to runs: tell them, ask them, end them, wait for them.

In:  engine.handles, engine.client.
Out: the store; a worker of this process, if there is one, gets at once what was written for it.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from perdure.clock import Clock
from perdure.define.performing import refuse_in_transaction
from perdure.define.registry import Registry
from perdure.define.workflow import Workflow
from perdure.engine.news import News, until
from perdure.engine.outside import Outside
from perdure.engine.patience import whole
from perdure.engine.queries import answer_query
from perdure.engine.settings import check_size
from perdure.engine.worker import Worker
from perdure.errors import Failure, InternalError, NotFound, QueryFailed
from perdure.kernel.operations import Operation
from perdure.model.turns import Answered
from perdure.stores.port import Store
from perdure.stores.records import Accepted, Closing, Message, NewRun, Run, Settlement, Start

T = TypeVar("T")
read_answer = msgspec.json.Decoder(Answered).decode
ANSWER_SECONDS = 10.0  # that another process has to answer a query
LOOK_SECONDS = 0.05
CREATION_SECONDS = 1.0  # a promise may be created by a turn that is under way


class Runs:
    """The runs of one store."""

    def __init__(
        self, store: Store, registry: Registry, clock: Clock, rng: random.Random, payload_bytes_max: int
    ) -> None:
        self.store = store
        self.news = News(store)
        self.payload_bytes_max = payload_bytes_max
        self.outside = Outside(
            store,
            clock,
            rng,
            told=self._look_around,
            written=self._written,
            returns=self._returns,
            payload_bytes_max=payload_bytes_max,
        )
        self.worker: Worker | None = None
        self._registry = registry
        self._clock = clock
        self._rng = rng

    async def start(self, start: Start) -> Run:
        """Start a run, or find the one that is there."""
        refuse_in_transaction("starting a run")
        return await (whole(self._start(start)) if start.id_policy == "terminate" else self._start(start))

    async def tell(self, workflow_id: str, run_id: str | None, job: bytes, message_id: str | None = None) -> None:
        """Have a message accepted, and its run go on."""
        refuse_in_transaction("telling a run")
        claim, claims = self._claims()
        accepted = await self._written(
            self.store.accept_message(workflow_id, run_id, job, message_id=message_id, claim=claim, claims=claims)
        )
        self._deliver(accepted, job, message_id)

    async def end(self, workflow_id: str, run_id: str | None, closing: Closing) -> None:
        """End a run from outside."""
        refuse_in_transaction("ending a run")
        await whole(self._end(workflow_id, run_id, closing))

    def has_here(self, run: Run) -> bool:
        """Whether the worker of this process has it, so that it hears of all that becomes of it."""
        live = None if self.worker is None else self.worker.cache.lives.get(run.number)
        return live is not None and live.owned

    async def ask(self, workflow_id: str, run_id: str | None, name: str, arguments: bytes) -> Answered:
        """Have a query answered: here, if this process has the code, else by a process that has it."""
        run = await self.store.get_run(workflow_id, run_id)
        if self.worker is not None and run.facts.workflow in self._registry.workflows:
            return await answer_query(self.worker, run, name, arguments)
        return await self._ask_others(run, name, arguments)

    async def update(self, workflow_id: str, run_id: str | None, update_id: str, job: bytes) -> Answered:
        """Have an update accepted, and wait for what it comes to; an id that was used gets the first answer (M2)."""
        refuse_in_transaction("updating a run")
        claim, claims = self._claims()
        requested = await self._written(
            self.store.request_update(workflow_id, run_id, job, update_id, claim=claim, claims=claims)
        )
        if requested.answer is not None:
            return read_answer(requested.answer)
        facts = requested.run.facts
        accepted, chain = requested.accepted, facts.chain or facts.run_id
        ours = accepted is not None and accepted.run.owner is not None and accepted.run.owner == claim
        with self.news.answers.expected(chain, workflow_id, update_id, told_here=ours) as answered:
            if accepted is not None:
                self._deliver(accepted, job, None)
            return await answered

    async def settle(self, workflow_id: str | None, run_id: str | None, name: str, settlement: Settlement) -> None:
        """Resolve or reject a promise, by its name or by its key (M4)."""
        refuse_in_transaction("settling a promise")

        async def once() -> Accepted | None:
            claim, claims = self._claims()
            return await self._written(
                self.store.settle_promise(workflow_id, run_id, name, settlement, claim=claim, claims=claims)
            )

        accepted = await self._once_created(once)
        if accepted is not None and self.worker is not None:
            self.worker.inbox.deliver(accepted.run, accepted.claimed, None)

    async def next_generation(self, run: Run, closing: Closing) -> Run:
        """The run that went on where this one ended (M8)."""
        if closing.result is None:
            raise InternalError(f"run {run.facts.run_id} went on as another generation, which it does not name")
        return await self.store.get_run(run.facts.workflow_id, msgspec.json.decode(closing.result, type=str))

    def returns_of(self, facts: NewRun, started: Workflow[..., Any] | None) -> Any:
        """The type of a run's result, as far as it is known here: to the registry, or by what was started."""
        definition = self._registry.version_of(facts.workflow, facts.version) or started
        return Any if definition is None else definition.signature.returns()

    def sized(self, encoded: bytes | msgspec.Raw, what: str) -> bytes:
        """A payload that is to be stored. `InvalidValue` where it is over the limit."""
        payload = bytes(encoded)
        check_size(len(payload), self.payload_bytes_max, what)
        return payload

    def check_sent(self, encoded: bytes | msgspec.Raw, what: str) -> None:
        """`InvalidValue` where the arguments of a signal, an update or a query are over the limit."""
        check_size(len(bytes(encoded)), self.payload_bytes_max, f"what {what} is given")

    def new_id(self) -> str:
        """An id that nothing else has."""
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    # --- leaves -----------------------------------------------------------------------------------

    async def _start(self, start: Start) -> Run:
        lease, known = self._claims()
        if self.worker is not None and start.facts.workflow in known:
            start = replace(start, claim=lease if start.facts.queue in self.worker.site.settings.queues else None)
        begun = await self._written(self.store.start_run(start), start.facts.workflow_id)
        if self.worker is not None:
            message = None if start.message is None else self._message(begun.message, start.message, start.message_id)
            self.worker.inbox.deliver(begun.run, begun.claimed, message)
            self.worker.pump.expect(start.wake_us)
        if start.id_policy == "terminate":
            self.news.others_closed()
            self._look_around()
        return begun.run

    async def _end(self, workflow_id: str, run_id: str | None, closing: Closing) -> None:
        run = await self.store.close_run(workflow_id, run_id, closing)
        if self.worker is not None:
            self.worker.inbox.closed(run.number, closing)
            self.worker.pump.look_around()
        else:
            self.news.run_closed(run.number, closing)
        self.news.others_closed()

    async def _written(self, call: Awaitable[T], started: str | None = None) -> T:
        """What a call gives that is for the worker here, too. Who is cancelled meanwhile has made it all the same."""
        try:
            return await call
        except asyncio.CancelledError:
            if self.worker is not None:
                self.worker.inbox.told_perhaps(started)
            raise

    def _claims(self) -> tuple[int | None, Sequence[str]]:
        return (None, ()) if self.worker is None else self.worker.claims()

    def _returns(self, activity: str, run: int, seq: int) -> Any:
        """The type of an activity's result: as its workflow reads it, if that is here, or as it declares it itself."""
        live = None if self.worker is None else self.worker.cache.lives.get(run)
        for each in () if live is None else live.executor.open_operations():
            if each.seq == seq and isinstance(each, Operation):
                return each.reads
        definition = self._registry.activities.get(activity)
        return Any if definition is None else definition.signature.returns()

    def _look_around(self) -> None:
        if self.worker is not None:
            self.worker.pump.look_around()

    def _deliver(self, accepted: Accepted, job: bytes, message_id: str | None) -> None:
        if self.worker is not None:
            self.worker.inbox.deliver(accepted.run, accepted.claimed, self._message(accepted.number, job, message_id))

    def _message(self, number: int, job: bytes, message_id: str | None) -> Message:
        return Message(number=number, job=job, message_id=message_id, accepted_us=self._clock.now_us())

    async def _once_created(self, call: Callable[[], Awaitable[T]]) -> T:
        """What is not there yet may be created by a turn that is under way."""
        give_up = self._clock.monotonic() + CREATION_SECONDS
        with self.news.watching() as changed:
            while True:
                changed.clear()
                try:
                    return await call()
                except NotFound:
                    if self._clock.monotonic() >= give_up:
                        raise
                await until(changed, LOOK_SECONDS)

    async def _ask_others(self, run: Run, name: str, arguments: bytes) -> Answered:
        refuse_in_transaction("asking another process")
        question = await self.store.ask(run.facts.workflow_id, run.facts.run_id, name, arguments)
        give_up = self._clock.monotonic() + ANSWER_SECONDS
        try:
            with self.news.watching() as changed:
                while self._clock.monotonic() < give_up:
                    changed.clear()
                    answer = await self.store.take_answer(question.number)
                    if answer is not None:
                        return read_answer(answer)
                    await until(changed, LOOK_SECONDS)
        finally:
            await self.store.forget_question(question.number)
        text = (
            f"nobody answered query `{name}` of run {run.facts.workflow_id} within {ANSWER_SECONDS:g} s: "
            f"start a worker that knows workflow `{run.facts.workflow}`"
        )
        raise QueryFailed(text, Failure("NoWorker", text))
