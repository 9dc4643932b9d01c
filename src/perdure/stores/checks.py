"""Checksums: over a row, and the chain over a run's turns (E9). Shared by all stores and by whoever verifies them."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec

CHECKSUM_BYTES = 16
_write = msgspec.json.Encoder(order="deterministic").encode


def chain(previous: bytes, number: int, record: bytes) -> bytes:
    """The checksum of a turn: over the turn before, its number, and its record."""
    return blake2b(b"%b%d:%b" % (previous, number, record), digest_size=CHECKSUM_BYTES).digest()


def checksum(table: str, values: Any) -> bytes:
    """The checksum of a row: over the name of its table and all its values, the key included."""
    return blake2b(_write(values), digest_size=CHECKSUM_BYTES, person=table.encode()[:16]).digest()
