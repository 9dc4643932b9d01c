"""Testing workflows: run them turn by turn, record what they did, replay it against changed code; on virtual time.

`Harness` drives perdure.kernel alone: no store, no clock, no network. `perdure.testing.plugin` brings the fixtures.
perdure.testing.virtual lets days pass in milliseconds.
"""

from perdure.testing.clock import VirtualClock
from perdure.testing.deadlock import Deadlock
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
from perdure.testing.virtual import VirtualLoop, run_virtual, virtual_time

__all__ = [
    "Deadlock",
    "Harness",
    "Transcript",
    "Turn",
    "VirtualClock",
    "VirtualLoop",
    "cancel",
    "cancelled",
    "evict",
    "fail",
    "fire",
    "query",
    "reject_promise",
    "resolve",
    "resolve_promise",
    "run_virtual",
    "signal",
    "update",
    "virtual_time",
]
