"""What workflow code calls: everything under *Inside a workflow*.

Each call finds its run by the thread's running loop (define.acting) and hands encoded values to kernel.calls,
kernel.branches and kernel.phases. Started, cancelled and awaited as asyncio futures are.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator, Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any, NoReturn, ParamSpec, TypeVar, cast, overload
from uuid import UUID

from perdure import codec
from perdure.define.acting import run_and_unit
from perdure.define.children import OtherRun
from perdure.define.retry import Duration
from perdure.define.signatures import signature_of
from perdure.errors import InvalidValue, UsageError
from perdure.kernel import calls
from perdure.kernel.calls import NO_DEFAULT, Request
from perdure.kernel.cancellation import CancelScope, Shield
from perdure.kernel.endings import one
from perdure.kernel.futures import LoopFuture
from perdure.kernel.phases import Phase, PhaseEnd
from perdure.kernel.program import Handler
from perdure.model.ids import check_id
from perdure.model.runs import RunFacts

P = ParamSpec("P")
T = TypeVar("T")
D = TypeVar("D")
S = TypeVar("S")


# --- time and chance --------------------------------------------------------------------------


class Yielded(LoopFuture):
    """What `sleep(0)` returns: done already, and a yield when it is awaited."""

    def __await__(self) -> Generator[Any, None, None]:
        yield None


def sleep(duration: Duration) -> asyncio.Future[None]:
    """A durable timer. `sleep(0)` is a yield and starts none."""
    executor, unit = run_and_unit("sleep")
    seconds = codec.duration_seconds(duration, "sleep")
    if not seconds:
        made = Yielded(loop=executor.loop)
        made.set_result(None)
        return made
    return calls.start_timer(executor, unit, seconds)


def sleep_until(moment: datetime) -> asyncio.Future[None]:
    """A durable timer until a moment; one that has passed is a yield."""
    if not isinstance(cast(object, moment), datetime) or moment.tzinfo is None:
        raise InvalidValue(f"sleep_until() needs a datetime with a time zone, not {moment!r}")
    return sleep(max(timedelta(0), moment - now()))


def now() -> datetime:
    """The turn's time, in UTC: the same within a turn, the same on replay."""
    executor, _ = run_and_unit("now", emits=False)
    return executor.now


def random() -> Random:
    """This unit's own random numbers: the same on replay, whatever the other units draw."""
    executor, unit = run_and_unit("random")
    return unit.random(executor.identity.seed)


def uuid4() -> UUID:
    """A random uuid: the same on replay."""
    executor, unit = run_and_unit("uuid4")
    return unit.uuid(executor.identity.seed)


def info() -> RunFacts:
    """What the run knows of itself."""
    executor, _ = run_and_unit("info", emits=False)
    return RunFacts(
        workflow=executor.program.name,
        workflow_id=executor.started.workflow_id or str(executor.identity.run_id),
        run_id=str(executor.identity.run_id),
        generation=executor.started.generation,
        turn=executor.turn,
        replaying=executor.matcher.replaying,
        attributes=dict(executor.attributes),
        memo=dict(executor.started.memo),
    )


def cancelled() -> bool:
    """Whether what runs here was asked to cancel: the run, or a region around this code. A shield does not hide it."""
    executor, _ = run_and_unit("cancelled", emits=False)
    scope = executor.scope()
    while True:
        if scope.cancelled:
            return True
        if scope.parent is None:
            return False
        scope = scope.parent


# --- signals, promises, conditions ------------------------------------------------------------


@overload
def receive(name: str, type: type[T], timeout: Duration | None = None) -> asyncio.Future[T]: ...
@overload
def receive(name: str, type: type[T], timeout: Duration | None = None, *, default: D) -> asyncio.Future[T | D]: ...
@overload
def receive(name: str, type: Any = ..., timeout: Duration | None = None, default: Any = ...) -> asyncio.Future[Any]: ...
def receive(
    name: str, type: Any = Any, timeout: Duration | None = None, default: Any = NO_DEFAULT
) -> asyncio.Future[Any]:
    """The next signal of that name, from the buffer or when it comes."""
    executor, unit = run_and_unit("receive")
    return calls.receive(
        executor,
        unit,
        {check_id(name, "the name of a signal"): type},
        single=True,
        timeout=_seconds(timeout),
        default=default,
    )


def receive_any(signals: Mapping[str, Any], timeout: Duration | None = None) -> asyncio.Future[tuple[str, Any]]:
    """The next of several signals, as `(name, value)`; of several that wait, the one that came first."""
    executor, unit = run_and_unit("receive_any")
    if not isinstance(cast(object, signals), Mapping) or not signals:
        raise InvalidValue("receive_any() needs a mapping of signal names to types, with one name at least")
    names = {check_id(name, "the name of a signal"): reads for name, reads in signals.items()}
    return calls.receive(executor, unit, names, single=False, timeout=_seconds(timeout), default=NO_DEFAULT)


def pending(name: str) -> int:
    """How many signals of that name wait in the buffer."""
    executor, _ = run_and_unit("pending", emits=False)
    return executor.mailbox.pending(name)


@overload
def promise(name: str, type: type[T], timeout: Duration | None = None, key: str | None = None) -> asyncio.Future[T]: ...
@overload
def promise(
    name: str, type: Any = ..., timeout: Duration | None = None, key: str | None = None
) -> asyncio.Future[Any]: ...
def promise(name: str, type: Any = Any, timeout: Duration | None = None, key: str | None = None) -> asyncio.Future[Any]:
    """A future that the outside resolves or rejects, by this name, or by a key of its own (M4)."""
    executor, unit = run_and_unit("promise")
    options = {} if key is None else {"key": check_id(key, "the key of a promise")}
    request = Request("create_promise", check_id(name, "the name of a promise"), options=options, reads=type)
    return calls.promise(executor, unit, request, _seconds(timeout))


async def wait_until(predicate: Callable[[], object], timeout: Duration | None = None) -> None:
    """Wait until a predicate is true. It is looked at after every round, and may look and not act."""
    executor, unit = run_and_unit("wait_until")
    if not callable(predicate) or inspect.iscoroutinefunction(predicate):
        raise InvalidValue("wait_until() needs a plain function without arguments")
    await calls.wait_until(executor, unit, predicate, _seconds(timeout))


# --- regions -----------------------------------------------------------------------------------


def scope(timeout: Duration | None = None) -> CancelScope:
    """A region that is cancelled as one: `async with scope(timeout="5m") as region: …`."""
    executor, _ = run_and_unit("scope")
    return CancelScope(executor, _seconds(timeout))


def shielded() -> Shield:
    """A section that no cancellation interrupts: `async with shielded(): …`, for clean-up."""
    executor, _ = run_and_unit("shielded")
    return Shield(executor)


async def phase(
    state: S,
    signals: Mapping[str, Callable[..., Any]] | None = None,
    updates: Mapping[str, Callable[..., Any]] | None = None,
    validators: Mapping[str, Callable[..., Any]] | None = None,
    timeout: Duration | None = None,
) -> PhaseEnd[S]:
    """Take messages, each by its handler `fn(state, *args)`, until one of them stops the phase (M5)."""
    executor, _ = run_and_unit("phase")
    signals, updates, validators = signals or {}, updates or {}, validators or {}
    stray = sorted(validators.keys() - updates.keys())
    if stray:
        raise UsageError(f"phase(): validators for {', '.join(stray)}, and no such update")
    for name, fn in validators.items():
        if not callable(fn) or inspect.iscoroutinefunction(fn):
            raise InvalidValue(f"the validator of `{name}` must be a plain function: it may only look")
    opened = Phase(
        executor,
        state,
        {name: _handler(name, fn, None) for name, fn in signals.items()},
        {name: _handler(name, fn, validators.get(name)) for name, fn in updates.items()},
        _seconds(timeout),
    )
    return await opened.run()


def update_state(fn: Callable[[Any], S]) -> S:
    """Replace the state of the open phase by `fn(state)`, at once; returns the new state."""
    executor, _ = run_and_unit("update_state")
    opened = executor.phase
    if opened is None:
        raise UsageError("update_state(): no phase is open in this run")
    opened.state = executor.read_only("an update_state function", fn, opened.state)
    return opened.state


# --- what the outside sees ---------------------------------------------------------------------


def publish(value: object) -> None:
    """Show a value to the outside: the run's status, as the workflow puts it (M10)."""
    executor, unit = run_and_unit("publish")
    calls.note(executor, unit, "publish", None, one(codec.encode(value, "published value")))


@overload
def get_state(key: str, type: type[T]) -> T | None: ...
@overload
def get_state(key: str, type: type[T], default: D) -> T | D: ...
@overload
def get_state(key: str, type: Any = ..., default: Any = ...) -> Any: ...
def get_state(key: str, type: Any = Any, default: Any = None) -> Any:
    """The value under a key of the run's state, read as `type`; `default` if there is none."""
    executor, _ = run_and_unit("get_state", emits=False)
    encoded = executor.state.get(key)
    return default if encoded is None else codec.decode(encoded, type, f"state `{key}`")


def set_state(key: str, value: object) -> None:
    """Put a value under a key of the run's state; the outside can read it."""
    executor, unit = run_and_unit("set_state")
    calls.set_state(executor, unit, check_id(key, "a key of the state"), value)


def clear_state(key: str) -> None:
    """Take a key out of the run's state."""
    executor, unit = run_and_unit("clear_state")
    calls.clear_state(executor, unit, check_id(key, "a key of the state"))


def attributes(**given: Any) -> None:
    """Set attributes that the run can be found by; None takes one away. `InvalidValue` for what cannot be compared."""
    executor, unit = run_and_unit("attributes")
    if not given:
        raise InvalidValue("attributes() needs at least one name=value")
    calls.set_attributes(executor, unit, given)


def publish_to(topic: Any, payload: object, message_id: str | None = None) -> None:
    """Publish an event to a pipeline's topic, with this turn."""
    executor, unit = run_and_unit("publish_to")
    name = check_id(getattr(topic, "name", topic), "the name of a topic")
    options = {} if message_id is None else {"message_id": check_id(message_id, "a message id")}
    if hasattr(topic, "pipeline"):  # topics of several pipelines may have one name
        options["pipeline"] = check_id(topic.pipeline, "the name of a pipeline")
    calls.note(executor, unit, "publish_event", name, one(codec.encode(payload, "payload")), options)


# --- versions, generations, other runs ---------------------------------------------------------


def patched(id: str) -> bool:
    """Whether this run goes the new way: true for runs that began with it, false for those that did not (M9)."""
    executor, unit = run_and_unit("patched")
    return calls.patched(executor, unit, check_id(id, "the id of a patch"))


def deprecate_patch(id: str) -> None:
    """Say that the old way is gone: no run that needs it is open any more (M9)."""
    executor, unit = run_and_unit("deprecate_patch")
    calls.deprecate_patch(executor, unit, check_id(id, "the id of a patch"))


def side_effect(name: str, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a plain, quick function once and record its value (M11).

    A crash between the effect and the commit of the turn repeats it: what must not be repeated is an activity.
    """
    executor, unit = run_and_unit("side_effect")
    check_id(name, "the name of a side effect")
    if not callable(fn) or inspect.iscoroutinefunction(fn):
        raise InvalidValue(f"side_effect `{name}` needs a plain function: it runs within the turn")
    return calls.side_effect(executor, unit, name, lambda: fn(*args, **kwargs), _returns(fn, name))


def continue_as_new(*args: object, **kwargs: object) -> NoReturn:
    """End this run and go on as its next generation, with these arguments and a fresh history (M8)."""
    executor, _ = run_and_unit("continue_as_new")
    run = executor.program.run
    signature = signature_of(run.call, run.name, hidden=int(executor.program.begin is not None))
    calls.continue_as_new(executor, *signature.bind(args, kwargs))
    raise AssertionError


def run_of(workflow_id: str) -> OtherRun:
    """Another run: `.signal(…)` and `.cancel()`."""
    run_and_unit("run_of", emits=False)
    return OtherRun(workflow_id)


# --- leaves --------------------------------------------------------------------------------------


def _seconds(timeout: Duration | None) -> int | float | None:
    return None if timeout is None else codec.duration_seconds(timeout, "timeout")


def _handler(name: str, fn: Callable[..., Any], validate: Callable[..., Any] | None) -> Handler:
    check_id(name, "the name of a message")
    if not callable(fn):
        raise InvalidValue(f"the handler of `{name}` must be a function, not {type(fn).__name__}")
    signature = signature_of(fn, name, hidden=1)
    return Handler(
        name,
        fn,
        signature.reads(),
        signature.rest_reads(),
        signature.names,
        signature.required,
        validate=validate,
    )


def _returns(fn: Callable[..., Any], name: str) -> Any:
    try:
        return signature_of(fn, name).returns()
    except (TypeError, ValueError):  # some functions written in C have no signature
        return Any
