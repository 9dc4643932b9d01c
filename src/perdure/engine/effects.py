"""Effects: what the attempts at an activity say of where it stands (E4, E5); pure.

An attempt that was given out (`later`) waits for the outside. Of an `ask` activity whose outcome nobody knows it is
asked, by its `reconcile`, whether it happened; where that does not help, it waits for a person: it is due never.

In:  the recorded attempts of a task, its options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

from perdure.engine.retrying import PUT_OFF, backoff
from perdure.stores.records import NEVER_US, Attempt, Task

# What an attempt came to, beside completed, failed, timed_out, cancelled, worker_died, handed_over and put_off:
LATER = "later"  # its function has returned, and the outside completes it
UNCERTAIN = "uncertain"  # whether it happened is not known
NOT_KNOWN = "not_known"  # it was asked, and that is still not known
NOT_HAPPENED = "did_not_happen"  # it was asked, or a person said so: it may run again

OUTSIDE, RECONCILE, PERSON = "the outside", "its reconcile", "a person"  # what a task may wait for

ASKS_MAX = 5
ASK_INITIAL_SECONDS, ASK_FACTOR, ASK_MAXIMUM_SECONDS = 10, 2, 600
MICROS = 1_000_000
UNKNOWN_ENDS = frozenset({UNCERTAIN, "worker_died", "handed_over", "cancelled", "timed_out"})
NO_GOES = frozenset({PUT_OFF, NOT_KNOWN, NOT_HAPPENED})

LaterLimit = Literal["start_to_close", "schedule_to_close", "heartbeat"]


def asks_of(attempts: Sequence[Attempt]) -> int | None:
    """How often it was asked what became of an `ask` activity; None where that is not in question: it may run."""
    asks: int | None = None
    for each in attempts:
        if asks is None:
            asks = 0 if each.outcome in UNKNOWN_ENDS else None
        elif each.outcome == NOT_HAPPENED:
            asks = None
        elif each.outcome == NOT_KNOWN:
            asks += 1
    return asks


def seconds_to_ask_again(asks: int) -> float | None:
    """How long to wait after it was asked so often in vain; None: a person decides."""
    return None if asks >= ASKS_MAX else backoff(ASK_INITIAL_SECONDS, ASK_FACTOR, ASK_MAXIMUM_SECONDS, asks)


def what_it_waits_for(task: Task) -> tuple[str, int] | None:
    """Who is to say something about a task that nobody has, and since when: the outside, its reconcile, a person."""
    last = task.attempts[-1] if task.attempts else None
    if last is None or task.owner is not None:
        return None
    if last.outcome == LATER:
        return OUTSIDE, last.ended_us
    if last.outcome in (UNCERTAIN, NOT_KNOWN):
        return PERSON if task.due_us == NEVER_US else RECONCILE, last.ended_us
    return None


def is_given_out(attempts: Sequence[Attempt]) -> bool:
    """Whether the outside is to complete it."""
    return bool(attempts) and attempts[-1].outcome == LATER


def limit_of_later(options: Mapping[str, Any], scheduled_us: int, given_out: Attempt) -> tuple[LaterLimit, int] | None:
    """The limit of an activity that was given out which is over first, and when."""
    begins: dict[LaterLimit, tuple[str, int]] = {
        "start_to_close": ("timeout", given_out.started_us),
        "heartbeat": ("heartbeat", given_out.ended_us),
        "schedule_to_close": ("schedule_to_close", scheduled_us),
    }
    limits: list[tuple[int, LaterLimit]] = [
        (from_us + round(seconds * MICROS), why)
        for why, (option, from_us) in begins.items()
        if (seconds := options.get(option)) is not None
    ]
    if not limits:
        return None
    due_us, why = min(limits)
    return why, due_us


def go_of(attempts: Sequence[Attempt]) -> int:
    """Which go at the function the next one is, from 1: what was only asked, or said by the outside, is none."""
    outcomes = [None, *(each.outcome for each in attempts)]
    return 1 + sum(now not in NO_GOES and before != LATER for before, now in pairwise(outcomes))
