"""The registry: the workflows and activities that a worker knows, by name (E2, K14)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perdure.define.activity import Activity
from perdure.define.workflow import Workflow, definition_of
from perdure.errors import UsageError


class Registry:
    """Definitions by name. Two of one name are refused; the same one twice is not."""

    def __init__(self, workflows: Iterable[object] = (), activities: Iterable[object] = ()) -> None:
        self.workflows: dict[str, Workflow[..., Any]] = {}
        self.activities: dict[str, Activity[..., Any]] = {}
        for workflow in workflows:
            definition = definition_of(workflow)
            _add(self.workflows, definition.name, definition, "workflow")
        for activity in activities:
            if not isinstance(activity, Activity):
                named = getattr(activity, "__name__", None) or repr(activity)
                raise UsageError(f"{named} is not an activity: decorate it with @activity")
            made: Activity[..., Any] = activity
            if made.is_stub:
                raise UsageError(
                    f"activity `{made.name}` is a stub: its body is `...`. Leave it out of `activities=`; "
                    "the worker that serves its queue lists the real one"
                )
            _add(self.activities, made.name, made, "activity")


def _add(known: dict[str, Any], name: str, definition: Any, kind: str) -> None:
    other = known.setdefault(name, definition)
    if other is not definition:
        raise UsageError(f"two {kind}s are called `{name}`: give one of them another `name=`")
