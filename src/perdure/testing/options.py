"""Options: what a harness may be given beside the workflow and its arguments, and what each must look like.

Read by perdure.testing.harness; what is wrong with one is said at the call.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal, TypedDict

from perdure import policies
from perdure.errors import InvalidValue, UsageError

Match = Literal["strict", "names"]
RUN_ID = "00000000-0000-4000-8000-000000000000"
TURN_LIMIT = 2  # seconds
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class HarnessOptions(TypedDict, total=False):
    """What a harness may be given; everything has a fixed default, so that two harnesses give the same bytes."""

    run_id: str
    seed: int
    now: datetime
    policy: Any
    match: Match
    turn_limit: float | None


def fresh_policy(given: Any) -> Any:
    """The state of a policy that has not chosen yet; None stays None."""
    if given is None:
        return None
    if isinstance(given, str):
        raise UsageError(f"policy= takes a state, such as perdure.policies.new({given!r})")
    state = given if isinstance(given, policies.STATES) else policies.new(given)
    if getattr(state, "step", 0):
        raise UsageError(f"policy= takes one that has not chosen yet: a run counts its choices from 0, not {state!r}")
    return state


def one_of(match: Any) -> Match:
    """A way to match a record."""
    if match not in ("strict", "names"):
        raise InvalidValue(f"match is strict or names, not {match!r}")
    return match


def in_utc(now: object) -> datetime:
    """An aware time, in UTC."""
    if not isinstance(now, datetime) or now.tzinfo is None:
        raise InvalidValue(f"now is a datetime with a time zone, not {now!r}")
    return now.astimezone(UTC)


def whole(seed: object) -> int:
    """A whole number."""
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InvalidValue(f"seed is a whole number, not {seed!r}")
    return seed
