"""Testing workflows: run them turn by turn, record what they did, replay it against changed code.

`Harness` drives perdure.kernel alone: no store, no clock, no network. `perdure.testing.plugin` brings the fixtures.
"""

from perdure.testing.harness import Harness, Turn
from perdure.testing.jobs import (
    cancel,
    cancelled,
    evict,
    fail,
    fire,
    query,
    reject_promise,
    resolve,
    resolve_promise,
    signal,
    update,
)
from perdure.testing.transcript import Transcript

__all__ = [
    "Harness",
    "Transcript",
    "Turn",
    "cancel",
    "cancelled",
    "evict",
    "fail",
    "fire",
    "query",
    "reject_promise",
    "resolve",
    "resolve_promise",
    "signal",
    "update",
]
