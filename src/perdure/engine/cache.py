"""The cache: the live runs of a worker, those that it owns and parked copies, the longest parked going first (E10).

In:  engine.worker, with runs that it has claimed.
Out: engine.rebuild makes what is not here; the store says what became of activities meanwhile.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container

from perdure.engine.live import Live
from perdure.engine.rebuild import Rebuilder
from perdure.stores.port import Store
from perdure.stores.records import Run


class Cache:
    """Live runs by their numbers."""

    def __init__(
        self,
        store: Store,
        rebuilder: Rebuilder,
        parked_max: int,
        owner: Callable[[], int],
        running: Container[str],
    ) -> None:
        self._store = store
        self._rebuilder = rebuilder
        self._parked_max = parked_max
        self._owner = owner
        self._running = running  # the ids of the activities that run here
        self._parked: OrderedDict[int, Live] = OrderedDict()
        self.lives: dict[int, Live] = {}
        self.owned = 0

    def begin(self, run: Run) -> Live:
        """A run that is new, and this worker's."""
        live = self._rebuilder.new(run)
        self.lives[run.number] = live
        self.own(live)
        return live

    def resume(self, run: Run) -> Live | None:
        """A parked copy that stands where the run stands and needs no look at the store; it is owned from now on."""
        live = self.lives.get(run.number)
        if live is None or live.owned or live.tasks or live.last_turn != run.last_turn:
            return None
        live.run = run
        live.taken = run.consumed
        self.own(live)
        return live

    async def bring_up(self, run: Run) -> Live:
        """A copy that stands where the run stands: cached, caught up (E3), or rebuilt from the history."""
        live = self.lives.get(run.number)
        if live is not None and live.owned:
            return live
        self._parked.pop(run.number, None)  # it is not to be evicted while it catches up
        if live is not None and live.last_turn <= run.last_turn:
            if live.last_turn < run.last_turn:
                await self._rebuilder.catch_up(live, run)
            live.run = run
        else:
            if live is not None:
                self.drop(live)
            live = await self._rebuilder.from_history(run)
        await self._look_at_tasks(live, run)
        live.taken = run.consumed
        live.messages.clear()
        live.blocked_tries = run.blocked.tries if run.blocked else 0
        self.lives[run.number] = live
        self.own(live)
        return live

    def own(self, live: Live) -> None:
        """It is this worker's."""
        if not live.owned:
            live.owned = True
            self.owned += 1
            self._parked.pop(live.number, None)

    def disown(self, live: Live) -> None:
        """It is nobody's, or somebody else's: the copy stays for a while."""
        if not live.owned:
            return
        live.owned = False
        live.messages.clear()  # they stand in the store
        self.owned -= 1
        if live.local:
            live.local = 0
            for task in live.tasks.values():
                task.local = False
        if self.lives.get(live.number) is live:
            self._parked[live.number] = live
            while len(self._parked) > self._parked_max:
                self.drop(next(iter(self._parked.values())))

    def drop(self, live: Live) -> None:
        """Forget a copy, and close its coroutines."""
        if self.lives.get(live.number) is live:
            del self.lives[live.number]
        self.disown(live)
        if self._parked.get(live.number) is live:
            del self._parked[live.number]
        live.executor.discard()

    async def _look_at_tasks(self, live: Live, run: Run) -> None:
        """What stands in the store of the activities that it waits for."""
        if not live.tasks:
            return
        stored = {task.id: task for task in await self._store.list_tasks(run.number)}
        live.local = 0
        for open_task in live.tasks.values():
            task = stored.get(open_task.id)
            open_task.started = task is None or task.attempt > 0
            open_task.local = task is not None and task.owner == self._owner() and task.id in self._running
            live.local += open_task.local
