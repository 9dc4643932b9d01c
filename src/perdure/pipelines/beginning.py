"""Beginning: how a run begins that takes the place of another one, as a pure function (L7, L9).

The stage at which it goes on, what it takes over, and its key: the same along a chain until an outcome is failure.
"""

from __future__ import annotations

from perdure.pipelines.failing import checkpoint
from perdure.stores.pipeline_records import HandlerRun, RunBeginning, Times


def first(run: str, handler: str, key: str, times: Times) -> RunBeginning:
    """A run that follows no other."""
    return RunBeginning(run=run, handler=handler, key=key, times=times)


def next_of(old: HandlerRun, run: str, key: str, times: Times, *, reconciles: bool) -> RunBeginning:
    """The next attempt; `key` is for where it needs a new one.

    One whose mutation is uncertain goes on there, and reconciles first. Only a person's word performs it once more:
    where there is no `reconcile`, that is what "retry" says of a run that waits for reconciliation.
    """
    stage = checkpoint(old.stage, old.mutation, old.status)
    if old.mutation == "uncertain" and old.status == "paused:reconciliation" and not reconciles:
        stage = "prepared"
    return RunBeginning(
        run=run,
        handler=old.handler,
        key=key if old.mutation == "failure" else old.key,
        retry_of=old.id,
        takes_over=stage != "preparing",
        stage=stage,
        attempt=old.attempt + 1,
        times=times,
    )
