"""Several: many values of an attribute as one blob, which says at once most of what filters ask.

It begins with the kind of its values (`KINDS`), then come the lowest and the highest as keys, then all of them. Keys
are in the order of their values, but cut off: where two are equal, their values need not be.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

END = b"\xff"  # no text in UTF-8 has one, and no key
KINDS = {str: b"t", int: b"n", float: b"n"}
MIXED = b"m"  # has no keys
KEY_BYTES = 10
LOWEST_AT, HIGHEST_AT = 2, 2 + KEY_BYTES  # as SQL counts
SIGN = 1 << 63
ALL = (1 << 64) - 1


def blob_of(values: Sequence[str | float]) -> bytes:
    kinds = {KINDS[type(value)] for value in values}
    listed = END + b"".join(map(_text_of, values))
    if len(kinds) > 1:
        return MIXED + listed
    keys = sorted(map(key_of, values))
    return kinds.pop() + keys[0] + keys[-1] + listed


def within(value: str | float) -> bytes:
    """What is in a blob if this is one of its values."""
    return END + _text_of(value)


def key_of(value: str | float) -> bytes:
    if isinstance(value, str):
        return value[:KEY_BYTES].encode()[:KEY_BYTES].ljust(KEY_BYTES, b"\0")
    (bits,) = struct.unpack(">Q", struct.pack(">d", float(value) + 0.0))
    ordered = bits ^ (ALL if bits & SIGN else SIGN)
    return f"{ordered:016x}"[:KEY_BYTES].encode()


def _text_of(value: str | float) -> bytes:
    """A value as a text that equal ones have as well: 1 and 1.0 are equal."""
    if isinstance(value, str):
        return KINDS[str] + value.encode() + END
    whole = int(value) if value == int(value) else value
    return KINDS[int] + repr(whole).encode() + END
