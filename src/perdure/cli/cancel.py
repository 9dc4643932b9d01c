"""`perdure cancel`: ask a run to cancel, which lets it clean up (M6)."""

from __future__ import annotations

import click

from perdure.cli.asking import asks_run, asks_store
from perdure.cli.opening import with_client
from perdure.cli.saying import print_json, say


@click.command("cancel", short_help="Ask a run to stop and clean up.")
@asks_run
@click.option("--reason", metavar="TEXT", default="", help="Why, for those who look at the run.")
@asks_store
def command(id: str, run_id: str | None, reason: str, store: str, as_json: bool) -> None:
    """Ask the run ID to cancel. It stops what it does, cleans up, and ends as cancelled."""
    with_client(store, lambda client: client.handle(id, run_id).cancel(reason))
    if as_json:
        print_json({"id": id, "asked_to_cancel": True})
    else:
        say(f"{id} is asked to cancel")
