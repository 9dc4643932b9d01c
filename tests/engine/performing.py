"""A small worker for activities alone: a real store, a real `TaskRunner`, and the least that stands between them.

Runs in virtual time, so that limits, waits and graces of any length pass at once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from perdure.clock import SystemClock
from perdure.define.activity import Activity, read_options
from perdure.define.registry import Registry
from perdure.engine.attempts import Place
from perdure.engine.places import Inline, InThreads, OnLoop
from perdure.engine.processes import InProcesses
from perdure.engine.settings import Settings
from perdure.engine.tasks import TaskRunner
from perdure.errors import Failure
from perdure.model import jobs
from perdure.stores.memory import MemoryStore
from perdure.stores.records import Attempt, NewTask, Report, Task, TaskCancel
from perdure.testing.clock import VirtualClock
from perdure.testing.conformance.making import a_commit, a_start, an_id
from perdure.testing.virtual import run_virtual

T = TypeVar("T")
REALLY_SECONDS_MAX = 60
write = msgspec.json.Encoder().encode


class Stage:
    """The worker: `TaskHost` and pump in one. `draws` are what its random numbers are, 0.5 (no jitter) if none."""

    name = "w-1"

    def __init__(self, clock: VirtualClock, *activities: Activity[..., Any], **options: Any) -> None:
        self.clock = clock
        self.draws: list[float] = options.pop("draws", [])
        held: bool = options.pop("hold", False)
        hold = clock.hold if held else None
        processes: int = options.pop("processes", 2)
        places: Mapping[str, Place] = options.pop(
            "places", {"loop": OnLoop(), "thread": InThreads(hold), "process": InProcesses(clock.hold, processes)}
        )
        self.settings = Settings(**options)
        self.store = MemoryStore(clock)
        registry = Registry((), activities)
        self.runner = TaskRunner(self.store, registry, self.settings, clock, _Draws(self.draws), self, places)
        self.answers: dict[str, asyncio.Future[tuple[jobs.Ended, tuple[Attempt, ...]]]] = {}
        self.claims: list[Task] = []
        self.retries: list[Report] = []
        self.accepted: dict[str, bool] = {}  # whether the store took what an attempt came to
        self.errors: list[dict[str, Any]] = []  # what the event loop had to report
        self._seq = 0
        self._called = asyncio.Event()
        self._background: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self.errors.append(context))
        await self.store.open()
        self.lease = await self.store.open_lease(self.name, self.settings.queues, 1_000_000_000)
        begun = await self.store.start_run(a_start("order-1", claim=self.lease.number))
        self.run = begun.run
        self._later(self._pump())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.runner.stop()
        for task in self._background:
            task.cancel()
        await self.store.close()
        assert self.errors == []

    # --- TaskHost ---------------------------------------------------------------------------------

    def owner(self) -> int:
        return self.lease.number

    def claimed(self, task: Task) -> None:
        self.claims.append(task)

    def answered(self, task: Task, job: jobs.Ended, attempt: Attempt) -> None:
        report = Report(run=task.run, id=task.id, owner=self.owner(), attempt=attempt, job=write(job))
        self._later(self._report(report))
        answer = self.answers[task.id]
        assert not answer.done(), "an activity was answered twice"
        answer.set_result((job, (*task.attempts, attempt)))

    def retried(self, task: Task, report: Report) -> None:
        self.retries.append(report)
        self._later(self._report(report))

    def taken(self, task: Task) -> None:
        self.wake()

    def wake(self) -> None:
        self._called.set()

    # --- what a test does -------------------------------------------------------------------------

    async def schedule(self, activity: Activity[..., Any], *args: Any, **options: Any) -> str:
        """What a workflow's call comes to in the store; `due_us` is the task's own."""
        self._seq += 1
        due_us: int | None = options.pop("due_us", None)
        given: bytes | None = options.pop("input", None)
        encoded, keywords = activity.signature.bind(args, options.pop("keywords", {}))
        effective = activity.defaults | read_options(options)
        task = NewTask(
            id=an_id(f"task {self._seq}"),
            input=bytes(encoded) if given is None else given,
            due_us=due_us,
            seq=self._seq,
            name=activity.name,
            queue=effective.get("queue", "default"),
            priority=effective.get("priority", 0),
            keywords=bytes(keywords),
            options=write(effective) if effective else b"{}",
        )
        self.answers[task.id] = asyncio.get_running_loop().create_future()
        await self._commit(new_tasks=(task,))
        self.wake()
        return task.id

    async def answer(self, task_id: str) -> tuple[jobs.Ended, tuple[Attempt, ...]]:
        """What it came to, once it has come to something, and its attempts."""
        return await self.answers[task_id]

    async def perform(self, activity: Activity[..., Any], *args: Any, **options: Any) -> jobs.Ended:
        """Schedule it and wait for what it comes to."""
        return (await self.answer(await self.schedule(activity, *args, **options)))[0]

    async def failure(self, activity: Activity[..., Any], *args: Any, **options: Any) -> Failure:
        """The same for one that fails."""
        job = await self.perform(activity, *args, **options)
        assert isinstance(job, jobs.Failed), job
        return job.failure

    async def cancel(self, task_id: str, answer: bool = True) -> None:
        """What a workflow's cancellation comes to in the store. The runner is not told."""
        await self._commit(cancels=(TaskCancel(task_id, answer),))

    def seconds(self) -> float:
        """How much time has passed, to the millisecond."""
        return round(self.clock.monotonic(), 3)

    # --- leaves -----------------------------------------------------------------------------------

    async def _commit(self, **content: Any) -> None:
        commit = a_commit(self.run, self.owner(), **content)
        outcome = (await self.store.commit_turns([commit]))[0]
        assert not isinstance(outcome, Exception), outcome
        self.run = await self.store.get_run(self.run.facts.workflow_id)

    async def _report(self, report: Report) -> None:
        self.accepted[report.id] = (await self.store.report_tasks([report]))[0]
        self.wake()

    async def _pump(self) -> None:
        while True:
            self._called.clear()
            self.runner.backlog.update(self.runner.free)
            await self.runner.claim()
            due_us = self.runner.next_due_us
            wait = None if due_us is None else max(0.0, (due_us - self.clock.now_us()) / 1_000_000)
            try:
                async with asyncio.timeout(wait):
                    await self._called.wait()
            except TimeoutError:
                pass

    def _later(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


class _Draws(random.Random):
    """Random numbers that the test says."""

    def __init__(self, draws: list[float]) -> None:
        super().__init__(0)
        self._draws = draws

    def random(self) -> float:
        return self._draws.pop(0) if self._draws else 0.5


def inline_places() -> dict[str, Place]:
    """Those of an engine without threads."""
    inline = Inline()
    return {"loop": OnLoop(), "thread": inline, "process": inline}


def virtual(main: Callable[[VirtualClock], Coroutine[Any, Any, T]]) -> T:
    """Run this with a clock of its own."""
    clock = VirtualClock()
    return run_virtual(main(clock), clock=clock)


async def pause(seconds: float) -> None:
    """Let virtual time pass, as an activity does that waits for the network."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    timer = loop.call_later(seconds, over.set_result, None)
    try:
        await over
    finally:
        timer.cancel()


async def until(true: Callable[[], object]) -> None:
    """Let virtual time go on, a little at a time, until something is so."""
    while not true():
        await pause(0.001)


async def really(true: Callable[[], object]) -> None:
    """Wait for something that goes on in a thread or a process, while virtual time stands still."""
    clock = SystemClock()
    late = clock.monotonic() + REALLY_SECONDS_MAX
    while not true():
        assert clock.monotonic() < late, "it never came"
        await asyncio.sleep(0)


def value_of(job: jobs.Ended) -> Any:
    """What an activity came to, where it came to something."""
    assert isinstance(job, jobs.Resolved), job
    return msgspec.json.decode(job.value)


async def uncertain(engine: Any, handle: Any, waits_for: str = "a person") -> str:
    """Wait until somebody is to say what became of it; its key."""
    while True:
        seen = (await handle.describe()).activities
        if seen and seen[0].waits_for == waits_for:
            assert seen[0].since is not None
            return seen[0].key
        await pause(0.01)
