"""Runs: started once, found by id, listed, and ended from outside."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.errors import AlreadyExists, StoreCorrupt
from perdure.stores.answers import replaced, same_start
from perdure.stores.records import Begun, Closing, Run, Start
from perdure.stores.sqlite import messages, sql, states
from perdure.stores.sqlite.access import Access
from perdure.stores.sqlite.messages import Claim
from perdure.stores.sqlite.others import Others, add_run, new_run
from perdure.stores.sqlite.states import Standing


def start_run(access: Access, start: Start) -> Begun:
    facts = start.facts
    there = states.seek(access, facts.workflow_id)
    if there is not None and _is_meant(access, there, start):
        return _join(access, there, start)
    if access.row(sql.RUN_ID_TAKEN, facts.run_id) is not None:
        raise AlreadyExists(f"the run id {facts.run_id!r} is taken; every run needs one of its own")
    if there is not None and there.state.running:
        others = Others(access, there)
        others.end(there, Closing("terminated", replaced(facts.run_id)))
        others.save()
    begun = _begin(access, start)
    if there is not None:
        there.state.followed_by = begun.run.number
        states.save(access, there.state)
    return begun


def _is_meant(access: Access, there: Standing, start: Start) -> bool:
    """Whether a start comes to the run that is there (E2). `AlreadyExists` if it may not."""
    facts, old, state = start.facts, there.facts, there.state
    if start.id_policy == "terminate" or (start.id_policy == "again" and not state.running):
        return False
    if start.id_policy == "reject":
        raise AlreadyExists(f"the workflow id {facts.workflow_id!r} is taken by run {old.run_id} ({state.status})")
    first = states.find(access, old.workflow_id, old.chain).facts if old.chain else old  # generations have other inputs
    if not same_start(first, facts):
        what = "other input" if old.workflow == facts.workflow else f"the workflow {old.workflow!r}"
        raise AlreadyExists(
            f"the workflow id {facts.workflow_id!r} is taken by run {old.run_id} with {what}; "
            "choose another id, or end that run with id_policy='terminate'"
        )
    if start.message is not None and messages.known(access, there, start.message_id) is None:
        states.refuse_closed(there)
    return True


def _join(access: Access, there: Standing, start: Start) -> Begun:
    if start.message is None:
        return Begun(run=there.as_run(), new=False)
    number = messages.known(access, there, start.message_id)
    if number is not None:
        return Begun(run=there.as_run(), new=False, message=number)
    message = states.new_message(access, start.message, start.message_id)
    accepted = messages.accept(access, there, message, _claim(start))
    return Begun(run=accepted.run, new=False, message=accepted.number, claimed=accepted.claimed)


def _begin(access: Access, start: Start) -> Begun:
    wake_us = access.now_us if start.wake_us is None else start.wake_us
    there = new_run(access, start.facts, wake_us)
    if start.message is not None:
        messages.put(access, there, states.new_message(access, start.message, start.message_id))
        there.state.wake_us = wake_us
    claimed = wake_us <= access.now_us and _claim(start).take(access, there)
    add_run(access, there)
    return Begun(run=there.as_run(), new=True, message=there.state.accepted, claimed=claimed)


def _claim(start: Start) -> Claim:
    return Claim(start.claim, (start.facts.workflow,))


def get_run(access: Access, workflow_id: str, run_id: str | None) -> Run:
    return states.find(access, workflow_id, run_id).as_run()


def get_runs(access: Access, numbers: Sequence[int]) -> list[Run]:
    """`StoreCorrupt` if all that are there are damaged; among others, a damaged one is left out."""
    found: list[Run] = []
    broken: StoreCorrupt | None = None
    for number in numbers:
        try:
            run = states.get(access, number)
        except StoreCorrupt as error:
            broken = error
        else:
            if run is not None:
                found.append(run)
    if broken is not None and not found:
        raise broken
    return found


def close_run(access: Access, workflow_id: str, run_id: str | None, closing: Closing) -> Run:
    there = states.find(access, workflow_id, run_id)
    states.refuse_closed(there)
    before = there.as_run()
    others = Others(access, there)
    others.end(there, closing)
    others.save()
    return before
