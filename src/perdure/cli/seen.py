"""Seen: everything that `perdure show` shows of a run.

Gathered by show, drawn by page.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from perdure.cli.words import sentence
from perdure.engine.descriptions import Description, HistoryTurn, RunSummary
from perdure.stores.records import Lease


@dataclass(frozen=True)
class Seen:
    """Everything that is shown of a run."""

    description: Description
    turns: list[HistoryTurn]
    leases: list[Lease]
    state: dict[str, Any]
    generations: list[RunSummary]
    parent_id: str | None  # the workflow id of the run that started it as a child
    now: datetime

    @property
    def sentence(self) -> str:
        """How it stands."""
        return sentence(self.description, self.turns, self.leases, self.now)
