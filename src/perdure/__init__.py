"""Durable execution for Python: everything that programs import by name.

The names come from perdure.define, perdure.errors and perdure.app; perdure.testing and perdure.policies are imported
as such. What runs workflows is imported when it is first asked for: a module of workflows loads without it.
"""

import importlib
from asyncio import Future
from typing import TYPE_CHECKING

from perdure.define.activity import Activity, activity
from perdure.define.api import (
    attributes,
    cancelled,
    clear_state,
    continue_as_new,
    deprecate_patch,
    get_state,
    info,
    now,
    patched,
    pending,
    phase,
    promise,
    publish,
    publish_to,
    random,
    receive,
    receive_any,
    run_of,
    scope,
    set_state,
    shielded,
    side_effect,
    sleep,
    sleep_until,
    update_state,
    uuid4,
    wait_until,
)
from perdure.define.children import Child, OtherRun
from perdure.define.forks import Outcome, choose, each, first, merge, n_of_m, parallel, race
from perdure.define.handlers import query, signal, update
from perdure.define.log import log
from perdure.define.outcomes import Happened, NotApplied, Transient, happened, not_applied, transient
from perdure.define.performing import (
    ActivityInfo,
    activity_info,
    complete_later,
    heartbeat,
    last_heartbeat,
    transaction,
)
from perdure.define.retry import Retry
from perdure.define.starting import child
from perdure.define.transacting import Rows, Transaction
from perdure.define.workflow import Workflow, workflow
from perdure.errors import (
    ActivityFailed,
    AlreadyExists,
    ApplicationError,
    BadLog,
    ChildFailed,
    Divergence,
    ExternalFailed,
    Failure,
    GuardViolation,
    InternalError,
    InvalidValue,
    LeaseLost,
    NondeterminismError,
    NotFound,
    NothingEnabled,
    OperationFailed,
    PerdureError,
    PromiseRejected,
    QueryFailed,
    Rejected,
    ReplayExhausted,
    RunCancelled,
    RunClosed,
    RunEnded,
    RunFailed,
    RunTerminated,
    RunTimedOut,
    SchedulerViolation,
    StoreCorrupt,
    StoreError,
    StoreNotOpen,
    StoreUnavailable,
    TransactionFailed,
    TransactionTimeout,
    TurnTimeout,
    UpdateFailed,
    UsageError,
)
from perdure.kernel.phases import Continue, Later, PhaseEnd, Reply, Stop
from perdure.model.runs import RunFacts

if TYPE_CHECKING:
    from perdure.app import Client, Engine, Worker
    from perdure.engine.handles import Handle

__all__ = [
    "Activity",
    "ActivityFailed",
    "ActivityInfo",
    "AlreadyExists",
    "ApplicationError",
    "BadLog",
    "Child",
    "ChildFailed",
    "Client",
    "Continue",
    "Divergence",
    "Engine",
    "ExternalFailed",
    "Failure",
    "Future",
    "GuardViolation",
    "Handle",
    "Happened",
    "InternalError",
    "InvalidValue",
    "Later",
    "LeaseLost",
    "NondeterminismError",
    "NotApplied",
    "NotFound",
    "NothingEnabled",
    "OperationFailed",
    "OtherRun",
    "Outcome",
    "PerdureError",
    "PhaseEnd",
    "PromiseRejected",
    "QueryFailed",
    "Rejected",
    "ReplayExhausted",
    "Reply",
    "Retry",
    "Rows",
    "RunCancelled",
    "RunClosed",
    "RunEnded",
    "RunFacts",
    "RunFailed",
    "RunTerminated",
    "RunTimedOut",
    "SchedulerViolation",
    "Stop",
    "StoreCorrupt",
    "StoreError",
    "StoreNotOpen",
    "StoreUnavailable",
    "Transaction",
    "TransactionFailed",
    "TransactionTimeout",
    "Transient",
    "TurnTimeout",
    "UpdateFailed",
    "UsageError",
    "Worker",
    "Workflow",
    "activity",
    "activity_info",
    "attributes",
    "cancelled",
    "child",
    "choose",
    "clear_state",
    "complete_later",
    "continue_as_new",
    "deprecate_patch",
    "each",
    "first",
    "get_state",
    "happened",
    "heartbeat",
    "info",
    "last_heartbeat",
    "log",
    "merge",
    "n_of_m",
    "not_applied",
    "now",
    "parallel",
    "patched",
    "pending",
    "phase",
    "promise",
    "publish",
    "publish_to",
    "query",
    "race",
    "random",
    "receive",
    "receive_any",
    "run_of",
    "scope",
    "set_state",
    "shielded",
    "side_effect",
    "signal",
    "sleep",
    "sleep_until",
    "transaction",
    "transient",
    "update",
    "update_state",
    "uuid4",
    "wait_until",
    "workflow",
]

_LATER = {
    "Client": "perdure.app",
    "Engine": "perdure.app",
    "Handle": "perdure.engine.handles",
    "Worker": "perdure.app",
}

if not TYPE_CHECKING:  # a type checker that saw this would believe any name to be here

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(_LATER[name]), name)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return __all__
