"""Turns: the record of one step of a run, and the answers that leave with it.

The record is what history is made of: jobs in, commands out, the time, the policy's choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from perdure.errors import Failure
from perdure.model.commands import Command
from perdure.model.jobs import Recorded


class ChoiceRecord(msgspec.Struct, frozen=True, gc=False):
    """One decision of a policy: a unit as its text, a branch of `choose` as its number."""

    step: int
    enabled: tuple[str | int, ...]
    chosen: str | int


class KeptChoice(msgspec.Struct, frozen=True, gc=False):
    """One decision as a turn's record keeps it: `enabled` is None for what is left of the round (P4)."""

    step: int
    enabled: tuple[str | int, ...] | None
    chosen: str | int


class TurnRecord(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One turn as history keeps it."""

    turn: int
    now: datetime
    jobs: tuple[Recorded, ...]
    commands: tuple[Command, ...]
    choices: tuple[KeptChoice, ...] = ()


class Answered(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What somebody outside is told: `kind` is query, update_accepted, update or update_rejected."""

    id: str
    kind: str
    value: Any = None
    error: Failure | None = None


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """What one unit waits for (K19), since which turn, and on which line."""

    unit: str
    what: str
    since_turn: int
    source: str


Waits = Sequence[Waiting]
