"""Workflows: `@workflow` makes a definition of an `async def` or of a class.

The definition holds the kernel's `Program`, made when it is first needed, so that annotations may name what is
defined further down. Children are define.children's.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Generic, Literal, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, cast, overload

from perdure import codec
from perdure.define.children import Child, start_child
from perdure.define.handlers import Method, Query, Signal, Update
from perdure.define.retry import Duration
from perdure.define.signatures import Signature, signature_of
from perdure.errors import InvalidValue, UsageError
from perdure.kernel.callsite import own_code
from perdure.kernel.loop import running_loop
from perdure.kernel.program import Handler, Program
from perdure.model.ids import check_id

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
C = TypeVar("C", bound=type)

DEFINITION = "__perdure_workflow__"


class WorkflowOptions(TypedDict, total=False):
    """What a definition may set."""

    name: str
    version: str | int
    queue: str
    timeout: Duration
    on_nondeterminism: Literal["block", "fail"]


class Runs(Protocol[P, R_co]):
    """A class workflow: what it takes and returns is what its `run` does."""

    def run(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]: ...


class Workflow(Generic[P, R]):
    """A workflow, as code and engines know it. `fn` is the plain coroutine function, or the class."""

    def __init__(
        self, fn: Callable[P, Coroutine[Any, Any, R]] | type, options: WorkflowOptions, depth: int = 3
    ) -> None:
        if not callable(cast(object, fn)):
            raise UsageError(f"@workflow decorates an `async def` or a class, not {type(fn).__name__}")
        self.fn = fn
        self.name = check_id(options.get("name", getattr(fn, "__name__", "")), "the name of a workflow")
        self.version = _version(options.get("version"))
        self.queue = options.get("queue")
        self.timeout = None if "timeout" not in options else codec.duration_seconds(options["timeout"], "timeout")
        self.on_nondeterminism = options.get("on_nondeterminism", "block")
        _check_options(self, options)
        run = _run_of(fn, self.name)
        self.signature: Signature = signature_of(run, self.name, hidden=int(isinstance(fn, type)), depth=depth)
        self._program: Program | None = None
        if not isinstance(fn, type):
            functools.update_wrapper(self, fn)

    def __repr__(self) -> str:
        return f"<workflow {self.name}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Child[R]:
        """In a workflow: start it as a child."""
        if running_loop() is None:
            raise UsageError(
                f"workflow `{self.name}` was called outside a workflow: start it with "
                f"`await engine.start({self.name}, …)`; its plain function is `{self.name}.fn`"
            )
        return start_child(self.name, self.name, self.signature, args, kwargs, {}, self.defaults)

    @property
    def defaults(self) -> dict[str, Any]:
        """What the definition sets for those who start it as a child, also where the worker does not know it."""
        given = {"queue": self.queue, "timeout": self.timeout, "version": self.version}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def program(self) -> Program:
        """The workflow as the kernel runs it."""
        if self._program is None:
            self._program = _program_of(self)
        return self._program


def definition_of(workflow: object) -> Workflow[..., Any]:
    """The definition behind what a user passes as a workflow; `UsageError` if it is none."""
    if isinstance(workflow, Workflow):
        return cast("Workflow[..., Any]", workflow)
    found = vars(workflow).get(DEFINITION) if isinstance(workflow, type) else None
    if found is None:
        named = getattr(workflow, "__name__", None) or repr(workflow)
        raise UsageError(f"{named} is not a workflow: decorate it with @workflow")
    return found


class WorkflowDecorator(Protocol):
    """`@workflow(…)`: what makes a workflow of an `async def` or of a class."""

    @overload
    def __call__(self, target: C, /) -> C: ...
    @overload
    def __call__(self, target: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...


@overload
def workflow(target: C, /) -> C: ...
@overload
def workflow(target: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...
@overload
def workflow(**options: Unpack[WorkflowOptions]) -> WorkflowDecorator: ...
def workflow(target: Any = None, /, **options: Unpack[WorkflowOptions]) -> Any:
    """Make a workflow of an `async def`, or of a class with an `async def run`."""
    unknown = sorted(set(options) - set(WorkflowOptions.__annotations__))
    if unknown:
        raise UsageError(f"{', '.join(unknown)}: no option of @workflow")

    def decorate(target: Any) -> Any:
        definition: Workflow[..., Any] = Workflow(target, options)
        if isinstance(target, type):
            setattr(target, DEFINITION, definition)
            return target
        return definition

    return decorate if target is None else decorate(target)


def _check_options(made: Workflow[..., Any], options: Mapping[str, Any]) -> None:
    if made.queue is not None:
        check_id(made.queue, "the name of a queue")
    if made.on_nondeterminism not in ("block", "fail"):
        raise InvalidValue(f"on_nondeterminism is block or fail, not {options['on_nondeterminism']!r}")


def _version(version: str | int | None) -> str | None:
    if version is None:
        return None
    is_number = isinstance(version, int) and not isinstance(version, bool)
    return check_id(str(version) if is_number else cast(str, version), "the version of a workflow")


def _run_of(fn: Any, name: str) -> Callable[..., Any]:
    run = getattr(fn, "run", None) if isinstance(fn, type) else fn
    if not inspect.iscoroutinefunction(run):
        what = "an `async def run`" if isinstance(fn, type) else "an `async def`"
        raise UsageError(f"workflow `{name}` needs {what}: its steps are awaited")
    return run


def _program_of(made: Workflow[..., Any]) -> Program:
    fn: Any = made.fn
    signature = made.signature
    run = Handler(
        name=made.name,
        call=_run_of(fn, made.name),
        reads=signature.reads(),
        rest=signature.rest_reads(),
        parameters=signature.names,
        keyword_reads=signature.keyword_reads(),
        returns=signature.returns(),
    )
    code = own_code(run.call.__code__.co_filename)
    if not isinstance(fn, type):
        return Program(made.name, run, own_code=code)
    methods = _methods_of(fn)
    return Program(
        made.name,
        run,
        begin=fn,
        signals={one.name: one.handler() for one in methods if isinstance(one, Signal)},
        updates={one.name: one.handler() for one in methods if isinstance(one, Update)},
        queries={one.name: one.handler() for one in methods if isinstance(one, Query)},
        own_code=code,
    )


def _methods_of(cls: type) -> list[Method[..., Any]]:
    found: dict[str, Any] = {}
    for one in reversed(cls.__mro__):
        found.update(vars(one))
    return [value for value in found.values() if isinstance(value, Method)]
