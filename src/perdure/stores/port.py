"""The port: what an engine asks of a store, phrased as transitions, each of them atomic and durable when it returns.

Stores know no workflow: what they keep of jobs, commands and values is JSON that they do not read. The engine knows
no SQL. perdure.testing.conformance checks every line of this page on any store.

Times are microseconds since 1970 by the store's own clock, which alone decides leases and due times. A store keeps a
checksum with every row and verifies it on reading (E9): what does not fit raises `StoreCorrupt`, naming it.

The life of a run. It is *due* from `wake_us` on, and a worker that serves its queue may claim it if nobody owns it.
While it is owned, only its owner's commits are accepted (E3). A turn's commit either keeps the run (something local
is still going on) or parks it: nobody owns it, and it becomes due when a message arrives or at its `wake_us`.

Every method may be awaited on any event loop, in any thread, at any time: a lease is renewed from a thread of its own.
To one event loop a store answers what writes in the order in which it was written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, runtime_checkable

from perdure.stores.pipeline_port import PipelineStores
from perdure.stores.records import (
    NO_TURN,
    Accepted,
    Beat,
    Begun,
    Blocked,
    Closing,
    Committed,
    Condition,
    Damage,
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


class RunStore(Protocol):
    """Runs: started once, found by id."""

    async def start_run(self, start: Start) -> Begun:
        """E2. `AlreadyExists` by its policy, or where the id stands for another workflow or input."""
        ...

    async def get_run(self, workflow_id: str, run_id: str | None = None) -> Run:
        """The run of this id, or the newest generation of a workflow id. `NotFound`; `StoreCorrupt`."""
        ...

    async def get_runs(self, numbers: Sequence[int]) -> list[Run]:
        """These runs, in this order; those that do not exist are left out."""
        ...

    async def list_runs(self, wanted: Condition, limit: int, before: int | None = None) -> list[Run]:
        """The newest first, from those with a smaller number than `before`."""
        ...

    async def count_runs(self, wanted: Condition) -> int: ...

    async def list_children(self, number: int) -> list[Run]:
        """The runs that a run has started, in order; of each the newest generation."""
        ...

    async def close_run(self, workflow_id: str, run_id: str | None, closing: Closing) -> Run:
        """End it from outside, whoever owns it; it comes back as it was before. `NotFound`, `RunClosed`."""
        ...

    async def get_next_deadline(self) -> int | None:
        """When the next run times out that has not ended; one whose deadline has passed, if it is free."""
        ...

    async def time_out_runs(self, closing: Closing, limit: int) -> list[Run]:
        """End free runs whose deadline has passed, of any queue and workflow, so many at most; as they were before."""
        ...


class TurnStore(Protocol):
    """Turns: claimed with a lease, committed in groups."""

    async def claim_runs(self, owner: int, queues: Sequence[str], workflows: Sequence[str], limit: int) -> list[Run]:
        """Own the most urgent of the free, due runs of these queues and workflows: priority, then `wake_us`.

        A lease that was lost claims nothing, here and everywhere.
        """
        ...

    async def claim_run(self, owner: int, number: int) -> Run | None:
        """Own this run, if it is running, and free (due or not) or this owner's already; it is given as it stands."""
        ...

    async def get_next_wake(self, queues: Sequence[str]) -> int | None:
        """When the next free run of these queues is due."""
        ...

    async def list_pending(self, owner: int) -> list[Run]:
        """The runs of this owner for which more messages were accepted than turns have taken."""
        ...

    async def list_unknown(self, queues: Sequence[str], workflows: Sequence[str], limit: int) -> list[Run]:
        """Free, due and not blocked runs of these queues whose workflow is none of these."""
        ...

    def commit_turns(
        self, commits: Sequence[TurnCommit], claims: Sequence[str] = ()
    ) -> Awaitable[list[Committed | Exception]]:
        """Write a group of turns, durably. One that cannot be has its error in its place (`LeaseLost`).

        What a turn starts or tells that is free, due and of the workflows `claims` is its owner's as well.
        """
        ...

    async def release_run(self, owner: int, number: int, wake_us: int | None) -> None:
        """Give a run back that was claimed and needs no turn."""
        ...

    async def block_run(self, owner: int | None, number: int, blocked: Blocked, reports: Sequence[Report]) -> None:
        """Put a run aside with its reason; `reports` are answers that a turn should have taken. `LeaseLost`.

        It is due again at `blocked.retry_us`; the next commit of a turn takes the mark away. `owner` None: it is free.
        """
        ...

    async def wake_blocked(self, queues: Sequence[str]) -> int:
        """A new worker, perhaps with new code: what is blocked is due now."""
        ...

    async def list_turns(self, number: int, after: int = NO_TURN, limit: int | None = None) -> list[Turn]:
        """The turns of a run after this one, verified: chained, without a gap, up to the run's last. `StoreCorrupt`."""
        ...


class MessageStore(Protocol):
    """Messages: accepted for a run, taken by a turn."""

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
        """Accept a job for a running run: it is due now. `NotFound`, `RunClosed`.

        With `claim` and a free run of one of the workflows `claims`, the run is the caller's as well. A message id that
        was accepted before, by this run or an earlier generation of it, changes nothing (M1): while it waits its number
        is given again, later 0, and a run that has ended does not matter then.
        """
        ...

    async def list_messages(self, number: int, after: int) -> list[Message]:
        """The messages of a run with a larger number, without a gap. `StoreCorrupt` if one is missing."""
        ...

    async def correct_message(self, number: int, message: Message) -> bool:
        """Have a blocked run of nobody's find this one under its number, which waits there; it is due now.

        False, and nothing is written, if it is not blocked or somebody has it, or that message does not wait.
        """
        ...

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
        """Accept an update, unless this id was accepted before, also by an earlier generation (M2).

        `NotFound`; `RunClosed` for a new id.
        """
        ...

    async def get_answer(self, workflow_id: str, run_id: str | None, update_id: str) -> bytes | None:
        """What an update came to, in this generation or a later one; None while it is open. `NotFound`."""
        ...

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
        """Settle a promise by its name, or by its key where `workflow_id` is None (M4); None if it stood so before.

        `NotFound`; `AlreadyExists` where it was settled otherwise, or has lapsed; `RunClosed`.
        """
        ...


class TaskStore(Protocol):
    """Tasks: activities that wait, or run somewhere."""

    async def claim_tasks(self, owner: int, queue: str, names: Sequence[str], limit: int) -> list[Task]:
        """Take free tasks of a queue that are due: priority, then due time. Counted as an attempt (I14)."""
        ...

    async def get_next_due(self, queues: Sequence[str]) -> int | None:
        """When the next free task of these queues is due."""
        ...

    async def list_tasks(self, number: int) -> list[Task]:
        """The open tasks of a run, by seq."""
        ...

    async def get_task(self, run_id: str, task_id: str) -> tuple[Run, Task | None]:
        """A run, and its open task of this id, if there is one. `NotFound` for the run; `StoreCorrupt`."""
        ...

    async def report_tasks(self, reports: Sequence[Report]) -> list[bool]:
        """What attempts came to; False for one that is not the reporter's any more: nothing was written for it.

        An attempt is known by its owner and its number. A message that comes of it carries `answers.attempt_notes`.
        """
        ...

    async def beat_tasks(self, beats: Sequence[Beat]) -> list[bool | None]:
        """Heartbeats; each answered with whether the activity shall cancel, None where the task was lost."""
        ...

    async def list_cancelled(self, owner: int) -> list[str]:
        """The ids of this owner's tasks that shall cancel, or that are gone or lost although they were its."""
        ...


Params = Sequence[Any] | Mapping[str, Any]


class OpenTransaction(Protocol):
    """The transaction of a transactional activity (E5). Its methods may be called in any thread, and do not wait.

    It has the write lock from when it is its turn. After so many seconds it is rolled back: `TransactionTimeout`.
    """

    def execute(self, sql: str, params: Params) -> Future[list[tuple[Any, ...]]]:
        """The rows of a statement. `UsageError` for what it may not do, `TransactionFailed` for what SQL refuses."""
        ...

    def commit(self, report: Report) -> Future[bool]:
        """Write what the attempt came to, and everything before, at once; False, and nothing, if it was lost."""
        ...

    def roll_back(self) -> Future[None]:
        """Nothing of it is written."""
        ...


@runtime_checkable
class TransactionStore(Protocol):
    """What a store has beside all others if activities can write to it within its own transactions."""

    def begin_transaction(self, seconds: float) -> OpenTransaction: ...


@runtime_checkable
class PromptStore(Protocol):
    """What a store has beside all others if a caller with nothing else to do gets its answer sooner."""

    def commit_turns_at_once(
        self, commits: Sequence[TurnCommit], claims: Sequence[str] = ()
    ) -> list[Committed | Exception] | None:
        """As `TurnStore.commit_turns`, on the calling thread; None, and nothing was written, if that may take long."""
        ...


class LeaseStore(Protocol):
    """Leases: one per worker."""

    async def open_lease(self, name: str, queues: Mapping[str, int], seconds: float) -> Lease: ...

    async def renew_lease(self, number: int) -> bool:
        """Stay alive for another while; False: it was lost, and so is all that was owned under it.

        A lease is lost when `end_dead_leases` or `close_lease` has ended it; that it has expired is not enough.
        """
        ...

    async def close_lease(self, number: int) -> None:
        """Hand everything back at once: runs are free and due, running attempts are noted as handed over."""
        ...

    async def end_dead_leases(self) -> list[Lease]:
        """Free what dead workers own: a lease that has expired, or whose holder is known to be gone."""
        ...

    async def list_leases(self) -> list[Lease]: ...


class QuestionStore(Protocol):
    """Questions: queries from a process without the code to one that has it."""

    async def ask(self, workflow_id: str, run_id: str | None, name: str, arguments: bytes) -> Question: ...

    async def list_questions(self, workflows: Sequence[str]) -> list[Question]:
        """Those without an answer."""
        ...

    async def answer(self, number: int, answer: bytes) -> None: ...

    async def take_answer(self, number: int) -> bytes | None:
        """The answer, once; None if there is none yet."""
        ...

    async def forget_question(self, number: int) -> None: ...


class Store(RunStore, TurnStore, MessageStore, TaskStore, LeaseStore, QuestionStore, PipelineStores, Protocol):
    """All of it, with its opening and closing."""

    url: str
    others_possible: bool  # whether anybody but this object can write to it

    async def open(self) -> None:
        """`StoreUnavailable` with the reason and the remedy where it cannot be opened."""
        ...

    async def close(self) -> None: ...

    def on_change(self, call: Callable[[], object]) -> Callable[[], None]:
        """Have this called, on the event loop, when somebody else has written. Returns how to stop that."""
        ...

    async def verify(self) -> list[Damage]:
        """Read everything, and list what is damaged."""
        ...

    async def counts(self) -> Mapping[str, Any]:
        """How many there are, for people, by these names in this order.

        runs, turns, messages, tasks, leases, questions, pipelines, handler_runs, events.
        """
        ...
