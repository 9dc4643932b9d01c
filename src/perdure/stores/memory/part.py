"""Part: what the parts of a memory store share: the state under its lock, the time, and telling the others."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from perdure.clock import Clock
from perdure.errors import StoreNotOpen
from perdure.stores.memory.state import Holder, State


class Part:
    """One side of a memory store."""

    _state: State
    _clock: Clock
    _holder: Holder | None
    url: str

    @contextmanager
    def _reading(self) -> Generator[State]:
        """The state, while nobody else changes it. `StoreNotOpen`."""
        if self._holder is None:
            raise StoreNotOpen(self.url)
        with self._state.lock:
            yield self._state

    @contextmanager
    def _writing(self) -> Generator[tuple[State, int]]:
        """The same, with the time; if anything changes, all other store objects on this state are told."""
        with self._reading() as state:
            before = state.changes
            yield state, self._clock.now_us()
            if state.changes != before:
                for holder, tell in list(state.listeners.items()):
                    if holder is not self._holder and (call := tell()):
                        call()
