"""Pipelines: producers on a schedule, consumers on topics, one active handler run at a time (seed 004).

What programs import. `scheduling` is public as well: which handler runs next, as a pure function.
"""

from perdure.define.outcomes import happened, needs_approval, not_applied, transient
from perdure.pipelines.declare import Pipeline
from perdure.pipelines.policy import PipelinePolicy
from perdure.pipelines.stages import (
    MutateContext,
    NextContext,
    Outcome,
    PrepareContext,
    Prepared,
    ProducerContext,
    ReconcileContext,
)
from perdure.pipelines.topics import Event, Topic

__all__ = [
    "Event",
    "MutateContext",
    "NextContext",
    "Outcome",
    "Pipeline",
    "PipelinePolicy",
    "PrepareContext",
    "Prepared",
    "ProducerContext",
    "ReconcileContext",
    "Topic",
    "happened",
    "needs_approval",
    "not_applied",
    "transient",
]
