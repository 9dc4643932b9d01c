"""Starting children: `child`, typed at the call site by how many arguments the workflow takes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Literal, Protocol, TypedDict, TypeVar, Unpack, cast, overload

from perdure import codec
from perdure.define.children import Child, start_child
from perdure.define.retry import Duration
from perdure.define.signatures import signature_of
from perdure.define.workflow import definition_of
from perdure.errors import InvalidValue, UsageError
from perdure.model.ids import check_id

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
E = TypeVar("E")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
A_contra = TypeVar("A_contra", contravariant=True)
B_contra = TypeVar("B_contra", contravariant=True)
C_contra = TypeVar("C_contra", contravariant=True)
E_contra = TypeVar("E_contra", contravariant=True)

Work = Coroutine[Any, Any, R]


class ChildOptions(TypedDict, total=False):
    """What the start of a child may set."""

    id: str | None
    parent_close: Literal["terminate", "cancel", "abandon"]
    queue: str
    timeout: Duration


class Runs0(Protocol[R_co]):
    """A class workflow without arguments."""

    def run(self) -> Coroutine[Any, Any, R_co]: ...


class Runs1(Protocol[A_contra, R_co]):
    """A class workflow with one argument."""

    def run(self, a: A_contra, /) -> Coroutine[Any, Any, R_co]: ...


class Runs2(Protocol[A_contra, B_contra, R_co]):
    """A class workflow with two arguments."""

    def run(self, a: A_contra, b: B_contra, /) -> Coroutine[Any, Any, R_co]: ...


class Runs3(Protocol[A_contra, B_contra, C_contra, R_co]):
    """A class workflow with three arguments."""

    def run(self, a: A_contra, b: B_contra, c: C_contra, /) -> Coroutine[Any, Any, R_co]: ...


class Runs4(Protocol[A_contra, B_contra, C_contra, E_contra, R_co]):
    """A class workflow with four arguments."""

    def run(self, a: A_contra, b: B_contra, c: C_contra, e: E_contra, /) -> Coroutine[Any, Any, R_co]: ...


Start0 = Callable[[], Child[R]] | type[Runs0[R]]
Start1 = Callable[[A], Child[R]] | type[Runs1[A, R]]
Start2 = Callable[[A, B], Child[R]] | type[Runs2[A, B, R]]
Start3 = Callable[[A, B, C], Child[R]] | type[Runs3[A, B, C, R]]
Start4 = Callable[[A, B, C, E], Child[R]] | type[Runs4[A, B, C, E, R]]


@overload
def child(workflow: Start0[R], /, **options: Unpack[ChildOptions]) -> Child[R]: ...
@overload
def child(workflow: Start1[A, R], a: A, /, **options: Unpack[ChildOptions]) -> Child[R]: ...
@overload
def child(workflow: Start2[A, B, R], a: A, b: B, /, **options: Unpack[ChildOptions]) -> Child[R]: ...
@overload
def child(workflow: Start3[A, B, C, R], a: A, b: B, c: C, /, **options: Unpack[ChildOptions]) -> Child[R]: ...
@overload
def child(workflow: Start4[A, B, C, E, R], a: A, b: B, c: C, e: E, /, **options: Unpack[ChildOptions]) -> Child[R]: ...
@overload
def child(workflow: str, /, *args: Any, **options: Unpack[ChildOptions]) -> Child[Any]: ...
def child(workflow: Any, /, *args: Any, **options: Any) -> Child[Any]:
    """Start a child run: a future of its result, with `.id`, `.signal(…)` and `.cancel()` (M7).

    By its name, a workflow whose code is not at hand: its arguments are not checked here, and its result is plain.
    """
    read = _read(cast(ChildOptions, options))
    if isinstance(workflow, str):
        name = check_id(workflow, "the name of a workflow")
        return start_child("child", name, signature_of(_unknown, name), args, {}, read, {})
    definition = definition_of(workflow)
    return start_child("child", definition.name, definition.signature, args, {}, read, definition.defaults)


def _unknown(*arguments: Any) -> Any: ...


def _read(options: ChildOptions) -> dict[str, Any]:
    unknown = sorted(set(options) - set(ChildOptions.__annotations__))
    if unknown:
        raise UsageError(f"child() has no option {', '.join(unknown)}")
    read: dict[str, Any] = {}
    if options.get("id") is not None:
        read["id"] = check_id(options["id"], "the id of a child") if "id" in options else None
    if "parent_close" in options:
        if options["parent_close"] not in ("terminate", "cancel", "abandon"):
            raise InvalidValue(f"parent_close is terminate, cancel or abandon, not {options['parent_close']!r}")
        read["parent_close"] = options["parent_close"]
    if "queue" in options:
        read["queue"] = check_id(options["queue"], "the name of a queue")
    if "timeout" in options:
        read["timeout"] = codec.duration_seconds(options["timeout"], "timeout")
    return read
