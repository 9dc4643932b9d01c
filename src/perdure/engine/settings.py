"""Settings: what a worker may be told, with the defaults that production wants."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import cast

import msgspec

from perdure import codec
from perdure.define.retry import Duration
from perdure.errors import InvalidValue
from perdure.model.ids import check_id

DEFAULT_QUEUE = "default"
DEFAULT_CONCURRENCY = 100
PAYLOAD_BYTES_MAX = 256 * 1024 * 1024
LEASE_SECONDS_MIN = 0.1
OR_NONE = frozenset({"death_check_seconds", "turn_limit_seconds", "blocked_loop_seconds"})
FLAGS = ("guard_names",)
SECONDS = (
    *("lease_seconds", "rebuild_slice_seconds", "drain_seconds", "grace_seconds", "beat_seconds"),
    *("retry_initial_seconds", "retry_maximum_seconds", *sorted(OR_NONE)),
)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker works."""

    queues: Mapping[str, int] = msgspec.field(default_factory=lambda: {DEFAULT_QUEUE: DEFAULT_CONCURRENCY})
    lease_seconds: float = 10
    cache: int = 1_000  # live runs that are kept while they are parked
    claims_max: int = 200  # runs that are claimed at a time
    death_check_seconds: float | None = 0.25  # others' side locks are tried that often; None: never
    turn_limit_seconds: float | None = 2
    rebuild_slice_seconds: float = 0.02  # a rebuild gives the loop back that often (K14)
    drain_seconds: float = 0.5  # a polite stop waits that long for activities
    grace_seconds: float = 5  # an activity that was cancelled has that long before it is abandoned
    retry_initial_seconds: float = 1  # a blocked run is tried again after that, doubling
    retry_maximum_seconds: float = 60
    beat_seconds: float = 1  # heartbeats are written at most that often
    payload_bytes_max: int = PAYLOAD_BYTES_MAX  # of one payload, as JSON
    guard_names: bool = False  # the profile hook, which sees names that were imported directly (K16)
    blocked_loop_seconds: float | None = 0.5  # longer than that, and the line that blocks the loop is logged

    def __post_init__(self) -> None:
        """`InvalidValue` for what is no setting."""
        read_queues(self.queues)
        for name in ("cache", "claims_max", "payload_bytes_max"):
            _check_number(name, getattr(self, name), whole=True, least=0 if name == "cache" else 1)
        for name in SECONDS:
            least = LEASE_SECONDS_MIN if name == "lease_seconds" else 0
            _check_number(name, getattr(self, name), least=least, or_none=name in OR_NONE)
        for name in FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise InvalidValue(f"{name} is True or False, not {codec.shown(getattr(self, name))}")


def read_queues(given: object) -> Mapping[str, int]:
    """Queues as a worker is told them: names, or names with how many activities at once. `InvalidValue`."""
    if given is None:
        return {DEFAULT_QUEUE: DEFAULT_CONCURRENCY}
    wanted: dict[object, object]
    if isinstance(given, Mapping):
        wanted = dict(cast("Mapping[object, object]", given))
    elif isinstance(given, Iterable) and not isinstance(given, str | bytes):
        names = [check_id(name, "the name of a queue") for name in cast("Iterable[object]", given)]
        wanted = dict.fromkeys(names, DEFAULT_CONCURRENCY)
    else:
        raise InvalidValue('queues= names each queue and how many activities it runs at once: {"default": 100}')
    queues: dict[str, int] = {}
    for name, concurrency in wanted.items():
        queue = check_id(name, "the name of a queue")
        if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
            raise InvalidValue(
                f"queue `{queue}` runs a whole number of activities at once, from 1 on, not {codec.shown(concurrency)}"
            )
        queues[queue] = concurrency
    if not queues:
        raise InvalidValue("queues= names no queue: a worker serves at least one")
    return queues


def read_lease(given: Duration) -> float:
    """A lease in seconds."""
    seconds = codec.duration_seconds(given, "lease")
    if seconds < LEASE_SECONDS_MIN:
        raise InvalidValue(f"lease is at least {LEASE_SECONDS_MIN} seconds, not {given!r}")
    return seconds


def read_cache(given: object) -> int:
    """How many parked runs stay in memory."""
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise InvalidValue(
            f"cache is how many parked runs stay in memory, a whole number from 0 on, not {codec.shown(given)}"
        )
    return given


def read_turn_limit(given: Duration | None) -> float | None:
    """How long a turn may take; None or 0 is no limit."""
    return None if given is None else codec.duration_seconds(given, "turn_limit") or None


def check_size(size: int, limit: int, what: str) -> None:
    """`InvalidValue` for a payload over its limit."""
    if size > limit:
        raise InvalidValue(over_limit(size, limit, what))


def over_limit(size: int, limit: int, what: str) -> str:
    """What is said of a payload over its limit."""
    return (
        f"{what} takes {size:,} bytes as JSON, and at most {limit:,} are allowed: keep it outside and pass its name, "
        "or raise payload_bytes_max in Settings"
    )


def _check_number(name: str, value: object, *, whole: bool = False, least: float = 0, or_none: bool = False) -> None:
    if value is None and or_none:
        return
    right = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not right or not least <= cast("float", value) < math.inf:
        kind = "a whole number" if whole else "a number of seconds"
        ending = ", or None" if or_none else ""
        raise InvalidValue(f"{name} is {kind} from {least:g} on{ending}, not {codec.shown(value)}")
