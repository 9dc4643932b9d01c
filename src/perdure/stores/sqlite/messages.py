"""Messages: what runs are told by the outside, updates and settled promises included; and known ids of messages."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.errors import NotFound
from perdure.stores.answers import settled_already, settled_job
from perdure.stores.records import Accepted, Message, Requested, Settlement
from perdure.stores.sqlite import leases, sql, states
from perdure.stores.sqlite.access import Access, to_json
from perdure.stores.sqlite.rows import (
    KnownId,
    PromiseRow,
    UpdateRow,
    damaged,
    known_id_row,
    message_row,
    promise_row,
    read_known_id,
    read_message,
    read_promise,
    read_update,
    update_row,
)
from perdure.stores.sqlite.states import Standing

Found = tuple[str, str | None]


class Claim:
    """Who would own a run that is told something, if it is free and of one of these workflows."""

    __slots__ = ("owner", "workflows")

    def __init__(self, owner: int | None, workflows: Sequence[str]) -> None:
        self.owner = owner
        self.workflows = workflows

    def take(self, access: Access, there: Standing) -> bool:
        """Own it, if that can be. The state is not saved yet."""
        if self.owner is None or there.state.owner is not None or there.facts.workflow not in self.workflows:
            return False
        if not there.state.running or not leases.alive(access, self.owner):
            return False
        there.state.owner = self.owner
        return True


def accept_message(access: Access, found: Found, job: bytes, message_id: str | None, claim: Claim) -> Accepted:
    there = states.find(access, *found)
    number = known(access, there, message_id)
    if number is not None:
        return Accepted(run=there.as_run(), number=number)
    states.refuse_closed(there)
    return accept(access, there, states.new_message(access, job, message_id), claim)


def known(access: Access, there: Standing, message_id: str | None) -> int | None:
    """The number of a message that was accepted under this id already; 0 if it does not wait any more (M1)."""
    row = None if message_id is None else access.row(sql.MESSAGE_ID, there.chain, message_id)
    if row is None:
        return None
    known, state = read_known_id(row), there.state
    waits = state.running and known.holder == there.number and known.number > state.consumed
    return known.number if waits else 0


def accept(access: Access, there: Standing, message: Message, claim: Claim, *, answers: bool = False) -> Accepted:
    """Accept a message for a running run, which was not accepted before."""
    number = put(access, there, message, answers=answers).number
    claimed = claim.take(access, there)
    states.save(access, there.state)
    return Accepted(run=there.as_run(), number=number, claimed=claimed)


def put(access: Access, there: Standing, message: Message, *, answers: bool = False) -> Message:
    """Append a message, and note its id. The state is not saved yet."""
    message = states.append_message(access, there.state, message, answers=answers)
    if message.message_id is None:
        return message
    row = access.row(sql.MESSAGE_ID, there.chain, message.message_id)
    if row is None:
        known = KnownId(there.chain, message.message_id, there.number, there.number, message.number)
        access.write_row(sql.INSERT_MESSAGE_ID, known_id_row(known))
        there.state.kept += 1
    else:
        known = read_known_id(row)
        known.holder, known.number = there.number, message.number
        access.write_row(sql.MOVE_MESSAGE_ID, known_id_row(known))
    return message


def list_messages(access: Access, number: int, after: int) -> list[Message]:
    there = states.stand(access, number)
    if there is None or not there.state.running:
        return []
    return [message for message, _ in waiting(access, there, after)]


def correct_message(access: Access, number: int, message: Message) -> bool:
    there = states.stand(access, number)
    if there is None or there.state.blocked is None or there.state.owner is not None:
        return False
    for old, is_answer in waiting(access, there, message.number - 1):
        if old.number == message.number:
            access.write_row(sql.CORRECT_MESSAGE, message_row(number, message, is_answer))
            states.be_due(there.state, access.now_us)
            states.save(access, there.state)
            return True
    return False


def waiting(access: Access, there: Standing, after: int) -> list[tuple[Message, bool]]:
    """The messages behind this one that no turn has taken, and whether they answer the run. `StoreCorrupt`."""
    first, last, run_id = max(after, there.state.consumed) + 1, there.state.accepted, there.facts.run_id
    rows = access.rows(sql.MESSAGES, there.number, first - 1, last)
    found = [(read_message(row, run_id), bool(row[-2])) for row in rows]
    numbers = [message.number for message, _ in found]
    for expected, number in zip(range(first, last + 1), [*numbers, None], strict=False):
        if number != expected:
            raise damaged("messages", f"{there.number}/{expected}", "it is missing", run_id)
    return found


# --- updates -------------------------------------------------------------------------------------


def request_update(access: Access, found: Found, job: bytes, update_id: str, claim: Claim) -> Requested:
    there = states.find(access, *found)
    row = access.row(sql.UPDATE, there.chain, update_id)
    if row is not None:
        return Requested(there.as_run(), None, read_update(row).answer)
    states.refuse_closed(there)
    access.write_row(sql.INSERT_UPDATE, update_row(UpdateRow(there.chain, update_id, there.number)))
    there.state.kept += 1
    accepted = accept(access, there, states.new_message(access, job), claim)
    return Requested(accepted.run, accepted)


def get_answer(access: Access, found: Found, update_id: str) -> bytes | None:
    there = states.find(access, *found)
    row = access.row(sql.UPDATE, there.chain, update_id)
    if row is None:
        raise NotFound(f"the run {found[0]!r} was never asked for an update with the id {update_id!r}")
    return read_update(row).answer


def answer_update(access: Access, there: Standing, update_id: str, answer: bytes) -> None:
    """What an update came to: the first answer counts. The state is not saved yet."""
    row = access.row(sql.UPDATE, there.chain, update_id)
    if row is None:
        access.write_row(sql.INSERT_UPDATE, update_row(UpdateRow(there.chain, update_id, there.number, answer)))
        there.state.kept += 1
        return
    known = read_update(row)
    if known.answer is None:
        known.answer = answer
        access.write_row(sql.ANSWER_UPDATE, update_row(known))


# --- promises ------------------------------------------------------------------------------------


def settle_promise(
    access: Access, found: tuple[str | None, str | None], name: str, settlement: Settlement, claim: Claim
) -> Accepted | None:
    there, promise = _holder(access, found, name)
    settled = promise.settled()
    if settled == settlement:
        return None
    if settled is not None:
        raise settled_already(promise.name, there.facts.workflow_id, settled)
    states.refuse_closed(there)
    promise.settlement = to_json(settlement)
    access.write_row(sql.SET_PROMISE, promise_row(promise))
    message = states.new_message(access, settled_job(promise.name, settlement))
    return accept(access, there, message, claim, answers=True)


def _holder(access: Access, found: tuple[str | None, str | None], name: str) -> tuple[Standing, PromiseRow]:
    """The run that has a promise, and the promise, by its name or its key. `NotFound`."""
    workflow_id, run_id = found
    if workflow_id is None:
        row = access.row(sql.PROMISE_BY_KEY, name)
        if row is None:
            raise NotFound(f"no promise has the key {name!r}")
        promise = read_promise(row)
        there = states.stand(access, promise.run)
        if there is None:
            raise damaged("runs", promise.run, f"it is missing, but has the promise {promise.name!r}")
        return there, promise
    there = states.find(access, workflow_id, run_id)
    row = access.row(sql.PROMISE, there.number, name)
    if row is None:
        raise NotFound(f"the run {workflow_id!r} has no promise {name!r}")
    return there, read_promise(row)


def add_promise(access: Access, there: Standing, name: str, key: str | None) -> None:
    """A promise that nobody has settled; its key, if another one had it, is this one's now. State not saved yet."""
    if key is not None:
        row = access.row(sql.PROMISE_BY_KEY, key)
        if row is not None:
            older = read_promise(row)
            older.key = None
            access.write_row(sql.SET_PROMISE, promise_row(older))
    fresh = promise_row(PromiseRow(there.number, name, key))
    if access.row(sql.PROMISE, there.number, name) is None:
        access.write_row(sql.INSERT_PROMISE, fresh)
        there.state.kept += 1
    else:
        access.write_row(sql.SET_PROMISE, fresh)


def lapse_promise(access: Access, there: Standing, name: str) -> None:
    """A promise that its run does not wait for any more, unless somebody has settled it."""
    row = access.row(sql.PROMISE, there.number, name)
    promise = None if row is None else read_promise(row)
    if promise is not None and promise.settlement is None:
        promise.settlement = to_json(Settlement(lapsed=True))
        access.write_row(sql.SET_PROMISE, promise_row(promise))


def holder_of_key(access: Access, key: str) -> int | None:
    """The number of the run whose promise has this key."""
    row = access.row(sql.PROMISE_BY_KEY, key)
    return None if row is None else read_promise(row).run
