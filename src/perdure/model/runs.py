"""Runs: what a run knows of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What `info()` returns."""

    workflow: str
    workflow_id: str
    run_id: str
    generation: int
    turn: int
    replaying: bool
    attributes: Mapping[str, Any]
    memo: Mapping[str, Any]
