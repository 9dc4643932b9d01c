"""Activities: functions with side effects, which run outside the turn.

`@activity` makes an `Activity` of a function. Called in a workflow it schedules at once and returns a future (K5);
called anywhere else it just runs. Reached from define.api's callers; emits through kernel.calls.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, cast, overload

from perdure import codec
from perdure.define.acting import executor_or_none
from perdure.define.outcomes import Happened
from perdure.define.retry import Duration, Retry
from perdure.define.signatures import Signature, signature_of
from perdure.define.stubs import is_stub
from perdure.errors import InvalidValue, UsageError
from perdure.kernel.calls import Request, ask
from perdure.model.ids import check_id

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")

Cancellation = Literal["try", "wait", "abandon"]
Effect = Literal["repeatable", "transactional", "ask"]
Place = Literal["thread", "process"]
DURATIONS = frozenset({"timeout", "schedule_to_start", "schedule_to_close", "heartbeat"})
NO_OPTIONS: dict[str, Any] = {}  # of a call that sets none, and of every such call
CHOICES: Mapping[str, tuple[str, ...]] = {
    "cancellation": ("try", "wait", "abandon"),
    "effect": ("repeatable", "transactional", "ask"),
    "executor": ("thread", "process"),
}


class CallOptions(TypedDict, total=False):
    """What a single call may set."""

    retry: Retry
    timeout: Duration
    schedule_to_start: Duration
    schedule_to_close: Duration
    heartbeat: Duration
    queue: str
    priority: int
    cancellation: Cancellation


class ActivityOptions(CallOptions, total=False):
    """What a definition may set."""

    name: str
    effect: Effect
    executor: Place


class Activity(Generic[P, R]):
    """A function with side effects, as workflows and engines know it. `fn` is the plain function, for tests."""

    def __init__(self, fn: Callable[P, Any], options: ActivityOptions, depth: int = 2) -> None:
        if not callable(fn) or isinstance(fn, type):
            raise UsageError(f"@activity decorates a function, not {type(fn).__name__}")
        if inspect.isasyncgenfunction(fn) or inspect.isgeneratorfunction(fn):
            raise UsageError(f"activity `{fn.__name__}` is a generator; it must return one value")
        self.fn = fn
        self.name = check_id(options.get("name", getattr(fn, "__name__", "")), "the name of an activity")
        self.defaults = read_options({key: value for key, value in options.items() if key != "name"})
        self.signature: Signature = signature_of(fn, self.name, depth=depth + 1)
        self._reads: tuple[Any] | None = None
        self._of_methods: Signature | None = None  # of what is bound to an instance
        self.reconciler: Callable[P, Any] | None = None  # says what became of it, for effect="ask"
        self._is_stub: bool | None = None  # not looked at yet
        functools.update_wrapper(self, fn)

    def __repr__(self) -> str:
        return f"<activity {self.name}>"

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Activity[P, R]: ...
    @overload
    def __get__(self: Activity[Concatenate[S, Q], R], instance: S, owner: type | None = None) -> Activity[Q, R]: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Activity[..., Any]:
        """A method of an instance, as of any function: `activities=[bank.charge]`, `bank.charge(…)` in a workflow."""
        if instance is None or not inspect.isfunction(self.fn):
            return self
        if self._of_methods is None:
            self._of_methods = self.signature.bound_to_self()
        bound = copy.copy(self)
        bound.fn, bound.signature, bound._reads = self.fn.__get__(instance, owner), self._of_methods, None
        if inspect.isfunction(self.reconciler):
            bound.reconciler = self.reconciler.__get__(instance, owner)
        return bound

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[R]:
        """In a workflow: schedule it now. Elsewhere: run it (a plain `def` in a thread)."""
        return self._call(NO_OPTIONS, args, kwargs)

    def options(self, **options: Unpack[CallOptions]) -> Callable[P, asyncio.Future[R]]:
        """The same activity, with options that belong to this call only and are part of its identity (K10)."""
        unknown = sorted(set(options) - set(CallOptions.__annotations__))
        if unknown:
            raise UsageError(
                f"{', '.join(unknown)}: no option of a call; they are {', '.join(CallOptions.__annotations__)}"
            )
        read = read_options(cast("Mapping[str, Any]", options))

        def call(*args: P.args, **kwargs: P.kwargs) -> asyncio.Future[R]:
            return self._call(read, args, kwargs)

        return call

    def reconcile(self, fn: Callable[P, Awaitable[R | Happened | None] | R | Happened | None], /) -> Callable[P, Any]:
        """Decorate the function that says, of the same arguments, what became of an `ask` activity (E5).

        It returns a value: it happened, with that result (`happened()` where there is none); raises `not_applied(…)` or
        `transient(…)`: it did not; returns None: not known, and it is asked again.
        """
        if self.defaults.get("effect") != "ask":
            raise UsageError(f'activity `{self.name}` is never asked: reconcile is for @activity(effect="ask")')
        if self.reconciler is not None:
            raise UsageError(f"activity `{self.name}` has a reconcile function already: `{self.reconciler.__name__}`")
        if inspect.isasyncgenfunction(fn) or inspect.isgeneratorfunction(fn) or not inspect.isroutine(fn):
            raise UsageError(f"@{self.name}.reconcile decorates a function that returns one value")
        if not _takes_the_same(signature_of(fn, self.name), self.signature):
            raise UsageError(f"the reconcile function of activity `{self.name}` takes the same arguments as that")
        self.reconciler = fn
        return fn

    @property
    def is_stub(self) -> bool:
        """Whether its body is `...`: another worker or team serves it."""
        if self._is_stub is None:
            self._is_stub = is_stub(self.fn)
        return self._is_stub

    def _call(self, options: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> asyncio.Future[R]:
        executor = executor_or_none()
        if executor is None:
            return cast("asyncio.Future[R]", self._run_here(args, kwargs))
        unit = executor.acting(self.name)
        encoded, keywords = self.signature.bind(args, kwargs)
        if self._reads is None:
            self._reads = (self.signature.returns(),)
        cancellation = options.get("cancellation") or self.defaults.get("cancellation", "try")
        request = Request(
            "schedule_activity", self.name, encoded, keywords, options, self._reads[0], cancellation, self.defaults
        )
        return ask(executor, unit, request)

    def _run_here(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.is_stub:
            raise UsageError(
                f"activity `{self.name}` is a stub: its body is `...`, and only a worker that serves it can run it"
            )
        coroutine = self._as_coroutine(args, kwargs)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return coroutine
        return asyncio.ensure_future(coroutine)

    def _as_coroutine(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Coroutine[Any, Any, Any]:
        if inspect.iscoroutinefunction(self.fn):
            return self.fn(*args, **kwargs)
        call = functools.partial(contextvars.copy_context().run, self.fn, *args, **kwargs)

        async def in_thread() -> Any:
            return await asyncio.get_running_loop().run_in_executor(None, call)

        return in_thread()


class ActivityDecorator(Protocol):
    """`@activity(…)`: what makes an activity of a function."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Activity[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Activity[P, R]: ...


@overload
def activity(fn: Callable[P, Coroutine[Any, Any, R]], /) -> Activity[P, R]: ...
@overload
def activity(fn: Callable[P, R], /) -> Activity[P, R]: ...
@overload
def activity(**options: Unpack[ActivityOptions]) -> ActivityDecorator: ...
def activity(fn: Any = None, /, **options: Unpack[ActivityOptions]) -> Any:
    """Make an activity of a function: a plain one runs in a thread, an `async` one on the event loop."""
    unknown = sorted(set(options) - set(ActivityOptions.__annotations__) - set(CallOptions.__annotations__))
    if unknown:
        raise UsageError(f"{', '.join(unknown)}: no option of @activity")
    if fn is not None:
        return cast("Activity[..., Any]", Activity(fn, options))

    def decorate(fn: Callable[..., Any]) -> Activity[..., Any]:
        return Activity(fn, options)

    return decorate


def read_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options as they are recorded: durations in seconds, a retry policy as its fields. `InvalidValue` for nonsense."""
    read: dict[str, Any] = {}
    for name, value in given.items():
        if name in DURATIONS:
            read[name] = codec.duration_seconds(value, name)
        elif name == "retry":
            if not isinstance(value, Retry):
                raise InvalidValue(f"retry is a Retry(…), not {type(value).__name__}")
            read[name] = value.as_option()
        elif name in CHOICES:
            if value not in CHOICES[name]:
                raise InvalidValue(f"{name} is one of {', '.join(CHOICES[name])}, not {codec.shown(value)}")
            read[name] = value
        elif name == "queue":
            read[name] = check_id(value, "the name of a queue")
        elif name == "priority":
            if isinstance(value, bool) or not isinstance(value, int) or not -(2**31) <= value < 2**31:
                raise InvalidValue(f"priority is a whole number of 32 bits, larger first, not {codec.shown(value)}")
            read[name] = value
    return read


def _takes_the_same(one: Signature, other: Signature) -> bool:
    """Whether what can be given to the other can be given to this one."""
    enough = len(one.names) >= len(other.names) or one.many is not None
    return enough and one.required <= other.required and one.required_keywords <= other.keywords
