"""`perdure doctor`: read a whole store, and say what is damaged and what to do about it (E9)."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.asking import asks_store
from perdure.cli.mistakes import DID_NOT_WORK
from perdure.cli.opening import SQLITE, check_store
from perdure.cli.saying import clean, console, print_json

if TYPE_CHECKING:
    from perdure.app import Client
    from perdure.stores.records import Damage, Lease

STALE_SECONDS = 60
ADVICE = {
    "file": "the file itself is damaged: stop all workers, keep a copy, and restore the newest backup",
    "runs": "only this run is stopped: restore a backup, or terminate it and start it again",
    "leases": "a worker's sign of life; it goes away when the worker is started again",
    "questions": "a query that was under way; ask it again",
}
NOT_READ = "nothing of it could be read, and nothing says that it is damaged"
ADVICE_ELSE = "only this run is stopped, and nothing wrong is computed from it: a backup has the row whole"


@dataclass(frozen=True)
class Finding:
    """Something that somebody should look at."""

    table: str
    row: str
    run_id: str | None
    problem: str
    advice: str


@dataclass(frozen=True)
class Report:
    """What a store is found to be."""

    store: str
    counts: Mapping[str, Any]
    leases: list[dict[str, Any]]
    findings: list[Finding]


@click.command("doctor", short_help="Read the whole store, and list what is damaged.")
@asks_store
def command(store: str, as_json: bool) -> None:
    """Read everything in the store, and list what is damaged. Exit code 1 where something is.

    Nothing is changed. Workers may go on meanwhile.
    """
    check_store(store, checks_kind=False)
    report = asyncio.run(_examine(store, quiet=as_json))
    if as_json:
        print_json(report)
    else:
        _print(report)
    if report.findings:
        sys.exit(DID_NOT_WORK)


async def _examine(url: str, *, quiet: bool) -> Report:
    from perdure.app import Client
    from perdure.errors import StoreCorrupt, StoreUnavailable

    try:
        async with Client(url) as client:
            return await _read(client, url, quiet=quiet)
    except (StoreCorrupt, StoreUnavailable) as error:
        advice = ADVICE["file"] if isinstance(error, StoreCorrupt) else NOT_READ
        return Report(url, {}, [], [Finding("file", "-", None, str(error), advice)])


async def _read(client: Client, url: str, *, quiet: bool) -> Report:
    from perdure.errors import StoreCorrupt

    terminal = console(err=True)
    if quiet or not terminal.is_terminal:
        damages = await client.store.verify()
    else:
        with terminal.status(f"reading all of {url}{_size(url)}"):
            damages = await client.store.verify()
    findings = [_finding(one) for one in damages]
    counts: Mapping[str, Any] = {}
    leases: list[dict[str, Any]] = []
    try:
        counts = await client.store.counts()
        leases = [_lease(lease) for lease in await client.store.list_leases()]
    except StoreCorrupt as error:
        if not findings:
            findings.append(Finding("file", "-", None, str(error), ADVICE["file"]))
    return Report(url, counts, leases, findings)


def _finding(one: Damage) -> Finding:
    return Finding(one.table, one.row, one.run_id, one.problem, ADVICE.get(one.table, ADVICE_ELSE))


def _lease(lease: Lease) -> dict[str, Any]:
    from perdure.clock import SystemClock, moment_of

    now_us = SystemClock().now_us()
    return {
        "number": lease.number,
        "worker": lease.name,
        "queues": lease.queues,
        "since": moment_of(lease.started_us),
        "expires": moment_of(lease.expires_us),
        "alive": lease.expires_us > now_us,
    }


def _size(url: str) -> str:
    path = url.removeprefix(SQLITE)
    return f" ({os.path.getsize(path) / 1e6:,.1f} MB)" if os.path.isfile(path) else ""


def _print(report: Report) -> None:
    from rich.text import Text

    terminal = console()
    terminal.print(Text.assemble((clean(report.store), "bold"), _size(report.store)))
    if report.counts:
        terminal.print("  " + ", ".join(_counted(number, what) for what, number in report.counts.items()))
    for lease in report.leases:
        state = ("alive", "green") if lease["alive"] else ("gone; the next worker frees what it held", "yellow")
        queues = ", ".join(lease["queues"])
        terminal.print(Text.assemble(f"  worker {clean(lease['worker'])}, queues {queues}: ", state))
    if report.counts and not any(lease["alive"] for lease in report.leases):
        terminal.print("  no worker is there now")
    for one in report.findings:
        terminal.print(_told(one))
    if report.findings:
        many = "1 finding" if len(report.findings) == 1 else f"{len(report.findings)} findings"
        terminal.print(Text(f"{many}: nothing was changed", "bold red"))
    else:
        terminal.print(Text("everything is as it was written", "bold green"))


def _counted(number: Any, what: str) -> str:
    words = what.replace("_", " ")
    return f"{number:,} {words.removesuffix('s') if number == 1 else words}"


def _told(one: Finding) -> Any:
    from rich.text import Text

    if one.advice == NOT_READ:
        return Text.assemble(("not read  ", "bold red"), clean(f"the store: {one.problem}"))
    run = f" of run {one.run_id}" if one.run_id else ""
    row = "" if one.row == "-" else f", row {one.row}"
    return Text.assemble(
        ("damaged  ", "bold red"),
        clean(f"table {one.table}{row}{run}: {one.problem}"),
        (f"\n         {one.advice}", "dim"),
    )
