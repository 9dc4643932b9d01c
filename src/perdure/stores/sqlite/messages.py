"""Messages: accepted for a run, taken by a turn."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.stores.records import Accepted, Message
from perdure.stores.sqlite import leases, sql, states
from perdure.stores.sqlite.access import Access
from perdure.stores.sqlite.rows import State, damaged, read_message


def accept_message(
    access: Access,
    found: tuple[str, str | None],
    job: bytes,
    message_id: str | None,
    claim: int | None,
    claims: Sequence[str],
) -> Accepted:
    there = states.find(access, *found)
    states.refuse_closed(there)
    if there.facts.workflow not in claims:
        claim = None
    number, claimed = accept(access, there.state, job, message_id, claim)
    return Accepted(run=there.as_run(), number=number, claimed=claimed)


def accept(access: Access, state: State, job: bytes, message_id: str | None, claim: int | None) -> tuple[int, bool]:
    """Accept a message for a running run, once by its id; its number, and whether the claim now owns the run."""
    known = None if message_id is None else access.number(sql.MESSAGE_BY_ID, state.number, message_id)
    claimed = claim is not None and state.owner is None and leases.alive(access, claim)
    number = states.append_message(access, state, job, message_id, None) if known is None else known
    if claimed:
        state.owner = claim
    if claimed or known is None:
        states.save(access, state)
    return number, claimed


def list_messages(access: Access, number: int, after: int) -> list[Message]:
    there = states.stand(access, number)
    if there is None or not there.state.running:
        return []
    first, last, run_id = max(after, there.state.consumed) + 1, there.state.accepted, there.facts.run_id
    rows = access.rows(sql.MESSAGES, number, first - 1, last)
    found = [read_message(row, run_id) for row in rows]
    for expected, message in zip(range(first, last + 1), [*found, None], strict=False):
        if message is None or message.number != expected:
            raise damaged("messages", f"{number}/{expected}", "it is missing", run_id)
    return found
