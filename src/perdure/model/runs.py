"""Runs: what a run knows of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class RunFacts(msgspec.Struct, frozen=True):
    """What `info()` returns."""

    workflow: str
    workflow_id: str
    run_id: str
    generation: int
    turn: int
    replaying: bool
    attributes: Mapping[str, Any]
    memo: Mapping[str, Any]
