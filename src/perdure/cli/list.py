"""`perdure list`: the runs of a store, the newest first, all or those that a filter picks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.asking import asks_store
from perdure.cli.opening import with_client
from perdure.cli.saying import clean, console, print_json, print_json_list, say

if TYPE_CHECKING:
    from perdure.app import Client
    from perdure.engine.descriptions import RunSummary

WIDTH_MIN = 16  # of what is folded where there is no room
ATTRIBUTES_LENGTH_MAX = 120


@click.command("list", short_help="List runs, all or those that a filter picks.")
@click.argument("filter", metavar="[FILTER]", default="")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, metavar="N", help="Print so many.")
@click.option("--count", "only_count", is_flag=True, help="Print only how many there are.")
@asks_store
def command(filter: str, limit: int, only_count: bool, store: str, as_json: bool) -> None:
    """List runs, the newest first. With --json, a list of them.

    FILTER picks by type, id, status, queue, priority, started, closed, blocked and attributes by their names:
    "status = 'failed' and type = 'checkout' and started > '-1d'".
    """
    if only_count:
        amount = with_client(store, lambda client: client.count(filter))
        if as_json:
            print_json({"count": amount})
        else:
            say(str(amount))
        return
    runs, more = with_client(store, lambda client: _read(client, filter, limit))
    if as_json:
        print_json_list(runs)
    elif runs:
        _print(runs)
    else:
        say("no run fits" if filter else "there are no runs yet")
    if more:
        click.echo(f"there are more than {limit}: --limit N prints more of them", err=True)


async def _read(client: Client, filter: str, limit: int) -> tuple[list[RunSummary], bool]:
    runs = [run async for run in client.list(filter, limit=limit + 1)]
    return runs[:limit], len(runs) > limit


def _print(runs: list[RunSummary]) -> None:
    from rich.table import Table
    from rich.text import Text

    from perdure.cli.page import COLOURS
    from perdure.cli.saying import as_json
    from perdure.cli.turnwords import value_cut
    from perdure.cli.words import ago, span
    from perdure.clock import SystemClock, moment_of

    now = moment_of(SystemClock().now_us())
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("id", overflow="fold", min_width=WIDTH_MIN)
    for title in ("type", "status", "started", "took"):
        table.add_column(title, overflow="ellipsis", no_wrap=True)
    if any(run.attributes for run in runs):
        table.add_column("attributes", overflow="fold", min_width=WIDTH_MIN)
    for run in runs:
        status = "blocked" if run.blocked is not None else run.status.replace("_", " ")
        colour = "red" if run.blocked is not None else COLOURS.get(run.status, "")
        took = span((run.closed or now) - run.started)
        row: list[Any] = [Text(clean(run.id)), Text(clean(run.type)), Text(status, colour), ago(run.started, now), took]
        if run.attributes:
            said = ", ".join(f"{clean(name)}={as_json(value)}" for name, value in run.attributes.items())
            row.append(Text(value_cut(said, ATTRIBUTES_LENGTH_MAX)))
        table.add_row(*row)
    console().print(table)
