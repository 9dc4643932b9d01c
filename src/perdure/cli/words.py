"""Words: how a run stands, in a sentence; spans of time as people say them.

Pure: `now` is an argument. Used by show, list and history. What is read comes from perdure.engine.descriptions.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from perdure.clock import micros

if TYPE_CHECKING:
    from perdure.engine.descriptions import AttemptSeen, Description, HistoryTurn, OpenActivity
    from perdure.errors import Failure
    from perdure.stores.records import Lease

OVERDUE = timedelta(seconds=5)  # until then a worker may be about to do it
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def span(time: timedelta) -> str:
    """A span of time, in the largest unit that still says something."""
    seconds = time.total_seconds()
    if seconds < 0.9995:
        return f"{max(0, round(seconds * 1000))} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if time < 2 * MINUTE:
        return f"{seconds:.0f} s"
    if time < 2 * HOUR:
        return f"{time // MINUTE} min"
    if time < 2 * DAY:
        return f"{time // HOUR} h"
    return f"{time // DAY} d"


def ago(moment: datetime, now: datetime) -> str:
    """How long ago that was."""
    return f"{span(now - moment)} ago"


def clock_time(moment: datetime, now: datetime) -> str:
    """A moment in local time; with its date, unless it is today."""
    local, today = moment.astimezone(), now.astimezone().date()
    return local.strftime("%H:%M:%S" if local.date() == today else "%Y-%m-%d %H:%M:%S")


def short_source(source: str) -> str:
    """A source line without what everybody knows of its path."""
    if not source:
        return ""
    relative = os.path.relpath(source)
    return relative if not relative.startswith("..") else os.path.join(*source.split(os.sep)[-2:])


def failure_line(failure: Failure) -> str:
    """A failure, in one line."""
    return " ".join(str(failure).split())


def live_workers(leases: Iterable[Lease], queue: str, now_us: int | None = None) -> list[Lease]:
    """The workers that serve a queue now."""
    if now_us is None:
        from perdure.clock import SystemClock

        now_us = SystemClock().now_us()
    return [lease for lease in leases if lease.expires_us > now_us and queue in lease.queues]


# --- the state in a sentence ------------------------------------------------------------------------


def sentence(seen: Description, turns: Sequence[HistoryTurn], leases: Sequence[Lease], now: datetime) -> str:
    """How a run stands, and whether anything is wrong."""
    if seen.status != "running":
        return _ended(seen, now)
    if seen.blocked is not None:
        return _blocked(seen, now)
    served = bool(live_workers(leases, seen.queue, micros(now)))
    nobody = f"nobody serves queue `{seen.queue}`: `perdure worker MODULE` does"
    if not seen.turns:
        return _not_begun(seen, served, nobody, now)
    failing = _failing(seen, leases, now)
    if failing:
        return failing
    if seen.pending_messages and not seen.leases:
        many = "1 message waits" if seen.pending_messages == 1 else f"{seen.pending_messages} messages wait"
        return f"{many} for a worker; " + ("it will go on at once" if served else nobody)
    wake = seen.next_wake
    if wake is not None and wake + OVERDUE < now and not seen.leases:
        return f"overdue: it should have gone on {ago(wake, now)}; " + (
            "workers are there, and behind" if served else nobody
        )
    return _waiting(seen, turns, served, nobody, now)


def _ended(seen: Description, now: datetime) -> str:
    closed = seen.closed or now
    how = seen.status.replace("_", " ")
    turns = "1 turn" if seen.turns == 1 else f"{seen.turns} turns"
    text = f"{how} {ago(closed, now)}, after {span(closed - seen.started)} and {turns}"
    if seen.status == "continued":
        text = f"went on as another generation {ago(closed, now)}, after {turns}"
    return text if seen.failure is None else f"{text}: {failure_line(seen.failure)}"


def _blocked(seen: Description, now: datetime) -> str:
    blocked = seen.blocked
    assert blocked is not None
    tries = "once" if blocked.tries == 1 else f"{blocked.tries} times"
    again = ""
    if blocked.next_try is not None:
        again = f", again in {span(blocked.next_try - now)}" if blocked.next_try > now else ", again as soon as may be"
    return (
        f"blocked for {span(now - blocked.since)} ({blocked.kind.replace('_', ' ')}), tried {tries}{again}; "
        "nothing is lost, and it goes on once the reason is mended"
    )


def _not_begun(seen: Description, served: bool, nobody: str, now: datetime) -> str:
    if seen.next_wake is not None and seen.next_wake > now:
        text = f"starts in {span(seen.next_wake - now)}"
        return f"{text}; nothing is wrong" if served else f"{text}; now {nobody}"
    waited = span(now - seen.started)
    if served:
        return f"waits {waited} for a worker of queue `{seen.queue}` that knows workflow `{seen.type}`"
    return f"has not begun, for {waited}: {nobody}"


def _failing(seen: Description, leases: Sequence[Lease], now: datetime) -> str:
    """What is wrong with the first activity that does not come on."""
    for open_one in seen.activities:
        name = open_one.activity
        if open_one.waits_for == "a person" and open_one.since is not None:
            return (
                f"activity `{name}` has waited {span(now - open_one.since)} for a person: whether it happened is not "
                f"known; say so with `perdure resolve {seen.id} {open_one.key} happened`, did_not_happen or fail"
            )
        if open_one.waits_for == "the outside" or open_one.due is None:
            continue
        due, last = open_one.due, _last_failure(open_one, seen.attempts)
        if open_one.worker is not None:
            if last is not None:
                return f"attempt {open_one.attempt} of activity `{name}` runs on {open_one.worker}; before it: {last}"
            continue
        if last is not None:
            when = f"in {span(due - now)}" if due > now else "as soon as a worker is free"
            tried = "1 attempt" if open_one.attempt == 1 else f"{open_one.attempt} attempts"
            return f"activity `{name}` failed ({tried}) and is tried again {when}: {last}"
        waits = f"activity `{name}` waits {span(now - due)}"
        if not live_workers(leases, open_one.queue, micros(now)):
            return f"{waits}: nobody serves queue `{open_one.queue}`"
        if due + OVERDUE < now:
            return f"{waits}: the workers of queue `{open_one.queue}` are busy, or do not know it"
    return ""


def _last_failure(open_one: OpenActivity, attempts: Sequence[AttemptSeen]) -> str | None:
    failed = [one for one in attempts if one.key == open_one.key and one.outcome != "running"]
    if not failed:
        return None
    last = failed[-1]
    return failure_line(last.failure) if last.failure is not None else last.outcome.replace("_", " ")


def _waiting(seen: Description, turns: Sequence[HistoryTurn], served: bool, nobody: str, now: datetime) -> str:
    waits = seen.waiting
    if not waits:
        return "running" if seen.leases else "between two turns"
    first = min(waits, key=lambda one: one.since_turn)
    since = now - since_when(first.since_turn, turns, seen)
    where = f" at {short_source(first.source)}" if first.source else ""
    if len(waits) == 1:
        text = f"waiting {span(since)} for {first.what}{where}"
    else:
        text = f"waiting for {len(waits)} things, the longest {span(since)} for {first.what}{where}"
    running = [one for one in seen.activities if one.worker is not None]
    if running:
        return f"{text}, on {running[0].worker}; nothing is wrong"
    return f"{text}; nothing is wrong" if served else f"{text}; {nobody}"


def since_when(turn: int, turns: Sequence[HistoryTurn], seen: Description) -> datetime:
    """The time of a turn."""
    return next((one.now for one in reversed(turns) if one.turn == turn), seen.started)
