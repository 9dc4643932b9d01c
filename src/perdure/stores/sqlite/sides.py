"""Sides: the methods of the port, each handed to its transition in the modules beside."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence

from perdure.stores.records import (
    NO_TURN,
    Accepted,
    Beat,
    Begun,
    Blocked,
    Closing,
    Committed,
    Condition,
    Lease,
    Message,
    Question,
    Report,
    Requested,
    Run,
    Settlement,
    Start,
    Task,
    Turn,
    TurnCommit,
)
from perdure.stores.sqlite import deadlines, endings, leases, lists, messages, others, questions, runs, tasks, turns
from perdure.stores.sqlite.access import Access
from perdure.stores.sqlite.locks import LeaseLocks
from perdure.stores.sqlite.messages import Claim
from perdure.stores.sqlite.part import Part
from perdure.stores.sqlite.writing import WritingLine


class SqliteRuns(Part):
    """perdure.stores.port.RunStore."""

    async def start_run(self, start: Start) -> Begun:
        write = self._write if start.id_policy == "terminate" else self._write_small
        return await write(runs.start_run, start)

    async def get_run(self, workflow_id: str, run_id: str | None = None) -> Run:
        return await self._read(runs.get_run, workflow_id, run_id)

    async def get_runs(self, numbers: Sequence[int]) -> list[Run]:
        return await self._read(runs.get_runs, numbers)

    async def list_runs(self, wanted: Condition, limit: int, before: int | None = None) -> list[Run]:
        return await self._scan(lists.list_runs, wanted, limit, before)

    async def count_runs(self, wanted: Condition) -> int:
        return await self._scan(lists.count_runs, wanted)

    async def close_run(self, workflow_id: str, run_id: str | None, closing: Closing) -> Run:
        return await self._write(runs.close_run, workflow_id, run_id, closing)

    async def list_children(self, number: int) -> list[Run]:
        return await self._read(others.list_children, number)

    async def get_next_deadline(self) -> int | None:
        return await self._read(deadlines.get_next_deadline)

    async def time_out_runs(self, closing: Closing, limit: int) -> list[Run]:
        return await self._write(deadlines.time_out_runs, closing, limit)


class SqliteMessages(Part):
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
        found = (workflow_id, run_id)
        return await self._write_small(messages.accept_message, found, job, message_id, Claim(claim, claims))

    async def list_messages(self, number: int, after: int) -> list[Message]:
        return await self._read(messages.list_messages, number, after)

    async def correct_message(self, number: int, message: Message) -> bool:
        return await self._write(messages.correct_message, number, message)

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
        found = (workflow_id, run_id)
        return await self._write_small(messages.request_update, found, job, update_id, Claim(claim, claims))

    async def get_answer(self, workflow_id: str, run_id: str | None, update_id: str) -> bytes | None:
        return await self._read(messages.get_answer, (workflow_id, run_id), update_id)

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
        found = (workflow_id, run_id)
        return await self._write_small(messages.settle_promise, found, name, settlement, Claim(claim, claims))


class SqliteTurns(Part):
    """perdure.stores.port.TurnStore."""

    async def claim_runs(self, owner: int, queues: Sequence[str], workflows: Sequence[str], limit: int) -> list[Run]:
        return await self._write(turns.claim_runs, owner, queues, workflows, limit)

    async def claim_run(self, owner: int, number: int) -> Run | None:
        return await self._write(turns.claim_run, owner, number)

    async def get_next_wake(self, queues: Sequence[str]) -> int | None:
        return await self._read(turns.get_next_wake, queues)

    async def list_pending(self, owner: int) -> list[Run]:
        return await self._read(turns.list_pending, owner)

    async def list_unknown(self, queues: Sequence[str], workflows: Sequence[str], limit: int) -> list[Run]:
        return await self._read(turns.list_unknown, queues, workflows, limit)

    def commit_turns(
        self, commits: Sequence[TurnCommit], claims: Sequence[str] = ()
    ) -> Awaitable[list[Committed | Exception]]:
        return self._write(turns.commit_turns, commits, claims)

    async def release_run(self, owner: int, number: int, wake_us: int | None) -> None:
        await self._write(turns.release_run, owner, number, wake_us)

    async def block_run(self, owner: int | None, number: int, blocked: Blocked, reports: Sequence[Report]) -> None:
        await self._write(turns.block_run, owner, number, blocked, reports)

    async def wake_blocked(self, queues: Sequence[str]) -> int:
        return await self._write(turns.wake_blocked, queues)

    async def list_turns(self, number: int, after: int = NO_TURN, limit: int | None = None) -> list[Turn]:
        return await self._read(turns.list_turns, number, after, limit)


class SqlitePrompt(Part):
    """perdure.stores.port.PromptStore."""

    def commit_turns_at_once(
        self, commits: Sequence[TurnCommit], claims: Sequence[str] = ()
    ) -> list[Committed | Exception] | None:
        writing = None if self._lines is None else self._lines.writing
        if not isinstance(writing, WritingLine):
            return None
        call = writing.call_now(turns.commit_turns, (commits, claims))
        return None if call is None else call.outcome


class SqliteTasks(Part):
    """perdure.stores.port.TaskStore."""

    async def claim_tasks(self, owner: int, queue: str, names: Sequence[str], limit: int) -> list[Task]:
        return await self._write(tasks.claim_tasks, owner, queue, names, limit)

    async def get_next_due(self, queues: Sequence[str]) -> int | None:
        return await self._read(tasks.get_next_due, queues)

    async def list_tasks(self, number: int) -> list[Task]:
        return await self._read(tasks.list_tasks, number)

    async def get_task(self, run_id: str, task_id: str) -> tuple[Run, Task | None]:
        return await self._read(tasks.get_task, run_id, task_id)

    async def report_tasks(self, reports: Sequence[Report]) -> list[bool]:
        return await self._write(tasks.report_tasks, reports)

    async def beat_tasks(self, beats: Sequence[Beat]) -> list[bool | None]:
        return await self._write(tasks.beat_tasks, beats)

    async def list_cancelled(self, owner: int) -> list[str]:
        return await self._read(leases.list_cancelled, owner)


class SqliteLeases(Part):
    """perdure.stores.port.LeaseStore. Each has a locked file beside the store, which tells whether its holder lives."""

    _locks: LeaseLocks

    async def open_lease(self, name: str, queues: Mapping[str, int], seconds: float) -> Lease:
        return await self._write(self._open_lease, name, queues, seconds)

    async def renew_lease(self, number: int) -> bool:
        return await self._write(leases.renew_lease, number)

    async def close_lease(self, number: int) -> None:
        await self._write(endings.close_lease, number)
        self._locks.remove(number)

    async def end_dead_leases(self) -> list[Lease]:
        dead: list[Lease] = await self._write(self._end_dead_leases)
        for lease in dead:
            self._locks.remove(lease.number)
        return dead

    async def list_leases(self) -> list[Lease]:
        return await self._read(leases.list_leases)

    def _open_lease(self, access: Access, name: str, queues: Mapping[str, int], seconds: float) -> Lease:
        """The lock is there before anybody can see the lease."""
        lease = leases.open_lease(access, name, queues, seconds)
        self._locks.hold(lease.number)
        access.undo.append(lambda: self._locks.remove(lease.number))
        return lease

    def _end_dead_leases(self, access: Access) -> list[Lease]:
        self._locks.remove_strays(leases.numbers(access))
        return endings.end_dead_leases(access, self._locks.is_gone)


class SqliteQuestions(Part):
    """perdure.stores.port.QuestionStore."""

    async def ask(self, workflow_id: str, run_id: str | None, name: str, arguments: bytes) -> Question:
        return await self._write(questions.ask, (workflow_id, run_id), name, arguments)

    async def list_questions(self, workflows: Sequence[str]) -> list[Question]:
        return await self._read(questions.list_questions, workflows)

    async def answer(self, number: int, answer: bytes) -> None:
        await self._write(questions.answer, number, answer)

    async def take_answer(self, number: int) -> bytes | None:
        if not await self._read(questions.has_answer, number):
            return None
        return await self._write(questions.take_answer, number)

    async def forget_question(self, number: int) -> None:
        await self._write(questions.forget_question, number)
