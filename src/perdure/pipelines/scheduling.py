"""Scheduling: which handler of a pipeline runs next, as a pure function of what has happened (L2, L5 to L10).

Every trigger takes a state and gives a new one; `decide` says what is to be done now. The host loop only feeds it, and
may sleep until the moment that a `Wait` names.

    deploy, recover        where a state begins
    tick, event, run_now   triggers: they only ever put flags up
    start                  takes the flags of one handler down, so that what comes later survives the run's commit (L6)
    commit, fail           how a run ends
    retry, pause, resume   what people do

A consumer that has reserved something stays dirty, and is clean once it reserves nothing: so every event is looked at,
and nothing runs twice for one trigger. All moments are aware datetimes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar, get_args

from perdure.errors import InvalidValue, NotFound, UsageError
from perdure.pipelines.policy import PipelinePolicy
from perdure.pipelines.resuming import goes_on_at
from perdure.pipelines.states import Blocked, Consumer, FailedStatus, Handler, Producer, State, aware, has_come

__all__ = [
    "Blocked",
    "Consumer",
    "Producer",
    "Start",
    "State",
    "Wait",
    "clamp_wake_at",
    "commit",
    "decide",
    "deploy",
    "event",
    "fail",
    "goes_on_at",
    "pause",
    "recover",
    "resume",
    "retry",
    "run_now",
    "start",
    "tick",
]

H = TypeVar("H", Producer, Consumer)


@dataclass(frozen=True)
class Start:
    """Start a run of this handler; it takes the place of the run `retry_of`, if there is one."""

    handler: str
    retry_of: str | None = None


@dataclass(frozen=True)
class Wait:
    """Nothing is to be done before this moment; None: not before something happens."""

    until: datetime | None = None


# --- what is to be done -------------------------------------------------------------------------


def decide(state: State, now: datetime) -> Start | Wait:
    """A retry first, then consumers by their oldest pending event, then producers (L6).

    After a burst of consumer runs in a row a producer that is due goes first.
    """
    aware(now)
    if state.active is not None or state.paused:
        return Wait()
    if state.blocked is not None:
        ready = has_come(state.blocked.retry_at, now)
        return Start(state.blocked.handler, state.blocked.run) if ready else Wait(state.blocked.retry_at)
    consumers = [one for one in state.consumers if one.is_due(now)]
    producers = [one for one in state.producers if one.is_due(now)]
    if producers and (not consumers or state.in_a_row >= state.policy.burst):
        # Who has been due for longest goes first, so that none keeps the others waiting.
        return Start(min(producers, key=lambda one: min(one.next_run_at or now, now)).name)
    if consumers:
        return Start(min(consumers, key=lambda one: _age_of(state, one, now)).name)
    moments = [*(one.next_run_at for one in state.producers), *(one.wake_at for one in state.consumers)]
    return Wait(min((moment for moment in moments if moment is not None), default=None))


def _age_of(state: State, consumer: Consumer, now: datetime) -> tuple[int, datetime]:
    """Those with pending events by the oldest, those to be woken by that time, then those that may have new ones."""
    oldest = state.oldest(consumer.topics)
    if oldest is not None:
        return 0, oldest
    return (1, consumer.wake_at) if consumer.wake_at is not None and consumer.wake_at <= now else (2, now)


# --- where a state begins -----------------------------------------------------------------------


def deploy(state: State, now: datetime) -> State:
    """A new or changed declaration: every producer is due, every consumer dirty, and events stay as they are (L2).

    A run that failed by a mistake of its code is tried once with the new code. `InvalidValue` for a bad interval or
    cron expression, two handlers of one name, and two consumers of one topic.
    """
    aware(now)
    _check(state)
    # One that is running runs again: what it began with was the old declaration.
    producers = tuple(
        replace(one, next_run_at=now, queued=one.queued or one.name == state.active) for one in state.producers
    )
    consumers = tuple(replace(one, dirty=True) for one in state.consumers)
    blocked = state.blocked
    if blocked is not None and blocked.status == "failed:logic":
        still_there = blocked.handler in {one.name for one in state.handlers}
        blocked = replace(blocked, retry_at=now) if still_there else None
    return replace(state, producers=producers, consumers=consumers, blocked=blocked)


def _check(state: State) -> None:
    subscribed: dict[str, str] = {}
    names: set[str] = set()
    for one in state.handlers:
        if one.name in names:
            raise InvalidValue(f"two handlers are called {one.name!r}: give each its own name")
        names.add(one.name)
        if isinstance(one, Producer):
            _ = one.cadence
            continue
        for topic in dict.fromkeys(one.topics):
            if topic in subscribed:
                raise InvalidValue(
                    f"topic {topic!r} has two consumers, {subscribed[topic]!r} and {one.name!r}: "
                    "an event is consumed once; let one consumer publish to a second topic"
                )
            subscribed[topic] = one.name


def recover(state: State, now: datetime) -> State:
    """A worker takes the pipeline over: flags are found again from `next_run_at` and `pending` (L9).

    A run that was active has crashed, and a run that recovers it goes first. What blocked or paused still does.
    """
    aware(now)
    blocked = state.blocked
    if state.active is not None:
        blocked = Blocked(state.active, state.active_run, "crashed", since=now, retry_at=now)
    return replace(
        state,
        producers=tuple(replace(one, queued=has_come(one.next_run_at, now)) for one in state.producers),
        consumers=tuple(
            replace(one, dirty=state.oldest(one.topics) is not None, queued=False) for one in state.consumers
        ),
        active=None,
        active_run=None,
        active_since=None,
        blocked=blocked,
        in_a_row=0,
    )


# --- triggers -----------------------------------------------------------------------------------


def tick(state: State, now: datetime) -> State:
    """Time has passed: what is due is queued, at most once each (L6), whatever runs or blocks."""
    aware(now)
    producers = tuple(replace(one, queued=one.queued or _has_fired(state, one, now)) for one in state.producers)
    consumers = tuple(replace(one, queued=one.queued or has_come(one.wake_at, now)) for one in state.consumers)
    return replace(state, producers=producers, consumers=consumers)


def event(state: State, topic: str, now: datetime) -> State:
    """A new event of this topic: who subscribes to it is dirty, and queued if anything runs at the moment."""
    oldest = min(state.pending.get(topic, aware(now)), now)
    busy = state.active is not None
    consumers = tuple(
        replace(one, dirty=True, queued=one.queued or busy) if topic in one.topics else one for one in state.consumers
    )
    return replace(state, consumers=consumers, pending={**state.pending, topic: oldest})


def run_now(state: State, now: datetime) -> State:
    """A person wants every producer to run now (L10). `UsageError` while anything is active or paused."""
    aware(now)
    reason = None
    if state.active is not None:
        reason = f"{state.active!r} is running: wait until it has finished"
    elif state.paused:
        reason = "it is paused: resume it first"
    elif state.blocked is not None:
        reason = f"{state.blocked.handler!r} is {state.blocked.status}: settle that first"
    if reason is not None:
        raise UsageError(f"the pipeline cannot run now, because {reason}. Nothing was queued")
    producers = tuple(replace(one, queued=True, next_run_at=one.after(now)) for one in state.producers)
    return replace(state, producers=producers)


# --- runs ---------------------------------------------------------------------------------------


def start(state: State, handler: str, now: datetime, *, run: str | None = None) -> State:
    """A run of this handler begins: its flags and a `wake_at` that is due are taken down.

    `UsageError` while another run is active, or where the pipeline is paused or another run blocks it; `NotFound`.
    """
    aware(now)
    _find(state, handler)
    if state.active is not None:
        raise UsageError(f"{state.active!r} is running: at most one run of a pipeline is active at a time")
    if state.paused:
        raise UsageError(f"the pipeline is paused, so that {handler!r} cannot start: resume it first")
    blocked = state.blocked
    if blocked is not None and not (blocked.handler == handler and has_come(blocked.retry_at, now)):
        raise UsageError(f"{blocked.handler!r} is {blocked.status}, and nothing else runs before that is settled")
    return _begin(state, handler, now, run)


def commit(
    state: State,
    handler: str,
    now: datetime,
    reserved: bool = False,
    wake_at: object = None,
    pending: Mapping[str, datetime | None] | None = None,
) -> State:
    """Its run was committed: a producer's next time is reckoned, a consumer's `wake_at` and `dirty` are set (L5, L6).

    `pending` says what is pending now: of this consumer's topics all that is left, of others what is new or changed
    (None: nothing any more). `UsageError` if another handler is active; `NotFound`.
    """
    one, state = _running(state, handler, now)
    if isinstance(one, Producer):
        # Where its time has come again while it was running, that is a trigger after its start, and is not lost.
        queued = one.queued or _has_fired(state, one, now)
        ended: Handler = replace(one, queued=queued, next_run_at=one.after(now))
    else:
        given = clamp_wake_at(wake_at, now, state.policy)
        kept = None if reserved else one.wake_at
        ended = replace(one, dirty=one.dirty or reserved, wake_at=given or kept)
    state = replace(_put(state, ended), active=None, active_run=None, active_since=None)
    return state if pending is None else _learn(state, one, pending)


def fail(
    state: State, handler: str, now: datetime, run: str | None = None, status: str = "failed:logic", attempt: int = 1
) -> State:
    """Its run could not go on: the whole pipeline waits, and triggers go on accumulating (L8).

    `attempt` is the number of this one; the first is 1. A transient failure is tried again after a while, until the
    retries are used up; a crash at once; everything else waits for `retry`. `InvalidValue` for another status.
    """
    if status not in get_args(FailedStatus):
        raise InvalidValue(
            f"{status!r} is no status of a run that failed; they are {', '.join(get_args(FailedStatus))}"
        )
    if isinstance(attempt, bool) or attempt < 1:
        raise InvalidValue(f"attempt is {attempt!r}: the first attempt is 1")
    _, state = _running(state, handler, now)
    retry_at = None
    if status == "crashed":
        retry_at = now
    elif status == "paused:transient" and attempt <= state.policy.retries:
        retry_at = now + state.policy.backoff(attempt)
    blocked = Blocked(handler, run or state.active_run, status, attempt, now, retry_at)
    return replace(state, active=None, active_run=None, active_since=None, blocked=blocked)


def retry(state: State, now: datetime) -> State:
    """The run that blocks may go on: somebody has settled it, or new code is there. No change where none blocks."""
    aware(now)
    return state if state.blocked is None else replace(state, blocked=replace(state.blocked, retry_at=now))


def pause(state: State) -> State:
    """A person stops the pipeline: what runs is finished, and nothing starts. Triggers go on accumulating."""
    return replace(state, paused=True)


def resume(state: State) -> State:
    """Take back what `pause` did, and nothing else: a run that blocks still does (L11)."""
    return replace(state, paused=False)


# --- waking -------------------------------------------------------------------------------------


def clamp_wake_at(value: object, now: datetime, policy: PipelinePolicy | None = None) -> datetime | None:
    """`wake_at` as it counts: from 30 s to 24 h from now, or as the policy says; None where it is no moment (L5).

    Taken are aware datetimes and ISO text; text without an offset is in UTC.
    """
    policy = policy or PipelinePolicy()
    aware(now)
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
        value = value if value.utcoffset() is not None else value.replace(tzinfo=UTC)
    if not isinstance(value, datetime) or value.utcoffset() is None:
        return None
    earliest = now + timedelta(seconds=policy.wake_min)
    latest = now + timedelta(seconds=policy.wake_max)
    return min(max(value, earliest), latest)


# --- parts --------------------------------------------------------------------------------------


def _find(state: State, handler: str) -> Handler:
    for one in state.handlers:
        if one.name == handler:
            return one
    raise NotFound(f"the pipeline has no handler {handler!r}; it has {[one.name for one in state.handlers]}")


def _put(state: State, handler: Handler) -> State:
    if isinstance(handler, Producer):
        return replace(state, producers=_swapped(state.producers, handler))
    return replace(state, consumers=_swapped(state.consumers, handler))


def _swapped(handlers: tuple[H, ...], one: H) -> tuple[H, ...]:
    return tuple(one if other.name == one.name else other for other in handlers)


def _begin(state: State, handler: str, now: datetime, run: str | None) -> State:
    one = _find(state, handler)
    state = replace(state, active=handler, active_run=run, active_since=now, blocked=None)
    if isinstance(one, Producer):
        return _put(replace(state, in_a_row=0), replace(one, queued=False))
    wake_at = None if has_come(one.wake_at, now) else one.wake_at
    state = replace(state, in_a_row=state.in_a_row + 1)
    return _put(state, replace(one, dirty=False, queued=False, wake_at=wake_at))


def _running(state: State, handler: str, now: datetime) -> tuple[Handler, State]:
    """The handler whose run ends now; it counts as started if nothing is active."""
    aware(now)
    _find(state, handler)
    if state.active is None:
        if state.blocked is not None and state.blocked.handler != handler:
            raise UsageError(f"{state.blocked.handler!r} is {state.blocked.status}, so {handler!r} cannot have run")
        state = _begin(state, handler, now, None)
    elif state.active != handler:
        raise UsageError(f"{state.active!r} is running, not {handler!r}: at most one run is active at a time")
    return _find(state, handler), state


def _has_fired(state: State, producer: Producer, now: datetime) -> bool:
    return producer.has_fired(now, state.active_since if producer.name == state.active else None)


def _learn(state: State, ended: Handler, pending: Mapping[str, datetime | None]) -> State:
    own = ended.topics if isinstance(ended, Consumer) else ()
    known = {topic: moment for topic, moment in state.pending.items() if topic not in own and topic not in pending}
    given = {topic: moment for topic, moment in pending.items() if moment is not None}
    # What nobody knew to be pending is new; what its own consumer has looked at and left is not.
    new = {topic for topic in given if topic not in state.pending and topic not in own}
    consumers = tuple(replace(one, dirty=one.dirty or bool(new & set(one.topics))) for one in state.consumers)
    return replace(state, consumers=consumers, pending={**known, **given})
