"""Activities for processes of their own: those must be importable, so they stand at the top of a module."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure import ApplicationError, activity, activity_info, heartbeat, last_heartbeat, not_applied


@dataclass
class Order:
    id: str
    amount: int


@activity(executor="process")
def process_id() -> int:
    return os.getpid()


@activity(executor="process")
def price(order: Order, *extras: int, discount: int = 0) -> Order:
    return Order(order.id, order.amount + sum(extras) - discount)


@activity(executor="process")
def big(text: str) -> str:
    return text * 2


@activity(executor="process")
def facts() -> list[Any]:
    info = activity_info()
    deadline = None if info.deadline is None else info.deadline.timestamp()
    return [info.name, info.attempt, info.key, info.workflow_id, info.run_id, deadline, info.cancelled]


@activity(executor="process")
def talks() -> bool:
    """Standard output and input are its own, not the worker's line."""
    sys.stdout.write("a word\n")
    sys.stdout.flush()
    return sys.stdin.read() == "" and threading.current_thread() is threading.main_thread()


@activity(executor="process")
def counts(upto: int) -> list[int]:
    """Gets three further at each attempt."""
    before = last_heartbeat(int) or 0
    for n in range(before + 1, upto + 1):
        heartbeat(n)
        if n % 3 == 0:
            raise ConnectionError("cut off")
    return [before, upto]


@activity(executor="process")
def fails(how: str) -> Any:
    if how == "application":
        raise ApplicationError("no funds", type="CardRefused", details={"left": 3})
    if how == "exit":
        sys.exit(3)
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "set":
        return {1}
    raise OSError("half a character \udcff")


@activity(executor="process")
def dies(how: str, mark: str) -> str:
    """At its first attempt only: the mark is a file."""
    if os.path.exists(mark):
        return "lived"
    Path(mark).touch()
    if how == "exit":
        os._exit(7)
    if how == "segfault":
        ctypes.string_at(0)
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


def say(mark: str, word: str) -> None:
    with open(mark, "a") as file:
        file.write(word + "\n")


@activity(executor="process")
def waits(how: str, mark: str) -> str:
    """Runs until it is stopped, and tells in a file how it goes."""
    if how == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say(mark, f"begun {os.getpid()}")
    try:
        while how != "info" or not activity_info().cancelled:
            if how == "heartbeat":
                heartbeat()
            threading.Event().wait(0.01 if how in ("heartbeat", "info") else 60)
    except asyncio.CancelledError as error:
        say(mark, f"cancelled: {error}")
        raise
    finally:
        say(mark, "tidy")
    return "as far as it got"


@activity(executor="process")
def leaves(mark: str) -> str:
    """Is done, and soon after that its process is gone."""
    say(mark, f"begun {os.getpid()}")
    threading.Timer(0.5, os._exit, [1]).start()
    return "done"


@activity(executor="process")
def forks(mark: str) -> None:
    """Leaves a grandchild with everything that it has open."""
    if os.fork() == 0:
        threading.Event().wait(60)
        os._exit(0)
    say(mark, f"begun {os.getpid()}")
    os._exit(1)


@activity(executor="process", effect="ask")
def pays(how: str) -> str:
    if how == "refused":
        raise not_applied("no funds")
    if how == "died":
        os.kill(os.getpid(), signal.SIGKILL)
    raise ValueError("no answer")


@pays.reconcile
def was_paid(how: str) -> str:
    return f"r-{how}"


plain = activity(executor="process", name="plain")(price.fn)


class Holder:
    @staticmethod
    @activity(executor="process", name="held")
    def held() -> str:
        return "held"


# --- what tests see of them ---------------------------------------------------------------------


def said(mark: Path) -> list[str]:
    return mark.read_text().splitlines() if mark.exists() else []


def is_alive(pid: int) -> bool:
    """Whether it runs: neither gone, nor dead and not yet waited for."""
    try:
        os.kill(pid, 0)
        return not Path("/proc").exists() or "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False
