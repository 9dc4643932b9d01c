"""Handlers: `@signal`, `@update` and `@query` on the methods of a class workflow.

define.workflow collects them; kernel.messages calls them. On an instance they are plain methods.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

from perdure.define.signatures import signature_of
from perdure.errors import UsageError
from perdure.kernel.program import Handler
from perdure.model.ids import check_id

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")
V = TypeVar("V", bound=Callable[..., Any])
NOT_GIVEN: Any = object()  # None is given, by mistake


class Method(Generic[P, R]):
    """A method that the outside can call by name. `Cart.close` is the method itself, for a typed call."""

    kind = "message"

    def __init__(self, fn: Callable[Concatenate[Any, P], Any], name: str | None = None) -> None:
        if not inspect.isfunction(fn):
            raise UsageError(f"@{self.kind} decorates a method, not {type(fn).__name__}")
        self.fn = fn
        self.name = check_id(fn.__name__ if name is None else name, f"the name of a {self.kind}")
        self.signature = signature_of(fn, self.name, hidden=1, depth=3)
        self.validate: Callable[..., Any] | None = None
        self.__doc__ = fn.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Callable[P, R]: ...
    def __get__(self, instance: object | None, owner: type) -> Any:
        return self if instance is None else self.fn.__get__(instance, owner)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}>"

    def handler(self) -> Handler:
        """The method as the kernel needs to know it."""
        return Handler(
            name=self.name,
            call=self.fn,
            reads=self.signature.reads(),
            rest=self.signature.rest_reads(),
            parameters=self.signature.names,
            required=self.signature.required,
            keyword_reads=self.signature.keyword_reads(),
            returns=self.signature.returns(),
            validate=self.validate,
        )


class Signal(Method[P, R]):
    """A message without an answer."""

    kind = "signal"


class Update(Method[P, R]):
    """A message with an answer, which a validator may refuse."""

    kind = "update"

    def validator(self, fn: V) -> V:
        """Decorate the method that looks at the arguments first: what it raises rejects the update."""
        if inspect.iscoroutinefunction(fn):
            raise UsageError(f"the validator of update `{self.name}` must be a plain method: it may only look")
        self.validate = fn
        return fn


class Query(Method[P, R]):
    """A message that reads and never writes."""

    kind = "query"

    def __init__(self, fn: Callable[Concatenate[Any, P], Any], name: str | None = None) -> None:
        if inspect.iscoroutinefunction(fn):
            raise UsageError(f"query `{fn.__name__}` must be a plain method: it may only look")
        super().__init__(fn, name)


class SignalDecorator(Protocol):
    """`@signal(…)`: what makes a signal of a method."""

    @overload
    def __call__(self, fn: Callable[Concatenate[C, P], Coroutine[Any, Any, R]], /) -> Signal[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[C, P], R], /) -> Signal[P, R]: ...


class UpdateDecorator(Protocol):
    """`@update(…)`: what makes an update of a method."""

    @overload
    def __call__(self, fn: Callable[Concatenate[C, P], Coroutine[Any, Any, R]], /) -> Update[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[C, P], R], /) -> Update[P, R]: ...


class QueryDecorator(Protocol):
    """`@query(…)`: what makes a query of a method."""

    def __call__(self, fn: Callable[Concatenate[C, P], R], /) -> Query[P, R]: ...


@overload
def signal(fn: Callable[Concatenate[C, P], Coroutine[Any, Any, R]], /) -> Signal[P, R]: ...
@overload
def signal(fn: Callable[Concatenate[C, P], R], /) -> Signal[P, R]: ...
@overload
def signal(*, name: str | None = None) -> SignalDecorator: ...
def signal(fn: Any = NOT_GIVEN, /, *, name: str | None = None) -> Any:
    """A method that takes a signal: never refused, never lost (M1). Its name is the method's, unless one is given."""
    return _decorated(Signal, fn, name)


@overload
def update(fn: Callable[Concatenate[C, P], Coroutine[Any, Any, R]], /) -> Update[P, R]: ...
@overload
def update(fn: Callable[Concatenate[C, P], R], /) -> Update[P, R]: ...
@overload
def update(*, name: str | None = None) -> UpdateDecorator: ...
def update(fn: Any = NOT_GIVEN, /, *, name: str | None = None) -> Any:
    """A method that takes an update and answers it (M2)."""
    return _decorated(Update, fn, name)


@overload
def query(fn: Callable[Concatenate[C, P], R], /) -> Query[P, R]: ...
@overload
def query(*, name: str | None = None) -> QueryDecorator: ...
def query(fn: Any = NOT_GIVEN, /, *, name: str | None = None) -> Any:
    """A method that answers a question, also after the run has ended (M3)."""
    return _decorated(Query, fn, name)


def _decorated(kind: type[Method[..., Any]], fn: Any, name: str | None) -> Any:
    """The method; or, where the decorator was called with parentheses, what decorates it."""
    return functools.partial(kind, name=name) if fn is NOT_GIVEN else kind(fn, name)
