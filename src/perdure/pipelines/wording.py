"""Wording: how a pipeline stands, in the words of people who never heard of stages (L11).

Pure: read by `engine.pipelines.status`, the command line and the dashboard.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import msgspec

from perdure.clock import moment_of
from perdure.pipelines.cadence import Cron, Every
from perdure.pipelines.states import Consumer, Producer, State
from perdure.stores.pipeline_records import EventStatus, HandlerRun

RECENT_MAX = 5
_DAILY = re.compile(r"\s*([0-9]+)\s+([0-9]+)\s+\*\s+\*\s+\*\s*")
_UNITS = ((86_400, "day", "d"), (3_600, "hour", "h"), (60, "minute", "min"), (1, "second", "s"))


class _Reserved(msgspec.Struct):
    """What of a run's prepared result says how much it took."""

    reserve: dict[str, list[str]] = {}


_reserved = msgspec.json.Decoder(_Reserved).decode


@dataclass(frozen=True)
class PendingWork:
    """What waits in a topic."""

    count: int
    oldest_at: datetime | None = None


@dataclass(frozen=True)
class PipelineStatus:
    """A pipeline in plain words. `status` is Running, Idle, Needs attention (by a person) or Stopped (by a person)."""

    status: str
    issue: str | None
    schedule: str
    activity: tuple[str, ...]
    pending: Mapping[str, PendingWork]


@dataclass(frozen=True)
class Seen:
    """What there is to be told of: the state, its open run, the last runs (the oldest first), and what waits."""

    state: State
    open_run: HandlerRun | None = None
    recent: tuple[HandlerRun, ...] = ()
    pending: Mapping[str, PendingWork] = field(default_factory=dict[str, PendingWork])


def status_of(seen: Seen, now: datetime) -> PipelineStatus:
    """All of it in words."""
    return PipelineStatus(
        _status(seen),
        _issue(seen, now),
        schedule_of(seen.state, now),
        tuple(_told(run, now) for run in _worth_telling(seen.recent)),
        seen.pending,
    )


def _status(seen: Seen) -> str:
    if seen.state.paused:
        return "Stopped"
    if seen.state.active is not None:
        return "Running"
    return "Needs attention" if seen.state.blocked is not None and goes_on_by_itself(seen) is None else "Idle"


def goes_on_by_itself(seen: Seen) -> datetime | None:
    """When something happens to the run that blocks without a person; None: not before a person acts."""
    blocked, run = seen.state.blocked, seen.open_run
    if blocked is None or blocked.retry_at is not None:
        return None if blocked is None else blocked.retry_at
    asked = run is not None and run.status == "paused:reconciliation" and run.ledger is not None
    return moment_of(run.ledger.next_us) if asked and run and run.ledger and run.ledger.next_us is not None else None


# --- issues -------------------------------------------------------------------------------------


def _issue(seen: Seen, now: datetime) -> str | None:
    blocked = seen.state.blocked
    if blocked is None:
        return None
    again = goes_on_by_itself(seen)
    soon = None if again is None else f"tries again in {short(again - now)}" if again > now else "tries again now"
    why = _why(seen.open_run)
    match blocked.status:
        case "paused:transient":
            times = f"failed {blocked.attempt} time{'s' * (blocked.attempt > 1)}"
            return f"{blocked.handler} {times}{why}; {soon or 'retry it when that is mended'}"
        case "paused:approval":
            return f"{blocked.handler} waits for you{why}; {soon or 'retry it when that is done'}"
        case "paused:reconciliation":
            what = seen.open_run.ledger.what if seen.open_run and seen.open_run.ledger else "its mutation"
            asked = soon or "look, and say happened, did_not_happen, skip or retry"
            return f"it is not known whether {what} of {blocked.handler} happened{why}; {asked}"
        case "failed:logic":
            return f"{blocked.handler} has a mistake in its code{why}; {soon or 'mend it and start again, or retry it'}"
        case "failed:internal":
            return f"{blocked.handler} failed inside Perdure{why}; {soon or 'please report it; then retry it'}"
        case _:
            return f"{blocked.handler} was interrupted{why}; {soon or 'retry it'}"


def _why(run: HandlerRun | None) -> str:
    if run is None or run.error is None:
        return ""
    lines = (run.error.message or run.error.type).splitlines() or [run.error.type]
    return f": {lines[0]}"


# --- schedules ----------------------------------------------------------------------------------


def schedule_of(state: State, now: datetime) -> str:
    """Such as "checks every 5 minutes, next in 3 min"."""
    parts = [*(_producer(one, now) for one in state.producers), *(_consumer(one, now) for one in state.consumers)]
    return "; ".join(part for part in parts if part) or "runs when events arrive"


def _producer(one: Producer, now: datetime) -> str:
    match one.cadence:
        case Every(seconds):
            text = f"checks every {_long(seconds)}"
        case Cron(expression, zone):
            text = f"runs {_cron(expression)} ({zone})"
        case _:
            return "runs when asked"
    if one.is_due(now):
        return f"{text}, next now"
    return text if one.next_run_at is None else f"{text}, next in {short(one.next_run_at - now)}"


def _consumer(one: Consumer, now: datetime) -> str:
    return "" if one.wake_at is None else f"{one.name} looks again in {short(max(one.wake_at - now, timedelta(0)))}"


def _cron(expression: str) -> str:
    daily = _DAILY.fullmatch(expression)
    return f"daily at {int(daily[2]):02}:{int(daily[1]):02}" if daily else f"by `{expression}`"


def _long(seconds: float) -> str:
    for size, name, _ in _UNITS:
        if seconds % size == 0:
            count = int(seconds // size)
            return name if count == 1 else f"{count} {name}s"
    return f"{seconds:g} seconds"


def short(time: timedelta) -> str:
    """Such as "3 min", in its largest unit, rounded to the nearest."""
    seconds = max(time.total_seconds(), 0)
    for size, _, name in _UNITS:
        if round(seconds / size) >= 1 and seconds >= size * 0.95:
            return f"{round(seconds / size)} {name}"
    return "0 s"


# --- what happened ------------------------------------------------------------------------------


def _worth_telling(recent: tuple[HandlerRun, ...]) -> list[HandlerRun]:
    """The last ones, the newest first; consumers that looked and found nothing only where there is nothing else."""
    busy = [run for run in recent if run.status != "committed" or run.kind == "producer" or _taken(run)]
    return list(reversed((busy or list(recent))[-RECENT_MAX:]))


def _told(run: HandlerRun, now: datetime) -> str:
    ended = moment_of(run.updated_us).astimezone(UTC)
    return f"{run.handler} {_did(run)}, {short(now - ended)} ago"


def _did(run: HandlerRun) -> str:
    if run.status == "active":
        return "is running"
    if run.status == "crashed":
        return "was interrupted"
    if run.status != "committed":
        return ("came to no known end" if run.mutation == "uncertain" else "failed") + _why(run)
    taken = _taken(run)
    if not taken:
        return "finished"
    done = f"processed {taken} event{'s' * (taken > 1)}"
    return f"skipped {taken} event{'s' * (taken > 1)}" if run.mutation == "skipped" else done


def _taken(run: HandlerRun) -> int:
    """How many events it has reserved."""
    if run.prepared is None:
        return 0
    try:
        return sum(map(len, _reserved(run.prepared).reserve.values()))
    except msgspec.MsgspecError:  # written by another version
        return 0


def pending_of(
    counts: Mapping[str, Mapping[EventStatus, int]], oldest: Mapping[str, datetime]
) -> dict[str, PendingWork]:
    """What waits in each topic, from how many events it has of each status."""
    topics: Iterable[str] = counts
    return {topic: PendingWork(counts[topic].get("pending", 0), oldest.get(topic)) for topic in topics}
