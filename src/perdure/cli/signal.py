"""`perdure signal`: send a run a signal (M1)."""

from __future__ import annotations

import click

from perdure.cli.asking import asks_json_arguments, asks_run, asks_store, read_arguments
from perdure.cli.opening import with_client
from perdure.cli.saying import print_json, say


@click.command("signal", short_help="Send a run a signal.")
@asks_run
@click.argument("name", metavar="NAME")
@asks_json_arguments
@click.option("--message-id", metavar="ID", help="Sent again with the same id, it counts once.")
@asks_store
def command(
    id: str,
    run_id: str | None,
    name: str,
    arguments: tuple[str, ...],
    message_id: str | None,
    store: str,
    as_json: bool,
) -> None:
    """Send signal NAME to the run ID, with arguments that are JSON.

    Once this returns, the signal is durable; the run takes it as soon as a worker is there.
    """
    values = read_arguments(arguments)
    with_client(store, lambda client: client.handle(id, run_id).signal(name, *values, message_id=message_id))
    if as_json:
        print_json({"id": id, "signal": name, "accepted": True})
    else:
        say(f"signal `{name}` is accepted for {id}")
