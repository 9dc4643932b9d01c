"""The suite: all cases, in the order of the port, and how one is run."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from types import ModuleType

from perdure.testing.conformance import (
    blocked,
    cancels,
    changes,
    children,
    claims,
    closing,
    conditions,
    corruption,
    deadlines,
    events,
    fencing,
    finding,
    generations,
    groups,
    leases,
    messages,
    outside,
    pipelines,
    promises,
    questions,
    reopening,
    reports,
    retries,
    sending,
    stages,
    starts,
    tasks,
    turns,
    updates,
)
from perdure.testing.conformance.expecting import same
from perdure.testing.conformance.stage import KillStore, MakeStore, Stores, let_go

MODULES: tuple[ModuleType, ...] = (
    starts,
    finding,
    conditions,
    closing,
    deadlines,
    claims,
    turns,
    groups,
    blocked,
    children,
    sending,
    generations,
    messages,
    updates,
    promises,
    tasks,
    reports,
    outside,
    cancels,
    leases,
    fencing,
    questions,
    pipelines,
    events,
    stages,
    retries,
    reopening,
    corruption,
    changes,
)


@dataclass(frozen=True)
class Case:
    """One thing that every store does. Its name is a sentence; `rule` is the promise that it checks."""

    name: str
    side: str  # the module it is in, which is one side of the port
    play: Callable[[Stores], Awaitable[None]]

    @property
    def rule(self) -> str:
        return inspect.getdoc(self.play) or ""

    def __str__(self) -> str:
        return f"{self.side}-{self.name}"


def _cases_of(module: ModuleType) -> Iterator[Case]:
    for name, play in vars(module).items():
        if inspect.iscoroutinefunction(play) and play.__module__ == module.__name__ and not name.startswith("_"):
            yield Case(name, module.__name__.rpartition(".")[2], play)


CASES: tuple[Case, ...] = tuple(case for module in MODULES for case in _cases_of(module))


def run_case(case: Case, make: MakeStore, kill: KillStore = let_go) -> None:
    """Play a case on an event loop of its own. `NotConforming`, or what the store raised, with the rule as a note.

    `make` gives another store object on the same data each time it is called, not open yet, with the clock that it is
    given; the data is empty when the case begins. `kill` ends a store object as SIGKILL would end its process.
    """
    asyncio.run(play_case(case, make, kill))


async def play_case(case: Case, make: MakeStore, kill: KillStore = let_go) -> None:
    """The same, on the caller's event loop. Whatever a case does, the store has to be whole afterwards."""
    stores = Stores(make, kill)
    try:
        await case.play(stores)
        if stores.healthy:
            same(await (await stores.open()).verify(), [])
    except Exception as error:
        error.add_note(f"in the case {case}: {case.rule}")
        raise
    finally:
        await stores.close_all()
