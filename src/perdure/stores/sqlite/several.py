"""Several: many values of an attribute as one blob, which says at once most of what filters ask.

It begins with the kind of its values (`KINDS`), then come the lowest and the highest as keys, then all of them. Keys
are in the order of their values, but cut off: where two are equal, their values need not be. Texts stand there as they
are, between two bytes that no text has; numbers in bytes with which no text begins, so that no piece of a text is found
in one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

KINDS = {str: b"t", int: b"n", float: b"n"}
MIXED = b"m"  # its keys say nothing
KEY_BYTES = 10
LOWEST_AT, HIGHEST_AT, VALUES_AT = 2, 2 + KEY_BYTES, 2 + 2 * KEY_BYTES  # as SQL counts
TEXT, NUMBER, END = b"\xfe", b"\xfd", b"\xff"  # what begins and ends a value
DIGITS = bytes.maketrans(b"0123456789.-+e", bytes(range(0x80, 0x8E)))
SIGN = 1 << 63
ALL = (1 << 64) - 1


def blob_of(values: Sequence[str | float]) -> bytes:
    kinds = {KINDS[type(value)] for value in values}
    keys = sorted(map(key_of, values))
    kind = MIXED if len(kinds) > 1 else kinds.pop()
    return kind + keys[0] + keys[-1] + b"".join(map(within, values))


def within(value: str | float) -> bytes:
    """What is in a blob if this is one of its values: 1 and 1.0 are one."""
    if isinstance(value, str):
        return TEXT + value.encode() + END
    whole = int(value) if value == int(value) else value
    return NUMBER + repr(whole).encode().translate(DIGITS) + END


def piece_of(pattern: str) -> tuple[bytes, bool]:
    """What is among the values of a blob if one is like this; and whether one is, if it is there."""
    begin = b"" if pattern.startswith("%") else TEXT
    end = b"" if pattern.endswith("%") else END
    middle = pattern.strip("%")
    if "%" not in middle and "_" not in middle:
        return begin + middle.encode() + end, True
    return max(middle.replace("_", "%").split("%"), key=len).encode(), False


def key_of(value: str | float) -> bytes:
    if isinstance(value, str):
        return value[:KEY_BYTES].encode()[:KEY_BYTES].ljust(KEY_BYTES, b"\0")
    (bits,) = struct.unpack(">Q", struct.pack(">d", float(value) + 0.0))
    ordered = bits ^ (ALL if bits & SIGN else SIGN)
    return f"{ordered:016x}"[:KEY_BYTES].encode()
