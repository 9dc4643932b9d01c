"""Blocking: why a run cannot go on, in the words that its row keeps, and when it is tried again (K12); pure.

In:  the error that a turn or a rebuild came to.
Out: `Blocked`, for the store.
"""

from __future__ import annotations

import random

from perdure.engine.rebuild import UnknownWorkflow
from perdure.engine.retrying import backoff, jittered
from perdure.engine.settings import Settings
from perdure.errors import InvalidValue, NondeterminismError, SchedulerViolation, StoreCorrupt
from perdure.stores.records import Blocked

JITTER = 0.1
REASON_LENGTH_MAX = 20_000

KINDS: tuple[tuple[type[BaseException], str], ...] = (
    (UnknownWorkflow, "unknown_workflow"),
    (NondeterminismError, "nondeterminism"),
    (SchedulerViolation, "violation"),
    (StoreCorrupt, "corrupt"),
    (InvalidValue, "undecodable"),
)


def kind_of(error: BaseException) -> str:
    """What kind of reason an error is."""
    return next((kind for type_, kind in KINDS if isinstance(error, type_)), "error")


def blocked_by(error: BaseException, tries: int, now_us: int, settings: Settings, rng: random.Random) -> Blocked:
    """The mark that a run gets which cannot go on for the n-th time in a row."""
    wait = backoff(settings.retry_initial_seconds, 2, settings.retry_maximum_seconds, tries)
    reason = str(error) or type(error).__name__
    if kind_of(error) == "error":
        reason = f"{type(error).__name__}: {reason}"
    return Blocked(
        kind=kind_of(error),
        reason=reason[:REASON_LENGTH_MAX],
        since_us=now_us,
        tries=tries,
        retry_us=now_us + round(jittered(wait, JITTER, rng.random()) * 1_000_000),
    )
