"""Messages of a memory store: what runs are told by the outside, updates and settled promises included."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from perdure.errors import NotFound
from perdure.stores.answers import settled_already, settled_job
from perdure.stores.memory.part import Part
from perdure.stores.memory.state import State, Update, chain_of, claim_free, new_message, refuse_closed
from perdure.stores.records import Accepted, Message, Requested, Run, Settlement


class MemoryMessages(Part):
    """perdure.stores.port.MessageStore."""

    async def accept_message(
        self,
        workflow_id: str,
        run_id: str | None,
        job: bytes,
        *,
        message_id: str | None = None,
        claim: int | None = None,
        claims: Sequence[str] = (),
    ) -> Accepted:
        with self._writing() as (state, now):
            run = state.find(workflow_id, run_id)
            number = state.known(run, message_id)
            if number is not None:
                return Accepted(run, number)
            refuse_closed(run)
            return _accept(state, run, new_message(job, now, message_id), claim, claims)

    async def list_messages(self, number: int, after: int) -> list[Message]:
        with self._reading() as state:
            messages = state.rows.messages.get(number, {})
            return [message for message in messages.values() if message.number > after]

    async def correct_message(self, number: int, message: Message) -> bool:
        with self._writing() as (state, now):
            run, waiting = state.rows.runs.get(number), state.rows.messages.get(number, {})
            if run is None or run.blocked is None or run.owner is not None or message.number not in waiting:
                return False
            waiting[message.number] = message
            state.put_run(replace(run, wake_us=now if run.wake_us is None else min(now, run.wake_us)))
            return True

    async def request_update(
        self,
        workflow_id: str,
        run_id: str | None,
        job: bytes,
        update_id: str,
        *,
        claim: int | None = None,
        claims: Sequence[str] = (),
    ) -> Requested:
        with self._writing() as (state, now):
            run = state.find(workflow_id, run_id)
            updates = state.rows.updates.setdefault(chain_of(run.facts), {})
            if update_id in updates:
                return Requested(run, None, updates[update_id].answer)
            refuse_closed(run)
            updates[update_id] = Update()
            accepted = _accept(state, run, new_message(job, now), claim, claims)
            return Requested(accepted.run, accepted)

    async def get_answer(self, workflow_id: str, run_id: str | None, update_id: str) -> bytes | None:
        with self._reading() as state:
            run = state.find(workflow_id, run_id)
            update = state.rows.updates.get(chain_of(run.facts), {}).get(update_id)
            if update is None:
                raise NotFound(f"the run {workflow_id!r} was never asked for an update with the id {update_id!r}")
            return update.answer

    async def settle_promise(
        self,
        workflow_id: str | None,
        run_id: str | None,
        name: str,
        settlement: Settlement,
        *,
        claim: int | None = None,
        claims: Sequence[str] = (),
    ) -> Accepted | None:
        with self._writing() as (state, now):
            run, name = _holder(state, workflow_id, run_id, name)
            promise = state.rows.promises[run.number, name]
            if promise.settlement == settlement:
                return None
            if promise.settlement is not None:
                raise settled_already(name, run.facts.workflow_id, promise.settlement)
            refuse_closed(run)
            promise.settlement = settlement
            return _accept(state, run, new_message(settled_job(name, settlement), now), claim, claims, answers=True)


def _accept(
    state: State, run: Run, message: Message, claim: int | None, claims: Sequence[str], *, answers: bool = False
) -> Accepted:
    run = state.accept(run, message, answers=answers)
    claimed_run, claimed = claim_free(state, run, claim if run.facts.workflow in claims else None)
    return Accepted(claimed_run, run.accepted, claimed)


def _holder(state: State, workflow_id: str | None, run_id: str | None, name: str) -> tuple[Run, str]:
    """The run that has a promise, and the name that it has there. `NotFound`."""
    if workflow_id is None:
        found = state.keys.get(name)
        if found is None:
            raise NotFound(f"no promise has the key {name!r}")
        return state.rows.runs[found[0]], found[1]
    run = state.find(workflow_id, run_id)
    if (run.number, name) not in state.rows.promises:
        raise NotFound(f"the run {workflow_id!r} has no promise {name!r}")
    return run, name
