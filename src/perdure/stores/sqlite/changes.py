"""Changes: who is told when somebody else has written, on their own event loops."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from weakref import WeakSet


class Notices:
    """The calls to be made for one store; each is due once at a time, however much is written meanwhile."""

    def __init__(self) -> None:
        self._calls: dict[Callable[[], object], asyncio.AbstractEventLoop] = {}
        self._due: set[Callable[[], object]] = set()
        self._lock = Lock()

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, call: Callable[[], object]) -> None:
        """Have this called on the running event loop."""
        with self._lock:
            self._due.discard(call)
            self._calls[call] = asyncio.get_running_loop()

    def remove(self, call: Callable[[], object]) -> None:
        """Not any more."""
        with self._lock:
            self._calls.pop(call, None)

    def tell(self) -> None:
        """Somebody else has written. From any thread."""
        with self._lock:
            for call, loop in self._calls.items():
                if call not in self._due and not loop.is_closed():
                    self._due.add(call)
                    with suppress(RuntimeError):  # closed just now
                        loop.call_soon_threadsafe(self._call, call)

    def _call(self, call: Callable[[], object]) -> None:
        with self._lock:
            self._due.discard(call)
            wanted = call in self._calls
        if wanted:
            call()


class Neighbours:
    """The stores of this process without a thread that could look for changes, by file: writers tell them at once."""

    def __init__(self) -> None:
        self._of: defaultdict[str, WeakSet[Notices]] = defaultdict(WeakSet)
        self._lock = Lock()

    def join(self, path: str, notices: Notices) -> None:
        """Be told of what others in this process write to this file."""
        with self._lock:
            self._of[path].add(notices)

    def leave(self, path: str, notices: Notices) -> None:
        """Not any more."""
        with self._lock:
            self._of[path].discard(notices)
            if not self._of[path]:
                del self._of[path]

    def tell(self, path: str, writer: Notices) -> None:
        """One of the stores has written."""
        if path in self._of:
            with self._lock:
                others = [notices for notices in self._of[path] if notices is not writer]
            for notices in others:
                notices.tell()


neighbours = Neighbours()
