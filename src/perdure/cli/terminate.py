"""`perdure terminate`: end a run at once, without asking it."""

from __future__ import annotations

import click

from perdure.cli.asking import asks_run, asks_store
from perdure.cli.opening import with_client
from perdure.cli.saying import print_json, say


@click.command("terminate", short_help="End a run at once, without asking it.")
@asks_run
@click.option("--reason", metavar="TEXT", default="", help="Why, for those who look at the run.")
@asks_store
def command(id: str, run_id: str | None, reason: str, store: str, as_json: bool) -> None:
    """End the run ID at once, without asking it: none of its code runs any more, clean-up included."""
    with_client(store, lambda client: client.handle(id, run_id).terminate(reason))
    if as_json:
        print_json({"id": id, "terminated": True})
    else:
        say(f"{id} is terminated")
