"""Parts: what the parts of a worker ask of each other, and whoever listens to it.

engine.worker puts them together; none of them imports another one that imports it.
"""

from __future__ import annotations

import random
from collections.abc import Coroutine
from typing import Any, Protocol

import msgspec

from perdure.clock import Clock
from perdure.define.registry import Registry
from perdure.engine.cache import Cache
from perdure.engine.live import Live
from perdure.engine.rebuild import Rebuilder
from perdure.engine.settings import Settings
from perdure.engine.tasks import TaskRunner
from perdure.engine.turns import Prepared
from perdure.stores.port import Store
from perdure.stores.records import Closing, Message, Question, Report, Run

OWNED_MAX = 5_000  # runs that a worker owns at a time


class Listener:
    """Who is told what a worker does; the parts that nobody wants do nothing."""

    def turn_committed(self, prepared: Prepared) -> None:
        """A turn is durable."""

    def run_closed(self, number: int, closing: Closing) -> None:
        """A run has ended."""

    def others_closed(self) -> None:
        """Runs have ended with another one: children, with their parent."""


class Agenda(Protocol):
    """What is to be looked for in the store, and when: engine.pump."""

    def wake(self) -> None:
        """There is something to claim."""
        ...

    def expect(self, wake_us: int | None) -> None:
        """A run that nobody owns is due then."""
        ...

    def expect_end(self, deadline_us: int | None) -> None:
        """A run that need not be this worker's times out then."""
        ...

    def expect_live(self, live: Live) -> None:
        """A run that this worker owns is due at its own time."""
        ...

    def release_soon(self, live: Live) -> None:
        """Nothing local is left to do for it."""
        ...

    def look_around(self) -> None:
        """Something was written that concerns runs or activities which are not in memory."""
        ...

    def check_lease(self) -> None:
        """It may be lost."""
        ...


class Turning(Protocol):
    """The turns of live runs: engine.turning."""

    def ready(self, live: Live) -> None:
        """It has something to do."""
        ...


class Receiving(Protocol):
    """What reaches runs: engine.inbox."""

    def deliver(self, run: Run, claimed: bool, message: Message | None) -> None:
        """A run was started, or accepted a message."""
        ...

    def take_up(self, run: Run, *, sure: bool = False) -> None:
        """Bring a run that this worker owns into memory. `sure`: the store gave it to this worker just now."""
        ...

    def closed(self, number: int, closing: Closing) -> None:
        """A run has ended."""
        ...

    def asked(self, question: Question) -> None:
        """Another process asked a query."""
        ...

    def rebuild(self, live: Live) -> None:
        """A live copy is spent, but not its run."""
        ...

    def report(self, report: Report) -> None:
        """What an attempt came to whose run is not here."""
        ...


class Hindering(Protocol):
    """What becomes of runs that cannot go on: engine.obstacles."""

    def turn_failed(self, live: Live, error: BaseException) -> None:
        """A turn could not be, and the copy is spent."""
        ...

    def not_rebuilt(self, run: Run, error: Exception) -> None:
        """A run could not be brought into memory."""
        ...

    def untaken(self, live: Live) -> list[Report]:
        """The answers that a live copy was given and no turn has taken."""
        ...

    def time_out(self, run: Run) -> None:
        """A run has reached its time limit."""
        ...


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker stands on."""

    store: Store
    registry: Registry
    settings: Settings
    clock: Clock
    rng: random.Random
    name: str


class Host(Protocol):
    """The worker, for its parts."""

    site: Site
    cache: Cache
    tasks: TaskRunner
    rebuilder: Rebuilder
    listener: Listener
    stopping: bool

    @property
    def pump(self) -> Agenda:
        """What is looked for in the store."""
        ...

    @property
    def turner(self) -> Turning:
        """What runs turns."""
        ...

    @property
    def inbox(self) -> Receiving:
        """What tells runs."""
        ...

    @property
    def obstacles(self) -> Hindering:
        """What is done with runs that cannot go on."""
        ...

    def owner(self) -> int:
        """The number of the lease under which everything is claimed now."""
        ...

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it as a task that is waited for at the end."""
        ...

    async def renew_or_begin_anew(self) -> None:
        """The lease may be lost."""
        ...
