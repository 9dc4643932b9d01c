"""Children and other runs: starting, signalling and cancelling runs from a workflow (M7)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, overload

from perdure import codec
from perdure.define.acting import run_and_unit
from perdure.define.handlers import Signal
from perdure.define.signatures import Signature
from perdure.errors import InvalidValue
from perdure.kernel.calls import Request, ask
from perdure.kernel.executor import Executor
from perdure.kernel.operations import Operation
from perdure.kernel.units import Unit
from perdure.model.commands import NOTHING
from perdure.model.ids import check_id, operation_id

P = ParamSpec("P")
T = TypeVar("T")


if TYPE_CHECKING:
    ChildFuture = asyncio.Future  # an Operation is a Future[Any] to a type checker; a child is a Future[T]
else:
    ChildFuture = Operation


class Child(ChildFuture[T]):
    """A child run: a future of its result, with `id`, `signal` and `cancel`."""

    __slots__ = ("_id", "_is_abandoned")

    @property
    def id(self) -> str:
        """Its workflow id: the one that was given, or the one that follows from the parent's run (K8)."""
        return self._id

    @overload
    def signal(self, method: Signal[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[None]: ...
    @overload
    def signal(self, method: str, /, *args: object) -> asyncio.Future[None]: ...
    def signal(self, method: Any, /, *args: Any, **kwargs: Any) -> asyncio.Future[None]:
        """Send it a signal. The future is done once it has been delivered; it need not be awaited."""
        return send_signal(self._id, method, args, kwargs)

    @property
    def is_left_alone(self) -> bool:
        """Whether the cancellation of a scope passes it by: it shall outlive its parent, and nobody waits for it."""
        return self._is_abandoned and not self._callbacks

    def begun(self, child_id: str, parent_close: str) -> Child[T]:
        """Give it its workflow id, and say what becomes of it with its parent."""
        self._id = child_id
        self._is_abandoned = parent_close == "abandon"
        return self


class OtherRun:
    """Another run, by its workflow id."""

    def __init__(self, workflow_id: str) -> None:
        self.id = check_id(workflow_id, "a workflow id")

    @overload
    def signal(self, method: Signal[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[None]: ...
    @overload
    def signal(self, method: str, /, *args: object) -> asyncio.Future[None]: ...
    def signal(self, method: Any, /, *args: Any, **kwargs: Any) -> asyncio.Future[None]:
        """Send it a signal. The future is done once it has been delivered, and fails if there is no such run."""
        return send_signal(self.id, method, args, kwargs)

    def cancel(self, reason: str = "") -> asyncio.Future[None]:
        """Ask it to cancel. The future is done once the request was delivered."""
        executor, unit = run_and_unit("run_of.cancel")
        options = {"id": self.id, "reason": reason} if reason else {"id": self.id}
        asked = ask(executor, unit, Request("cancel_external", options=options, reads=type(None)))
        asked.name = self.id
        return asked


def start_child(
    call: str,
    name: str,
    signature: Signature,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    options: dict[str, Any],
    defaults: Mapping[str, Any],
) -> Child[Any]:
    """Emit the start of a child run."""
    executor, unit = run_and_unit(call)
    encoded, keywords = signature.bind(args, kwargs)
    returns = signature.returns()
    return child_of(
        executor, unit, Request("start_child", name, encoded, keywords, options, returns, defaults=defaults)
    )


def child_of(executor: Executor, unit: Unit, request: Request) -> Child[Any]:
    """The child that a request starts, with its id."""
    operation = ask(executor, unit, request, cast("type[Operation]", Child))
    given = request.options.get("id")
    child = cast("Child[Any]", operation)
    child_id = given if given is not None else operation_id(executor.identity.run_id, operation.seq)
    return child.begun(child_id, request.options.get("parent_close", "terminate"))


def send_signal(run_id: str, method: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> asyncio.Future[None]:
    """Emit a signal to another run."""
    executor, unit = run_and_unit("signal")
    if isinstance(method, Signal):
        encoded, keywords = method.signature.bind(args, kwargs)
        name = method.name
    elif isinstance(method, str):
        if kwargs:
            raise InvalidValue("a signal that is named by text takes positional arguments only")
        name = check_id(method, "the name of a signal")
        encoded, keywords = codec.encode_arguments(args), NOTHING
    else:
        raise InvalidValue(f"a signal is named by text or by its method, not by {type(method).__name__}")
    request = Request("signal_external", name, encoded, keywords, {"id": run_id}, type(None))
    return ask(executor, unit, request)
