"""Topics: typed, durable streams of events between the handlers of a pipeline (L1)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

T = TypeVar("T")


class Topic(Generic[T]):
    """A topic, as `Pipeline.topic` declares it: events with payloads of one type, consumed by one consumer.

    An event is known by its message id; publishing an id again replaces the payload and keeps the status.
    """

    def __init__(self, pipeline: str, name: str, type: type[T], source: str) -> None:
        self.pipeline = pipeline
        self.name = name
        self.type = type
        self.source = source

    def __repr__(self) -> str:
        return f"<topic {self.name} of {self.pipeline}>"


@dataclass(frozen=True, slots=True)
class Event(Generic[T]):
    """An event, as a handler sees it. `attempt` counts how often it was reserved and given back, from 1."""

    id: str
    payload: T
    published_at: datetime
    attempt: int = 1
