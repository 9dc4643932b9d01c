"""Stores with one fault each, planted in the memory store; the conformance suite has to find every one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from perdure.clock import Clock
from perdure.stores.checks import chain
from perdure.stores.memory import MemoryStore
from perdure.stores.memory.state import new_message
from perdure.stores.records import (
    NO_TURN,
    Accepted,
    Beat,
    Begun,
    Closing,
    Committed,
    Condition,
    Message,
    Report,
    Run,
    Start,
    Task,
    Turn,
    TurnCommit,
)

Answers = list[Committed | Exception]


class LosesTurns(MemoryStore):
    """A write lost: every second group of turns is acknowledged, and not written."""

    groups = 0

    async def commit_turns(self, commits: Sequence[TurnCommit], claims: Sequence[str] = ()) -> Answers:
        self.groups += 1
        return await super().commit_turns(commits, claims) if self.groups % 2 else [Committed() for _ in commits]


class LosesTurnsWhenKilled(MemoryStore):
    """A write lost: the last group of turns was acknowledged before it was durable."""

    before: tuple[dict[int, Run], dict[int, list[Turn]]] | None = None

    async def commit_turns(self, commits: Sequence[TurnCommit], claims: Sequence[str] = ()) -> Answers:
        rows = self._state.rows
        self.before = dict(rows.runs), {number: list(turns) for number, turns in rows.turns.items()}
        return await super().commit_turns(commits, claims)

    async def close(self) -> None:
        if self.before:
            self._state.rows.runs, self._state.rows.turns = self.before
        await super().close()


class LosesMessages(MemoryStore):
    """A write lost: the third message of each run is acknowledged, and not kept."""

    async def accept_message(self, workflow_id: str, run_id: str | None, job: bytes, **rest: Any) -> Accepted:
        accepted = await super().accept_message(workflow_id, run_id, job, **rest)
        self._state.rows.messages.get(accepted.run.number, {}).pop(3, None)
        return accepted


class DoublesMessages(MemoryStore):
    """A write doubled: whoever sends a message sends it again for fear that it was lost."""

    async def accept_message(self, workflow_id: str, run_id: str | None, job: bytes, **rest: Any) -> Accepted:
        await super().accept_message(workflow_id, run_id, job, **rest)
        return await super().accept_message(workflow_id, run_id, job, **rest)


class DoublesAnswers(MemoryStore):
    """A write doubled: an answer that is reported again is delivered again (E8)."""

    async def report_tasks(self, reports: Sequence[Report]) -> list[bool]:
        said = await super().report_tasks(reports)
        for report, accepted in zip(reports, said, strict=True):
            if not accepted and report.job is not None:
                running = [run for run in self._state.rows.runs.values() if run.status == "running"]
                await super().accept_message(running[0].facts.workflow_id, None, report.job)
        return said


class TearsGroups(MemoryStore):
    """A group torn: only its first turn is written, and all are acknowledged."""

    async def commit_turns(self, commits: Sequence[TurnCommit], claims: Sequence[str] = ()) -> Answers:
        return [*await super().commit_turns(commits[:1], claims), *(Committed() for _ in commits[1:])]


class TearsTurns(MemoryStore):
    """A turn torn: what it orders is written in a step of its own, also where the turn was refused (E1)."""

    async def commit_turns(self, commits: Sequence[TurnCommit], claims: Sequence[str] = ()) -> Answers:
        answers = await super().commit_turns(commits, claims)
        for commit, answer in zip(commits, answers, strict=True):
            if isinstance(answer, Exception) and commit.finished:
                for id in commit.finished:
                    self._state.drop_task(self._state.rows.tasks[id], by=commit.owner)
        return answers


class RefusesWholeGroups(MemoryStore):
    """A turn that cannot be takes its whole group with it."""

    async def commit_turns(self, commits: Sequence[TurnCommit], claims: Sequence[str] = ()) -> Answers:
        runs = self._state.rows.runs
        if all(commit.run in runs and runs[commit.run].owner == commit.owner for commit in commits):
            return await super().commit_turns(commits, claims)
        return [RuntimeError("the transaction was rolled back") for _ in commits]


class AnswersGroupsInAnyOrder(MemoryStore):
    """Out of order: the answers to a group do not stand where its turns stood."""

    async def commit_turns(self, commits: Sequence[TurnCommit], claims: Sequence[str] = ()) -> Answers:
        return list(reversed(await super().commit_turns(commits, claims)))


class ReadsStale(MemoryStore):
    """A read stale: a run is shown as it was when this store object saw it first."""

    def __init__(self, clock: Clock, name: str | None = None) -> None:
        super().__init__(clock, name)
        self.seen: dict[int, Run] = {}

    async def get_runs(self, numbers: Sequence[int]) -> list[Run]:
        return [self.seen.setdefault(run.number, run) for run in await super().get_runs(numbers)]


class ListsStale(MemoryStore):
    """A read stale: a list that was read once is shown for as long as the store object is open."""

    def __init__(self, clock: Clock, name: str | None = None) -> None:
        super().__init__(clock, name)
        self.lists: dict[Any, list[Run]] = {}

    async def list_runs(self, wanted: Condition, limit: int, before: int | None = None) -> list[Run]:
        asked = (wanted, limit, before)
        if asked not in self.lists:
            self.lists[asked] = await super().list_runs(*asked)
        return self.lists[asked]


class ListsMessagesInAnyOrder(MemoryStore):
    """Out of order: messages come as they lie."""

    async def list_messages(self, number: int, after: int) -> list[Message]:
        return sorted(await super().list_messages(number, after), key=lambda message: str(message.number))


class AppendsTurnsInAnyOrder(MemoryStore):
    """Out of order: a turn that skips one is taken (E3)."""

    async def commit_turns(self, commits: Sequence[TurnCommit], claims: Sequence[str] = ()) -> Answers:
        runs = self._state.rows.runs
        fitting: list[TurnCommit] = []
        for commit in commits:
            run = runs.get(commit.run)
            if run is not None and commit.turn.number > run.last_turn:
                number, record = run.last_turn + 1, commit.turn.record
                turn = Turn(number=number, record=record, checksum=chain(run.checksum, number, record))
                turn = turn if commit.turn.number > number else commit.turn
                commit = replace(commit, turn=turn, previous=run.checksum)
            fitting.append(commit)
        return await super().commit_turns(fitting, claims)


class IgnoresFencing(MemoryStore):
    """A turn is taken whoever sends it, as long as it follows the last one (E3)."""

    async def commit_turns(self, commits: Sequence[TurnCommit], claims: Sequence[str] = ()) -> Answers:
        runs = self._state.rows.runs
        for commit in commits:
            run = runs.get(commit.run)
            if run is not None and run.status == "running" and run.owner != commit.owner:
                self._state.put_run(replace(run, owner=commit.owner))
        return await super().commit_turns(commits, claims)


class IgnoresAttempts(MemoryStore):
    """An attempt that was given to another is still listened to, if the task has an owner (I14)."""

    async def report_tasks(self, reports: Sequence[Report]) -> list[bool]:
        tasks = self._state.rows.tasks
        known = [replace(each, owner=tasks[each.id].owner or 0) if each.id in tasks else each for each in reports]
        now = [
            replace(each, attempt=replace(each.attempt, attempt=tasks[each.id].attempt)) if each.id in tasks else each
            for each in known
        ]
        return await super().report_tasks(now)


class DoesNotCountAttempts(MemoryStore):
    """A task is taken, and not counted (I14)."""

    async def claim_tasks(self, owner: int, queue: str, names: Sequence[str], limit: int) -> list[Task]:
        taken = [replace(task, attempt=1) for task in await super().claim_tasks(owner, queue, names, limit)]
        for task in taken:
            self._state.put_task(task)
        return taken


class RetriesAtOnce(MemoryStore):
    """The time of the next try is ignored."""

    async def report_tasks(self, reports: Sequence[Report]) -> list[bool]:
        now = self._clock.now_us()
        return await super().report_tasks([each if each.job else replace(each, retry_us=now) for each in reports])


class ForgetsDetails(MemoryStore):
    """The details of a heartbeat without any take the place of those before."""

    async def beat_tasks(self, beats: Sequence[Beat]) -> list[bool | None]:
        return await super().beat_tasks([replace(each, details=each.details or b"null") for each in beats])


class AcceptsIdsTwice(MemoryStore):
    """A message id that waits already is accepted as another message (E2)."""

    async def accept_message(self, workflow_id: str, run_id: str | None, job: bytes, **rest: Any) -> Accepted:
        self._state.message_ids.clear()
        return await super().accept_message(workflow_id, run_id, job, **rest)


class ParksWhileMessagesWait(MemoryStore):
    """A message that came during the turn is forgotten when the turn parks its run."""

    async def commit_turns(self, commits: Sequence[TurnCommit], claims: Sequence[str] = ()) -> Answers:
        answers = await super().commit_turns(commits, claims)
        for commit, answer in zip(commits, answers, strict=True):
            if isinstance(answer, Committed) and commit.park and answer.pending:
                run = self._state.rows.runs[commit.run]
                self._state.put_run(replace(run, owner=None, wake_us=commit.wake_us))
        return answers


class SleepsThroughMessages(MemoryStore):
    """A parked run is not woken by a message."""

    async def accept_message(self, workflow_id: str, run_id: str | None, job: bytes, **rest: Any) -> Accepted:
        before = self._state.find(workflow_id, run_id)
        accepted = await super().accept_message(workflow_id, run_id, job, **rest)
        if not accepted.claimed:
            self._state.put_run(replace(accepted.run, wake_us=before.wake_us))
        return accepted


class SleepsThroughAnswers(MemoryStore):
    """A parked run is not woken by the answer to its activity."""

    async def report_tasks(self, reports: Sequence[Report]) -> list[bool]:
        before = dict(self._state.rows.runs)
        said = await super().report_tasks(reports)
        for number, run in list(self._state.rows.runs.items()):
            self._state.put_run(replace(run, wake_us=before[number].wake_us))
        return said


class DropsCancels(MemoryStore):
    """What the workflow does not want any more goes on."""

    async def commit_turns(self, commits: Sequence[TurnCommit], claims: Sequence[str] = ()) -> Answers:
        return await super().commit_turns([replace(commit, cancels=()) for commit in commits])


class LeavesTasksBehind(MemoryStore):
    """The tasks of a run that is ended stay, and are taken."""

    async def close_run(self, workflow_id: str, run_id: str | None, closing: Closing) -> Run:
        run = self._state.find(workflow_id, run_id)
        tasks = self._state.open_tasks.pop(run.number, {})
        before = await super().close_run(workflow_id, run_id, closing)
        self._state.open_tasks[run.number] = tasks
        return before


class EndsTwice(MemoryStore):
    """A run that has ended is ended again (E8)."""

    async def close_run(self, workflow_id: str, run_id: str | None, closing: Closing) -> Run:
        run = self._state.find(workflow_id, run_id)
        self._state.put_run(replace(run, status="running"))
        return await super().close_run(workflow_id, run_id, closing)


class DoesNotVerify(MemoryStore):
    """What is read is not compared with its checksum (E9)."""

    async def list_turns(self, number: int, after: int = NO_TURN, limit: int | None = None) -> list[Turn]:
        turns = self._state.rows.turns.get(number, [])
        return turns[after + 1 : None if limit is None else after + 1 + limit]


class RewritesValues(MemoryStore):
    """Values are read as JSON and written again."""

    async def start_run(self, start: Start) -> Begun:
        rewritten = msgspec.json.encode(msgspec.json.decode(start.facts.input))
        return await super().start_run(replace(start, facts=replace(start.facts, input=rewritten)))


class HandsOutOtherRuns(MemoryStore):
    """A workflow id with other input comes to the run that is there (E2)."""

    async def start_run(self, start: Start) -> Begun:
        number = self._state.newest.get(start.facts.workflow_id)
        if number is not None and start.id_policy == "use_existing":
            facts = self._state.rows.runs[number].facts
            start = replace(start, facts=replace(facts, run_id=start.facts.run_id))
        return await super().start_run(start)


class WritesBeforeItRefuses(MemoryStore):
    """A start that is refused has left its message behind."""

    async def start_run(self, start: Start) -> Begun:
        number = self._state.newest.get(start.facts.workflow_id)
        old = None if number is None else self._state.rows.runs[number]
        try:
            return await super().start_run(start)
        except Exception:
            if old is not None and start.message is not None and old.status == "running":
                self._state.accept(old, new_message(start.message, self._clock.now_us()))
            raise


class TellsNobody(MemoryStore):
    """Nobody hears that somebody else has written."""

    def on_change(self, call: Callable[[], object]) -> Callable[[], None]:
        return lambda: None
