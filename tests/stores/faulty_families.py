"""Stores with one fault each in what their turns do to other runs; the conformance suite has to find every one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from perdure.stores.memory import MemoryStore
from perdure.stores.memory.state import chain_of
from perdure.stores.records import Closing, Committed, Run, TurnCommit

Answers = list[Committed | Exception]


class LosesChildren(MemoryStore):
    """Torn: a turn's second child is not started."""

    async def commit_turns(self, commits: Sequence[TurnCommit], claims: Sequence[str] = ()) -> Answers:
        return await super().commit_turns([replace(each, children=each.children[:1]) for each in commits], claims)


class StartsChildrenTwice(MemoryStore):
    """Doubled: a child whose id is taken is taken for the one that was asked for (E2)."""

    async def commit_turns(self, commits: Sequence[TurnCommit], claims: Sequence[str] = ()) -> Answers:
        newest = self._state.newest
        fresh = [tuple(child for child in each.children if child.facts.workflow_id not in newest) for each in commits]
        changed = [replace(each, children=children) for each, children in zip(commits, fresh, strict=True)]
        return await super().commit_turns(changed, claims)


class TellsNoParent(MemoryStore):
    """Lost: the end of a child reaches nobody (M7)."""

    async def close_run(self, workflow_id: str, run_id: str | None, closing: Closing) -> Run:
        run = self._state.find(workflow_id, run_id)
        if run.facts.parent is not None:
            self._state.put_run(replace(run, facts=replace(run.facts, parent=None)))
        return await super().close_run(workflow_id, run_id, closing)


class OrphansChildren(MemoryStore):
    """Left behind: children go on without their parent (M7)."""

    async def commit_turns(self, commits: Sequence[TurnCommit], claims: Sequence[str] = ()) -> Answers:
        if any(each.closing is not None and each.successor is None for each in commits):
            self._state.children.clear()
        return await super().commit_turns(commits, claims)


class ForgetsWhatWaits(MemoryStore):
    """Lost: messages that no turn has taken do not reach the next generation (M8)."""

    async def commit_turns(self, commits: Sequence[TurnCommit], claims: Sequence[str] = ()) -> Answers:
        for each in commits:
            if each.successor is not None:
                waiting = self._state.rows.messages.get(each.run, {})
                self._state.answering.setdefault(each.run, set()).update(waiting)
        return await super().commit_turns(commits, claims)


class CarriesAnswersOver(MemoryStore):
    """Misdirected: answers to the old generation are delivered to the next (M8)."""

    async def commit_turns(self, commits: Sequence[TurnCommit], claims: Sequence[str] = ()) -> Answers:
        self._state.answering.clear()
        return await super().commit_turns(commits, claims)


class ForgetsIdsOfGenerations(MemoryStore):
    """Doubled: the next generation accepts a message id again (M1)."""

    async def commit_turns(self, commits: Sequence[TurnCommit], claims: Sequence[str] = ()) -> Answers:
        answers = await super().commit_turns(commits, claims)
        if any(each.successor is not None for each in commits):
            self._state.message_ids.clear()
        return answers


class AnswersUpdatesTwice(MemoryStore):
    """Stale: the last answer to an update counts, not the first (M2)."""

    async def commit_turns(self, commits: Sequence[TurnCommit], claims: Sequence[str] = ()) -> Answers:
        for each in commits:
            facts = self._state.rows.runs[each.run].facts
            for update in each.answers:
                self._state.rows.updates.get(chain_of(facts), {}).pop(update.id, None)
        return await super().commit_turns(commits, claims)


class LeavesUpdatesOpen(MemoryStore):
    """Left behind: an update that is open when its run ends is never answered (M2)."""

    async def close_run(self, workflow_id: str, run_id: str | None, closing: Closing) -> Run:
        run = self._state.find(workflow_id, run_id)
        updates = self._state.rows.updates.pop(chain_of(run.facts), {})
        before = await super().close_run(workflow_id, run_id, closing)
        self._state.rows.updates[chain_of(run.facts)] = updates
        return before


class SettlesTwice(MemoryStore):
    """Doubled: the same settlement again is told again (M4)."""

    async def settle_promise(
        self, workflow_id: str | None, run_id: str | None, name: str, *rest: Any, **more: Any
    ) -> Any:
        for promise in self._state.rows.promises.values():
            promise.settlement = None
        return await super().settle_promise(workflow_id, run_id, name, *rest, **more)


class SharesKeys(MemoryStore):
    """Taken: the key of an open run's promise is given to another one's (E2)."""

    async def commit_turns(self, commits: Sequence[TurnCommit], claims: Sequence[str] = ()) -> Answers:
        self._state.keys.clear()
        return await super().commit_turns(commits, claims)


class SendsToTheDead(MemoryStore):
    """Lost: whoever sends to a run that has ended is told that it has arrived."""

    async def commit_turns(self, commits: Sequence[TurnCommit], claims: Sequence[str] = ()) -> Answers:
        running = {run.facts.workflow_id for run in self._state.rows.runs.values() if run.status == "running"}
        first = min(running, default="")
        changed = [
            replace(
                each,
                sent=tuple(
                    sent if sent.workflow_id in running else replace(sent, workflow_id=first) for sent in each.sent
                ),
            )
            for each in commits
        ]
        return await super().commit_turns(changed, claims)
