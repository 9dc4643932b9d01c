"""Dropped harnesses: their runs are closed as an eviction closes them, whoever comes to drop them.

Without this the garbage collector would close the coroutines, when it likes: within the step of another run.
"""

from __future__ import annotations

import contextlib
import weakref

from perdure.errors import TurnTimeout
from perdure.kernel.executor import Executor
from perdure.kernel.loop import running_loop
from perdure.watchdog import Watchdog

# Dropped while another run had a turn: closed before the next turn.
_LATER: list[tuple[Executor, Watchdog]] = []


def close_when_dropped(holder: object, executor: Executor, watchdog: Watchdog) -> weakref.finalize[..., object]:
    """Close the run when its holder is gone, within the limit of a turn."""
    return weakref.finalize(holder, _close, executor, watchdog)


def close_dropped() -> None:
    """Close what was dropped while another run had a turn."""
    while _LATER:
        _close(*_LATER.pop())


def _close(executor: Executor, watchdog: Watchdog) -> None:
    if running_loop() is not None:
        _LATER.append((executor, watchdog))
        return
    with contextlib.suppress(TurnTimeout):
        watchdog.run(executor.discard, f"the end of `{executor.program.name}`", abandons=True)
