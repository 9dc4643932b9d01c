"""Queries: answered by whoever has the workflow's code, on a copy of the run that stands where the run stands (M3).

In:  engine.handles in this process, or a question in the store that another process asked.
Out: kernel.executor, told a query only; nothing is written but the answer to a question.
"""

from __future__ import annotations

import asyncio

import msgspec

from perdure.clock import moment_of
from perdure.engine.live import Live
from perdure.engine.parts import Host
from perdure.errors import Failure, InternalError, PerdureError
from perdure.model import jobs
from perdure.model.failures import failure_of
from perdure.model.turns import Answered
from perdure.stores.records import Question, Run

write = msgspec.json.Encoder().encode
read_answer = msgspec.json.Decoder(Answered).decode
CATCH_UP_SECONDS = 2.0  # what was accepted before the query has that long to be taken
LOOK_SECONDS = 0.02


async def answer_query(worker: Host, run: Run, name: str, arguments: bytes) -> Answered:
    """Ask a run whose code this worker has, once it has taken what was accepted before.

    What goes wrong in the handler is in the answer.
    """
    job = jobs.Queried(name, "query", msgspec.Raw(arguments))
    accepted = run.accepted
    give_up = worker.site.clock.monotonic() + CATCH_UP_SECONDS
    while True:
        late = worker.site.clock.monotonic() >= give_up or run.status != "running" or run.blocked is not None
        live = worker.cache.lives.get(run.number)
        if live is not None and live.committing:  # what is not durable is not shown
            await live.until_committed()
            continue
        if live is not None and live.last_turn >= max(run.last_turn, 0) and (late or live.consumed >= accepted):
            return _ask_cached(worker, live, job)
        run = (await worker.site.store.get_runs([run.number]))[0]
        is_there = run.last_turn >= 0 and (late or run.consumed >= accepted or run.status != "running")
        if is_there and (live is None or not live.owned):
            return await _ask_history(worker, run, job)
        if late or (run.last_turn < 0 and (run.wake_us or 0) > worker.site.clock.now_us()):
            break
        await asyncio.sleep(LOOK_SECONDS)
    text = f"run {run.facts.workflow_id} has not taken its first turn: there is nothing to ask yet"
    return Answered(job.id, "query", error=Failure("NotStarted", text))


async def answer_question(worker: Host, question: Question) -> None:
    """Answer what another process asked; the first answer counts."""
    try:
        runs = await worker.site.store.get_runs([question.run])
        if not runs:
            return
        answered = await answer_query(worker, runs[0], question.name, question.arguments)
    except PerdureError as error:
        answered = Answered("query", "query", error=failure_of(error, with_traceback=False))
    await worker.site.store.answer(question.number, write(answered))


async def _ask_history(worker: Host, run: Run, job: jobs.Queried) -> Answered:
    copy = await worker.rebuilder.from_history(run)
    try:
        return _ask(worker, copy, job)
    finally:
        copy.executor.discard()


def _ask_cached(worker: Host, live: Live, job: jobs.Queried) -> Answered:
    try:
        answered = _ask(worker, live, job)
    except Exception:
        worker.inbox.rebuild(live)  # it took too long, perhaps: this copy is spent
        raise
    if live.executor.spoiled:
        worker.inbox.rebuild(live)
    return answered


def _ask(worker: Host, live: Live, job: jobs.Queried) -> Answered:
    executor = live.executor
    completion = worker.rebuilder.activate(
        live, lambda: executor.activate(moment_of(worker.site.clock.now_us()), [job])
    )
    if len(completion.answers) != 1:
        raise InternalError(f"a query of run {live.run.facts.workflow_id} has {len(completion.answers)} answers")
    return completion.answers[0]
