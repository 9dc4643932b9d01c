"""Event records: what is published to a topic, by a run of a pipeline, by a workflow, or from outside (L1).

Taken by perdure.stores.pipeline_records, and by the turns of workflows in perdure.stores.records.
"""

from __future__ import annotations

import msgspec


class NewEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event to be published (L1). `causes` name the events that it goes back to, each as `topic/message id`."""

    topic: str
    message_id: str
    payload: bytes
    causes: tuple[str, ...] = ()


class TurnEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that a turn of a workflow publishes; `pipeline` None: of the one that has this topic."""

    pipeline: str | None
    event: NewEvent
    by: str  # the run id
