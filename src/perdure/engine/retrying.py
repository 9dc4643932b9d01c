"""Retrying: when a failed attempt of an activity is tried again, and a blocked run (E4, K12); pure.

In:  the effective options of an activity, and what happened.
Out: seconds to wait, or None where the failure is final.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile
from typing import Any

import msgspec

from perdure.errors import Failure

DEATHS_AT_ONCE = 5  # a worker's death is not the activity's failure, but one that ends workers must not do so at once
PUT_OFF = "put_off"  # what the record of an attempt says that was not made for that reason
RETRYABLE_LIMITS = frozenset({"start_to_close", "heartbeat"})


class RetryRule(msgspec.Struct, frozen=True):
    """`Retry` as it stands in options."""

    attempts: int | None = 3
    initial: float = 1
    factor: float = 2
    maximum: float = 60
    jitter: float = 0.1
    non_retryable: tuple[str, ...] = ()


DEFAULT_RULE = RetryRule()


def rule_of(options: Mapping[str, Any]) -> RetryRule:
    """The rule that stands in effective options."""
    given = options.get("retry")
    return DEFAULT_RULE if given is None else msgspec.convert(given, RetryRule)


def seconds_to_wait(
    rule: RetryRule, failures: int, failure: Failure, kinds: Collection[str], draw: float
) -> float | None:
    """How long to wait after the `failures`-th failure; None: it is final.

    `kinds` are the names of the exception's classes, `draw` a random number from 0 to 1.
    """
    if not failure.retryable or (rule.attempts is not None and failures >= rule.attempts):
        return None
    if failure.type in rule.non_retryable or any(kind in rule.non_retryable for kind in kinds):
        return None
    return jittered(backoff(rule.initial, rule.factor, rule.maximum, failures), rule.jitter, draw)


def timed_out(limit: str, options: Mapping[str, Any]) -> Failure:
    """The failure of an activity of which this limit was over. Only the one on the whole of it leaves no retry."""
    option = "timeout" if limit == "start_to_close" else limit
    seconds = options.get(option)
    how_long = "" if seconds is None else f" of {seconds:g} s"
    text = f"the {limit.replace('_', '-')} limit{how_long} (`{option}`) was over"
    return Failure("Timeout", text, details={"limit": limit, "seconds": seconds}, retryable=limit in RETRYABLE_LIMITS)


def seconds_after_deaths(outcomes: Sequence[str]) -> float | None:
    """How long an activity has to wait whose last attempts all ended with their worker; None: it may begin."""
    if not outcomes or outcomes[-1] != "worker_died":
        return None
    since = list(takewhile(lambda outcome: outcome in ("worker_died", PUT_OFF), reversed(outcomes)))
    deaths = since.count("worker_died")
    return None if deaths < DEATHS_AT_ONCE else backoff(1, 2, 60, deaths - DEATHS_AT_ONCE + 1)


def backoff(initial: float, factor: float, maximum: float, times: int) -> float:
    """The wait after something failed for the n-th time, without jitter."""
    try:
        return min(maximum, initial * factor ** (times - 1))
    except OverflowError:
        return maximum


def jittered(seconds: float, jitter: float, draw: float) -> float:
    """Give or take some share of it."""
    return seconds * (1 + jitter * (2 * draw - 1))
