"""Others: what a transition of one run does to other runs: children, jobs that were sent, parents, generations.

In:  memory.turns commits what a turn orders; memory.runs ends runs from outside.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Sequence

from msgspec.structs import replace

from perdure.stores import answers
from perdure.stores.memory.state import Promise, State, Update, chain_of, claim_free, new_message
from perdure.stores.records import (
    Closing,
    NewChild,
    NewPromise,
    Run,
    Sent,
    Settlement,
    Successor,
    Told,
    UpdateAnswer,
)


class Others:
    """The other runs of one transition: whom it has told something, and how many have ended by it."""

    def __init__(self, state: State, now: int, owner: int | None = None, claims: Sequence[str] = ()) -> None:
        self.told: list[Told] = []
        self.ended = 0
        self._state = state
        self._now = now
        self._owner = owner
        self._claims = claims

    def start_child(self, parent: int, child: NewChild) -> None:
        """Start a run; where its ids are taken, that is the answer (E2)."""
        facts = child.facts
        if facts.workflow_id in self._state.newest or facts.run_id in self._state.run_ids:
            self.answer(parent, answers.child_taken(child.seq, facts))
        else:
            self._note(self._state.add_run(facts, self._now, self._now))

    def send(self, sender: int, sent: Sent) -> None:
        """A job for the newest run of a workflow id; the sender learns whether that was there."""
        number = self._state.newest.get(sent.workflow_id)
        target = None if number is None else self._state.rows.runs[number]
        if target is None:
            refusal = answers.nobody_there
        elif target.status != "running":
            refusal = answers.already_closed
        else:
            refusal = None
            self._tell(target, sent.job, sender=sender)
        if sent.seq is not None:
            job = answers.done_job(sent.seq) if refusal is None else refusal(sent.seq, sent.workflow_id)
            self.answer(sender, job)

    def promise(self, run: int, new: NewPromise) -> None:
        """A promise that the outside settles; where its key is taken, that is the answer (E2)."""
        state = self._state
        if new.key is not None:
            holder = state.keys.get(new.key, (run, ""))[0]
            if holder != run and state.rows.runs[holder].status == "running":
                self.answer(run, answers.key_taken(new.seq, new.key))
                return
        older = state.rows.promises.get((run, new.name))
        if older is not None and older.key is not None and state.keys.get(older.key) == (run, new.name):
            del state.keys[older.key]
        if new.key is not None:
            state.keys[new.key] = run, new.name
        state.rows.promises[run, new.name] = Promise(key=new.key)

    def lapse(self, run: int, name: str) -> None:
        """A promise that its run does not wait for any more, unless somebody has settled it."""
        promise = self._state.rows.promises.get((run, name))
        if promise is not None and promise.settlement is None:
            promise.settlement = Settlement(lapsed=True)

    def answer_update(self, run: Run, update: UpdateAnswer) -> None:
        """What an update came to: the first answer counts."""
        known = self._state.rows.updates.setdefault(chain_of(run.facts), {}).setdefault(update.id, Update())
        known.answer = update.answer if known.answer is None else known.answer
        self._state.changes += 1

    def answer(self, run: int, job: bytes) -> None:
        """The answer to something that this run has asked for."""
        self._state.accept(self._state.rows.runs[run], new_message(job, self._now), answers=True)

    def end(
        self, run: Run, closing: Closing, spare: frozenset[str] = frozenset(), cancelling: Container[str] = ()
    ) -> None:
        """End a run and, level by level, those that shall end with it; a child that is cancelling does so by itself."""
        ending = deque([(run, closing)])
        while ending:
            run, closing = ending.popleft()
            run = self._state.rows.runs[run.number]
            if run.status == "running":
                self._end(run, closing, spare)
                spare = frozenset()
                if closing.status != "continued":
                    self._tell_parent(run, closing)
                    self._close_updates(run)
                    children = self._children_to_end(run, closing, cancelling)
                    ending.extend((child, answers.parent_ended(run.facts)) for child in children)
                self.ended += 1
        self.ended -= 1

    def continue_as(self, run: Run, closing: Closing, successor: Successor, spare: frozenset[str]) -> None:
        """End a generation and start the next, with the messages that are for any generation (M8)."""
        answering = self._state.answering.get(run.number, ())
        waiting = self._state.rows.messages.get(run.number, {})
        left = [message for message in waiting.values() if message.number not in answering]
        self.end(run, closing, spare)
        new = self._state.add_run(successor.facts, self._now, self._now)
        for job, message_id in successor.carried:
            new = self._state.accept(new, new_message(job, self._now, message_id))
        for message in left:
            new = self._state.accept(new, message)
        self._note(self._state.put_run(replace(new, wake_us=self._now)))

    def _end(self, run: Run, closing: Closing, spare: frozenset[str]) -> None:
        state = self._state
        state.rows.messages.pop(run.number, None)
        state.answering.pop(run.number, None)
        for id in [id for id in state.open_tasks.get(run.number, ()) if id not in spare]:
            state.drop_task(state.rows.tasks[id])
        ended = replace(run, status=closing.status, result=closing.result, closed_us=self._now)
        state.put_run(replace(ended, owner=None, wake_us=None, blocked=None, waiting=None))

    def _tell_parent(self, run: Run, closing: Closing) -> None:
        link = run.facts.parent
        number = None if link is None else self._state.run_ids.get(link.run_id)
        parent = None if number is None else self._state.rows.runs[number]
        if link is not None and parent is not None and parent.status == "running":
            self._tell(parent, answers.ended_job(link.seq, run.facts.workflow_id, closing), answers_it=True)

    def _close_updates(self, run: Run) -> None:
        for id, update in self._state.rows.updates.get(chain_of(run.facts), {}).items():
            if update.answer is None:
                update.answer = answers.unanswered(id, run.facts.workflow_id)

    def _children_to_end(self, run: Run, closing: Closing, cancelling: Container[str]) -> list[Run]:
        """The children of all its generations that end with it; those that shall only cancel are told so."""
        found: list[Run] = []
        for child in children_of(self._state, self._state.generations[chain_of(run.facts)]):
            policy = child.facts.parent.close if child.facts.parent is not None else "abandon"
            if child.status != "running" or policy == "abandon" or child.facts.workflow_id in cancelling:
                continue
            if answers.ends_at_once(policy, closing):
                found.append(child)
            else:
                self._tell(child, answers.parent_cancels(run.facts))
        return found

    def _tell(self, run: Run, job: bytes, *, sender: int | None = None, answers_it: bool = False) -> None:
        run = self._state.accept(run, new_message(job, self._now), answers=answers_it)
        if run.number != sender:
            self._note(run, run.accepted)

    def _note(self, run: Run, number: int = 0) -> None:
        claimed = False
        if run.facts.workflow in self._claims:
            run, claimed = claim_free(self._state, run, self._owner)
        message = self._state.rows.messages[run.number][number] if number else None
        self.told.append(Told(run, message, claimed))


def children_of(state: State, run_ids: Sequence[str]) -> list[Run]:
    """The newest generations of the runs that these runs have started, in order."""
    return [state.rows.runs[state.chains[chain]] for run_id in run_ids for chain in state.children.get(run_id, ())]
