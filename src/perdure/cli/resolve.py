"""`perdure resolve`: a person's word on an activity of which nobody knows whether it happened (E5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from perdure.cli.asking import asks_json_arguments, asks_run, asks_store, read_arguments
from perdure.cli.loading import load
from perdure.cli.mistakes import Wrong
from perdure.cli.opening import with_client
from perdure.cli.saying import print_json, say

if TYPE_CHECKING:
    from perdure.app import Client

Answer = Literal["happened", "did_not_happen", "fail"]
ANSWERS = ("happened", "did_not_happen", "fail")


@click.command("resolve", short_help="Say what became of an activity whose outcome is not known.")
@asks_run
@click.argument("key", metavar="KEY")
@click.argument("answer", metavar="ANSWER", type=click.Choice(ANSWERS))
@asks_json_arguments
@click.option("--module", metavar="MODULE", help="Where the activity is: JSON has to be what it returns.")
@asks_store
def command(id: str, key: str, answer: Answer, arguments: tuple[str, ...], **rest: Any) -> None:
    """Say of the activity KEY of the run ID that it happened, did_not_happen, or that it shall fail.

    `perdure show ID` has its key. After `happened`, JSON is its result; after `fail`, a text that says why. One that
    did not happen runs again, under the same key. Without --module nobody here knows what the activity returns: a run
    that cannot read its JSON is blocked, and another answer takes the place of that one.
    """
    values = read_arguments(arguments)
    if len(values) > 1:
        raise Wrong(f"{answer} takes one value, and was given {len(values)}", "write a list as one argument: '[1, 2]'")
    value = values[0] if values else None

    async def act(client: Client) -> None:
        await client.handle(id, rest["run_id"]).resolve_activity(key, answer, value)

    with_client(rest["store"], act, activities=load(rest["module"]).activities if rest["module"] else ())
    if rest["as_json"]:
        print_json({"id": id, "key": key, "answer": answer})
    else:
        say(f"`{answer}` is noted for activity {key} of {id}")
