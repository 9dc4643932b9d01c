"""The registry: the workflows and activities that a worker knows, by name; workflows by version too (E2, K14, M9)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, cast

from perdure.define.activity import Activity
from perdure.define.workflow import Workflow, definition_of
from perdure.errors import UsageError


class Registry:
    """Definitions by name. Two of one name are refused, unless they are versions; the same one twice is not.

    `workflows` has the newest version of each: what a start by name, a child and a next generation get.
    """

    def __init__(self, workflows: Iterable[object] = (), activities: Iterable[object] = ()) -> None:
        self.workflows: dict[str, Workflow[..., Any]] = {}
        self.activities: dict[str, Activity[..., Any]] = {}
        self._versions: dict[str, dict[str | None, Workflow[..., Any]]] = {}
        for workflow in _listed(workflows, "workflows"):
            definition = definition_of(workflow)
            versions = self._versions.setdefault(definition.name, {})
            _add(versions, definition.version, definition, f"workflows are called `{definition.name}`", "version")
        for name, versions in self._versions.items():
            self.workflows[name] = versions[max(versions, key=_age)]
        for activity in _listed(activities, "activities"):
            if not isinstance(activity, Activity):
                named = getattr(activity, "__name__", None) or repr(activity)
                raise UsageError(f"{named} is not an activity: decorate it with @activity")
            made = cast("Activity[..., Any]", activity)
            if made.is_stub:
                raise UsageError(
                    f"activity `{made.name}` is a stub: its body is `...`. Leave it out of `activities=`; "
                    "the worker that serves its queue lists the real one"
                )
            _add(self.activities, made.name, made, f"activities are called `{made.name}`")

    def version_of(self, name: str, version: str | None) -> Workflow[..., Any] | None:
        """The workflow that a run of this version goes on with (M9); None if it is not here.

        A run without a version, or code without versions, is compared with the history, and with nothing else.
        """
        versions = self._versions.get(name)
        if versions is None or version in versions:
            return None if versions is None else versions[version]
        return self.workflows[name] if version is None or set(versions) == {None} else None


def _listed(given: object, what: str) -> Iterable[object]:
    if isinstance(given, Iterable) and not isinstance(given, str | type):
        return cast("Iterable[object]", given)
    named = getattr(given, "__name__", None) or repr(given)
    raise UsageError(f"{what}= is a list, not {named}: write {what}=[…], with each of them in it")


def _add(known: dict[Any, Any], key: str | None, definition: Any, what: str, by: str = "") -> None:
    other = known.setdefault(key, definition)
    if other is not definition:
        either = f"another `{by}=`, or another `name=`" if by else "another `name=`"
        raise UsageError(f"two {what}: give one of them {either}")


def _age(version: str | None) -> tuple[int, list[tuple[int, int, str]]]:
    """None first; then part by part, numbers as numbers: 9 before 10, 1.9 before 1.10."""
    if version is None:
        return 0, []
    parts = re.findall(r"\d+|\D+", version)
    return 1, [(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts]
