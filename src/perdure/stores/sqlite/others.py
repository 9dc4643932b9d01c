"""Others: what a transition of one run does to other runs: children, jobs that were sent, parents, generations.

In:  turns commits what a turn orders; runs ends runs from outside.
Runs are loaded once in a transition, changed together, and saved at its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Sequence

from perdure.stores import answers
from perdure.stores.records import Closing, Message, NewChild, NewPromise, NewRun, Run, Sent, Successor, Told
from perdure.stores.sqlite import messages, sql, states, tasks
from perdure.stores.sqlite.access import Access
from perdure.stores.sqlite.messages import Claim
from perdure.stores.sqlite.rows import State, damaged, facts_row, read_update
from perdure.stores.sqlite.states import Standing

NOBODY = Claim(None, ())
INSERT_DEADLINE = "insert into deadlines values (?,?)"
DELETE_DEADLINE = "delete from deadlines where deadline_us = ? and run = ?"


class Others:
    """The runs of one transition: whom it has told something, and how many have ended by it."""

    def __init__(self, access: Access, own: Standing | None = None, claim: Claim = NOBODY) -> None:
        self.told: list[Told] = []
        self.ended = 0
        self._access = access
        self._claim = claim
        self._loaded: dict[int, Standing] = {} if own is None else {own.number: own}

    def save(self) -> None:
        """Write what has become of all of them."""
        for there in self._loaded.values():
            states.save(self._access, there.state)

    # --- what a turn orders -----------------------------------------------------------------

    def start_child(self, parent: Standing, child: NewChild) -> None:
        """Start a run; where its ids are taken, that is the answer (E2)."""
        facts = child.facts
        taken = states.seek(self._access, facts.workflow_id) is not None
        if taken or self._access.row(sql.RUN_ID_TAKEN, facts.run_id) is not None:
            self.answer(parent, answers.child_taken(child.seq, facts))
        else:
            self._note(self._add(facts))

    def send(self, sender: Standing, sent: Sent) -> None:
        """A job for the newest run of a workflow id; the sender learns whether that was there."""
        target = states.seek(self._access, sent.workflow_id)
        if target is None:
            refusal = answers.nobody_there
        else:
            target = self._loaded.setdefault(target.number, target)
            refusal = None if target.state.running else answers.already_closed
            if refusal is None:
                message = self._tell(target, sent.job)
                if target is not sender:
                    self._note(target, message)
        if sent.seq is not None:
            job = answers.done_job(sent.seq) if refusal is None else refusal(sent.seq, sent.workflow_id)
            self.answer(sender, job)

    def promise(self, run: Standing, new: NewPromise) -> None:
        """A promise that the outside settles; where its key is taken, that is the answer (E2)."""
        holder = None if new.key is None else messages.holder_of_key(self._access, new.key)
        if new.key is not None and holder is not None and holder != run.number:
            there = self._stand(holder)
            if there is not None and there.state.running:
                self.answer(run, answers.key_taken(new.seq, new.key))
                return
        messages.add_promise(self._access, run, new.name, new.key)

    def answer(self, run: Standing, job: bytes) -> None:
        """The answer to something that this run has asked for."""
        self._tell(run, job, answers_it=True)

    # --- ends -------------------------------------------------------------------------------

    def end(
        self, run: Standing, closing: Closing, spared: Container[str] = (), cancelling: Container[str] = ()
    ) -> None:
        """End a run and, level by level, those that shall end with it; a child that is cancelling does so by itself."""
        self._loaded.setdefault(run.number, run)
        ending = deque([(run, closing)])
        while ending:
            run, closing = ending.popleft()
            if run.state.running:
                self._end(run.state, closing, spared)
                if run.facts.deadline_us is not None:
                    self._access.write(DELETE_DEADLINE, run.facts.deadline_us, run.number)
                spared = ()
                if closing.status != "continued":
                    self._tell_parent(run, closing)
                    self._close_updates(run)
                    children = self._children_to_end(run, closing, cancelling)
                    ending.extend((child, answers.parent_ended(run.facts)) for child in children)
                self.ended += 1
        self.ended -= 1

    def continue_as(self, run: Standing, closing: Closing, successor: Successor, spared: Container[str]) -> None:
        """End a generation and start the next, with the messages that are for any generation (M8)."""
        left = [message for message, is_answer in messages.waiting(self._access, run, 0) if not is_answer]
        self.end(run, closing, spared)
        new = self._add(successor.facts)
        run.state.followed_by = new.number
        for job, message_id in successor.carried:
            messages.put(self._access, new, states.new_message(self._access, job, message_id))
        for message in left:
            messages.put(self._access, new, message)
        new.state.wake_us = self._access.now_us
        self._note(new)

    def _end(self, state: State, closing: Closing, spared: Container[str]) -> None:
        tasks.drop_all(self._access, state, spared)
        if state.pending:
            self._access.write(sql.DELETE_MESSAGES, state.number, state.accepted)
        state.status = closing.status
        state.result = closing.result
        state.closed_us = self._access.now_us
        state.owner = state.wake_us = state.blocked = state.waiting = None

    def _tell_parent(self, run: Standing, closing: Closing) -> None:
        link = run.facts.parent
        number = None if link is None else self._access.number(sql.RUN_NUMBER, link.run_id)
        parent = None if number is None else self._stand(number)
        if link is not None and parent is not None and parent.state.running:
            job = answers.ended_job(link.seq, run.facts.workflow_id, closing)
            self._note(parent, self._tell(parent, job, answers_it=True))

    def _close_updates(self, run: Standing) -> None:
        for row in self._access.rows(sql.OPEN_UPDATES, run.chain):
            update = read_update(row)
            answer = answers.unanswered(update.id, run.facts.workflow_id)
            messages.answer_update(self._access, run, update.id, answer)

    def _children_to_end(self, run: Standing, closing: Closing, cancelling: Container[str]) -> list[Standing]:
        """The children of all its generations that end with it; those that shall only cancel are told so."""
        found: list[Standing] = []
        generations = [run.chain]
        if run.facts.chain:
            generations += [str(run_id) for (run_id,) in self._access.rows(sql.CHAIN, run.chain)]
        for number in child_numbers(self._access, generations):
            child = self._stand(number)
            policy = "abandon" if child is None or child.facts.parent is None else child.facts.parent.close
            if child is None or not child.state.running or policy == "abandon":
                continue
            if child.facts.workflow_id in cancelling:
                continue
            if answers.ends_at_once(policy, closing):
                found.append(child)
            else:
                self._note(child, self._tell(child, answers.parent_cancels(run.facts)))
        return found

    # --- single runs ------------------------------------------------------------------------

    def _stand(self, number: int) -> Standing | None:
        if number not in self._loaded:
            there = states.stand(self._access, number)
            if there is None:
                return None
            self._loaded[number] = there
        return self._loaded[number]

    def _add(self, facts: NewRun) -> Standing:
        there = new_run(self._access, facts, self._access.now_us)
        add_run(self._access, there)
        self._loaded[there.number] = there
        return there

    def _tell(self, run: Standing, job: bytes, *, answers_it: bool = False) -> Message:
        return messages.put(self._access, run, states.new_message(self._access, job), answers=answers_it)

    def _note(self, run: Standing, message: Message | None = None) -> None:
        claimed = self._claim.take(self._access, run)
        self.told.append(Told(run.as_run(), message, claimed))


def new_run(access: Access, facts: NewRun, wake_us: int) -> Standing:
    """A new run, due from then on, which is not written yet. Its ids are free."""
    number = (access.number(sql.LAST_RUN) or 0) + 1
    state = State(number, facts.queue, facts.workflow, facts.priority, wake_us=wake_us, attributes=facts.attributes)
    state.created_us = access.now_us
    return Standing(number, facts, access.now_us, state)


def add_run(access: Access, there: Standing) -> None:
    """Write it."""
    access.write_row(sql.INSERT_RUN, facts_row(there.number, there.facts, there.created_us))
    states.add(access, there.facts, there.state)
    if there.facts.deadline_us is not None:
        access.write(INSERT_DEADLINE, there.facts.deadline_us, there.number)


def child_numbers(access: Access, run_ids: Sequence[str]) -> list[int]:
    """The newest generations of the runs that these runs have started, in order."""
    found: list[int] = []
    for parent in run_ids:
        for number, run_id in access.rows(sql.CHILDREN, parent):
            newest = access.number(sql.NEWEST_OF_CHAIN, run_id)
            if newest is None and not isinstance(number, int):
                raise damaged("runs", number, "its number is none")
            found.append(newest if newest is not None else int(number or 0))
    return found


def list_children(access: Access, number: int) -> list[Run]:
    there = states.stand(access, number)
    if there is None:
        return []
    children: Sequence[Run | None] = [states.get(access, each) for each in child_numbers(access, [there.facts.run_id])]
    return [child for child in children if child is not None]
