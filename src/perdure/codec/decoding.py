"""Decoding: JSON becomes the annotated type, or `InvalidValue` names the path to what does not fit.

In:  JSON as it is stored, and the annotation of whoever receives it (K20).
Out: msgspec where it knows the type, codec.converting where it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from perdure.codec.converting import convert, meant, reader_of
from perdure.codec.encoding import root_of
from perdure.codec.paths import joined, misfit_of
from perdure.errors import InvalidValue

_TUPLES_REMEMBERED_MAX = 1_024

_read = msgspec.json.Decoder().decode
_read_parts = msgspec.json.Decoder(list[msgspec.Raw]).decode


def decode(raw: bytes | msgspec.Raw, type: Any = Any, what: str = "value") -> Any:
    """The JSON as `type`; plain values where that is `Any`, `object` or cannot be resolved (K20).

    `InvalidValue` with the path from `what` where it does not fit, or where the type cannot be read at
    all (section 6). The members of a union that JSON does not tell apart by itself are tried in order,
    `str` last; one that is written back to the same JSON goes before one that only fits.
    """
    try:
        reader = reader_of(type)
        return convert(_read(raw), type) if reader is None else reader(raw)
    except Exception as problem:
        raise _invalid(what, problem) from None


def decode_arguments(
    raw: bytes | msgspec.Raw, types: Sequence[Any], what: str, names: Sequence[str] = (), rest: Sequence[Any] = ()
) -> list[Any]:
    """Each element of a JSON array as its own type (K20). Fewer than `types` are fine: defaults are the callee's.

    `rest` is the one type of all that follow, for a callee with `*args`. `InvalidValue` (section 6) for more than are
    taken, naming `what`, and for one that does not fit: its path begins with its name, or with `what argument 3` where
    `names` does not know it.
    """
    types = tuple(types)
    try:
        reader = _known_reader_of_all(types)
    except TypeError:  # an annotation that cannot be hashed
        reader = None
    if reader is not None:
        try:
            return list(reader(raw))
        except Exception:
            pass  # fewer than types, or wrong: which one is found out below
    try:
        parts = _read_parts(raw)
    except Exception as problem:
        raise _invalid(what, problem) from None
    if rest:
        types += tuple(rest) * (len(parts) - len(types))
    if len(parts) > len(types):
        raise InvalidValue(f"{what}: takes at most {len(types)} arguments, got {len(parts)}")
    roots = [root_of(index, names) for index in range(len(parts))]
    return [
        decode(part, types[index], root if index < len(names) else f"{what} {root}")
        for index, (part, root) in enumerate(zip(parts, roots, strict=True))
    ]


def plain(raw: bytes | msgspec.Raw) -> Any:
    """The JSON as plain builtins. `InvalidValue` where it is none."""
    return decode(raw)


@lru_cache(_TUPLES_REMEMBERED_MAX)
def _known_reader_of_all(types: tuple[Any, ...]) -> Callable[[Any], tuple[Any, ...]] | None:
    # None where msgspec does not read them all: then order counts, and `A | B == B | A` is no key to go by.
    whole: Any = tuple
    return reader_of(whole[tuple(meant(kind) for kind in types)])


def _invalid(what: str, problem: Exception) -> InvalidValue:
    misfit = misfit_of(problem)
    return InvalidValue(f"{joined(what, misfit.steps)}: {misfit.problem}")
