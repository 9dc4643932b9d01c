"""Locks: one file for each lease, locked as long as its holder lives; the operating system frees it at once then (E3).

The lock belongs to the opening of the file (flock), so that no other use of it in this process can drop it. A process
that is forked off lets go of what it inherited, or it would keep the lock of a dead worker.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from weakref import WeakSet

if sys.platform == "win32":

    def _lock(descriptor: int) -> bool:
        """Here nothing says that a worker is gone; its lease expires."""
        return False

else:
    import fcntl

    def _lock(descriptor: int) -> bool:
        """Whether the file was free; it is ours then."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


class LeaseLocks:
    """The side files of a store, by the numbers of its leases."""

    def __init__(self, path: str) -> None:
        self.folder = f"{path}-leases"
        self._held: dict[int, int] = {}
        _all.add(self)

    def hold(self, number: int) -> None:
        """Lock the file of a lease that is being opened. `OSError` if it cannot be made."""
        if number in self._held:
            return
        descriptor = self._make(number)
        _lock(descriptor)
        self._held[number] = descriptor

    def is_gone(self, number: int) -> bool:
        """Whether the holder of a lease does not live any more."""
        if number in self._held:
            return False
        try:
            descriptor = os.open(self._file(number), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        except OSError:
            return False  # it cannot be known; the lease expires
        try:
            return _lock(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, number: int) -> None:
        """A lease has ended: its file goes, and with the last one the folder."""
        with suppress(OSError):
            os.unlink(self._file(number))
        descriptor = self._held.pop(number, None)
        if descriptor is not None:
            os.close(descriptor)
        with suppress(OSError):
            os.rmdir(self.folder)

    def remove_strays(self, alive: set[int]) -> None:
        """Files that a crash has left without a lease. To be called where no lease is just being opened."""
        with suppress(OSError):
            for name in os.listdir(self.folder):
                if name.isdecimal() and int(name) not in alive and self.is_gone(int(name)):
                    self.remove(int(name))

    def let_go(self) -> None:
        """Free all locks and leave the files: whoever finds one free ends its lease."""
        while self._held:
            _, descriptor = self._held.popitem()
            os.close(descriptor)

    def _make(self, number: int) -> int:
        while True:
            with suppress(FileExistsError):
                os.mkdir(self.folder)
            try:
                return os.open(self._file(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except FileNotFoundError:
                continue  # the last lease of somebody else ended just now, and the folder with it

    def _file(self, number: int) -> str:
        return os.path.join(self.folder, str(number))


_all: WeakSet[LeaseLocks] = WeakSet()


def _let_go_of_inherited() -> None:
    for locks in list(_all):
        locks.let_go()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_let_go_of_inherited)
