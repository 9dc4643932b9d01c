"""The log of workflow code: an ordinary logger that is silent while a run replays, and names run and unit."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any

from perdure.define.acting import executor_or_none


class WorkflowLog(logging.LoggerAdapter[logging.Logger]):
    """Adds `workflow`, `run_id` and `unit` to each record; passes nothing on while the run replays."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802  # the name is logging's
        """Whether a record of that level would be written now."""
        executor = executor_or_none()
        return not (executor is not None and executor.matcher.replaying) and super().isEnabledFor(level)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Put the run and the unit into the record."""
        executor = executor_or_none()
        extra = dict(kwargs.get("extra") or {})
        if executor is not None:
            unit = executor.loop.stepping
            extra |= {"workflow": executor.program.name, "run_id": str(executor.identity.run_id)}
            extra |= {"unit": None if unit is None else unit.text}
        return msg, {**kwargs, "extra": extra}


log = WorkflowLog(logging.getLogger("perdure.workflow"), {})
