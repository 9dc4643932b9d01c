"""Encoding: values become JSON, or `InvalidValue` names the path to what cannot.

In:  what people's code passes, returns, publishes and stores (K20).
Out: codec.lowering, then msgspec.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from perdure.codec.lowering import QUICK, THOROUGH
from perdure.codec.paths import Refused, misfit_of
from perdure.errors import InvalidValue

EMPTY_ARGUMENTS = msgspec.Raw(b"[]")
NULL = msgspec.Raw(b"null")

_write = msgspec.json.Encoder().encode
_write_sorted = msgspec.json.Encoder(order="sorted").encode
_lower = QUICK.lower
_safe = QUICK.safe


def encode(value: object, what: str = "value") -> msgspec.Raw:
    """The value as JSON that `decode` gives back as the annotated type (K20).

    `what` is the root of the path in `InvalidValue`, which is raised for everything that JSON cannot
    hold without loss (section 6): sets, NaN, functions, cycles, keys that become the same text.
    """
    try:
        return msgspec.Raw(_write(value if type(value) in _safe else _lower(value)))
    except Exception as problem:
        raise _invalid(value, what, problem) from None


def encode_arguments(args: Sequence[object], names: Sequence[str] = ()) -> msgspec.Raw:
    """The arguments of a call as one JSON array (K20).

    `InvalidValue` names the parameter where `names` knows it, else `argument 3`.
    """
    if not args:
        return EMPTY_ARGUMENTS
    try:
        for arg in args:
            if type(arg) not in _safe:
                return msgspec.Raw(_write([_lower(arg) for arg in args]))
        return msgspec.Raw(_write(args))
    except Exception:
        # Once more, one by one: that tells which one it was.
        parts = [encode(arg, root_of(index, names)) for index, arg in enumerate(args)]
        return msgspec.Raw(b"[" + b",".join(bytes(part) for part in parts) + b"]")


def same(left: bytes | msgspec.Raw, right: bytes | msgspec.Raw) -> bool:
    """Whether both are the same JSON: keys in any order, but 1 is neither 1.0 nor true.

    `InvalidValue` where one is no JSON at all.
    """
    return left == right or _canonical(left) == _canonical(right)


def root_of(index: int, names: Sequence[str]) -> str:
    """How the path of an argument begins: the parameter's name where it is known."""
    return names[index] if index < len(names) else f"argument {index + 1}"


def _canonical(raw: bytes | msgspec.Raw) -> bytes:
    try:
        return _write_sorted(msgspec.json.decode(raw))
    except Exception as problem:
        raise InvalidValue(f"value: {misfit_of(problem).problem}") from None


def _invalid(value: Any, what: str, problem: Exception) -> InvalidValue:
    if isinstance(problem, Refused):
        return InvalidValue(problem.message(what))
    try:
        # msgspec does not say where; text and ints are the only safe types that it can refuse.
        THOROUGH.lower(value)
    except Refused as refused:
        return InvalidValue(refused.message(what))
    except Exception as again:
        problem = again
    return InvalidValue(f"{what}: {misfit_of(problem).problem}")
