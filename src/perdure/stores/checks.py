"""Checksums: over a row, and the chain over a run's turns (E9).

Shared by all stores and by whoever verifies them.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from perdure.errors import StoreCorrupt
from perdure.stores.records import NO_CHECKSUM, NO_TURN, Run, Turn

CHECKSUM_BYTES = 16
_write = msgspec.json.Encoder(order="deterministic").encode


def chain(previous: bytes, number: int, record: bytes) -> bytes:
    """The checksum of a turn: over the turn before, its number, and its record."""
    return blake2b(b"%b%d:%b" % (previous, number, record), digest_size=CHECKSUM_BYTES).digest()


def checksum(table: str, values: Any) -> bytes:
    """The checksum of a row: over the name of its table and all its values, the key included."""
    return blake2b(_write(values), digest_size=CHECKSUM_BYTES, person=table.encode()[:16]).digest()


def verify_chain(
    run: Run, turns: Sequence[Turn], after: int = NO_TURN, before: bytes = NO_CHECKSUM, *, whole: bool = True
) -> None:
    """`StoreCorrupt` unless these turns follow turn `after` (checksum `before`), up to the run's last if whole."""
    name = f"run {run.facts.run_id} ({run.facts.workflow_id!r})"
    for number, turn in enumerate(turns, after + 1):
        if turn.number != number:
            raise StoreCorrupt(f"{name}: turn {number} is missing, turn {turn.number} stands in its place")
        before = chain(before, number, turn.record)
        if turn.checksum != before:
            raise StoreCorrupt(f"{name}: turn {number} is not what was written, or does not follow the turn before it")
    if whole and after < run.last_turn and (after + len(turns), before) != (run.last_turn, run.checksum):
        raise StoreCorrupt(f"{name}: its turns end with {after + len(turns)}, its last one is {run.last_turn}")
