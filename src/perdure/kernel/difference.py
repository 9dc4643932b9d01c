"""Difference: when two commands are the same (K10), where they differ, and what the values give away.

In:  kernel.matching asks `same_command` for every replayed command.
Out: kernel.report shows what `differences` and `sign_of` find.

Values are compared as JSON, strictly by type: 1, 1.0 and true are three values, and the order of an
object's keys is nothing. Only durations are lenient: 5 and 5.0 seconds are one duration, because a person
writes either. Of a failure, type and message count; of an end as cancelled, nothing but the kind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, cast

import msgspec

from perdure.model.commands import Command

# Their input is a failure: type and message count, not traceback, cause, details.
FAILING: Final = frozenset({"fail", "fail_update", "reject_update"})
# Options that are seconds, those inside a retry policy included.
_DURATIONS: Final = frozenset(
    {"timeout", "schedule_to_start", "schedule_to_close", "heartbeat", "delay", "initial", "maximum"}
)


class _Absent:
    """What stands on a side that has no value at this path. There is one, `ABSENT`."""

    def __repr__(self) -> str:
        return "not there"


ABSENT: Final = _Absent()


class Difference(NamedTuple):
    """One place where two commands differ; `ABSENT` stands for a side that has nothing there."""

    field: str
    recorded: Any
    now: Any


class Sign(NamedTuple):
    """What a difference gives away: the stable key of a cause, and a sentence about it."""

    cause: str
    sentence: str


def same_command(recorded: Command, now: Command) -> bool:
    """K10: whether replay may take one for the other. Says the same as `different(...) is None`, and is fast."""
    if (
        recorded.kind == now.kind
        and recorded.encoded == now.encoded
        and recorded.seq == now.seq
        and recorded.unit == now.unit
        and recorded.name == now.name
        and recorded.encoded_kwargs == now.encoded_kwargs
        and _same_plainly(recorded.options, now.options)
    ):
        return True
    return different(recorded, now) is None


def different(recorded: Command, now: Command) -> Difference | None:
    """K10: the first field in which two commands differ, or None where they are the same command.

    The fields in order: `kind`, `seq`, `unit`, `name`, then paths such as `input[0].lines[3].price`,
    `kwargs.note` and `options.timeout`.
    """
    return next(differences(recorded, now), None)


def differences(recorded: Command, now: Command) -> Iterator[Difference]:
    """All of them, in the order of `different`. Commands of two kinds have that one difference only."""
    if recorded.kind != now.kind:
        yield Difference("kind", recorded.kind, now.kind)
        return
    for field in ("seq", "unit", "name"):
        before, after = getattr(recorded, field), getattr(now, field)
        if before != after:
            yield Difference(field, before, after)
    if recorded.encoded != now.encoded:
        yield from _walk("input", counted_input(recorded), counted_input(now), lenient=now.kind == "start_timer")
    if recorded.encoded_kwargs != now.encoded_kwargs:
        yield from _walk("kwargs", _read(recorded.encoded_kwargs, {}), _read(now.encoded_kwargs, {}))
    if recorded.options or now.options:
        yield from _walk("options", _counted_options(recorded), _counted_options(now), durations=_DURATIONS)


def counted_input(command: Command) -> Any:
    """The part of the input that identifies the command, as plain JSON values."""
    value = _read(command.encoded, [])
    if command.kind not in FAILING or not isinstance(value, list):
        return value
    return [_counted_failure(item) for item in cast("list[Any]", value)]


def sign_of(
    found: Sequence[Difference], recorded: Command, now: Command, time: datetime | None, surroundings: Mapping[str, str]
) -> Sign | None:
    """What the differing values give away, the most specific first; None where they give nothing away.

    `time` is the recorded time of the turn: numbers are taken for times only where it is known and near.
    """
    pairs = [(d.recorded, d.now) for d in found if d.recorded is not ABSENT and d.now is not ABSENT]
    for before, after in pairs:
        name = _surrounding(before, after, surroundings)
        if name is not None:
            return Sign("environment", f"`{name}` around this process holds the value that is used now: {_ENVIRONMENT}")
    if _reordered(recorded, now) or any(_permuted_words(*pair) for pair in pairs):
        return Sign("set order", f"the same elements in another order: {_SET_ORDER}")
    if any(_are_times(*pair, time) for pair in pairs):
        return Sign("clock", _CLOCK)
    drawn = _are_fine_durations if now.kind == "start_timer" else _are_drawn
    if any(drawn(*pair) for pair in pairs):
        return Sign("randomness", _RANDOMNESS)
    return None


# --- showing values ---------------------------------------------------------------------------


def text_of_input(command: Command) -> str:
    """The input as one line of JSON, without what does not count."""
    if command.kind in FAILING:
        return text_of(counted_input(command))
    return text_of_stored(command.encoded) or "[]"


def text_of_stored(raw: msgspec.Raw) -> str:
    """Stored JSON as one line, just as it stands."""
    return one_line(bytes(raw).decode("utf-8", "backslashreplace"))


def text_of(value: Any) -> str:
    """Any value as one line of JSON, whatever it is."""
    if value is ABSENT:
        return repr(value)
    try:
        return one_line(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=repr))
    except (TypeError, ValueError, RecursionError):
        return f"({type(value).__name__} that cannot be shown)"


def around(recorded: str, now: str, width: int) -> tuple[str, str]:
    """Both texts cut to `width`, so that their first difference stays in sight."""
    pairs = enumerate(zip(recorded, now, strict=False))
    first = next((i for i, (a, b) in pairs if a != b), min(len(recorded), len(now)))
    start = 0 if recorded == now or first < width * 2 // 3 else first - width // 3
    return cut(recorded, width, start), cut(now, width, start)


def cut(text: str, width: int, start: int = 0) -> str:
    """At most `width` characters of the text, from about `start`; an ellipsis where something is left out."""
    if len(text) <= width:
        return text
    start = min(start, len(text) - width + 1)
    piece = f"…{text[start:]}" if start else text
    return piece if len(piece) <= width else f"{piece[: width - 1]}…"


def one_line(text: str) -> str:
    """The text without anything that would break a line or hide."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


# --- comparing --------------------------------------------------------------------------------


def _read(raw: msgspec.Raw, nothing: Any) -> Any:
    stored = bytes(raw)
    if not stored:
        return nothing
    try:
        return msgspec.json.decode(stored)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        # A report is made of whatever there is: bytes that are no JSON differ as text.
        return stored.decode("utf-8", "backslashreplace")


def _counted_failure(value: Any) -> Any:
    if not isinstance(value, dict) or "type" not in value:
        return cast("Any", value)
    failure = cast("dict[str, Any]", value)
    # A record leaves an empty message out.
    return {"type": failure["type"], "message": failure.get("message", "")}


def _same_plainly(recorded: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether options are the same at the first look; False leaves it open."""
    if len(recorded) != len(now):
        return False
    for key, value in recorded.items():
        other = now.get(key, ABSENT)
        # Equal lists and objects may still hold 1 on one side and true on the other.
        if type(value) is not type(other) or value != other or isinstance(value, dict | list | tuple):
            return False
    return True


def _counted_options(command: Command) -> dict[str, Any]:
    if command.kind != "set_patch":
        return command.options
    # M9: `deprecate_patch` matches either form.
    return {key: value for key, value in command.options.items() if key != "deprecated"}


def _walk(
    root: str, recorded: Any, now: Any, *, durations: frozenset[str] = frozenset(), lenient: bool = False
) -> Iterator[Difference]:
    # A stack instead of recursion: what can be decoded can be compared, however deep the caller stands.
    waiting: list[tuple[str, Any, Any, bool]] = [(root, recorded, now, lenient)]
    while waiting:
        path, before, after, lenient = waiting.pop()
        if before is after:
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            left, right = cast("dict[str, Any]", before), cast("dict[str, Any]", after)
            keys = [*left, *(key for key in right if key not in left)]
            waiting += [
                (path + _step(key), left.get(key, ABSENT), right.get(key, ABSENT), key in durations)
                for key in reversed(keys)
            ]
        elif isinstance(before, list | tuple) and isinstance(after, list | tuple):
            row, column = cast("Sequence[Any]", before), cast("Sequence[Any]", after)
            waiting += [
                (f"{path}[{i}]", row[i] if i < len(row) else ABSENT, column[i] if i < len(column) else ABSENT, lenient)
                for i in reversed(range(max(len(row), len(column))))
            ]
        elif not _same_leaf(before, after, lenient):
            yield Difference(path, before, after)


def _step(key: Any) -> str:
    return f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{json.dumps(str(key), ensure_ascii=False)}]"


def _same_leaf(recorded: Any, now: Any, lenient: bool) -> bool:
    if lenient and _is_number(recorded) and _is_number(now):
        return recorded == now
    return type(recorded) is type(now) and recorded == now


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# --- what values give away --------------------------------------------------------------------

_ENVIRONMENT: Final = "pass it in as input, or read it with `side_effect` or in an activity."
_SET_ORDER: Final = "a set, or something made from one, was gone through; put it through `sorted(...)` first."
_CLOCK: Final = (
    "both values are times: take the time from perdure's `now()`, not from `datetime.now()` or `time.time()`."
)
_RANDOMNESS: Final = (
    "both values look drawn, or are addresses in memory: draw from perdure's `random()` and `uuid4()`, "
    "not from `random`, `uuid` or `secrets`."
)

_TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?|\b\d\d:\d\d(?::\d\d(?:\.\d+)?)?\b"
)
_LONG_NUMBER: Final = re.compile(r"(?<![\w.])\d{10,19}(?:\.\d+)?(?![\w.])")
# In the default repr of an object.
_ADDRESS: Final = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")
_UUID: Final = re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b")
_HEX: Final = re.compile(r"(?<![0-9a-zA-Z])(?=[a-fA-F]*\d)(?=\d*[a-fA-F])[0-9a-fA-F]{8,}(?![0-9a-zA-Z])")
# As `secrets.token_urlsafe` makes them: long, with capitals, small letters and digits.
_TOKEN: Final = re.compile(r"(?<![\w-])(?=[\w-]*[A-Z])(?=[\w-]*[a-z])(?=[\w-]*\d)[\w-]{16,}(?![\w-])", re.ASCII)
_FRACTION: Final = re.compile(r"(?<![\w.])0\.\d{10,}(?![\w.])")
_NUMBER: Final = re.compile(r"-?\d{1,20}(?:\.\d{1,20})?")
_BETWEEN_WORDS: Final = re.compile(r"[\s,;|{}()\[\]]+")

_DAY_SECONDS: Final = 86_400
_NODES_MAX: Final = 100_000


def _surrounding(recorded: Any, now: Any, surroundings: Mapping[str, str]) -> str | None:
    """The variable that the value now comes from: an equal one first, then the longest that stands inside it."""
    inside: tuple[int, str] | None = None
    for name in sorted(surroundings):
        value = surroundings[name]
        # A single character is equal to far too much to be evidence.
        if len(value) < 2:
            continue
        if isinstance(now, str):
            if now == value:
                return name
            before = recorded if isinstance(recorded, str) else ""
            if len(value) >= 4 and value in now and value not in before and (inside is None or len(value) > inside[0]):
                inside = (len(value), name)
        elif _is_number(now) and _NUMBER.fullmatch(value) and float(value) == now:
            return name
    return inside and inside[1]


def _reordered(recorded: Command, now: Command) -> bool:
    # Positional arguments that changed places are no set: only lists inside them are looked at.
    waiting: list[tuple[Any, Any]] = [(_read(recorded.encoded_kwargs, {}), _read(now.encoded_kwargs, {}))]
    waiting.append((recorded.options, now.options))
    before, after = counted_input(recorded), counted_input(now)
    if isinstance(before, list) and isinstance(after, list):
        waiting += zip(cast("list[Any]", before), cast("list[Any]", after), strict=False)
    for _ in range(_NODES_MAX):
        if not waiting:
            return False
        before, after = waiting.pop()
        if isinstance(before, dict) and isinstance(after, dict):
            left, right = cast("dict[str, Any]", before), cast("dict[str, Any]", after)
            waiting += [(left[key], right[key]) for key in left if key in right]
        elif isinstance(before, list | tuple) and isinstance(after, list | tuple):
            row, column = cast("Sequence[Any]", before), cast("Sequence[Any]", after)
            if len(row) == len(column):
                texts, others = [_canonical(item) for item in row], [_canonical(item) for item in column]
                if texts != others and sorted(texts) == sorted(others):
                    return True
            waiting += zip(row, column, strict=False)
    return False


def _canonical(value: Any) -> str:
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return f"{type(value).__name__} that cannot be compared"


def _permuted_words(recorded: Any, now: Any) -> bool:
    if not isinstance(recorded, str) or not isinstance(now, str):
        return False
    before, after = _BETWEEN_WORDS.split(recorded), _BETWEEN_WORDS.split(now)
    return before != after and sorted(before) == sorted(after)


def _are_times(recorded: Any, now: Any, time: datetime | None) -> bool:
    if isinstance(recorded, str) and isinstance(now, str):
        if _alike_but(_TIME, recorded, now):
            return True
        if not _alike_but(_LONG_NUMBER, recorded, now):
            return False
        texts = zip(_LONG_NUMBER.findall(recorded), _LONG_NUMBER.findall(now), strict=True)
        return all(a == b or _are_epochs(float(a), float(b), time) for a, b in texts)
    return _is_number(recorded) and _is_number(now) and _are_epochs(cast("float", recorded), cast("float", now), time)


def _are_epochs(recorded: float, now: float, time: datetime | None) -> bool:
    # Beyond nanoseconds nothing is a time, and an integer may be too large to divide.
    if time is None or not (abs(recorded) < 1e20 and abs(now) < 1e20):
        return False
    turn = time.timestamp()
    # Recorded near its turn; the code may be replayed years later.
    return any(
        abs(recorded / scale - turn) < 31 * _DAY_SECONDS and abs(now / scale - turn) < 3_660 * _DAY_SECONDS
        for scale in (1, 1_000, 1_000_000, 1_000_000_000)
    )


def _are_drawn(recorded: Any, now: Any) -> bool:
    if isinstance(recorded, str) and isinstance(now, str):
        return _alike_but(_FRACTION, recorded, now) or any(
            _alike_but(shape, recorded, now, same_length=True) for shape in (_UUID, _HEX, _TOKEN, _ADDRESS)
        )
    if isinstance(recorded, float) and isinstance(now, float):
        return all(_digits(value) >= (10 if 0 <= value < 1 else 14) for value in (recorded, now))
    return all(type(value) is int and abs(value) >= 2**32 for value in (recorded, now))


def _are_fine_durations(recorded: Any, now: Any) -> bool:
    # K20 rounds durations to 1 µs; nobody writes five decimals by hand.
    return all(isinstance(value, float) and len(repr(value).partition(".")[2]) >= 5 for value in (recorded, now))


def _digits(value: float) -> int:
    return len(repr(value).partition("e")[0].replace(".", "").replace("-", "").lstrip("0"))


def _alike_but(shape: re.Pattern[str], recorded: str, now: str, *, same_length: bool = False) -> bool:
    """Whether two texts differ only in pieces of this shape."""
    before, after = shape.findall(recorded), shape.findall(now)
    if not before or len(before) != len(after) or shape.split(recorded) != shape.split(now):
        return False
    return not same_length or all(len(a) == len(b) for a, b in zip(before, after, strict=True))
