"""Another process on the same file, as the tests of this folder start it: `python -m … PATH WHAT [NUMBER]`."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from threading import Event

from perdure.clock import SystemClock
from perdure.errors import PerdureError
from perdure.stores.sqlite import SqliteStore
from perdure.testing.conformance.making import JOB, a_commit, a_start, a_task


def say(what: object) -> None:
    """Tell whoever has started this."""
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


async def hold(store: SqliteStore, _: int) -> None:
    """Own a run and a task under a lease, say so, and live until killed."""
    lease = await store.open_lease("other", {}, 600.0)
    run = (await store.start_run(a_start("o-1", claim=lease.number))).run
    await store.commit_turns([a_commit(run, lease.number, new_tasks=(a_task("t", claimed=True),))])
    say(lease.number)
    await asyncio.to_thread(Event().wait)


async def fork(store: SqliteStore, _: int) -> None:
    """The same, with another process forked off that lives on until its input ends."""
    lease = await store.open_lease("other", {}, 600.0)
    if os.fork() == 0:
        os.write(1, b"%d\n" % lease.number)
        os.read(0, 1)
        os._exit(0)
    await asyncio.to_thread(Event().wait)


async def write(store: SqliteStore, count: int) -> None:
    """Start runs and tell them something, as fast as can be; the names of the errors met are the answer."""
    say("ready")
    await asyncio.to_thread(sys.stdin.readline)
    errors: list[str] = []
    for number in range(count):
        try:
            await store.start_run(a_start(f"other-{number}"))
            await store.accept_message(f"other-{number}", None, JOB)
        except PerdureError as error:
            errors.append(f"{type(error).__name__}: {error}")
    say(errors)


async def tell(store: SqliteStore, count: int) -> None:
    """For each line of input, accept a message and say when that was done."""
    say("ready")
    for _ in range(count):
        await asyncio.to_thread(sys.stdin.readline)
        await store.accept_message("o-1", None, JOB)
        say(time.monotonic())


async def main() -> None:
    _, path, what, *numbers = sys.argv
    store = SqliteStore(path, SystemClock())
    await store.open()
    await {"hold": hold, "fork": fork, "write": write, "tell": tell}[what](store, int(numbers[0]) if numbers else 0)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main())
