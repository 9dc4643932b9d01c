"""The policy of a host: the limits that no handler can change.

Read by scheduling (waking, backing off, fairness) and by the host loop (reconciling, repairing).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from datetime import timedelta

from perdure.errors import InvalidValue


@dataclass(frozen=True, slots=True)
class PipelinePolicy:
    """Limits of all pipelines of an engine; times are in seconds.

    `wake_min` and `wake_max` bound `wake_at` (L5). A transient failure is tried again after `retry_first`, doubled each
    time up to `retry_max`, `retries` times; then a person is asked (L8). An uncertain mutation is reconciled
    `reconciliations` times in the same rhythm (L7), each within `reconcile_timeout`. `repairs` is how often
    `on_logic_error` is asked. After `burst` consumer runs in a row a producer that is due goes first (L6).
    """

    wake_min: float = 30
    wake_max: float = 86_400
    retry_first: float = 10
    retry_max: float = 600
    retries: int = 5
    reconciliations: int = 5
    reconcile_timeout: float = 30
    repairs: int = 3
    burst: int = 100

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            whole = field.type == "int"
            if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
                raise InvalidValue(f"PipelinePolicy.{field.name} is a {'whole ' * whole}number, not {value!r}")
            if not math.isfinite(value) or value < 0:
                raise InvalidValue(f"PipelinePolicy.{field.name} is {value!r}: give a number from 0 on")
        if self.wake_max < self.wake_min or self.retry_max < self.retry_first or self.burst < 1:
            raise InvalidValue(
                "PipelinePolicy: wake_max is at least wake_min, retry_max at least retry_first, and burst at least 1"
            )

    def backoff(self, attempt: int) -> timedelta:
        """How long to wait after this attempt (the first is 1) has failed."""
        doublings = min(max(attempt, 1) - 1, 64)
        return timedelta(seconds=min(self.retry_first * 2**doublings, self.retry_max))
