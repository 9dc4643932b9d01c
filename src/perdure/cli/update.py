"""`perdure update`: send a run an update, and wait for its answer (M2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.asking import asks_json_arguments, asks_run, asks_store, read_arguments
from perdure.cli.opening import with_client
from perdure.cli.saying import print_json

if TYPE_CHECKING:
    from perdure.app import Client


@click.command("update", short_help="Send a run an update, and print its answer.")
@asks_run
@click.argument("name", metavar="NAME")
@asks_json_arguments
@click.option("--update-id", metavar="ID", help="Sent again with the same id, it gets the first answer.")
@click.option("--timeout", metavar="DURATION", help="Wait so long for the answer, such as 30s; else for ever.")
@asks_store
def command(
    id: str, name: str, arguments: tuple[str, ...], update_id: str | None, timeout: str | None, **rest: Any
) -> None:
    """Send update NAME to the run ID, with arguments that are JSON, and print its answer as JSON.

    A worker that knows the workflow has to be there to answer.
    """
    values = read_arguments(arguments)

    async def act(client: Client) -> Any:
        from perdure.cli.waiting import within

        handle = client.handle(id, rest["run_id"])
        what = f"update `{name}` of run {id} was not answered"
        return await within(lambda: handle.update(name, *values, id=update_id), timeout, what, id)

    answer = with_client(rest["store"], act)
    print_json({"id": id, "update": name, "answer": answer} if rest["as_json"] else answer)
