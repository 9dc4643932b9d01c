"""Calling: an activity's function called with JSON, and what it came to, as JSON again.

The same in every place where activities run: on the loop, in threads, and in the processes of engine.performer.
Whatever the function raises or returns becomes an `Outcome`; nothing escapes.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Collection
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from perdure import codec
from perdure.define.activity import Activity
from perdure.define.outcomes import Happened, NotApplied, Transient
from perdure.define.performing import CompletesLater
from perdure.errors import ApplicationError, Failure, InvalidValue
from perdure.model.failures import failure_of

TEXT_LENGTH_MAX = 100_000
_read_keywords = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


Word = Literal["not_called", "not_applied", "transient", "later", "not_known"]


class Outcome(msgspec.Struct, frozen=True):
    """What an attempt came to: a value as JSON, or a failure with the names of the error's classes.

    `word` is what is known of it for certain, as its author has said it: `later` and `not_known` have neither value nor
    failure. One that has none of all this was asked to stop, and did.
    """

    value: msgspec.Raw | None = None
    failure: Failure | None = None
    kinds: Collection[str] = ()
    word: Word | None = None


STOPPED = Outcome()
COMPLETED_LATER = Outcome(word="later")
NOT_KNOWN = Outcome(word="not_known")


class Callee:
    """An activity's function, with what is worked out once: how its arguments are read, and whether it is `async`.

    With `asks` it is the function that says afterwards what became of the activity, which takes the same arguments.
    """

    __slots__ = ("_keyword_reads", "_reads", "_rest", "_signature", "activity", "asks", "fn", "is_async", "name")

    def __init__(self, activity: Activity[..., Any], asks: Callable[..., Any] | None = None) -> None:
        signature = activity.signature
        self.activity = activity
        self.name = activity.name
        self.asks = asks is not None
        self.fn: Callable[..., Any] = asks or activity.fn
        self.is_async = inspect.iscoroutinefunction(self.fn)
        self._signature = signature
        self._reads = signature.reads()
        self._rest = signature.rest_reads()
        self._keyword_reads = signature.keyword_reads()

    def arguments(self, input: bytes, keywords: bytes) -> tuple[list[Any], dict[str, Any]]:
        """The arguments as the annotations name them (K20). `InvalidValue`."""
        what = f"the input of activity `{self.name}`"
        positional = codec.decode_arguments(input, self._reads, what, self._signature.names, self._rest)
        if not keywords and len(positional) >= self._signature.required and not self._signature.required_keywords:
            return positional, {}
        given = _read_keywords(keywords) if keywords else {}
        by_name = {name: codec.decode(value, self._keyword_reads.get(name, Any), name) for name, value in given.items()}
        signature = self._signature
        missing = [name for name in signature.names[len(positional) : signature.required] if name not in by_name]
        missing += sorted(signature.required_keywords - by_name.keys())
        if missing:
            raise InvalidValue(f"{what} lacks {', '.join(f'`{name}`' for name in missing)}")
        unknown = sorted(by_name.keys() - signature.keywords - set(signature.names[len(positional) :]))
        if unknown and not signature.any_keyword:
            raise InvalidValue(f"{what} has more than it takes: {', '.join(f'`{name}`' for name in unknown)}")
        return positional, by_name

    def call(self, input: bytes, keywords: bytes, is_stopped: Callable[[], bool]) -> Outcome:
        """Call a plain function. It runs in the present thread and context."""
        try:
            positional, by_name = self.arguments(input, keywords)
        except Exception as error:
            return outcome_of_input(self.name, error)
        try:
            value = self.fn(*positional, **by_name)
        except BaseException as error:
            return outcome_of_error(self.name, error, is_stopped())
        return self._outcome_of(value)

    async def call_async(self, input: bytes, keywords: bytes, is_stopped: Callable[[], bool]) -> Outcome:
        """Call an `async` function. What is thrown in to close a coroutine that nobody drives any more goes on."""
        try:
            positional, by_name = self.arguments(input, keywords)
        except Exception as error:
            return outcome_of_input(self.name, error)
        try:
            value = await self.fn(*positional, **by_name)
        except GeneratorExit:
            raise
        except BaseException as error:
            return outcome_of_error(self.name, error, is_stopped())
        return self._outcome_of(value)

    def _outcome_of(self, value: object) -> Outcome:
        if self.asks and value is None:
            return NOT_KNOWN
        return outcome_of_value(self.name, value.result if self.asks and isinstance(value, Happened) else value)


def outcome_of_input(name: str, error: Exception) -> Outcome:
    """Its arguments cannot be read as it names them: it was not called, and no retry mends that."""
    text = f"activity `{name}` was not called, for its input does not fit: {error}"
    failure = Failure(type(error).__name__, text, retryable=False)
    return Outcome(failure=failure, kinds=_kinds(error), word="not_called")


def outcome_of_value(name: str, value: object) -> Outcome:
    """What it returned, as JSON; a value that cannot be stored is a failure that no retry mends."""
    if inspect.iscoroutine(value):
        value.close()
        text = f"activity `{name}` is a plain function that returned a coroutine: make it `async def` and await that"
        return Outcome(failure=Failure("InvalidValue", text, retryable=False), kinds=("InvalidValue",))
    try:
        return Outcome(codec.encode(value, f"the result of activity `{name}`"))
    except BaseException as error:
        failure = replace(_failure_of(error), retryable=False)
        return Outcome(failure=failure, kinds=_kinds(error))


def outcome_of_error(name: str, error: BaseException, is_stopped: bool) -> Outcome:
    """What it raised."""
    if isinstance(error, CompletesLater):
        return COMPLETED_LATER
    if isinstance(error, asyncio.CancelledError):
        if is_stopped:
            return STOPPED
        text = f"activity `{name}` raised CancelledError, and nobody had asked it to stop"
        return Outcome(failure=Failure("CancelledError", text), kinds=_kinds(error))
    failure = _failure_of(error)
    if isinstance(error, NotApplied):
        return Outcome(failure=replace(failure, retryable=False), kinds=_kinds(error), word="not_applied")
    return Outcome(failure=failure, kinds=_kinds(error), word="transient" if isinstance(error, Transient) else None)


def _kinds(error: BaseException) -> frozenset[str]:
    kinds = frozenset(kind.__name__ for kind in type(error).__mro__)
    return kinds | {str(error.type)} if isinstance(error, ApplicationError) else kinds


def _failure_of(error: BaseException) -> Failure:
    try:
        return storable(failure_of(error))
    except BaseException as broken:  # even making its text can raise anything
        return Failure(type(error).__name__, f"(its text cannot be made: {type(broken).__name__})")


def storable(failure: Failure) -> Failure:
    """A failure as it can be written and read again, whatever people put into their exceptions."""
    return replace(
        failure,
        type=_text(failure.type),
        message=_text(failure.message),
        details=_details(failure.details),
        retryable=bool(failure.retryable),
        cause=None if failure.cause is None else storable(failure.cause),
        traceback=None if failure.traceback is None else _text(failure.traceback),
    )


def _text(given: object) -> str:
    text = str(given)
    if len(text) > TEXT_LENGTH_MAX:
        text = f"{text[:TEXT_LENGTH_MAX]}… ({len(text) - TEXT_LENGTH_MAX} more characters were left out)"
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character, as names of files can hold
        text = text.encode("utf-8", "backslashreplace").decode()
    return text


def _details(details: Any) -> Any:
    if details is None:
        return None
    try:
        return codec.plain(codec.encode(details, "details"))
    except Exception:
        return _text(repr(details))
