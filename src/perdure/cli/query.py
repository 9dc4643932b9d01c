"""`perdure query`: ask a run, through a worker that knows its code (M3)."""

from __future__ import annotations

import click

from perdure.cli.asking import asks_json_arguments, asks_run, asks_store, read_arguments
from perdure.cli.opening import with_client
from perdure.cli.saying import print_json


@click.command("query", short_help="Ask a run, and print the answer.")
@asks_run
@click.argument("name", metavar="NAME")
@asks_json_arguments
@asks_store
def command(id: str, run_id: str | None, name: str, arguments: tuple[str, ...], store: str, as_json: bool) -> None:
    """Ask the run ID query NAME, with arguments that are JSON, and print the answer as JSON.

    A worker that knows the workflow answers, also for a run that has ended; nothing of it is recorded.
    """
    values = read_arguments(arguments)
    answer = with_client(store, lambda client: client.handle(id, run_id).query(name, *values))
    print_json({"id": id, "query": name, "answer": answer} if as_json else answer)
