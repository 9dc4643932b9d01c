"""`perdure demo`: 200 orders, a worker that is killed half-way, another that takes over, and an audit.

The orders and their activities are demoshop's. The audit reads nothing but the log that the activities wrote (ledger).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.mistakes import Failed
from perdure.cli.saying import console, print_json

if TYPE_CHECKING:
    from perdure.cli.ledger import Audit

MODULE = "perdure.cli.demoshop"
LOOK_SECONDS = 0.02
GIVE_UP_SECONDS = 60.0
CONCURRENCY = 24


@click.command("demo", short_help="See a worker killed half-way, and nothing lost.")
@click.option("--orders", type=click.IntRange(min=8), default=200, show_default=True, metavar="N", help="How many.")
@click.option("--keep", is_flag=True, help="Keep the folder with the store and the log, and say where it is.")
@click.option("--json", "as_json", is_flag=True, help="Print the audit as JSON, and nothing else.")
def command(orders: int, keep: bool, as_json: bool) -> None:
    """Play a story: orders start, a worker is killed with kill -9, another takes over, and an audit counts.

    Everything happens in a temporary folder. Exit code 1 if anything was lost or doubled, or nothing was interrupted.
    """
    folder = Path(tempfile.mkdtemp(prefix="perdure-demo-"))
    try:
        audit = Story(folder, orders, quiet=as_json).play()
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    if as_json:
        print_json({**asdict(audit), "passed": not audit.faults, "folder": str(folder) if keep else None})
    elif keep:
        console().print(f"the store and the log are in {folder}")
    if audit.faults:
        raise Failed(
            f"the audit failed: {'; '.join(audit.faults)}", "`perdure demo --keep` keeps the store and the log"
        )


class Story:
    """The demo, from its first order to its audit."""

    def __init__(self, folder: Path, orders: int, *, quiet: bool) -> None:
        self._folder = folder
        self._log = folder / "activities.log"
        self._store = f"sqlite:///{folder / 'demo.db'}"
        self._orders = orders
        self._terminal = console()
        self._quiet = quiet
        self._workers: list[subprocess.Popen[bytes]] = []

    def play(self) -> Audit:
        """All of it."""
        from perdure.cli.ledger import audit_of, read

        self._log.touch()
        try:
            started = self._start_orders()
            self._tell(f"{len(started)} orders are accepted, in {self._store}")
            with self._progress() as show:
                killed = self._first_worker(show)
                self._second_worker(show)
        finally:
            for worker in self._workers:
                _stop(worker)
        audit = audit_of(started, read(self._log), killed)
        self._show(audit)
        return audit

    # --- acts -------------------------------------------------------------------------------------

    def _start_orders(self) -> list[str]:
        from perdure.cli.opening import with_client

        async def start(client: Any) -> list[str]:
            ids = [f"order-{number:03}" for number in range(1, self._orders + 1)]
            for number, id in enumerate(ids):
                await client.start("fulfil", id, 1_000 + number, id=id)
            return ids

        return with_client(self._store, start, may_create=True)

    def _first_worker(self, show: Callable[[int], None]) -> int:
        """A worker that is killed once half of the orders are shipped and it is in the middle of some activities."""
        from perdure.cli.ledger import interrupted, read, shipped

        worker = self._hire("1")
        while True:
            lines = read(self._log)
            show(len(shipped(lines)))
            if len(shipped(lines)) >= self._orders // 2 and interrupted(lines, worker.pid):
                worker.kill()
                worker.wait()
                break
            self._look(worker)
        amount = len(interrupted(read(self._log), worker.pid))
        self._tell(f"worker {worker.pid} is killed with kill -9, in the middle of {amount} activities")
        return worker.pid

    def _second_worker(self, show: Callable[[int], None]) -> None:
        from perdure.cli.ledger import read, shipped

        worker = self._hire("2")
        self._tell(f"worker {worker.pid} takes over")
        while True:
            done = len(shipped(read(self._log)))
            show(done)
            if done >= self._orders and self._all_closed():
                return
            self._look(worker)

    # --- leaves -----------------------------------------------------------------------------------

    def _hire(self, number: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "perdure.cli", "worker", MODULE, "--store", self._store]
        command += ["--queue", f"default={CONCURRENCY}", "--name", f"worker-{number}"]
        said = (self._folder / f"worker-{number}.log").open("wb")
        with said:
            worker = subprocess.Popen(
                command,
                stdout=said,
                stderr=said,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C stops the story, which then stops its workers
                env={**os.environ, "PERDURE_DEMO_LOG": str(self._log)},
            )
        self._workers.append(worker)
        return worker

    def _look(self, worker: subprocess.Popen[bytes]) -> None:
        """Wait a moment. `Failed` where the worker has gone by itself, or nothing comes on."""
        try:
            worker.wait(LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            self._give_up_if_stuck()
            return
        said = (self._folder / f"worker-{len(self._workers)}.log").read_text("utf-8", "replace").strip()
        last = said.splitlines()[-1] if said else "it said nothing"
        raise Failed(f"worker {worker.pid} ended by itself with exit code {worker.returncode}: {last}")

    def _give_up_if_stuck(self) -> None:
        from perdure.clock import SystemClock

        now, size = SystemClock().monotonic(), self._log.stat().st_size
        if size != getattr(self, "_size", None):
            self._size, self._grew = size, now
        elif now - self._grew > GIVE_UP_SECONDS:
            raise Failed(f"nothing has happened for {GIVE_UP_SECONDS:g} s", "is this machine very busy?")

    def _all_closed(self) -> bool:
        from perdure.cli.opening import with_client
        from perdure.stores.records import Compare

        async def count(client: Any) -> int:
            return await client.store.count_runs(Compare("status", "=", "running"))

        return with_client(self._store, count) == 0

    def _tell(self, text: str) -> None:
        if not self._quiet:
            self._terminal.print(text)

    @contextmanager
    def _progress(self) -> Generator[Callable[[int], None]]:
        if self._quiet:
            yield lambda _: None
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("shipped"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self._terminal, refresh_per_second=20) as progress:
            bar = progress.add_task("shipped", total=self._orders)
            yield lambda done: progress.update(bar, completed=done)

    def _show(self, audit: Audit) -> None:
        if self._quiet:
            return
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        table.add_column()
        table.add_column(justify="right", style="bold")
        for what, number in audit.lines():
            table.add_row(what, number)
        self._terminal.print()
        self._terminal.print("The audit, from the log that the activities wrote:")
        self._terminal.print(table)
        if not audit.faults:
            self._terminal.print(Text("Nothing was lost, and nothing was done twice.", "bold green"))


def _stop(worker: subprocess.Popen[bytes]) -> None:
    if worker.poll() is None:
        worker.terminate()
        try:
            worker.wait(5)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
