"""Filters: the text by which people find runs, read into conditions that a store understands; pure.

In:  `list("status = 'failed' and type = 'checkout' and started > '-1d'")`, `count(…)`, the command line.
Out: perdure.stores.records.Condition; no part of the text reaches a store as it was written.

    condition   one `and` another, one `or` another, `not` one, (one)
    one         name = value, and != < <= > >=; name in (value, value); name like 'order-%'
    name        status type id run_id queue priority started closed blocked generation parent, or an attribute's;
                "in double quotes" where it is no plain word
    value       'text' (a quote in it is doubled), 12, 1.5, true, false
    moment      for started and closed: '2026-03-01', '2026-03-01T09:30+01:00', or '-1d', '-1h30m': so long ago
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from perdure import codec
from perdure.clock import micros
from perdure.errors import InvalidValue
from perdure.stores.finding import WHOLE_MAX, WHOLE_MIN
from perdure.stores.records import EVERY, FIELDS, AllOf, AnyOf, Compare, Condition, Not, Operator, Scalar

LENGTH_MAX = 10_000
DEPTH_MAX = 50
SHOWN_MAX = 60
DIGITS_MAX = 40  # of a whole number of 64 bits, with zeros before it
STATUSES = ("running", "completed", "failed", "cancelled", "terminated", "timed_out", "continued")
TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")*")
      | (?P<number>[-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?(?![\w.]))
      | (?P<word>[^\W\d][\w.-]*)
      | (?P<sign><=|>=|!=|<>|==|=|<|>|\(|\)|,)
    )""",
    re.VERBOSE,
)
SAME = {"==": "=", "<>": "!="}
COMPARING = frozenset({"=", "!=", "<", "<=", ">", ">="})
TEXTS = frozenset({"status", "type", "id", "run_id", "queue", "parent"})
NUMBERS = frozenset({"priority", "generation"})
MOMENTS = frozenset({"started", "closed"})


def read_filter(text: object, now: datetime) -> Condition:
    """The condition that a filter stands for; of an empty one, every run. `InvalidValue` says where it is wrong."""
    if not isinstance(text, str):
        raise InvalidValue(f"a filter is text such as \"status = 'failed'\", not {type(text).__name__}")
    if len(text) > LENGTH_MAX:
        raise InvalidValue(f"a filter has at most {LENGTH_MAX} characters, not {len(text)}")
    if not text.isascii():
        check_unicode(text)
    return _Reader(text, now).whole()


def read_limit(limit: object) -> int | None:
    """How many runs are wanted at most. `InvalidValue`."""
    if limit is None or (isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0):
        return limit
    raise InvalidValue(f"limit is a whole number from 0 on, or None for all runs, not {codec.shown(limit)}")


def check_unicode(text: str) -> None:
    """`InvalidValue` for half a character."""
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        raise InvalidValue(
            f"the filter holds half a character (a lone surrogate) at character {problem.start + 1}"
        ) from None


class _Token(msgspec.Struct, frozen=True):
    kind: str
    text: str
    at: int


class _Reader:
    """Reads one filter from left to right."""

    def __init__(self, text: str, now: datetime) -> None:
        self._text = text
        self._now = now
        self._tokens = self._split()
        self._next = 0
        self._depth = 0

    def whole(self) -> Condition:
        if self._peek().kind == "end":
            return EVERY
        condition = self._any()
        if self._peek().kind != "end":
            raise self._wrong(self._peek(), "`and`, `or`, or the end")
        return condition

    def _any(self) -> Condition:
        parts = self._joined("or", self._all)
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def _all(self) -> Condition:
        parts = self._joined("and", self._one)
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _joined(self, word: str, part: Callable[[], Condition]) -> list[Condition]:
        parts = [part()]
        while self._takes(word):
            parts.append(part())
        return parts

    def _one(self) -> Condition:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._wrong(self._peek(), f"at most {DEPTH_MAX} brackets and `not` within each other")
        try:
            if self._takes("not"):
                return Not(self._one())
            if self._takes("("):
                inner = self._any()
                self._expect(")")
                return inner
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Condition:
        token = self._take()
        if token.kind not in ("word", "quoted"):
            raise self._wrong(token, "a name, such as `status` or an attribute's")
        name = token.text
        attribute = token.kind == "quoted" or name not in FIELDS
        if self._takes("not"):
            self._expect("in")
            return Not(self._among(name, attribute))
        if self._takes("in"):
            return self._among(name, attribute)
        if self._takes("like"):
            pattern = self._take()
            if pattern.kind != "text" or (not attribute and name not in TEXTS):
                raise self._wrong(pattern, "text after `like`, and a name whose values are text before it")
            return Compare(name, "like", pattern.text, attribute)
        sign = self._take()
        operator = SAME.get(sign.text, sign.text)
        if sign.kind != "sign" or operator not in COMPARING:
            raise self._wrong(sign, "= != < <= > >= in, or like")
        value = self._value(name, attribute)
        if operator == "!=":
            return Not(Compare(name, "=", value, attribute))
        if operator != "=" and not attribute and name == "blocked":
            raise self._wrong(sign, "`blocked = true` or `blocked = false`")
        return Compare(name, _operator(operator), value, attribute)

    def _among(self, name: str, attribute: bool) -> Condition:
        self._expect("(")
        values = [self._value(name, attribute)]
        while self._takes(","):
            values.append(self._value(name, attribute))
        self._expect(")")
        return Compare(name, "in", tuple(values), attribute)

    def _value(self, name: str, attribute: bool) -> Scalar:
        token = self._take()
        value = self._scalar(token)
        if attribute:
            return value
        if name in MOMENTS:
            return self._moment(token, value)
        fits = {
            "text": isinstance(value, str),
            "number": isinstance(value, int) and not isinstance(value, bool),
            "bool": isinstance(value, bool),
        }
        wanted = "text" if name in TEXTS else "number" if name in NUMBERS else "bool"
        if not fits[wanted]:
            raise self._wrong(token, {"text": "text", "number": "a whole number", "bool": "true or false"}[wanted])
        if name == "status" and value not in STATUSES:
            raise self._wrong(token, f"one of {', '.join(STATUSES)}")
        return value

    def _scalar(self, token: _Token) -> Scalar:
        if token.kind in ("text", "quoted"):
            return token.text
        if token.kind == "number":
            return self._number(token)
        if token.text in ("true", "false"):
            return token.text == "true"
        raise self._wrong(token, "a value: 'text', a number, true or false")

    def _number(self, token: _Token) -> int | float:
        number = float(token.text)
        if any(mark in token.text for mark in ".eE"):
            if math.isinf(number):
                raise self._wrong(token, "a number that is not as large")
            return number
        if len(token.text) > DIGITS_MAX or not WHOLE_MIN <= int(token.text) <= WHOLE_MAX:
            raise self._wrong(token, "a whole number of at most 64 bits")
        return int(token.text)

    def _moment(self, token: _Token, value: Scalar) -> int:
        wanted = "a moment: '2026-03-01', '2026-03-01T09:30+01:00', or '-1d' for a day ago"
        if not isinstance(value, str):
            raise self._wrong(token, wanted)
        try:
            if value[:1] in ("-", "+"):
                seconds = codec.duration_seconds(value[1:], "a moment")
                return micros(self._now) + round(seconds * 1_000_000) * (-1 if value[0] == "-" else 1)
            moment = datetime.fromisoformat(value)
        except (ValueError, InvalidValue, OverflowError):
            raise self._wrong(token, wanted) from None
        return micros(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))

    # --- words ------------------------------------------------------------------------------------

    def _split(self) -> list[_Token]:
        tokens: list[_Token] = []
        at, end = 0, len(self._text.rstrip())
        if "\0" in self._text:
            raise self._wrong(_Token("stray", "\\0", self._text.index("\0")), "text without a NUL")
        while at < end:
            match = TOKEN.match(self._text, at)
            if match is None:
                start = at + len(self._text[at:]) - len(self._text[at:].lstrip())
                raise self._wrong(_Token("stray", self._text[start : start + 1], start), "a name, a value or a sign")
            kind = match.lastgroup or ""
            text = match.group(kind)
            if kind in ("text", "quoted"):
                text = text[1:-1].replace(text[0] * 2, text[0])
            tokens.append(_Token(kind, text, match.start(kind)))
            at = match.end()
        return [*tokens, _Token("end", "", end)]

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        if token.kind != "end":
            self._next += 1
        return token

    def _takes(self, text: str) -> bool:
        token = self._peek()
        if token.kind not in ("word", "sign") or token.text.lower() != text:
            return False
        self._next += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._takes(text):
            raise self._wrong(self._peek(), f"`{text}`")

    def _wrong(self, token: _Token, wanted: str) -> InvalidValue:
        found = "it ends" if token.kind == "end" else f"there is `{_shown(token.text)}`"
        return InvalidValue(f"the filter is wrong at character {token.at + 1}: {found}, and {wanted} is wanted")


def _shown(text: str) -> str:
    """Some of it, without anything that would steer a terminal."""
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"


def _operator(text: str) -> Operator:
    return text  # pyright: ignore[reportReturnType]
