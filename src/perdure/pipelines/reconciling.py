"""Reconciling: asking what became of a mutation, and what the answer makes of its run (L7).

Asked at once, within the run that is uncertain (pipelines.running); then in the background, with its budget
(pipelines.owned); then a person is asked.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from perdure import codec
from perdure.clock import micros
from perdure.define.outcomes import NotApplied
from perdure.errors import Failure
from perdure.pipelines.contexts import HandlerContext
from perdure.pipelines.failing import Settled, next_reconciliation, read_reconciled
from perdure.pipelines.means import Means, error_of, within
from perdure.pipelines.policy import PipelinePolicy
from perdure.pipelines.stages import Prepared
from perdure.stores.pipeline_records import HandlerRun, RunFailure

logger = logging.getLogger("perdure.pipelines")


@dataclass(frozen=True)
class Happened:
    """It happened, with this result."""

    result: bytes


async def ask(handler: Any, ctx: HandlerContext, prepared: Prepared, means: Means) -> Settled | None:
    """Call `reconcile` once, within its time. None: it is not known (yet)."""
    task, timed_out = await within(means.policy.reconcile_timeout, handler.reconcile(ctx, prepared))
    doings, error = ctx.close(), error_of(task)
    problem = TimeoutError("it took too long") if timed_out else doings.violation or error
    if isinstance(error, NotApplied) and not timed_out and doings.violation is None:
        return read_reconciled(error)
    if problem is not None:
        logger.warning("reconcile of %s did not answer: %s: %s", ctx.key, type(problem).__name__, problem)
        return None
    settled = read_reconciled(task.result())
    if settled is None:
        return None
    return Settled(settled.mutation, bytes(codec.encode(settled.result, "the result of reconcile")), settled.release)


def answered(
    run: HandlerRun, answer: Settled | None, error: Failure, denials: int, means: Means
) -> RunFailure | Happened:
    """What an answer makes of a run: it goes on, or fails, to be asked again, or to start over."""
    done = 1 + (run.ledger.reconciliations if run.ledger else 0)
    if answer is None:
        return not_known(run, error, done, next_reconciliation(done, means.now, means.policy))
    if answer.mutation == "success":
        return Happened(answer.result)
    retry_at = start_over_at(denials, means.now, means.policy)
    return RunFailure(
        run=run.id,
        status="paused:reconciliation",
        stage="mutating",
        mutation="failure",
        error=error,
        retry_us=None if retry_at is None else micros(retry_at),
        release=True,
    )


def not_known(run: HandlerRun, error: Failure | None, done: int, again: datetime | None) -> RunFailure:
    """It was asked so often; when it is to be asked again, or (None) a person is."""
    return RunFailure(
        run=run.id,
        status="paused:reconciliation",
        stage="mutating",
        mutation="uncertain",
        error=error,
        reconciliations=done,
        reconcile_us=None if again is None else micros(again),
    )


def start_over_at(denials: int, now: datetime, policy: PipelinePolicy) -> datetime | None:
    """When a run starts over whose mutation turned out not to have happened: at once, at first."""
    if denials > policy.retries:
        return None
    return now + (policy.backoff(denials) if denials else timedelta(0))
